"""What a finished part file becomes: itself under its own name, compressed, or a Parquet file."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from suisei.data.compressed import is_gzip
from suisei.data.parquet import import_pyarrow
from suisei.scoring.row_format import null_for_nan

GROUP = 65_536
"""Rows of a row group of Parquet, which are in memory together."""

Records = Callable[[], Iterable[dict[str, Any]]]


def publish(part: Path, path: Path, kind: str, read: Records, labels: Sequence[str]) -> None:
    """Put the rows of a part file under their own name, at once: nobody sees half of the file.

    What is compressed or Parquet is written beside and renamed; the part file stays until that is done, and
    may be left over by a run that is killed in between.

    Args:
        part: the part file, complete.
        path: what it becomes.
        kind: "jsonl", "csv", "tsv" or "parquet".
        read: gives its records: id, error, scores by label.
        labels: the score columns.

    Raises:
        OSError: it cannot be written.
    """
    if kind != "parquet" and not is_gzip(path):
        part.replace(path)
        return
    beside = path.with_name(f".{path.name}.whole")  # one name, so that killed runs leave one at most
    try:
        if kind == "parquet":
            _write_parquet(beside, path, read(), labels)
        else:
            _compress(part, beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _compress(part: Path, path: Path) -> None:
    """Compress a file; neither time nor name are stored, so that equal rows are equal files."""
    with part.open("rb") as rows, path.open("wb") as raw:
        with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as stream:
            shutil.copyfileobj(rows, stream)
        raw.flush()


def _write_parquet(path: Path, named: Path, records: Iterable[dict[str, Any]], labels: Sequence[str]) -> None:
    pyarrow = import_pyarrow(named)
    fields = [("id", pyarrow.string()), *((label, pyarrow.float64()) for label in labels)]
    schema = pyarrow.schema([*fields, ("error", pyarrow.string())])
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for group in _groups(records):
            writer.write_table(pyarrow.Table.from_pylist([_row(record) for record in group], schema=schema))


def _groups(records: Iterable[dict[str, Any]]) -> Iterator[Sequence[dict[str, Any]]]:
    remaining = iter(records)
    while group := list(islice(remaining, GROUP)):
        yield group


def _row(record: dict[str, Any]) -> dict[str, Any]:
    return {"id": str(record["id"]), **null_for_nan(record["scores"]), "error": record["error"]}

"""Files of a shard's scores, Parquet or JSONL: (key, uid, a score by each metric, error) of every row."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from suisei.data.parquet import import_pyarrow
from suisei.data.sample import without_surrogates
from suisei.data.shards import ShardRow
from suisei.errors import DataError, one_line
from suisei.scoring.row_format import null_for_nan
from suisei.scoring.stream import ScoredRow


class ScoresWriter(AbstractContextManager["ScoresWriter"]):
    """A file of scores, window by window."""

    @abstractmethod
    def write(self, rows: Sequence[ShardRow], scored: Sequence[ScoredRow]) -> None:
        """Write scored rows."""


class _Jsonl(ScoresWriter):
    def __init__(self, path: Path) -> None:
        self._stream = path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")

    def write(self, rows: Sequence[ShardRow], scored: Sequence[ScoredRow]) -> None:
        self._stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in _records(rows, scored))

    def __exit__(self, *_: object) -> None:
        self._stream.close()


class _Parquet(ScoresWriter):
    def __init__(self, path: Path, labels: Sequence[str]) -> None:
        self._arrow = import_pyarrow(path)
        text, number = self._arrow.string(), self._arrow.float64()
        scores = [(label, number) for label in labels]
        self._schema = self._arrow.schema([("key", text), ("uid", text), *scores, ("error", text)])
        self._file = self._arrow.parquet.ParquetWriter(path, self._schema)

    def write(self, rows: Sequence[ShardRow], scored: Sequence[ScoredRow]) -> None:
        table = self._arrow.Table.from_pylist(list(_records(rows, scored)), schema=self._schema)
        self._file.write_table(table)

    def __exit__(self, *_: object) -> None:
        self._file.close()


def scores_writer(path: Path, kind: str, labels: Sequence[str]) -> ScoresWriter:
    """Return what writes a file of scores.

    Args:
        path: the file.
        kind: "parquet" or "jsonl".
        labels: of the metrics.
    """
    return _Parquet(path, labels) if kind == "parquet" else _Jsonl(path)


def _records(rows: Sequence[ShardRow], scored: Sequence[ScoredRow]) -> Iterator[Mapping[str, Any]]:
    for own, row in zip(rows, scored, strict=True):
        error = None if row.error is None else without_surrogates(row.error)
        yield {"key": str(row.id), "uid": own.uid, **null_for_nan(row.scores), "error": error}


def read_written(path: Path, label: str) -> Iterator[tuple[str | None, float]]:
    """Yield uid and score of every row of a file of scores, NaN where there is none.

    Raises:
        DataError: it cannot be read, or has no such column.
    """
    try:
        if path.suffix == ".parquet":
            table = import_pyarrow(path).parquet.read_table(path, columns=["uid", label])
            scores = table[label].to_numpy(zero_copy_only=False)
            yield from zip(table["uid"].to_pylist(), map(float, scores), strict=True)
            return
        with path.open(encoding="utf-8") as stream:
            for line in stream:
                row = json.loads(line)
                yield row["uid"], math.nan if row[label] is None else float(row[label])
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"{path}: no scores of {label} can be read ({one_line(error)}); delete it, and the same command "
            "scores its shard again"
        ) from None

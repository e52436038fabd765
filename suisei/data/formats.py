"""Reading rated and unrated captions from JSONL, CSV, TSV and Parquet, one row at a time.

Every row that a file holds comes out as one ``Row``, good or bad, so nothing is lost silently and
memory stays bounded however long the file is, apart from 16 to 32 bytes per id, kept to find an id that
occurs twice. ``suisei.data.fields`` says which fields there are.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, TextIO

from suisei.data.fields import DEFAULT_SCALE, Settings, make_sample, match_columns, record_id
from suisei.data.idset import IdSet
from suisei.data.lines import TOO_LONG, Line, delimited_records, is_broken, is_cut, numbered_lines, utf8_lines
from suisei.data.parquet import import_pyarrow
from suisei.data.paths import descriptor_of, is_stream
from suisei.data.sample import CaptionSample
from suisei.data.writers import write_samples
from suisei.errors import ConfigError, DataError

__all__ = ["FORMATS", "Row", "collect", "format_of", "iter_rows", "read_samples", "write_samples"]

FORMATS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}
OnError = Literal["raise", "skip"]
NOT_UTF8 = "the row is not valid UTF-8; save the file as UTF-8 (Excel: 'CSV UTF-8')"


@dataclass(frozen=True, slots=True)
class Row:
    """One data row of a file.

    Attributes:
        number: counted from 1, without the header.
        id: the row's own id, None where it has none or cannot be parsed.
        sample: the sample, or None for a bad row.
        error: what is wrong with a bad row, beginning with the file and the row's number.
    """

    number: int
    id: str | None
    sample: CaptionSample | None
    error: DataError | None


@dataclass(frozen=True, slots=True)
class _Raw:
    """A row before its fields are checked: a record, or the problem that kept it from being one."""

    record: Mapping[str, Any] | None
    problem: str = ""
    line: int | None = None


def format_of(path: Path | str) -> str:
    """Return the format that a file's suffix stands for.

    Raises:
        ConfigError: an unknown suffix; the valid ones are listed.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        hint = " (one JSON object per line is JSON Lines: name the file .jsonl)" if suffix == ".json" else ""
        raise ConfigError(
            f"{path}: {f'unknown file format {suffix!r}' if suffix else 'no file format in the name'}{hint}; "
            f"expected {', '.join(FORMATS)}"
        )
    return FORMATS[suffix]


def iter_rows(
    source: Path | str | TextIO,
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    images: Path | str | None = None,
    rating_scale: tuple[float, float] | None = None,
) -> Iterator[Row]:
    """Stream the rows of a file, in file order, bad rows included.

    Args:
        source: a path, or an open text stream such as ``sys.stdin``.
        format: "jsonl", "csv", "tsv" or "parquet"; by default from the suffix, JSONL for a stream or pipe.
        images: folder where relative image and video paths start; by default the file's own folder, for a
            stream the working directory.
        rating_scale: (low, high) of rows that state no ``rating_scale``; (0, 1) by default.

    Yields:
        One Row per data row; a bad row has its error and no sample.

    Raises:
        ConfigError: an unknown format or an impossible scale.
        DataError: the file as a whole is unusable: absent, empty, not UTF-8, a wrong header.
    """
    scale = DEFAULT_SCALE if rating_scale is None else _checked_scale(rating_scale)
    if isinstance(source, Path | str):
        path, name = Path(source), str(source)
        piped = is_stream(path) and path.suffix.lower() not in FORMATS
        kind = _checked_format(format or "jsonl") if format or piped else format_of(path)
        folder = Path() if descriptor_of(path) is not None else path.parent
        raws = _rows_of_file(path, kind)
    else:
        name = str(getattr(source, "name", "<stream>"))
        kind = _checked_format(format or "jsonl")
        folder = Path()
        raws = _rows_of_stream(source, kind)
    settings = Settings(Path(images) if images is not None else folder, scale, cells=kind in ("csv", "tsv"))
    return _checked_rows(raws, name, settings)


def read_samples(
    source: Path | str | TextIO,
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    images: Path | str | None = None,
    rating_scale: tuple[float, float] | None = None,
    on_error: OnError = "raise",
    skipped: list[Row] | None = None,
) -> list[CaptionSample]:
    """Read all samples of a file; see ``iter_rows`` for the first four arguments.

    Args:
        source: a path or an open text stream.
        format: "jsonl", "csv", "tsv" or "parquet".
        images: folder where relative image and video paths start.
        rating_scale: (low, high) of rows that state no ``rating_scale``.
        on_error: "raise" stops at the first bad row, "skip" leaves bad rows out.
        skipped: a list that receives the rows left out.

    Raises:
        DataError: a bad row under "raise", no usable row at all, or an unusable file.
    """
    rows = iter_rows(source, format=format, images=images, rating_scale=rating_scale)
    return collect(rows, on_error=on_error, skipped=skipped)


def collect(
    rows: Iterable[Row], *, on_error: OnError = "raise", skipped: list[Row] | None = None
) -> list[CaptionSample]:
    """Return the samples of the rows, treating bad rows as ``read_samples`` does."""
    if on_error not in ("raise", "skip"):
        raise ConfigError(f"on_error is {on_error!r}; expected 'raise' or 'skip'")
    samples, bad, first = [], 0, None
    for row in rows:
        if row.sample is not None:
            samples.append(row.sample)
        elif row.error is not None:
            if on_error == "raise":
                raise row.error
            bad, first = bad + 1, first or row.error
            if skipped is not None:
                skipped.append(row)
    if first is not None and not samples:
        raise DataError(f"none of the {bad:,} rows is usable; the first problem: {first}")
    return samples


def _checked_format(name: str) -> str:
    if name not in FORMATS.values():
        raise ConfigError(f"format is {name!r}; expected {', '.join(dict.fromkeys(FORMATS.values()))}")
    return name


def _checked_scale(scale: tuple[float, float]) -> tuple[float, float]:
    low, high = scale
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ConfigError(f"rating scale must be LOW HIGH with LOW < HIGH, got {low:g} {high:g}")
    return float(low), float(high)


def _checked_rows(raws: Iterator[_Raw], name: str, settings: Settings) -> Iterator[Row]:
    """Number the raw rows, make their samples and refuse an id that was used before."""
    seen = IdSet()
    number = 0
    try:
        for number, raw in enumerate(raws, start=1):
            row_id, sample, problem = _checked(raw, settings, seen)
            if problem is None:
                yield Row(number, row_id, sample, None)
            else:
                line = f" (line {raw.line})" if raw.line is not None and raw.line != number else ""
                yield Row(number, row_id, None, DataError(f"{name}, row {number}: {problem}{line}"))
    except _FileProblem as error:
        raise DataError(f"{name}{error.place}: {error}") from None
    if number == 0:
        raise DataError(f"{name}: the file is empty; expected at least one data row (after a CSV's header)")


def _checked(
    raw: _Raw, settings: Settings, seen: IdSet
) -> tuple[str | None, CaptionSample | None, str | None]:
    if raw.record is None:
        return None, None, raw.problem
    row_id = record_id(raw.record)
    try:
        if row_id is not None:
            _refuse_repeated(row_id, seen)
        sample = make_sample(raw.record, match_columns(tuple(raw.record)), settings)
    except DataError as error:
        return row_id, None, str(error)
    return row_id, sample, None


def _refuse_repeated(row_id: str, seen: IdSet) -> None:
    if not seen.add(row_id):
        raise DataError(f"id {row_id[:100]!r} is used by an earlier row; every id must be unique")


class _FileProblem(Exception):  # noqa: N818 - never leaves this module
    """The file as a whole is unusable; ``place`` is put after its name."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.place = place


def _rows_of_file(path: Path, kind: str) -> Iterator[_Raw]:
    try:
        if path.is_dir():
            raise _FileProblem("is a folder; give a file")
        if kind == "parquet" and is_stream(path):
            raise _FileProblem("Parquet cannot be read from a pipe or device; give a file")
        if path.is_file() and path.stat().st_size == 0:
            return
        if kind == "parquet":
            yield from _parquet_rows(path)
        else:
            with path.open("rb") as stream:
                yield from _rows_of_bytes(stream, kind)
    except FileNotFoundError:
        raise _FileProblem("no such file") from None
    except OSError as error:
        raise _FileProblem(f"cannot be read: {error.strerror or error}") from None


def _rows_of_stream(stream: TextIO, kind: str) -> Iterator[_Raw]:
    if kind == "parquet":
        raise _FileProblem("Parquet cannot be read from a stream; give a path")
    # Standard input is read as bytes: whatever the locale says, data is UTF-8, and a wrong byte
    # must cost one row. A stream that the caller opened keeps the encoding the caller chose.
    if stream is sys.stdin and hasattr(stream, "buffer"):
        yield from _rows_of_bytes(stream.buffer, kind)
        return
    try:
        yield from _READERS[kind](numbered_lines(stream))
    except UnicodeDecodeError as error:
        raise _FileProblem(f"not valid {error.encoding}: {error.reason}") from None
    except DataError as error:
        raise _FileProblem(str(error)) from None


def _rows_of_bytes(stream: BinaryIO, kind: str) -> Iterator[_Raw]:
    # JSONL ends a line at \n only; in CSV a bare \r may end one too.
    text = utf8_lines(stream, newline="\n" if kind == "jsonl" else "")
    try:
        yield from _READERS[kind](numbered_lines(text))
    except DataError as error:
        raise _FileProblem(str(error)) from None
    except OSError as error:  # such as a folder as standard input
        raise _FileProblem(f"cannot be read: {error.strerror or error}") from None
    finally:
        text.detach()  # otherwise the stream would be closed with it


def _jsonl_rows(lines: Iterator[Line]) -> Iterator[_Raw]:
    blank = 0
    for _number, line in lines:
        if not line.strip():
            blank += 1
            continue
        for _ in range(blank):  # blank lines at the end of a file are no rows, those between rows are
            yield _Raw(None, "the line is blank; remove it or fill it in")
        blank = 0
        yield _json_row(line)


def _json_row(line: str) -> _Raw:
    if is_cut(line):
        return _Raw(None, TOO_LONG)
    if is_broken(line):
        return _Raw(None, NOT_UTF8)
    try:
        record = json.loads(line, object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        return _Raw(None, f"not valid JSON: {error.msg} at character {error.pos + 1}: {line.strip()[:60]!r}")
    except (ValueError, RecursionError) as error:
        return _Raw(None, f"not valid JSON: {error}")
    if not isinstance(record, dict):
        return _Raw(None, f"expected a JSON object with a 'candidate', got {line.strip()[:60]!r}")
    return _Raw(record)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object, as a hook of the json module; a key that occurs twice is a ValueError."""
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the field {twice!r} is given twice")
    return record


def _delimited_rows(lines: Iterator[Line], delimiter: str) -> Iterator[_Raw]:
    records = delimited_records(lines, delimiter)
    header = next(records, None)
    if header is None:
        return
    names = _checked_header(header.fields, header.problem)
    blank: list[int] = []
    for record in records:
        if record.problem is None and not record.fields:
            blank.append(record.line)
            continue
        for line in blank:
            yield _Raw(None, "the line is blank; remove it or fill it in", line)
        blank.clear()
        if record.problem is not None:
            yield _Raw(None, record.problem, record.line)
        elif any(map(is_broken, record.fields)):
            yield _Raw(None, NOT_UTF8, record.line)
        elif len(record.fields) != len(names):
            yield _Raw(
                None,
                f"{len(record.fields)} fields where the header has {len(names)} ({', '.join(names)}); "
                "put a caption that holds the delimiter in quotation marks",
                record.line,
            )
        else:
            yield _Raw(dict(zip(names, record.fields, strict=True)), line=record.line)


def _checked_header(fields: list[str], problem: str | None) -> tuple[str, ...]:
    names = tuple(name.strip() for name in fields)
    if problem is None and any(map(is_broken, names)):
        problem = "not valid UTF-8; save the file as UTF-8 (Excel: 'CSV UTF-8')"
    if problem is None and len(set(names)) < len(names):
        problem = f"a column name occurs twice: {', '.join(names)}"
    if problem is None:
        try:
            match_columns(names)
        except DataError as error:
            problem = str(error)
    if problem is not None:
        raise _FileProblem(problem, ", header")
    return names


def _parquet_rows(path: Path) -> Iterator[_Raw]:
    pyarrow = import_pyarrow(path)
    try:
        with pyarrow.parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            _checked_header(list(file.schema_arrow.names), None)
            for batch in file.iter_batches(batch_size=1024):
                yield from _batch_rows(batch)
    except pyarrow.ArrowException as error:
        raise _FileProblem(f"cannot be read as Parquet: {error}") from None


def _batch_rows(batch: Any) -> Iterator[_Raw]:
    try:
        records = batch.to_pylist()
    except UnicodeDecodeError:  # one bad cell fails the whole batch: take its rows one by one
        for position in range(batch.num_rows):
            try:
                yield _Raw(batch.slice(position, 1).to_pylist()[0])
            except UnicodeDecodeError:
                yield _Raw(None, NOT_UTF8)
        return
    for record in records:
        yield _Raw(record)


_READERS: dict[str, Callable[[Iterator[Line]], Iterator[_Raw]]] = {
    "jsonl": _jsonl_rows,
    "csv": lambda lines: _delimited_rows(lines, ","),
    "tsv": lambda lines: _delimited_rows(lines, "\t"),
}

"""Reading rated and unrated captions from JSONL, CSV, TSV, Parquet, JSON and text, one row at a time.

Every row that a file holds comes out as one ``Row``, good or bad, so nothing is lost silently and
memory stays bounded however long the file is, apart from 16 to 32 bytes per id, kept to find an id that
occurs twice. ``suisei.data.fields`` says which fields there are, ``suisei.data.documents`` which JSON.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Literal, TextIO

from suisei.data.compressed import is_gzip, open_plain, plain_suffix
from suisei.data.documents import document_rows, unique_keys
from suisei.data.fields import (
    DEFAULT_SCALE,
    Columns,
    Settings,
    chosen_columns,
    make_sample,
    match_columns,
    record_id,
    require_chosen,
)
from suisei.data.file_rows import NOT_UTF8, FileProblem, Note, RawRow, Row, warn
from suisei.data.idset import IdSet
from suisei.data.joins import References, joined
from suisei.data.lines import TOO_LONG, Line, delimited_records, is_broken, is_cut, numbered_lines, utf8_lines
from suisei.data.parquet import import_pyarrow
from suisei.data.paths import Allowed, Root, descriptor_of, is_stream
from suisei.data.sample import CaptionSample
from suisei.data.writers import write_samples
from suisei.errors import ConfigError, DataError
from suisei.progress import progress_bar

__all__ = ["FORMATS", "Row", "collect", "format_of", "iter_rows", "read_samples", "write_samples"]

FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".json": "json",
    ".txt": "text",
}
"""What a suffix stands for; each but Parquet may be followed by ``.gz``."""
KINDS = tuple(dict.fromkeys(FORMATS.values()))
OnError = Literal["raise", "skip"]
NamedColumns = Mapping[str, str | Sequence[str] | None]
"""{field: the column that fills it}; for references several columns, none for no column."""

_EXCEL = (".xlsx", ".xls", ".ods")
_NOTES = 3
"""So many notes about columns at most are told of one file, whose rows may differ in theirs."""


def format_of(path: Path | str) -> str:
    """Return the format that a file's suffix stands for, looking through ``.gz``.

    Raises:
        ConfigError: an unknown suffix; the valid ones are listed.
    """
    suffix = plain_suffix(path)
    if suffix == ".parquet" and is_gzip(path):
        raise ConfigError(f"{path}: Parquet is compressed inside; write it without .gz")
    if suffix not in FORMATS:
        hint = " (Excel: save it as 'CSV UTF-8')" if suffix in _EXCEL else ""
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
    columns: NamedColumns | None = None,
    references: References | Sequence[Path | str] | None = None,
    note: Note = warn,
    allowed: Allowed | None = None,
) -> Iterator[Row]:
    """Stream the rows of a file, in file order, bad rows included.

    Args:
        source: a path, or an open text stream such as ``sys.stdin``.
        format: "jsonl", "csv", "tsv", "parquet", "json" or "text"; by default from the suffix, JSONL for a
            stream or pipe.
        images: folder where relative image and video paths start; by default the file's own folder, for a
            stream the working directory. Rows that name no image get the file in it that has their id.
        rating_scale: (low, high) of rows that state no ``rating_scale``; (0, 1) by default.
        columns: {field: the column that fills it}, for columns that are called otherwise.
        references: files of references, which take the place of the rows' own: COCO annotations, JSON or
            JSONL by image id, or text, one file per reference.
        note: told in a line what is guessed and what is left out; a warning by default.
        allowed: what rows may name beside images and videos in ``images`` or the file's own folder, for a
            stream the working directory; by default nothing, unless SUISEI_ANY_PATH is 1.

    Yields:
        One Row per data row; a bad row has its error and no sample.

    Raises:
        ConfigError: an unknown format, field or an impossible scale.
        DataError: the file as a whole is unusable: absent, empty, not UTF-8, a wrong header.
    """
    scale = DEFAULT_SCALE if rating_scale is None else _checked_scale(rating_scale)
    if isinstance(source, Path | str):
        path, name = Path(source), str(source)
        piped = is_stream(path) and plain_suffix(path) not in FORMATS
        kind = _checked_format(format or "jsonl") if format or piped else format_of(path)
        folder = Path() if descriptor_of(path) is not None else path.parent
        reader = _Reader(kind, name, note)
        raws = reader.rows_of_file(path)
    else:
        name = str(getattr(source, "name", "<stream>"))
        kind = _checked_format(format or "jsonl")
        folder = Path()
        reader = _Reader(kind, name, note)
        raws = reader.rows_of_stream(source)
    settings = Settings(
        Root(folder if images is None else images, folder, allowed=allowed),
        scale,
        cells=kind in ("csv", "tsv"),
        chosen=chosen_columns(columns),
    )
    reader.chosen = settings.chosen
    waits = not isinstance(source, Path | str) or is_stream(Path(source))
    rows = _checked_rows(raws, name, settings, note)
    if settings.root.web:
        from suisei.data.web_images import with_fetched

        rows = with_fetched(rows, name, waits=waits)
    given = references if isinstance(references, References | None) else References(references)
    pictures = None if images is None else settings.root
    return joined(rows, given, pictures, name, note, waits=waits)


def read_samples(
    source: Path | str | TextIO,
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    images: Path | str | None = None,
    rating_scale: tuple[float, float] | None = None,
    columns: NamedColumns | None = None,
    references: References | Sequence[Path | str] | None = None,
    note: Note = warn,
    on_error: OnError = "raise",
    skipped: list[Row] | None = None,
    allowed: Allowed | None = None,
) -> list[CaptionSample]:
    """Read all samples of a file; see ``iter_rows`` for all arguments but two.

    Args:
        source: a path or an open text stream.
        format: "jsonl", "csv", "tsv", "parquet", "json" or "text".
        images: folder where relative image and video paths start.
        rating_scale: (low, high) of rows that state no ``rating_scale``.
        columns: {field: the column that fills it}.
        references: files of references.
        note: told what is guessed and left out.
        on_error: "raise" stops at the first bad row, "skip" leaves bad rows out.
        skipped: a list that receives the rows left out.
        allowed: what rows may name beside images and videos in ``images`` or the file's folder.

    Raises:
        DataError: a bad row under "raise", no usable row at all, or an unusable file.
    """
    rows = iter_rows(
        source,
        format=format,
        images=images,
        rating_scale=rating_scale,
        columns=columns,
        references=references,
        note=note,
        allowed=allowed,
    )
    with progress_bar("fetching images", None, shown=allowed is not None and allowed.web) as advance:
        return collect(_counted(rows, advance), on_error=on_error, skipped=skipped)


def _counted(rows: Iterable[Row], advance: Callable[[int], Any]) -> Iterator[Row]:
    for row in rows:
        yield row
        advance(1)


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
    if name not in KINDS:
        raise ConfigError(f"format is {name!r}; expected {', '.join(KINDS)}")
    return name


def _checked_scale(scale: tuple[float, float]) -> tuple[float, float]:
    low, high = scale
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ConfigError(f"rating scale must be LOW HIGH with LOW < HIGH, got {low:g} {high:g}")
    return float(low), float(high)


def _checked_rows(raws: Iterator[RawRow], name: str, settings: Settings, note: Note) -> Iterator[Row]:
    """Number the raw rows, make their samples and refuse an id that was used before."""
    seen, told = IdSet(), _Told(name, settings, note)
    number = 0
    try:
        for number, raw in enumerate(raws, start=1):
            row_id, sample, problem = _checked(raw, settings, seen, told)
            if problem is None:
                yield Row(number, row_id, sample, None)
            else:
                line = f" (line {raw.line})" if raw.line is not None and raw.line != number else ""
                yield Row(number, row_id, None, DataError(f"{name}, row {number}: {problem}{line}"))
    except FileProblem as error:
        raise DataError(f"{name}{error.place}: {error}") from None
    if number == 0:
        raise DataError(f"{name}: the file is empty; expected at least one data row (after a CSV's header)")


def _checked(
    raw: RawRow, settings: Settings, seen: IdSet, told: _Told
) -> tuple[str | None, CaptionSample | None, str | None]:
    if raw.record is None:
        return None, None, raw.problem
    row_id = None
    try:
        columns = match_columns(tuple(raw.record), settings.chosen)
        row_id = record_id(raw.record, columns)
        if row_id is not None:
            _refuse_repeated(row_id, seen)
        told.of(columns)
        sample = make_sample(raw.record, columns, settings)
    except DataError as error:
        return row_id or record_id(raw.record), None, str(error)
    return row_id, sample, None


def _refuse_repeated(row_id: str, seen: IdSet) -> None:
    if not seen.add(row_id):
        raise DataError(
            f"id {row_id[:100]!r} is used by an earlier row; every id must be unique "
            "(to do without: --column id=)"
        )


class _Told:
    """Tells once what is made of a file's columns, whose rows may differ in theirs."""

    def __init__(self, name: str, settings: Settings, note: Note) -> None:
        self._name, self._note = name, note
        self._asked = {column for field, columns in settings.chosen for column in columns if column != field}
        self._last: Columns | None = None
        self._known: set[str] = set()
        self._count = 0

    def of(self, columns: Columns) -> None:
        """Tell what is new about the columns of a row."""
        if columns is self._last:
            return
        if self._last is None:
            self._missing(columns)
        self._last = columns
        new = {*columns.guessed, *columns.ignored} - self._known
        if not new or self._count == _NOTES:
            return
        self._count += 1
        self._known |= new
        guessed = {column: field for column, field in columns.guessed.items() if column in new}
        ignored = tuple(column for column in columns.ignored if column in new)
        self._note(f"{self._name}: columns {Columns({}, (), guessed, ignored).note()}")

    def _missing(self, columns: Columns) -> None:
        absent = self._asked - {*columns.of.values(), *columns.references}
        if absent:
            self._note(
                f"{self._name}: the first row has no column {', '.join(sorted(map(repr, absent)))} (--column)"
            )


class _Reader:
    """Reads the raw rows of one file or stream.

    Args:
        kind: its format.
        name: of the file, for notes.
        note: told what is guessed.
    """

    def __init__(self, kind: str, name: str, note: Note) -> None:
        self.kind, self.name, self.note = kind, name, note
        self.chosen: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def rows_of_file(self, path: Path) -> Iterator[RawRow]:
        """Yield the rows of a file.

        Raises:
            FileProblem: it is unusable.
        """
        try:
            if path.is_dir():
                raise FileProblem("is a folder; give a file")
            if self.kind == "parquet" and is_stream(path):
                raise FileProblem("Parquet cannot be read from a pipe or device; give a file")
            if path.is_file() and path.stat().st_size == 0:
                return
            if self.kind == "parquet":
                yield from self._parquet_rows(path)
            else:
                with open_plain(path) as stream:
                    yield from self._rows_of_bytes(stream)
        except FileNotFoundError:
            raise FileProblem("no such file") from None
        except DataError as error:
            raise FileProblem(str(error)) from None
        except OSError as error:
            raise FileProblem(f"cannot be read: {error.strerror or error}") from None

    def rows_of_stream(self, stream: TextIO) -> Iterator[RawRow]:
        """Yield the rows of an open stream.

        Raises:
            FileProblem: it is unusable.
        """
        if self.kind == "parquet":
            raise FileProblem("Parquet cannot be read from a stream; give a path")
        try:
            # Standard input is read as bytes: whatever the locale says, data is UTF-8, and a wrong byte
            # must cost one row. A stream that the caller opened keeps the encoding the caller chose.
            if stream is sys.stdin and hasattr(stream, "buffer"):
                yield from self._rows_of_bytes(stream.buffer)
            else:
                yield from self._rows_of_text(stream)
        except UnicodeDecodeError as error:
            raise FileProblem(f"not valid {error.encoding}: {error.reason}") from None
        except DataError as error:
            raise FileProblem(str(error)) from None
        except OSError as error:  # such as a folder as standard input
            raise FileProblem(f"cannot be read: {error.strerror or error}") from None

    def _rows_of_bytes(self, stream: IO[bytes]) -> Iterator[RawRow]:
        # JSONL ends a line at \n only; in CSV a bare \r may end one too.
        text = utf8_lines(stream, newline="" if self.kind in ("csv", "tsv") else "\n")
        try:
            yield from self._rows_of_text(text)
        finally:
            with suppress(ValueError):  # of a file that is closed already
                text.detach()  # otherwise the stream would be closed with it

    def _rows_of_text(self, text: TextIO) -> Iterator[RawRow]:
        yield from _READERS[self.kind](self, text)

    def told(self, text: str) -> None:
        """Tell what the file is taken for."""
        self.note(f"{self.name}: {text}")

    def jsonl_rows(self, text: TextIO, first: str = "") -> Iterator[RawRow]:
        """Yield the rows of JSON Lines; ``first`` is a line that was read already."""
        if first:
            yield _json_row(first)
        blank = 0
        for _number, line in numbered_lines(text):
            if not line.strip():
                blank += 1
                continue
            for _ in range(blank):  # blank lines at the end of a file are no rows, those between rows are
                yield RawRow(None, "the line is blank; remove it or fill it in")
            blank = 0
            yield _json_row(line)

    def json_rows(self, text: TextIO) -> Iterator[RawRow]:
        """Yield the rows of a JSON document."""
        yield from document_rows(text, self.told, self.jsonl_rows)

    def text_rows(self, text: TextIO) -> Iterator[RawRow]:
        """Yield a row per line of plain text."""
        for number, line in numbered_lines(text):
            if number == 1:
                self._refuse_other_than_text(line)
                self.told("taken for plain text, a caption a line")
            if is_cut(line):
                yield RawRow(None, TOO_LONG)
            elif is_broken(line):
                yield RawRow(None, NOT_UTF8)
            else:
                yield RawRow({"candidate": line.rstrip("\r\n")})

    def _refuse_other_than_text(self, first: str) -> None:
        start = first.strip()
        if start.startswith("{") and _json_row(start).record is not None:
            raise FileProblem("its lines are JSON objects, not captions; name it .jsonl")
        if "\t" in start and _has_candidate(start.split("\t"), self.chosen):
            raise FileProblem("it is a table, not a caption a line; name it .tsv")

    def delimited_rows(self, text: TextIO) -> Iterator[RawRow]:
        """Yield the rows of CSV or TSV."""
        lines = numbered_lines(text)
        first = next(lines, None)
        if first is None:
            return
        delimiter = self._delimiter(first[1])
        records = delimited_records(_again(first, lines), delimiter)
        header = next(records)
        names = self._checked_header(header.fields, header.problem)
        blank: list[int] = []
        for record in records:
            if record.problem is None and not record.fields:
                blank.append(record.line)
                continue
            for line in blank:
                yield RawRow(None, "the line is blank; remove it or fill it in", line)
            blank.clear()
            if record.problem is not None:
                yield RawRow(None, record.problem, record.line)
            else:
                yield _cells_row(record.fields, names, record.line)

    def _delimiter(self, header: str) -> str:
        """Return what separates the fields: what the format says, or what alone makes a header."""
        usual = "\t" if self.kind == "tsv" else ","
        if not _has_candidate(_split(header, usual), self.chosen):
            for other, name in ((";", "semicolons"), ("\t", "tabs"), (",", "commas")):
                if other != usual and _has_candidate(_split(header, other), self.chosen):
                    self.told(f"taken for columns separated by {name}")
                    return other
        return usual

    def _checked_header(self, fields: list[str], problem: str | None) -> tuple[str, ...]:
        names = tuple(name.strip() for name in fields)
        if problem is None and any(map(is_broken, names)):
            problem = "not valid UTF-8; save the file as UTF-8 (Excel: 'CSV UTF-8')"
        if problem is None and len(set(names)) < len(names):
            named = [name for name in names if name]
            if len(set(named)) < len(named):
                problem = f"a column name occurs twice: {', '.join(names)}"
            names = tuple(name or f"(column {number})" for number, name in enumerate(names, 1))
        if problem is None:
            try:
                match_columns(names, self.chosen)
                require_chosen(names, self.chosen)
            except DataError as error:
                problem = str(error)
        if problem is not None:
            raise FileProblem(problem, ", header")
        return names

    def _parquet_rows(self, path: Path) -> Iterator[RawRow]:
        pyarrow = import_pyarrow(path)
        try:
            with pyarrow.parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
                self._checked_header(list(file.schema_arrow.names), None)
                for batch in file.iter_batches(batch_size=1024):
                    yield from _batch_rows(batch)
        except (pyarrow.ArrowException, UnicodeDecodeError) as error:  # names of columns are not UTF-8
            raise FileProblem(f"cannot be read as Parquet: {error}") from None


_READERS: dict[str, Callable[[_Reader, TextIO], Iterator[RawRow]]] = {
    "jsonl": _Reader.jsonl_rows,
    "json": _Reader.json_rows,
    "text": _Reader.text_rows,
    "csv": _Reader.delimited_rows,
    "tsv": _Reader.delimited_rows,
}


def _again(first: Line, lines: Iterator[Line]) -> Iterator[Line]:
    yield first
    yield from lines


def _split(header: str, delimiter: str) -> list[str]:
    """Return the names of a header, roughly; what is wrong with it is said by who reads it."""
    return [name.strip().strip('"') for name in header.strip().split(delimiter)]


def _has_candidate(names: Sequence[str], chosen: tuple[tuple[str, tuple[str, ...]], ...]) -> bool:
    try:
        match_columns(tuple(names), chosen)
    except DataError:
        return False
    return True


def _json_row(line: str) -> RawRow:
    if is_cut(line):
        return RawRow(None, TOO_LONG)
    if is_broken(line):
        return RawRow(None, NOT_UTF8)
    try:
        record = json.loads(line, object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        return RawRow(
            None, f"not valid JSON: {error.msg} at character {error.pos + 1}: {line.strip()[:60]!r}"
        )
    except (ValueError, RecursionError) as error:
        return RawRow(None, f"not valid JSON: {error}")
    if not isinstance(record, dict):
        return RawRow(None, f"expected a JSON object with a 'candidate', got {line.strip()[:60]!r}")
    return RawRow(record)


def _cells_row(fields: list[str], names: tuple[str, ...], line: int) -> RawRow:
    if any(map(is_broken, fields)):
        return RawRow(None, NOT_UTF8, line)
    if len(fields) != len(names):
        return RawRow(
            None,
            f"{len(fields)} fields where the header has {len(names)} ({', '.join(names)}); "
            "put a caption that holds the delimiter in quotation marks",
            line,
        )
    return RawRow(dict(zip(names, fields, strict=True)), line=line)


def _batch_rows(batch: Any) -> Iterator[RawRow]:
    try:
        records = batch.to_pylist()
    except UnicodeDecodeError:  # one bad cell fails the whole batch: take its rows one by one
        for position in range(batch.num_rows):
            try:
                yield RawRow(batch.slice(position, 1).to_pylist()[0])
            except UnicodeDecodeError:
                yield RawRow(None, NOT_UTF8)
        return
    for record in records:
        yield RawRow(record)

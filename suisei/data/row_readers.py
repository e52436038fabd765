"""Reading the raw rows of one file in each format: JSONL, CSV, TSV, Parquet, JSON and text.

A raw row is a record of fields, or what is wrong with it; ``suisei.data.formats`` makes samples of them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TextIO

from suisei.data.caption_objects import caption_field, fields_read
from suisei.data.column_names import candidate_of, match_columns, require_chosen
from suisei.data.compressed import open_plain
from suisei.data.documents import document_rows, parse_json
from suisei.data.file_rows import NOT_UTF8, FileProblem, Note, RawRow
from suisei.data.json_files import frame_problem, invalid_json
from suisei.data.lines import (
    LONE_RETURN,
    TOO_LONG,
    Line,
    delimited_records,
    has_lone_return,
    is_broken,
    is_cut,
    numbered_lines,
    utf8_lines,
    whole_utf8,
)
from suisei.data.parquet import import_pyarrow
from suisei.data.paths import is_stream
from suisei.data.plain_text import caption_lines
from suisei.errors import DataError, one_line


class RowReader:
    """Reads the raw rows of one file or stream.

    Args:
        kind: its format.
        name: of the file, for notes.
        note: told what is guessed.
        references: the rows of a table are references of images, not captions to be scored.
    """

    def __init__(self, kind: str, name: str, note: Note, *, references: bool = False) -> None:
        self.kind, self.name, self.note, self.references = kind, name, note, references
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
        for _number, line in whole_utf8(numbered_lines(text)):
            if not line.strip():
                blank += 1
                continue
            for _ in range(blank):  # blank lines at the end of a file are no rows, those between rows are
                yield RawRow(None, "the line is blank; remove it or fill it in")
            blank = 0
            yield _json_row(line)

    def json_rows(self, text: TextIO) -> Iterator[RawRow]:
        """Yield the rows of a JSON document."""
        chosen = {column for _, columns in self.chosen for column in columns}
        yield from document_rows(text, self.told, self.jsonl_rows, chosen)

    def text_rows(self, text: TextIO) -> Iterator[RawRow]:
        """Yield a row per line of plain text."""
        lines = caption_lines(whole_utf8(numbered_lines(text)), "captions", self.chosen)
        for number, line in lines:
            if number == 1:
                self.told("taken for plain text, a caption a line")
            if is_cut(line):
                yield RawRow(None, TOO_LONG)
            elif is_broken(line):
                yield RawRow(None, NOT_UTF8)
            elif has_lone_return(line):
                yield RawRow(None, LONE_RETURN)
            else:
                yield RawRow({"candidate": line.rstrip("\r\n")})

    def delimited_rows(self, text: TextIO) -> Iterator[RawRow]:
        """Yield the rows of CSV or TSV."""
        lines = whole_utf8(numbered_lines(text))
        first = next(lines, None)
        if first is None:
            return
        delimiter = self._delimiter(first[1])
        records = delimited_records(_again(first, lines), delimiter)
        header = next(records)
        names = self._checked_header(header.fields, header.problem or _start_problem(header.fields))
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
        if not self._has_captions(_split(header, usual)):
            for other, name in ((";", "semicolons"), ("\t", "tabs"), (",", "commas")):
                if other != usual and self._has_captions(_split(header, other)):
                    self.told(f"taken for columns separated by {name}")
                    return other
        return usual

    def _has_captions(self, names: list[str]) -> bool:
        if self.references:
            return caption_field(tuple(names)) is not None
        return candidate_of(names, self.chosen) is not None

    def _checked_header(self, fields: list[str], problem: str | None) -> tuple[str, ...]:
        names = tuple(name.strip() for name in fields)
        if problem is None and any(map(is_broken, names)):
            problem = "not valid UTF-8; save the file as UTF-8 (Excel: 'CSV UTF-8')"
        if problem is None and len(set(names)) < len(names):
            named = [name for name in names if name]
            if len(set(named)) < len(named):
                problem = f"a column name occurs twice: {', '.join(names)}"
            names = tuple(name or f"(column {number})" for number, name in enumerate(names, 1))
        if problem is None and not self.references:
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
                names = list(file.schema_arrow.names)
                self._checked_header(names, None)
                read = self._columns_in_use(names)
                for batch in file.iter_batches(batch_size=1024, columns=read):
                    yield from _batch_rows(batch, names)
        except (pyarrow.ArrowException, UnicodeDecodeError) as error:  # names of columns are not UTF-8
            raise FileProblem(f"cannot be read as Parquet: {error}") from None

    def _columns_in_use(self, names: list[str]) -> list[str]:
        """Return the columns that fill something: others may hold what Python has no objects for."""
        if self.references:
            return fields_read(tuple(names))
        try:
            ignored = match_columns(tuple(names), self.chosen).ignored
        except DataError:  # of names with blanks, which the header's check takes away: said by each row
            return names
        return [name for name in names if name not in ignored or name == "id"]  # which names bad rows


_READERS: dict[str, Callable[[RowReader, TextIO], Iterator[RawRow]]] = {
    "jsonl": RowReader.jsonl_rows,
    "json": RowReader.json_rows,
    "text": RowReader.text_rows,
    "csv": RowReader.delimited_rows,
    "tsv": RowReader.delimited_rows,
}


_FOR_EXCEL = re.compile("sep=.?")  # what separates the columns may have ended the field


def _start_problem(fields: list[str]) -> str | None:
    """Say what is wrong with a first line that has no names of columns."""
    if not fields:
        return "the first line is blank; remove it, so that the names of the columns come first"
    told = _FOR_EXCEL.fullmatch(fields[0])
    return "the first line tells Excel what separates the columns; remove it" if told else None


def _again(first: Line, lines: Iterator[Line]) -> Iterator[Line]:
    yield first
    yield from lines


def _split(header: str, delimiter: str) -> list[str]:
    """Return the names of a header, roughly; what is wrong with it is said by who reads it."""
    return [name.strip().strip('"') for name in header.strip().split(delimiter)]


def _json_row(line: str) -> RawRow:
    if is_cut(line):
        return RawRow(None, TOO_LONG)
    if is_broken(line):
        return RawRow(None, NOT_UTF8)
    try:
        record = parse_json(line)
    except (ValueError, RecursionError) as error:
        return RawRow(None, invalid_json(error, line=True))
    if not isinstance(record, dict):
        return RawRow(None, f"expected a JSON object with a 'candidate', got {line.strip()[:60]!r}")
    if problem := frame_problem(record):
        return RawRow(None, problem)
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


def _batch_rows(batch: Any, names: list[str]) -> Iterator[RawRow]:
    """Yield the rows of a batch; columns of the file that it lacks are None."""
    absent = dict.fromkeys(names)  # in the file's order, for what is said of columns that are ignored
    try:
        records = batch.to_pylist()
    except _NO_OBJECT:  # one bad cell fails the whole batch: take its rows one by one
        for position in range(batch.num_rows):
            row = _batch_row(batch, position)
            yield row if row.record is None else RawRow({**absent, **row.record})
        return
    for record in records:
        yield RawRow({**absent, **record})


def _batch_row(batch: Any, position: int) -> RawRow:
    record = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            record[name] = column[position].as_py()
        except UnicodeDecodeError:
            return RawRow(None, NOT_UTF8)
        except _NO_OBJECT as error:
            reason = one_line(error)
            return RawRow(None, f"{name} cannot be read as {column.type} ({reason}); write it as text")
    return RawRow(record)


_NO_OBJECT = (ValueError, OverflowError, LookupError, NotImplementedError)
"""What pyarrow raises of a value that Python has no object for, such as a date in the year 50,000."""

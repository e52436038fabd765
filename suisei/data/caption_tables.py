"""References of images in tables, and in lines of numbered captions as the Flickr data sets have them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suisei.data.caption_objects import caption_field, image_field
from suisei.data.compressed import open_plain, plain_suffix
from suisei.data.fields import json_cell, without_fraction
from suisei.data.file_rows import FileProblem
from suisei.data.row_readers import RowReader
from suisei.errors import DataError

KINDS = ("csv", "tsv", "parquet")
NumberedRow = tuple[int, dict[str, Any]]
"""A row and its number, from 1."""
_LINE = 10_000
"""So many bytes of a line are looked at."""
_TOKEN = re.compile(r"(\S(?:[^\t]*\S)?)#[0-9]+\t(.+)")  # names of files may have blanks


def table_rows(path: Path) -> list[NumberedRow]:
    """Return the rows of a table with a header: CSV, TSV or Parquet.

    Raises:
        DataError: it cannot be read, or a row has more or fewer fields than the header.
    """
    kind = plain_suffix(path).removeprefix(".")
    if kind not in KINDS:
        raise DataError(f"{path}: a spreadsheet; save it as CSV (Excel: 'CSV UTF-8')")
    rows = []
    try:
        reader = RowReader(kind, str(path), lambda _: None, references=True)
        for number, raw in enumerate(reader.rows_of_file(path), 1):
            if raw.record is None:
                raise DataError(f"{path}, row {number}: {raw.problem}")
            rows.append(
                (number, dict(raw.record) if kind == "parquet" else _of_cells(path, number, raw.record))
            )
    except FileProblem as problem:
        raise DataError(f"{path}{problem.place}: {problem}") from None
    return rows


def _of_cells(path: Path, number: int, cells: Mapping[str, str]) -> dict[str, Any]:
    """Return a row of text with the list that a cell holds, and without the end of a whole number's 7.0."""
    row: dict[str, Any] = dict(cells)
    column, image = caption_field(tuple(cells)), image_field(cells)
    if column and cells[column].lstrip().startswith('["'):
        try:
            row[column] = json_cell(column, cells[column], '["a cat", "the cat"]')
        except DataError as error:
            raise DataError(f"{path}, row {number}: {error}") from None
    if image:
        row[image] = without_fraction(cells[image])
    return row


def token_rows(lines: Sequence[str]) -> list[NumberedRow]:
    """Return the rows of lines such as ``1.jpg#0<TAB>a dog``, if all that are not blank are such lines."""
    rows = []
    for number, line in enumerate(lines, 1):
        found = _TOKEN.fullmatch(line)
        if found:
            rows.append((number, {"image": found[1], "caption": found[2]}))
        elif line.strip():
            return []
    return rows


def begins_with_token(path: Path) -> bool:
    """Say whether a text file can be read and begins with a line that :func:`token_rows` knows."""
    try:
        with open_plain(path) as stream:
            line = next(filter(bytes.strip, iter(lambda: stream.readline(_LINE), b"")), b"")
        return _TOKEN.fullmatch(line.decode().rstrip("\r\n")) is not None
    except (DataError, OSError, UnicodeDecodeError):
        return False

"""Captions of images in JSON Lines: which fields of a row name its image, and which hold its captions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from suisei.data.caption_texts import text_lines
from suisei.data.column_names import ALIASES, candidate_of, plain_name, single_references
from suisei.data.documents import parse_json
from suisei.data.json_files import invalid_json
from suisei.errors import DataError

_FILE_FIELDS = tuple(name for tier in ALIASES["image"] for name in tier)
_IMAGE_IDS = ALIASES["group"][1]
IMAGE_FIELDS = (*_IMAGE_IDS, "id", *_FILE_FIELDS, "group")
"""Fields of a JSON Lines row that may name its image, the first that is there; an id may be the row's."""
_LISTS = tuple(name for tier in ALIASES["references"] for name in tier)
CAPTION_FIELDS = (*_LISTS, "reference", "ref", *ALIASES["candidate"][2])
"""Fields of a row that may hold its captions, the first that is there."""


class Record(NamedTuple):
    """Captions of one image as a file has them, unchecked, where they stand, and its other name, if any.

    ``column`` is the field of a row that holds the captions; "" where the file's form says which does.
    ``without`` has the fields of a row of which none may hold captions; None for any other.
    """

    place: str
    image: Any
    captions: Any
    other: str | None = None
    column: str = ""
    without: tuple[str, ...] | None = None


def json_lines(path: Path | str, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the object of each line that is not blank.

    Args:
        path: of the file, for messages.
        text: what is in it.

    Raises:
        DataError: a line that is no object in JSON.
    """
    for number, line in enumerate(text_lines(text), 1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}, row {number}: {invalid_json(error, line=True)}") from None
        if not isinstance(row, dict):
            raise DataError(f"{path}, row {number}: expected an object, got {line.strip()[:60]!r}")
        yield number, row


def row_records(
    rows: Sequence[tuple[int, dict[str, Any]]], *, by_line: bool, results: bool
) -> Iterator[Record]:
    """Yield the record of each row.

    Args:
        rows: (number, row).
        by_line: no row names its image, so that the images are numbered from 1.
        results: whether a system says them: what stands beside its candidates may be their references.
    """
    for order, (number, row) in enumerate(rows, 1):
        name, fields = image_field(row), _fields(tuple(row))
        column = (_candidate_in(tuple(row)) if results else "") or fields.captions
        captions = row.get(column)
        if fields.singles and not results:
            captions, column = _one_each(row, fields.singles), fields.singles[0]
        image = order if by_line else row.get(str(name))
        without = None if column else tuple(row)
        yield Record(f"row {number}", image, captions, other_name(row), column, without)


def captions_in(said: Any, *, results: bool) -> tuple[Any, str]:
    """Return the captions in what stands under an image's id, and which field of a row it is that holds them.

    Args:
        said: captions, or a row.
        results: whether a system says them: beside references, they are the candidate's.

    Returns:
        The field is "" for what is no row, or a row that has none.
    """
    if not isinstance(said, dict):
        return said, ""
    names = tuple(said)
    fields = _fields(names)
    if fields.singles and not results and "caption" not in said:
        return _one_each(said, fields.singles), fields.singles[0]
    column = _candidate_in(names) if results else "caption" if "caption" in said else fields.captions
    return (said[column] if column else said), column


def _one_each(row: Mapping[str, Any], fields: Sequence[str]) -> list[Any]:
    """Return the captions in fields of one each; a blank one is none."""
    return [row[name] for name in fields if row[name] is not None and str(row[name]).strip()]


def _candidate_in(names: tuple[str, ...]) -> str:
    """Return the field of what a system says; "" for none."""
    return candidate_of(names) or ("caption" if "caption" in names else "")


class _Fields(NamedTuple):
    """What the fields of a row may hold: its image, its captions, files of its image and its group.

    ``kind`` is the one of ``IMAGE_FIELDS`` that the field of the image is, ``captions`` the one of
    ``CAPTION_FIELDS``; "" for none. Where references stand in ``singles`` instead, those hold one each.
    """

    kind: str
    image: str | None
    captions: str
    singles: tuple[str, ...]
    files: tuple[str, ...]
    group: str | None


@lru_cache(maxsize=256)
def _fields(names: tuple[str, ...]) -> _Fields:
    """Return which of a row's fields are which, compared as names of columns are.

    They are looked up, as nearly all rows of a file have the same.
    """
    own = {plain_name(name): name for name in names} | {name: name for name in names}
    kind = next((name for name in IMAGE_FIELDS if name in own), "")
    plain = {name: plain_name(name) for name in names}
    singles = [] if any(name in own for name in _LISTS) else single_references(plain)
    if all(plain[name] in CAPTION_FIELDS for name in singles):  # none has a number
        singles = []
    return _Fields(
        kind,
        own[kind] if kind else None,
        next((own[name] for name in CAPTION_FIELDS if name in own), ""),
        tuple(singles),
        tuple(own[name] for name in _FILE_FIELDS if name in own),
        own.get("group"),
    )


def caption_field(names: tuple[str, ...]) -> str | None:
    """Return which of a row's fields may hold its captions, or the first of them."""
    found = _fields(names)
    return found.captions or next(iter(found.singles), None)


def fields_read(names: tuple[str, ...]) -> list[str]:
    """Return the fields of a row that say something of its captions or its image."""
    found = _fields(names)
    read = {found.image, found.captions, found.group, *found.singles, *found.files}
    return [name for name in names if name in read]


def image_field(row: Mapping[str, Any]) -> str | None:
    """Return which field names the image of a row: where it is the id, that may as well be the row's own."""
    return _fields(tuple(row)).image


def other_name(row: Mapping[str, Any]) -> str | None:
    """Return what else names the image of a row that is known by its id."""
    return (_file_of(row) or _group_of(row)) if is_by_id(row) else None


def is_by_id(row: Mapping[str, Any]) -> bool:
    """Return whether the image of a row is known by an id that may be the row's own."""
    return _fields(tuple(row)).kind == "id"


def has_image_id(row: Mapping[str, Any]) -> bool:
    """Return whether a row has a field for its image's id."""
    return _fields(tuple(row)).kind in _IMAGE_IDS


def _file_of(row: Mapping[str, Any]) -> str | None:
    for name in _fields(tuple(row)).files:
        if isinstance(row[name], str):
            return row[name] or None
    return None


def _group_of(row: Mapping[str, Any]) -> str | None:
    field = _fields(tuple(row)).group
    group = row[field] if field is not None else None
    return id_text(group) or None if isinstance(group, int | float | str) else None


def row_files(rows: Iterable[tuple[int, dict[str, Any]]]) -> dict[str, set[str]]:
    """Return {file name: images} of rows that name both."""
    found: dict[str, set[str]] = {}
    for _, row in rows:
        if file := _file_of(row):
            name = Path(file).name if "/" in file or "\\" in file else file  # a path costs far more
            found.setdefault(name, set()).add(id_text(row[str(image_field(row))]))
    return found


def row_groups(rows: Iterable[tuple[int, dict[str, Any]]]) -> dict[str, set[str]]:
    """Return {group: images} of rows that name an image by their own id."""
    found: dict[str, set[str]] = {}
    for _, row in rows:
        if is_by_id(row) and (group := _group_of(row)):
            found.setdefault(group, set()).add(id_text(row[str(image_field(row))]))
    return found


def id_text(image: Any) -> str:
    """Return an image's id as text; pandas writes whole numbers of a column that has gaps as 1.0."""
    return str(int(image) if isinstance(image, float) and image.is_integer() else image).strip()

"""The captions of a file by image, unchecked, whichever of the layouts in use it has."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from suisei.data.caption_file import CaptionFile
from suisei.data.caption_objects import (
    CAPTION_FIELDS,
    Record,
    captions_in,
    has_image_id,
    image_field,
    is_by_id,
    json_lines,
    other_name,
    row_files,
    row_groups,
    row_records,
)
from suisei.data.caption_tables import NumberedRow, table_rows, token_rows
from suisei.data.caption_texts import is_json, is_json_lines, is_table, read_text, text_lines
from suisei.data.column_names import field_called, plain_name
from suisei.data.documents import RESULT_FIELDS, parse_json
from suisei.data.json_files import frame_problem, invalid_json
from suisei.data.karpathy import karpathy_images, read_karpathy
from suisei.data.lines import LONE_RETURN, has_lone_return
from suisei.data.plain_text import caption_lines
from suisei.errors import DataError

_SHOWN = 80
_IN_ORDER = ", in the order of the captions"
ANNOTATIONS, KARPATHY = "COCO annotations", "Karpathy's splits"
"""The forms of files that hold references alone."""


def records_of(path: Path | str, found: CaptionFile, *, results: bool = False) -> Iterator[Record]:
    """Return the records of a file; its form, and whether it names images, are put into ``found``.

    Args:
        path: .json, .jsonl, .csv, .tsv, .parquet or text, all but Parquet also compressed by gzip.
        found: gets what the file says beside captions.
        results: whether it is what a system says, not references.

    Raises:
        DataError: an unreadable file or another layout.
    """
    if is_table(path):
        return _records_of_rows(table_rows(Path(path)), "a table", found, results=results)
    text = read_text(path)
    if is_json(path):
        found.by_line = False
        return _document_records(path, _parsed(path, text), found, results=results)
    if is_json_lines(path):
        return _records_of_rows(list(json_lines(path, text)), "a JSON object a line", found, results=results)
    if not results and (tokens := token_rows(every := text_lines(text))):
        _refuse_lone_return(path, every)
        return _records_of_rows(tokens, "a caption with its image and number a line", found, results=results)
    lines = lines_of_captions(path, text, "captions" if results else "references")
    return (Record(f"line {number}", number, line) for number, line in enumerate(lines, 1))


def _records_of_rows(
    rows: Sequence[NumberedRow], form: str, found: CaptionFile, *, results: bool
) -> Iterator[Record]:
    found.by_line = not any(image_field(row) for _, row in rows)
    found.form = form + (_IN_ORDER if found.by_line else "")
    found.row_files, found.row_groups = row_files(rows), row_groups(rows)
    return row_records(rows, by_line=found.by_line, results=results)


def lines_of_captions(path: Path | str, text: str, what: str) -> list[str]:
    """Return the lines of plain text, blank ones among them.

    Args:
        path: of the file, for messages.
        text: what is in it.
        what: they are: "captions" or "references".

    Raises:
        DataError: the text shows that it is something else.
    """
    lines = text_lines(text)
    try:
        found = [line for _, line in caption_lines(iter(enumerate(lines, 1)), what)]
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    _refuse_lone_return(path, lines)
    return found


def _refuse_lone_return(path: Path | str, lines: Sequence[str]) -> None:
    lone = next((number for number, line in enumerate(lines, 1) if has_lone_return(line)), None)
    if lone is not None:
        raise DataError(f"{path}, line {lone:,}: {LONE_RETURN}")


def _parsed(path: Path | str, text: str) -> Any:
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: {invalid_json(error)}") from None


def _document_records(
    path: Path | str, content: Any, found: CaptionFile, *, results: bool
) -> Iterator[Record]:
    if isinstance(content, dict) and "annotations" in content:
        found.form = ANNOTATIONS
        found.file_names = _file_names(path, content.get("images", []))
        rows = _list_of(path, content, "annotations")
        return _field_records(rows, "annotation")
    listed = karpathy_images(content)
    if listed is not None:
        found.form = KARPATHY
        return _karpathy_records(path, listed, found)
    if isinstance(content, dict):
        if problem := frame_problem(content):
            raise DataError(f"{path}: {problem}")
        found.form = "captions by image id"
        entries = [(f"image {key!r:.60}", key, said) for key, said in content.items()]
        return _keyed_records(entries, found, results=results)
    if isinstance(content, list) and content and isinstance(content[0], dict):
        if set(content[0]) >= RESULT_FIELDS:
            found.form = "a COCO result file"
            return _field_records(content, "row")
        if len(content[0]) == 1:
            if _are_captions_alone(content):
                found.form, found.by_line = f"a list of rows{_IN_ORDER}", True
                return row_records(list(enumerate(content, 1)), by_line=True, results=results)
            found.form = "a list of captions by image id"
            alone = [(f"row {n}", *_only_entry(row)) for n, row in enumerate(content, 1)]
            return _keyed_records(alone, found, results=results)
    start = json.dumps(content, ensure_ascii=False)[:_SHOWN]
    raise DataError(
        f'{path}: expected [{{"image_id": 1, "caption": "..."}}], {{"1": "..."}}, {{"1": ["...", "..."]}} or '
        f'COCO annotations {{"images": [...], "annotations": [...]}}; it begins {start}'
    )


def _list_of(path: Path | str, content: Mapping[str, Any], name: str) -> list[Any]:
    if not isinstance(content[name], list):
        raise DataError(f"{path}: {name!r} must be a list, got {type(content[name]).__name__}")
    return content[name]


def _file_names(path: Path | str, images: Any) -> dict[str, str]:
    """Return {file name: image id} of an annotation file's images."""
    names = {}
    for number, image in enumerate(_list_of(path, {"images": images}, "images"), 1):
        if not isinstance(image, dict) or "id" not in image:
            raise DataError(f"{path}, image {number}: expected an object with an 'id', got {image!r:.60}")
        if isinstance(image.get("file_name"), str):
            names[image["file_name"]] = str(image["id"])
    return names


def _karpathy_records(path: Path | str, images: list[Any], found: CaptionFile) -> Iterator[Record]:
    records, numbers = [], set[int | None]()
    for image in read_karpathy(str(path), images):
        found.file_names[image.file] = str(image.id)
        numbers.add(image.number)
        if image.captions != []:  # a part whose captions are kept secret
            number = None if image.number is None else str(image.number)
            records.append(Record(image.place, image.id, image.captions, number))
    if None in numbers or len(numbers) < len(images):
        return iter(record._replace(other=None) for record in records)
    found.whole = True
    return iter(records)


def _field_records(rows: Iterable[Any], noun: str) -> Iterator[Record]:
    for number, row in enumerate(rows, 1):
        place = f"{noun} {number}"
        if not isinstance(row, dict):
            yield Record(place, None, row)
        else:
            yield Record(place, row.get("image_id"), row.get("caption"))


def _are_captions_alone(rows: Sequence[Any]) -> bool:
    """Say whether rows, of which the first has one field, hold captions in order, and name no images.

    Each has captions in a field of theirs and no image; or one field, the same, called as captions are.
    """
    names = {tuple(row) if isinstance(row, dict) else () for row in rows}
    if all(_holds_captions(each) and _names_no_image(each) for each in names):
        return True
    return len(names) == 1 and [field_called(name) for name in names.pop()] in (["candidate"], ["references"])


def _holds_captions(names: Sequence[str]) -> bool:
    row = dict.fromkeys(names)
    if captions_in(row, results=True)[1]:
        return True
    column = captions_in(row, results=False)[1]  # one alone that has a number may as well be an image
    return column != "" and (len(names) > 1 or plain_name(column) in CAPTION_FIELDS)


def _names_no_image(names: Sequence[str]) -> bool:
    return {"group", "image", "video", "id"}.isdisjoint(map(field_called, names))


def _only_entry(row: Any) -> tuple[str | None, Any]:
    """Return the key of an object with one and what is under it; None and the object of any other."""
    return next(iter(row.items())) if isinstance(row, dict) and len(row) == 1 else (None, row)


def _keyed_records(
    entries: Sequence[tuple[str, str | None, Any]], found: CaptionFile, *, results: bool
) -> Iterator[Record]:
    """Yield the records of (place, key, what is under it); a row is as in JSON Lines with the key as id."""
    rows = [_row_under(key, said) for _, key, said in entries]
    found.row_files, found.row_groups = row_files(enumerate(rows)), row_groups(enumerate(rows))
    numbered = any(not is_by_id(row) for row in rows)
    for (place, _key, said), row in zip(entries, rows, strict=True):
        image = row[str(image_field(row))]
        if numbered and is_by_id(row) and isinstance(said, dict) and has_image_id(said):
            image = None  # its own is null, and the key may be the id of another row's image
        captions, column = captions_in(said, results=results)
        yield Record(place, image, captions, other_name(row), column)


def _row_under(key: str | None, said: Any) -> dict[str, Any]:
    if key is None or not isinstance(said, dict):
        return {"id": key}
    return {name: value for name, value in said.items() if value is not None} | {"id": key}

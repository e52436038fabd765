"""JSON documents as rows: COCO's result files, captions by image id, and lists of rows.

The items of a list are read one at a time, so that its length does not matter. What a document is, its
first item says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, TextIO

from suisei.data.column_names import candidate_of, field_called, match_columns
from suisei.data.file_rows import NOT_UTF8, FileProblem, Note, RawRow
from suisei.data.json_files import frame_problem, invalid_json, unique_keys
from suisei.data.karpathy import karpathy_images
from suisei.data.lines import checked_first, is_broken
from suisei.errors import DataError

RESULT_FIELDS = {"image_id", "caption"}
"""What an item of a COCO result file has, and nothing else."""
_CHUNK = 1 << 16
_MAX_ITEM = 1 << 22
_SHOWN = 60
_FORMS = (
    '[{"image_id": 1, "caption": "..."}], {"1": "..."}, a list of rows such as [{"candidate": "..."}], or '
    "JSON Lines (.jsonl)"
)


_DECODER = json.JSONDecoder(object_pairs_hook=unique_keys)
parse_json: Callable[[str], Any] = _DECODER.decode
"""Return the value of a JSON text as ``json.loads`` does, which makes a decoder anew for every row.

A key that occurs twice in an object is a ValueError.
"""


def document_rows(
    text: TextIO,
    note: Note,
    lines: Callable[[TextIO, str], Iterator[RawRow]],
    chosen: Collection[str] = (),
) -> Iterator[RawRow]:
    """Yield the rows of a JSON document.

    Args:
        text: the document.
        note: told what it is taken for.
        lines: reads JSON Lines from a stream and its first line, which are often called .json as well.
        chosen: fields that a caller names; a list whose items have them has rows of those fields.

    Raises:
        FileProblem: it is no JSON, or no document of captions.
    """
    start = checked_first(text.readline(_MAX_ITEM))
    while start and not start.strip():
        start = text.readline(_MAX_ITEM)
    if not start:
        return
    if start.lstrip().startswith("["):
        yield from _list_rows(_items(_Buffer(text, start)), note, chosen)
    elif start.lstrip().startswith("{"):
        if is_object(start) and (second := _next_line(text)):
            note("taken for JSON Lines")
            yield from lines(_Again(second, text), start)  # type: ignore[arg-type]
        else:
            yield from _object_rows(_whole(start + text.read()), note)
    else:
        raise FileProblem(f"expected {_FORMS}; it begins {start.strip()[:_SHOWN]!r}")


def is_object(line: str) -> bool:
    """Say whether a line is a JSON object."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _next_line(text: TextIO) -> str:
    """Return the next line that is not blank, "" at the end."""
    while (line := text.readline(_MAX_ITEM)) and not line.strip():
        pass
    return line


class _Again:
    """A stream whose first line was read already."""

    def __init__(self, line: str, text: TextIO) -> None:
        self._line, self._text = line, text

    def readline(self, size: int = -1) -> str:
        line, self._line = self._line, ""
        return line or self._text.readline(size)


def _whole(text: str) -> dict[str, Any]:
    if is_broken(text):
        raise FileProblem("not valid UTF-8; save the file as UTF-8")
    try:
        content = parse_json(text)
    except (ValueError, RecursionError) as error:
        raise FileProblem(invalid_json(error)) from None
    return dict(content)


def _object_rows(content: dict[str, Any], note: Note) -> Iterator[RawRow]:
    if "annotations" in content:
        raise FileProblem(
            "an annotation file holds references, not the captions to be scored; give it as --references"
        )
    if karpathy_images(content) is not None:
        raise FileProblem(
            "a Karpathy split holds references, not the captions to be scored; give it as --references"
        )
    if problem := frame_problem(content):
        raise FileProblem(problem)
    if is_row(content):
        yield RawRow(content)
        return
    if any(
        isinstance(value, list) and len(value) > 1 and isinstance(value[0], dict)
        for value in content.values()
    ):
        raise FileProblem(f"expected {_FORMS}; it has the fields {', '.join(content)[:_SHOWN]}")
    note("taken for rows by their id" if are_rows_by_id(content) else "taken for captions by image id")
    for image, value in content.items():
        yield _keyed(image, value)


def is_row(content: Mapping[str, Any]) -> bool:
    """Say whether an object is a row of its own, and not captions by image id."""
    try:
        match_columns(tuple(content))
    except DataError:
        return False
    return True


def are_rows_by_id(content: Mapping[str, Any]) -> bool:
    """Say whether an object has rows that name their images, by their ids, and not captions by image id."""
    first = next(iter(content.values()), None)
    return isinstance(first, dict) and _names_image(first)


def _list_rows(items: Iterator[Any], note: Note, chosen: Collection[str]) -> Iterator[RawRow]:
    form = ""
    for item in items:
        if isinstance(item, RawRow):
            yield item
            continue
        if not isinstance(item, dict):
            shown = json.dumps(item, ensure_ascii=False)[:_SHOWN]
            yield RawRow(None, f"expected a JSON object with a caption, got {shown}")
            continue
        if not form:
            form = _ROWS if any(name in item for name in chosen) else _form(item)
            note(f"taken for {form}")
        if form == _RESULTS and item.keys() >= RESULT_FIELDS:
            others = {name: value for name, value in item.items() if name not in RESULT_FIELDS}
            image = item["image_id"]
            yield RawRow({"id": image, "group": image, "candidate": item["caption"], **others})
        elif form == _BY_IMAGE and len(item) == 1:
            yield _keyed(*next(iter(item.items())))
        else:
            yield RawRow(item)


_RESULTS, _BY_IMAGE, _ROWS = "a COCO result file", "a list of captions by image id", "a list of rows"


def _form(item: Mapping[str, Any]) -> str:
    if set(item) == RESULT_FIELDS:
        return _RESULTS
    return _BY_IMAGE if is_by_image(item) else _ROWS


def is_by_image(item: Mapping[str, Any]) -> bool:
    """Say whether an item of a list is an image's id, and what is said of the image."""
    return len(item) == 1 and next(iter(item)).isdecimal()


def _keyed(image: str, value: Any) -> RawRow:
    """Return the row of an image's id and what is said of it, or of the row's id and a row with an image."""
    image = image.strip()
    if isinstance(value, dict):
        if _names_image(value):
            return RawRow({"id": image, **_with_text(value)})
        return RawRow({"id": image, "group": image, **_with_text(value)})
    if isinstance(value, list):
        if len(value) != 1:
            return RawRow(None, f"{len(value)} captions for image {image!r:.60}; one is scored, keep one")
        value = value[0]
    others: dict[str, Any] = {}
    if isinstance(value, dict):
        others = {name: each for name, each in value.items() if name not in ("caption", "id", "image_id")}
    return RawRow({"id": image, "group": image, **others, "candidate": caption_in(value)})


def _with_text(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its candidate in the place of a list of one, or of an object, that holds it."""
    name = candidate_of(tuple(row))
    return row if name is None else row | {name: caption_in(alone_in(row[name]))}


def _names_image(row: Mapping[str, Any]) -> bool:
    """Say whether a row has a column of its own for its image, so that its key only numbers it."""
    return not {"group", "image", "video"}.isdisjoint(map(field_called, row))


def alone_in(value: Any) -> Any:
    """Return the item of a list of one; else the value."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def caption_in(value: Any) -> Any:
    """Return the caption of ``{"caption": "..."}``, as pycocoevalcap takes captions; else the value."""
    return value["caption"] if isinstance(value, dict) and "caption" in value else value


class _Buffer:
    """The text of a list that is not yet read into items, refilled as needed."""

    def __init__(self, text: TextIO, start: str) -> None:
        self._text, self._rest = text, start
        self._position = 0

    def peek(self) -> str:
        """Return the next character that is no white space, "" at the end."""
        while True:
            while self._position < len(self._rest) and self._rest[self._position] in " \t\r\n":
                self._position += 1
            if self._position < len(self._rest):
                return self._rest[self._position]
            if not self._more():
                return ""

    def take(self) -> str:
        """Take the next character that is no white space."""
        mark = self.peek()
        self._position += 1
        return mark

    def item(self) -> Any:
        """Take the next value; one that holds bytes that are not UTF-8 is a bad row.

        Raises:
            ValueError: there is none, or it is too long.
        """
        while True:
            try:
                value, end = _DECODER.raw_decode(self._rest, self._position)
            except json.JSONDecodeError:
                if self._more():  # it may be whole then
                    continue
                raise
            broken = is_broken(self._rest[self._position : end])
            self._position = end
            return RawRow(None, NOT_UTF8) if broken else value

    def _more(self) -> bool:
        """Read as much again as is left; returns whether there was anything."""
        self._rest = self._rest[self._position :]
        self._position = 0
        if len(self._rest) > _MAX_ITEM:
            return False
        found = self._text.read(max(_CHUNK, len(self._rest)))
        self._rest += found
        return bool(found)


def _items(buffer: _Buffer) -> Iterator[Any]:
    """Yield the items of a list, whose bracket is the next mark."""
    buffer.take()
    number, mark = 0, ","
    if buffer.peek() == "]":
        mark = buffer.take()
    while mark == ",":
        number += 1
        try:
            buffer.peek()
            item = buffer.item()
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "msg", None) or str(error)
            raise FileProblem(f"not valid JSON in item {number}: {reason}") from None
        yield item
        mark = buffer.take()
    if mark != "]":
        found = f"got {mark!r}" if mark else "the file ends"
        raise FileProblem(f"not valid JSON after item {number}: expected a comma or ']', {found}")
    if more := buffer.peek():
        raise FileProblem(
            f"not valid JSON: its list ends after item {number}, and then comes {more!r}; put all items into "
            "one list, or each on a line of a .jsonl file"
        )

"""JSON in files: an object on a line, or a file that is one value, and what is said where it is no JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from suisei.data.caption_texts import read_text
from suisei.data.column_names import field_called
from suisei.data.lines import LONE_RETURN, has_lone_return
from suisei.errors import DataError

_SHOWN = 60
_FRAME_PARTS = ({"columns", "index", "data"}, {"schema", "data"})


def read_object(path: Path, *, unique: bool = False) -> dict[str, Any]:
    """Return the object that a JSON file holds.

    Args:
        path: the file.
        unique: refuse a name that is given twice.

    Raises:
        DataError: the file cannot be read, or holds something else or nothing.
    """
    content = read_json(path, unique=unique)
    if not isinstance(content, dict) or not content:
        raise DataError(f"{path}: expected an object with named entries, got {_described(content)}")
    return content


def read_list(path: Path) -> list[Any]:
    """Return the list that a JSON file holds.

    Raises:
        DataError: the file cannot be read, or holds something else or nothing.
    """
    content = read_json(path)
    if not isinstance(content, list) or not content:
        raise DataError(f"{path}: expected a list of entries, got {_described(content)}")
    return content


def read_json(path: Path, *, unique: bool = False) -> Any:
    """Return what a JSON file holds.

    Args:
        path: the file.
        unique: refuse a name that an object gives twice.

    Raises:
        DataError: the file cannot be read, or is no JSON.
    """
    try:
        return json.loads(read_text(path), object_pairs_hook=unique_keys if unique else None)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: {invalid_json(error, fix='copy the file again')}") from None


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a JSON object, as a hook of the json module; a key that occurs twice is a ValueError."""
    record = dict(pairs)
    if len(record) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"the field {twice!r} is given twice")
    return record


def parse_object(line: str | bytes) -> dict[str, Any]:
    """Return the object on a line of JSON Lines.

    Raises:
        DataError: it is none, without the place of the line.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(invalid_json(error, line=True)) from None
    return as_object(record)


def as_object(record: Any) -> dict[str, Any]:
    """Return a record that is an object.

    Raises:
        DataError: it is none.
    """
    if not isinstance(record, dict):
        raise DataError(f"expected a JSON object, got {str(record)[:_SHOWN]!r}")
    return record


def frame_problem(content: Mapping[str, Any]) -> str:
    """Say what to do with an object that pandas makes of a whole DataFrame; "" of any other.

    It has the columns of rows numbered from 0, as it does unless told otherwise, columns of captions whose
    rows have names, or the parts of the forms "split" and "table".
    """
    said = "it is a DataFrame, but not row by row; write it by frame.to_json"
    parts = content.keys() in _FRAME_PARTS and isinstance(content["data"], list)
    if parts or (content and all(map(_is_numbered, content.values()))):
        return f"{said}(FILE, orient='records', lines=True)"
    return f"{said}('NAME.json', orient='index'), which keeps its index" if _has_named_rows(content) else ""


def _is_numbered(value: Any) -> bool:
    return isinstance(value, dict) and list(value) == [str(number) for number in range(len(value))] != []


def _has_named_rows(content: Mapping[str, Any]) -> bool:
    """Say whether columns, of captions among them, hold objects of the same keys, no names of columns."""
    first = next(iter(content.values()), None)
    if not isinstance(first, dict) or not first:
        return False
    return (
        all(isinstance(value, dict) and value.keys() == first.keys() for value in content.values())
        and not {"candidate", "references"}.isdisjoint(map(field_called, content))
        and not any(map(field_called, first))
    )


def invalid_json(error: ValueError | RecursionError, *, line: bool = False, fix: str = "") -> str:
    """Say why a text is no JSON, where in it, and what to do.

    Args:
        error: what the parser raised: not of bad JSON alone, but of numbers and depths that it cannot take.
        line: the text is a line of a file, whose place the caller says.
        fix: what to do; by default what the error shows.
    """
    said = error.msg.removesuffix(" at") if isinstance(error, json.JSONDecodeError) else ""
    if not isinstance(error, json.JSONDecodeError):
        text = f"not valid JSON: {error}"
    elif line and said == "Extra data" and has_lone_return(error.doc):
        return LONE_RETURN  # it says what to do
    elif line:
        text = f"not valid JSON: {said} at character {error.pos + 1}: {error.doc.strip()[:_SHOWN]!r}"
    else:
        text = f"not valid JSON: {said} at line {error.lineno}, character {error.colno}"
        if error.msg == "Extra data" and error.lineno > 1:
            fix = fix or "if each line is an object of its own, name the file .jsonl"
    return f"{text}; {fix}" if fix else text


def _described(content: Any) -> str:
    return type(content).__name__ if content or content is None else "nothing"

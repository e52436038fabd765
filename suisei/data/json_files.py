"""Files that are one JSON value: an object, a list, or any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from suisei.errors import DataError


def read_object(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds.

    Raises:
        DataError: the file cannot be read, or holds something else or nothing.
    """
    content = read_json(path)
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


def read_json(path: Path) -> Any:
    """Return what a JSON file holds.

    Raises:
        DataError: the file cannot be read, or is no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON ({error}); copy the file again") from None


def _described(content: Any) -> str:
    return type(content).__name__ if content or content is None else "nothing"

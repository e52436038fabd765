"""Benchmarks that come as JSON: their lines, and the fields of their records."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from suisei.errors import DataError


def text_of(record: Mapping[str, Any], field: str) -> str:
    """Return a field that holds text.

    Raises:
        DataError: it is absent, blank or something else.
    """
    text: str = _checked(record, field, "text", lambda value: isinstance(value, str) and value.strip())
    return text


def texts_of(record: Mapping[str, Any], field: str, count: int | None = None) -> tuple[str, ...]:
    """Return a field that holds a list of text.

    Args:
        record: the record.
        field: its field.
        count: how many there have to be.

    Raises:
        DataError: it is absent, something else, or of another length.
    """
    value = _checked(
        record,
        field,
        "a list of text",
        lambda value: isinstance(value, list) and all(isinstance(text, str) for text in value),
    )
    if count is not None and len(value) != count:
        raise DataError(f"{field} must hold {count} captions, got {len(value)}")
    return tuple(value)


def number_of(record: Mapping[str, Any], field: str) -> float:
    """Return a field that holds a number.

    Raises:
        DataError: it is absent, something else, or too large.
    """
    return float(_checked(record, field, "a number", _fits_float))


def _fits_float(value: Any) -> bool:
    return type(value) is float or (type(value) is int and abs(value) <= sys.float_info.max)


def bool_of(record: Mapping[str, Any], field: str) -> bool:
    """Return a field that holds true or false.

    Raises:
        DataError: it is absent or something else.
    """
    return bool(_checked(record, field, "true or false", lambda value: isinstance(value, bool)))


def _checked(record: Mapping[str, Any], field: str, expected: str, holds: Callable[[Any], object]) -> Any:
    value = record.get(field)
    if not holds(value):
        raise DataError(f"{field} must be {expected}, got {value!r:.60}")
    return value

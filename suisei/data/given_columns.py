"""Columns that a caller gives in Python, as lists in the order of their rows.

pandas, Polars, PyArrow and PyTorch are known by what their objects can do; none of them is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np

from suisei.data.caption_cells import refuse_list
from suisei.errors import DataError

_MISSING = ("NAType", "NaTType")  # of pandas; comparing them says nothing
_EXAMPLES = {"candidates": "[caption]", "references": "[[caption, caption]]", "images": "[image]"}


def is_frame(value: Any) -> bool:
    """Return whether a value is a DataFrame: named columns of one length."""
    shape = getattr(value, "shape", None)
    if not isinstance(shape, tuple) or len(shape) != 2:
        return False  # before a lazy frame is asked for columns, which it would compute
    return hasattr(value, "columns") and not _is_table(value)


def _is_table(value: Any) -> bool:
    """Return whether a value is a Table of PyArrow or a Dataset of Hugging Face, which are no DataFrames."""
    named = hasattr(type(value), "column_names")  # of the type: a frame has columns of any name
    return named and not hasattr(value, "iloc")  # a frame whose class has more than pandas gives it


def _is_arrow(value: Any) -> bool:
    """Return whether a value is an array of PyArrow, whose entries are no values of Python."""
    return hasattr(value, "to_pylist") and not _is_table(value)


def is_series(value: Any) -> bool:
    """Return whether a value is one column of a DataFrame."""
    return hasattr(value, "to_list") and hasattr(value, "dtype")


def is_missing(value: Any) -> bool:
    """Return whether a cell of a DataFrame holds nothing: None, NaN, or what pandas writes for it."""
    if value is None or type(value).__name__ in _MISSING:
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def listed(name: str, column: Any) -> list[Any]:
    """Return a column as a list by position, whatever labels its rows have.

    Args:
        name: what it holds, "candidates", "references" or "images", for messages.
        column: a list, tuple, array, Series, generator or other ordered collection, one entry per row.

    Raises:
        DataError: it is a single value, or has no order.
    """
    if isinstance(column, str | bytes):
        kind = "string" if isinstance(column, str) else "bytes"
        raise DataError(
            f"{name} must be a list with one entry per sample, got a single {kind}; {_wrap(name)}"
        )
    if is_frame(column):
        raise DataError(
            f"{name} is a whole DataFrame; pass it alone, with columns candidate, references, image, ..., "
            "or pass one of its columns"
        )
    if _is_table(column):
        fix = "pass a list with one entry per sample"
        if hasattr(column, "to_pandas"):
            fix = "pass it as a DataFrame, .to_pandas()"
        raise DataError(f"{name} is a whole {type(column).__name__}; {fix}")
    if hasattr(type(column), "collect") and hasattr(type(column), "lazy"):
        raise DataError(f"{name} is a {type(column).__name__}, whose rows are not there yet; pass .collect()")
    if _is_arrow(column):
        return list(column.to_pylist())
    if is_series(column):
        return [None if is_missing(cell) else cell for cell in column.to_list()]
    if hasattr(column, "ndim") and hasattr(column, "dtype"):
        return _rows_of_array(name, column)
    if isinstance(column, Mapping | Set) or not isinstance(column, Iterable):
        raise DataError(
            f"{name} must be a list with one entry per sample, got {type(column).__name__}; {_wrap(name)}"
        )
    try:
        return list(column)
    except TypeError as error:  # it says that it can be iterated over, and cannot
        raise DataError(f"{name} cannot be read as a list: {error}") from None


def _wrap(name: str) -> str:
    return f"wrap it: {_EXAMPLES.get(name, '[...]')}"


def _rows_of_array(name: str, array: Any) -> list[Any]:
    if array.ndim == 0 or (name == "images" and array.ndim in (2, 3) and array.dtype != object):
        raise DataError(
            f"{name} must have one entry per sample, got a single array of shape {tuple(array.shape)}; "
            f"{_wrap(name)}"
        )
    if name == "images" and array.ndim == 4:
        return list(array)
    found = array.tolist()
    return found if isinstance(found, list) else [found]


def listed_references(value: Any) -> tuple[Any, ...]:
    """Return the references of one sample in their order; none where the value is None.

    Raises:
        DataError: a single string, or something without an order.
    """
    if value is None:
        return ()
    if isinstance(value, str):
        refuse_list("references are", value)
        raise DataError("references must be a list of captions, got a single string; wrap it: [caption]")
    if is_series(value):
        return tuple(value.to_list())
    if _is_arrow(value):
        return tuple(value.to_pylist())
    array = hasattr(value, "tolist") and hasattr(value, "ndim")
    ordered = isinstance(value, Iterable) and not isinstance(value, bytes | Mapping | Set)
    if not ordered or is_frame(value) or (array and value.ndim != 1):
        raise DataError(f"references must be a list of captions, got {type(value).__name__} {value!r:.60}")
    return tuple(value.tolist() if array else value)

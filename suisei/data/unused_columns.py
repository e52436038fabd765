"""Which columns of a file hold numbers and fill no field: ratings, where none were found under their name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from suisei.data.column_names import match_columns
from suisei.data.file_rows import FileProblem
from suisei.data.formats import format_of
from suisei.data.paths import is_stream
from suisei.data.row_readers import RowReader
from suisei.errors import SuiseiError

_ROWS = 100
"""How many rows are looked at."""


def unused_numbers(path: Path) -> list[str]:
    """Return the columns of a file that fill no field and hold numbers alone, as far as its first rows say.

    Args:
        path: of a file of rows; of a pipe, which is read once, nothing is known.
    """
    try:
        if is_stream(path):
            return []
        rows = RowReader(format_of(path), str(path), lambda _: None).rows_of_file(path)
        records = [raw.record for raw in islice(rows, _ROWS) if raw.record is not None]
        ignored = dict.fromkeys(name for record in records for name in match_columns(tuple(record)).ignored)
    except (FileProblem, SuiseiError):
        return []
    return [name for name in ignored if _holds_numbers(name, records)]


def _holds_numbers(name: str, records: Sequence[Mapping[str, Any]]) -> bool:
    values = [record.get(name) for record in records]
    filled = [value for value in values if value is not None and str(value).strip()]
    return bool(filled) and all(map(_is_number, filled))


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False

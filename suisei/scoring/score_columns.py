"""Which columns of a file are scores: all that do not describe the sample, or those that a caller picks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suisei.data.column_names import field_called
from suisei.data.writers import SAMPLE_FIELDS
from suisei.errors import DataError

_PICK = re.compile(r"\.(?:jsonl|csv|txt):")
_OURS = frozenset({"id", "error", "key", "uid"})
"""What stands beside scores in every file of ours, and is not worth a word."""
_RATINGS = frozenset({"score", "human"})
"""Names of a rating that are as good for a column of scores."""
_NUMBERS = ("rating", "group")
"""Fields whose numbers are no scores."""

Rows = Sequence[Mapping[str, Any]]


def split_source(source: str | Path) -> tuple[Path, str]:
    """Return the file of ``FILE`` or ``FILE:COLUMN,COLUMN``, and its columns as written, "" for none.

    A file that is there is taken whole, whatever its name. Columns may hold colons (``bertscore:MODEL``).
    """
    text = str(source)
    ends = [match.end() for match in _PICK.finditer(text) if match.end() < len(text)]
    if not ends or Path(text).is_file():
        return Path(text), ""
    end = next((each for each in ends if Path(text[: each - 1]).is_file()), ends[0])
    return Path(text[: end - 1]), text[end:]


def columns_of_scores(path: Path, rows: Rows, picked: str = "") -> tuple[list[str], list[str]]:
    """Return the columns that are scores, and those that are not for their name.

    Args:
        path: of the file, for messages.
        rows: of the file.
        picked: the columns to be taken, separated by commas; "" for all that are no field of a sample.

    Raises:
        DataError: a picked column is not there, or no column holds scores.
    """
    columns = list(dict.fromkeys(key for row in rows for key in row))
    if picked:
        return _checked(path, columns, [picked] if picked in columns else picked.split(",")), []
    names = [name for name in columns if not _describes(name, rows)]
    if not names:
        raise DataError(f"{path}: no score column; it has {', '.join(columns) or 'no columns'}")
    return names, [name for name in columns if name not in names and name not in _OURS]


def _checked(path: Path, columns: Sequence[str], picked: Sequence[str]) -> list[str]:
    for name in picked:
        if name not in columns:
            raise DataError(f"{path}: no column {name!r:.60}; it has {', '.join(columns) or 'no columns'}")
    return list(dict.fromkeys(picked))


def _describes(name: str, rows: Rows) -> bool:
    """Whether a column describes the sample: by a name of ours, or by another that its values go with."""
    field = field_called(name)
    if name in SAMPLE_FIELDS or name in _OURS:
        return True
    if field is None or name.lower() in _RATINGS:
        return False
    return field in _NUMBERS or not all(_is_number(row.get(name)) for row in rows)


def _is_number(value: Any) -> bool:
    try:
        float(value or 0)
    except (TypeError, ValueError, OverflowError):
        return False
    return True

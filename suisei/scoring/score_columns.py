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
    if not ends or _is_file(text):
        return Path(text), ""
    end = next((each for each in ends if _is_file(text[: each - 1])), ends[0])
    return Path(text[: end - 1]), text[end:]


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:  # many columns make it longer than a name may be
        return False


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
        return _checked(path, columns, picked), []
    names = [name for name in columns if not _describes(name, rows)]
    if not names:
        raise DataError(f"{path}: no score column; it has {', '.join(columns) or 'no columns'}")
    return names, [name for name in columns if name not in names and name not in _OURS]


def _checked(path: Path, columns: Sequence[str], picked: str) -> list[str]:
    if picked in columns:
        return [picked]
    parts = (part if part in columns else part.strip() for part in picked.split(","))
    names = [part for part in parts if part]
    for name in names:
        if name not in columns:
            raise DataError(f"{path}: no column {name!r:.60}; it has {', '.join(columns) or 'no columns'}")
    return list(dict.fromkeys(names))


def describes_sample(name: str) -> bool:
    """Whether a column of this name is never taken for scores, whatever it holds, unless it is picked."""
    if name in SAMPLE_FIELDS or name in _OURS:
        return True
    return field_called(name) in _NUMBERS and name.strip().lower() not in _RATINGS


def _describes(name: str, rows: Rows) -> bool:
    """Whether a column describes the sample: by its name, or by one that its values go with."""
    if describes_sample(name):
        return True
    if field_called(name) is None or name.strip().lower() in _RATINGS:
        return False
    return not all(_may_be_a_score(row.get(name)) for row in rows)


def _may_be_a_score(value: Any) -> bool:
    """Whether a value, blank or of no meaning as it may be, is a number's: what a text of a field is not."""
    try:
        float(value or 0)
    except (TypeError, ValueError, OverflowError):
        return False
    return True

"""What stands where a caption should be in a row, and is none: it would be scored as if somebody said it."""

from __future__ import annotations

from suisei.errors import DataError

_NO_VALUE = frozenset({"nan", "NaN", "None", "NULL", "null", "<NA>", "N/A"})
"""What pandas and databases write into a cell without a value, in their spelling alone."""


def refuse_no_value(column: str, caption: str) -> None:
    """Make sure that a caption is not what tables write where there is none.

    Raises:
        DataError: it is; ``column`` is named.
    """
    if caption.strip() in _NO_VALUE:
        raise DataError(
            f"{column} is {caption.strip()!r}, which a table says where it has no value, and no caption; "
            "leave the cell blank, for a candidate the row out"
        )

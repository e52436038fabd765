"""What stands where a caption should be in a row, and is none: it would be scored as if somebody said it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from suisei.errors import DataError

_NO_VALUE = frozenset({"nan", "NaN", "None", "NULL", "null", "<NA>", "N/A"})
"""What pandas and databases write into a cell without a value, in their spelling alone."""

_BETWEEN = re.compile(r"[|\r\n]")
"""What people put between several captions, and hardly ever into one; a semicolon may be in a caption."""
_DECIMAL = r"[+-]?(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][+-]?\d++)?+"
"""A number; it gives no digit back, or many of them before a wrong end would take their number squared."""
_NUMBER = re.compile(rf"\s*{_DECIMAL}\s*")
_TEXT = r"""[bu]?(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')"""
_LITERAL = re.compile(
    rf"""
    \[\s*\] | {{\s*}}
    | (?=[^"']*["'])                  # a text is in it
    (?!\(\s*{_TEXT}\s*\)\Z)          # and is not all, in round brackets
    (?:(?:np\.)?array)?(?=[\[({{])
    (?>
        {_TEXT}
        | [\s\[\](){{}},:]
        | -?\d[\d.e+-]*
        | \.{{3}}
        | (?:None|True|False|null|true|false|nan|NaN)\b
        | (?:[a-zA-Z_]\w*\.)*[a-zA-Z_]\w*(?:\(|=[\w.]*)  # tensor(, dtype=object
    )++
    (?<=[\])}}])
    """,
    re.DOTALL | re.VERBOSE,
)
"""A list, a tuple or a dict in JSON, as Python shows it or as NumPy does: nothing but its parts."""
_SCALAR = rf"(?:{_DECIMAL}|[+-]?(?:nan|NaN|inf)|None|null|True|true|False|false)"
_SCALARS = re.compile(
    rf"""
    (?!\[\s*(?:\d+|\d{{1,3}}(?:,000)+)\s*\]\Z)  # a whole number, 1,000 too
    (?:(?:np\.)?array\()?[\[(]
    [\s\[(]*+{_SCALAR}(?=[\s,\])])
    (?>[\s,\[\]()] | {_SCALAR}(?=[\s,\])]) | \.{{3}} | dtype=\w+)++
    (?<=[\])])
    """,
    re.VERBOSE,
)
"""The parts of a list, a tuple or an array of numbers and values without a text."""
_BRACKET = re.compile(r"[\[\]()]")
_THOUSANDS = re.compile(r"\(\s*\d{1,3}(?:,\d{3})+\s*\)")
"""One number in round brackets, such as (1,234)."""
_STARTS, _ENDS = ("[", "(", "{", "array", "np."), ("]", ")", "}")
"""What it starts and ends in, which nearly no caption does, and which is looked for faster."""


def is_literal(text: str) -> bool:
    """Say whether a text is a list, tuple, dict or array written out; a caption in brackets is none."""
    text = text.strip()
    if not (text.endswith(_ENDS) and text.startswith(_STARTS)):
        return False
    return _LITERAL.fullmatch(text) is not None or _is_list_of_scalars(text)


def _is_list_of_scalars(text: str) -> bool:
    if not _SCALARS.fullmatch(text):
        return False
    if text.startswith("(") and ("," not in text or _THOUSANDS.fullmatch(text)):
        return False
    depth = 0
    for bracket in _BRACKET.finditer(text):
        depth += 1 if bracket[0] in "[(" else -1
        after = text[bracket.end() :].lstrip()
        if not depth and after and not after.startswith(","):
            return False  # [1] [2] is no list
    return True


def refuse_literal(column: str, caption: str) -> None:
    """Make sure that a caption is not a list or a dict as text.

    Raises:
        DataError: it is; ``column`` is named.
    """
    if is_literal(caption):
        raise DataError(
            f"{column} is a list or a dict as text, got {caption.strip()[:60]!r}; write the caption alone"
        )


def refuse_list(what: str, caption: str) -> None:
    """Make sure that a caption given in Python is not a list or a dict as text: it would count as one.

    Args:
        what: it is and its verb, for the message.
        caption: the text.

    Raises:
        DataError: it is one.
    """
    if is_literal(caption):
        how = ", as json.loads makes it" if _is_json_list(caption) else ""
        raise DataError(
            f"{what} a list or a dict as text, got {caption.strip()[:60]!r}; give a list, each caption "
            f"apart{how}"
        )


def _is_json_list(text: str) -> bool:
    try:
        return isinstance(json.loads(text), list)
    except (ValueError, RecursionError):
        return False


def refuse_lists(references: Sequence[str]) -> None:
    """Make sure that none of a sample's references given in Python is a list or a dict as text.

    Raises:
        DataError: one is; its number, from 1, is named.
    """
    for number, caption in enumerate(references, 1):
        refuse_list(f"reference {number} is", caption)


def refuse_no_value(
    column: str, caption: str, fix: str = "leave the cell blank, for a candidate the row out"
) -> None:
    """Make sure that a caption is not what tables write where there is none.

    Args:
        column: where it stands.
        caption: the text.
        fix: what to do, for the message.

    Raises:
        DataError: it is; ``column`` is named.
    """
    if caption.strip() in _NO_VALUE:
        raise DataError(
            f"{column} is {caption.strip()!r}, which a table says where it has no value, and no caption; "
            f"{fix}"
        )


def refuse_any(what: str, captions: Sequence[str], *, table: bool) -> None:
    """Make sure that none of the captions of an image is a list or a dict as text, or no value.

    Args:
        what: they are, for the message.
        captions: stripped.
        table: where they stand may have words for no value.

    Raises:
        DataError: one is; ``what`` is named.
    """
    for caption in captions:
        if caption.endswith(_ENDS):
            refuse_literal(what, caption)
    if table and not _NO_VALUE.isdisjoint(captions):
        for caption in captions:
            refuse_no_value(what, caption, "leave it out")


def refuse_several(column: str, captions: str) -> None:
    """Make sure that the cell of a column of several references is not several captions as one text.

    Raises:
        DataError: it may be; ``column`` is named.
    """
    if _BETWEEN.search(captions.strip()):
        raise DataError(
            f"{column} may hold several captions, got {captions.strip()[:60]!r}; write a JSON list such as "
            '["a cat", "the cat"] or columns reference_1, reference_2; if it is one caption, call the column '
            "reference"
        )


def refuse_number(column: str, field: str, caption: str) -> None:
    """Make sure that a cell of a column that was taken for captions is not a number.

    Args:
        column: its name.
        field: what it was taken for.
        caption: the cell.

    Raises:
        DataError: it is; ``column`` is named.
    """
    if _NUMBER.fullmatch(caption):
        raise DataError(
            f"{column} is the number {caption.strip()[:60]!r}, and no caption; say which column holds them: "
            f"--column {field}=NAME (or {column}, if its captions are numbers)"
        )

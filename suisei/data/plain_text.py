"""Plain text with a caption a line, and what looks like it and is something else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from suisei.data.column_names import NO_CHOICE, candidate_of, field_called
from suisei.data.documents import is_object
from suisei.data.lines import Line, is_broken, is_cut
from suisei.errors import DataError

_FILE = r"[^\t,;|]+\.(?:jpe?g|png|webp|gif|bmp)(?:\#[0-9]+)?"
_KEY = re.compile(
    rf"""[^\t]+\t[^\t]*|                  # a key, which may have blanks, and a tab that is the only one
        {_FILE}(?:[\t,;]|[ ]*\|).*|       # the file of an image
        [0-9]+[ ]*\|.*                    # the number of a sentence""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_LOOKED_AT = 20
"""So many lines with a key each are a table; one without shows that a tab is part of a caption."""
_SURE_KEY = re.compile(rf"\S*[\d.]|{_FILE}\t", re.IGNORECASE)
"""A number or a file: a key even in the only line there is, where a word before a tab may be a caption's."""
_DELIMITERS = {
    "\t": "name it .tsv",
    ",": "name it .csv",
    ";": "name it .csv",
    "|": "put commas between its columns, captions in quotation marks, and name it .csv",
}
"""What stands between the columns of a table, and what to do with one."""


def caption_lines(
    lines: Iterator[Line], what: str, chosen: tuple[tuple[str, tuple[str, ...]], ...] = NO_CHOICE
) -> Iterator[Line]:
    """Pass the lines of plain text on.

    Args:
        lines: numbered lines.
        what: they are, for messages: "captions" or "references".
        chosen: which columns a caller says fill a field,
            as :func:`suisei.data.column_names.chosen_columns` returns it.

    Raises:
        DataError: the first lines show JSON objects, a table, a header, or a key before each caption.
    """
    head = _looked_at(lines)
    texts = [line.strip() for _, line in head if line.strip()]
    tabs = [line.strip("\r\n").count("\t") for _, line in head if line.strip()]
    _refuse_other(head[0][1].strip() if head else "", what, chosen, alike=tabs[:1] == tabs[1:2] != [0])
    keyed = sum(_KEY.fullmatch(text) is not None for text in texts)
    if keyed and keyed == len(texts) and (keyed > 1 or _SURE_KEY.match(texts[0])):
        raise DataError(_keyed(texts[0], what))
    yield from head
    yield from lines


def _looked_at(lines: Iterator[Line]) -> list[Line]:
    """Take the first lines: up to one without a key, and one more where tabs may make that a header."""
    head: list[Line] = []
    texts = 0
    for number, line in lines:
        head.append((number, line))
        text = line.strip()
        texts += bool(text)
        shown = bool(text) and _KEY.fullmatch(text) is None and (texts > 1 or "\t" not in text)
        if shown or len(head) == _LOOKED_AT:
            break
    return head


def _refuse_other(
    first: str, what: str, chosen: tuple[tuple[str, tuple[str, ...]], ...], *, alike: bool
) -> None:
    if is_cut(first) or is_broken(first):
        return
    if first.startswith("{") and is_object(first):
        raise DataError(f"its lines are JSON objects, not {what}; name it .jsonl")
    for delimiter, remedy in _DELIMITERS.items():
        if _is_header(first.split(delimiter), delimiter, what, chosen, alike=alike):
            raise DataError(f"it is a table, not a {what[:-1]} a line; {remedy}")
    if re.fullmatch(r"\w+", first) and first != "text" and field_called(first) in ("candidate", "references"):
        raise DataError(f"its first line, {first!r}, is a header, and text has none; take the line out")


def _is_header(
    cells: Sequence[str],
    delimiter: str,
    what: str,
    chosen: tuple[tuple[str, tuple[str, ...]], ...],
    *,
    alike: bool,
) -> bool:
    """Say whether the cells of a line are names of columns: all are known, or without blanks the candidate's.

    Some of several tags may be such names ("logo,text,sign"): where none speaks of captions, half of them
    must be known, or the next line must have as many cells between tabs, so that both are ``alike``.
    """
    if len(cells) < 2:
        return False
    names = [cell.strip().strip('"') for cell in cells]
    fields = {name: field_called(name) for name in names if name}
    if fields and None not in fields.values():
        return "candidate" in fields.values() or (what == "references" and "references" in fields.values())
    column = candidate_of(names, chosen)
    if column is None or (delimiter != "\t" and any(" " in cell for cell in cells)):
        return False
    known = [name.lower() for name, field in fields.items() if field is not None]
    sure = any("caption" in name or name in ("candidate", "hypothesis") for name in known)
    said = fields[column] is None  # by the caller, who knows of columns
    return sure or said or 2 * len(known) >= len(fields) or (delimiter == "\t" and alike)


def _keyed(first: str, what: str) -> str:
    """Return what is wrong with text whose lines have a key each, and what to do."""
    table = "name it .tsv and put image<TAB>caption on top" if "\t" in first else "give a table with a header"
    rows = '{"references": [...]}' if what == "references" else '{"candidate": ...}'
    return (
        f"every line has a key before its {what[:-1]}, such as {first[:60]!r}, which would be "
        f"taken for a part of it; {table}, or take the keys out; where it is a part of it, give rows of JSON "
        f"lines, {rows}"
    )

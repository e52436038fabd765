"""Tables out of JSON, as a command or an earlier start wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from suisei.errors import DataError
from suisei.metaeval.tables import LABELS, Cell, Row, Section, Table

_HEADINGS = {**LABELS, "n": "n", "mean": "mean", "lower": "scores lower", "drop": "mean drop"}
"""Of columns of a JSON that says none."""


def read_table(value: Mapping[str, Any]) -> Table:
    """Return a table from what :meth:`suisei.metaeval.tables.Table.as_dict` made; its settings stay behind.

    The column that figures show is kept.

    Raises:
        DataError: it was made by something else.
    """
    try:
        return _read(value)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise DataError(
            f"a table in it is malformed ({type(error).__name__}: {error}); write it again"
        ) from None


def _read(value: Mapping[str, Any]) -> Table:
    sections = tuple(
        Section(str(section["title"]), tuple(_row(row) for row in section["rows"]))
        for section in value["sections"]
    )
    keys = dict.fromkeys(key for section in sections for row in section.rows for key in row.cells)
    columns = value.get("columns") or {key: _HEADINGS.get(key, key) for key in keys}
    return Table(
        str(value["title"]),
        {str(key): str(heading) for key, heading in columns.items()},
        sections or (Section("overall", ()),),
        tuple(str(note) for note in value.get("notes", ())),
        {"plotted": value["plotted"]} if value.get("plotted") in columns else {},
        digits=min(max(int(value.get("digits", 3)), 0), 10),
        row_heading=str(value.get("row_heading", "Metric")),
    )


def _row(row: Mapping[str, Any]) -> Row:
    cells = {str(key): _cell(cell) for key, cell in row["cells"].items()}
    texts = {name: str(row[name]) for name in ("signature", "error") if row.get(name)}
    return Row(str(row["label"]), cells, **texts, info=_info(row))


def _info(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a row holds beside its cells, as far as it is shown: what is best, quantiles, examples."""
    info: dict[str, Any] = {"best": [str(key) for key in row.get("best", ())]}
    if "quantiles" in row:
        info["quantiles"] = {str(key): float(value) for key, value in row["quantiles"].items()}
    if "examples" in row:
        names, numbers = ("original", "changed"), ("before", "after")
        info["examples"] = {
            str(kind): {name: str(example[name]) for name in names}
            | {name: float(example[name]) for name in numbers}
            for kind, example in row["examples"].items()
        }
    return info


def _cell(cell: Mapping[str, Any]) -> Cell:
    value = cell["value"]
    if value is not None and not isinstance(value, int):
        value = float(value)
    low, high = (None if cell.get(end) is None else float(cell[end]) for end in ("low", "high"))
    digits = cell.get("digits")
    return Cell(
        value, low, high,
        str(cell["reason"]) if cell.get("reason") else None,
        str(cell["signature"]) if cell.get("signature") else None,
        is_p_value=bool(cell.get("is_p_value")),
        digits=None if digits is None else min(max(int(digits), 0), 10),
    )  # fmt: skip

"""A table of results as a console shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from suisei.metaeval.labels import HUMAN
from suisei.metaeval.tables import Cell, Row, Section, Table

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table as RichTable

_LEAST_LABEL = 10
"""Cells to which labels are folded before anything else is."""
LAYOUTS = ("wide", "stacked", "folded")
"""From the widest to the narrowest; where a table fits in none of them, its rows become columns."""
_IN_PARTS = "stacked"
"""The layout of tables that have to be shown a few columns at a time."""
MOST_SECTIONS = 8
"""With more, a console shows no sections by system."""


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A table that decides when it is printed, and the width is known, where its intervals stand.

    One of few rows and many columns is turned where they have no room beside each other, and one that fits in
    no way is shown a few columns at a time: a figure is never cut in two. With more than MOST_SECTIONS
    sections, those by system are left out, and counted.
    """

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        from rich.measure import Measurement
        from rich.text import Text

        def fits(table: Table, layout: str) -> bool:
            shown, _ = _rich_table(table, layout)
            needed = Measurement.get(console, options.update(width=10_000), shown).maximum
            return needed - (0 if layout == "wide" else _spare(table)) <= options.max_width

        for table, layout in _parts(self.table, fits):
            yield _rich_table(table, layout)[0]
        _, notes = _rich_table(self.table, "wide")
        for note in notes:
            yield Text(f"· {note}", style="dim")


def _parts(table: Table, fits: Callable[[Table, str], bool]) -> Iterator[tuple[Table, str]]:
    """Yield the table, turned perhaps, in a layout in which it fits; else as many columns at once as do."""
    for choice in product([table, *_turned(table)], LAYOUTS):
        if fits(*choice):
            yield choice
            return
    columns, title = list(table.columns.items()), table.title
    while columns:
        layout, count = _IN_PARTS, len(columns)
        while not fits(part := replace(table, title=title, columns=dict(columns[:count])), layout):
            if count == 1:
                layout = LAYOUTS[-1]
                break
            count -= 1
        yield part, layout
        columns, title = columns[count:], ""


def _spare(table: Table) -> int:
    """Return how many cells a table's labels can lose by being folded."""
    from rich.cells import cell_len

    labels = [row.label for section in table.sections for row in section.rows]
    return max([0, *(cell_len(label) - _LEAST_LABEL for label in labels)])


def _turned(table: Table) -> list[Table]:
    """Return a table whose rows are columns, where there is one section of fewer rows than columns."""
    rows = table.sections[0].rows if len(table.sections) == 1 else ()
    if not 0 < len(rows) < len(table.columns):
        return []
    lines = []
    for key, heading in table.columns.items():
        cells = {str(place): row.cells.get(key, Cell(None)) for place, row in enumerate(rows)}
        best = [str(place) for place, row in enumerate(rows) if row.is_best(key)]
        lines.append(Row(heading, cells, info={"best": best}))
    names = {str(place): row.label for place, row in enumerate(rows)}
    return [replace(table, columns=names, sections=(Section("", tuple(lines)),), row_heading="")]


def _rich_table(table: Table, layout: str) -> tuple[RichTable, list[str]]:
    """Return the rich table and the notes below it.

    Args:
        table: what is shown.
        layout: one of LAYOUTS: "wide"; "stacked" for each interval below its figure, with no lines between
            columns; or "folded" for the same where intervals take two lines.
    """
    from rich.box import HEAVY_HEAD, SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table as NewTable
    from rich.text import Text

    narrow = layout != "wide"
    made = NewTable(
        title=escape(table.title),
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD if narrow else HEAVY_HEAD,
        pad_edge=not narrow,
        padding=0 if narrow else (0, 1),
    )
    made.add_column(table.row_heading, overflow="fold")
    for key, heading in table.columns.items():
        shown_heading = _broken(table, key, heading) if narrow else heading
        made.add_column(escape(shown_heading), justify="right", overflow="fold", no_wrap=layout == "stacked")
    shown = table.sections
    if len(shown) > MOST_SECTIONS:
        shown = table.without_systems()
    notes = table.all_notes(shown)
    if len(shown) < len(table.sections):
        notes.append(f"{len(table.sections) - len(shown)} sections by system are in the written reports")
    for section in shown:
        made.add_section()
        if len(shown) > 1:
            made.add_row(Text(section.title, style="bold cyan"))
        for row in section.rows:
            style = "red" if row.error else "italic" if row.label == HUMAN else ""
            texts = _stacked(table, row, layout == "folded") if narrow else table.texts(row)
            cells = table.marked(row, [escape(text) for text in texts], "[bold]", "[/bold]")
            made.add_row(escape(row.label), *cells, style=style)
    return made, notes


def _stacked(table: Table, row: Row, folded: bool) -> list[str]:
    """Return figures with their intervals on a second line, or folded on two."""
    texts = []
    for cell in table.cells(row):
        interval = cell.interval_text(table.digits).replace(" ", "\n" if folded else " ")
        texts.append(f"{cell.text(table.digits, False)}\n{interval}".rstrip())
    return texts


def _broken(table: Table, key: str, heading: str) -> str:
    """Return a heading a word a line if it is wider than what stands below it."""
    rows = (row.cells[key] for section in table.sections for row in section.rows if key in row.cells)
    widest = max(
        (max(len(c.text(table.digits, False)), len(c.interval_text(table.digits))) for c in rows), default=0
    )
    return heading if len(heading) <= widest else heading.replace(" ", "\n")

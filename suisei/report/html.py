"""The page itself: one HTML file that needs nothing else, neither network nor another file."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from suisei.errors import DataError
from suisei.metaeval.tables import Cell, Row, Section, Table
from suisei.report.parts import CAUTION, Figure, Part
from suisei.report.vector import inline_svg, save_figures
from suisei.version import __version__

_CODE = re.compile("`([^`]+)`")
_TEMPLATES = Path(__file__).parent / "templates"
OPEN_SECTIONS = 3
"""Sections of a table that are shown at once; the others are behind a line that opens."""


def render(title: str, parts: Sequence[Part], overview: Table | None = None) -> str:
    """Return the page as HTML.

    All text is escaped by the template, and a policy in the page lets no script run but its own.

    Args:
        title: of the page.
        parts: results, in order.
        overview: a table above all parts.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = (_TEMPLATES / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    numbers = count(1)
    templates.filters["note"] = _note
    templates.globals |= {"cell_of": _cell, "split_sections": _split_sections}
    return templates.get_template("page.html").render(
        title=title,
        parts=parts,
        overview=overview,
        drawing=lambda figure: _drawing(figure, f"f{next(numbers)}"),
        next_id=lambda: next(numbers),
        style=(_TEMPLATES / "page.css").read_text(encoding="utf-8"),
        script=script,
        digest=digest,
        version=__version__,
    )


def _note(text: str) -> Any:
    """Return a sentence as an item of a list: what is typed as code, a caution so that nobody misses it."""
    from markupsafe import Markup, escape

    marked = Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))
    kind = ' class="caution"' if text.startswith(CAUTION) else ""
    return Markup(f"<li{kind}><bdi>{marked}</bdi></li>")


def _drawing(figure: Figure, prefix: str) -> Any:
    """Return a figure's SVG, or nothing where there is nothing to draw."""
    from markupsafe import Markup

    try:
        return Markup(inline_svg(figure, prefix))
    except DataError:
        return ""


def _cell(row: Row, key: str) -> Cell:
    return row.cells.get(key, Cell(None))


def _split_sections(table: Table) -> tuple[Sequence[Section], Sequence[Section]]:
    """Return the sections that are shown at once and the others."""
    filled = [section for section in table.sections if section.rows]
    return filled[:OPEN_SECTIONS], filled[OPEN_SECTIONS:]


def write_page(
    html: str | Path | None,
    figures: str | Path | None,
    title: str,
    parts: Sequence[Part],
    overview: Table | None = None,
) -> None:
    """Write the page, and its figures for papers.

    Args:
        html: the page's file; None for no page.
        figures: folder of the figures; None for none.
        title: of the page.
        parts: results, in order.
        overview: a table above all parts.

    Raises:
        DataError: something cannot be written.
    """
    from suisei.data.outputs import raise_first, write_texts

    if html is not None:
        text = render(title, parts, overview).encode("utf-8", "replace").decode("utf-8")
        raise_first(write_texts([(html, text)]))
    if figures is not None:
        named = [
            (str(number) if len(parts) > 1 else "", figure)
            for number, part in enumerate(parts, 1)
            for block in part.blocks
            for figure in block.figures
        ]
        save_figures(figures, named)

"""Figures inside a page: SVG whose text is text, with the page's colours and names of its own."""

from __future__ import annotations

import re
import tempfile
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

from suisei.cli import DIRECTION_MARKS
from suisei.data.outputs import raise_first
from suisei.errors import DataError
from suisei.metaeval.plots import COLOURS
from suisei.report.parts import Figure

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_THEMED = {
    **{value: f"var(--{name})" for name, value in COLOURS.items()},
    "#000000": "var(--ink)",
    "black": "var(--ink)",
    "#ffffff": "var(--paper)",
    "white": "var(--paper)",
}
_COLOUR = re.compile("|".join(re.escape(colour) + r"\b" for colour in _THEMED))
_PIXELS = 1.15
"""Pixels of the page for a point of a figure: a little less than on paper, so that three stand in a row."""
_NAME_BYTES = 200
"""Of a figure's file, without its suffix; file systems take 255."""
_DROPPED = {f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"}


def inline_svg(figure: Figure, prefix: str) -> str:
    """Return a figure as an SVG element for a page.

    Args:
        figure: the figure.
        prefix: for ids, so that those of several figures differ.

    Raises:
        DataError: it has nothing to draw.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figure.svg"
        figure.draw(path)
        root = ElementTree.fromstring(path.read_bytes())
    _theme(root, prefix)
    size = float(str(root.get("width", "0")).removesuffix("pt"))
    root.set("style", f"--drawn: {size * _PIXELS:.0f}px; width: var(--drawn)")
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-label", plain(f"{figure.title}: {figure.text}"))
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    return ElementTree.tostring(root, encoding="unicode")


def plain(text: str) -> str:
    """Return text for a figure: without control characters and marks of direction, which act on others."""
    return "".join(
        "\ufffd" if unicodedata.category(c) in ("Cc", "Cs") or c in DIRECTION_MARKS else c for c in str(text)
    )


def _theme(root: ElementTree.Element, prefix: str) -> None:
    """Give ids a prefix, put the page's colours in, and take out what would act on the whole page."""
    for element in root.iter():
        for child in [child for child in element if child.tag in _DROPPED]:
            element.remove(child)
        for name, value in list(element.attrib.items()):
            if name == "id":
                element.set(name, f"{prefix}-{value}")
            elif name == f"{{{_XLINK}}}href" and value.startswith("#"):
                element.set(name, f"#{prefix}-{value[1:]}")
            elif name in ("clip-path", "style", "fill", "stroke"):
                value = value.replace("url(#", f"url(#{prefix}-")
                element.set(name, _COLOUR.sub(lambda found: _THEMED[found[0]], value))


def save_figures(folder: str | Path, figures: Iterable[tuple[str, Figure]]) -> list[Path]:
    """Write figures for papers, each as SVG, PDF and PNG.

    Args:
        folder: made where it is absent.
        figures: (prefix of the file's name, figure).

    Raises:
        DataError: the folder or a file cannot be written.
    """
    target, written = Path(folder), list[Path]()
    problems: list[DataError] = []
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{target}: cannot be written to: {error.strerror or error}") from None
    for prefix, figure in figures:
        name = re.sub(r"[^\w.-]+", "-", f"{prefix}-{figure.name}").strip("-.")
        name = name.encode()[:_NAME_BYTES].decode(errors="ignore")
        for suffix in (".svg", ".pdf", ".png"):
            path = target / f"{name}{suffix}"
            try:
                figure.draw(path)
                written.append(path)
            except DataError as error:  # such as no font for Japanese: the others are written
                problems.append(error)
    raise_first(problems)
    return written

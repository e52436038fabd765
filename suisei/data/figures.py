"""Figures as files: PNG, PDF or SVG by the name's suffix, and fonts that have the characters. No display.

pyplot and its global state stay untouched.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.data.paths import is_stream
from suisei.data.sample import without_surrogates
from suisei.data.writers import replacing
from suisei.errors import ConfigError, DataError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".pdf", ".svg")
FONT_ADVICE = (
    "apt install fonts-noto-cjk, or pip install matplotlib-fontja; or write SVG, which needs none "
    "(--plot FILE.svg, or --figures DIR where a command has it)"
)
"""Where a font for Japanese comes from."""

_STYLE = {
    "font.size": 10.0,
    "font.family": ["DejaVu Sans", "sans-serif"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 100.0,
    "text.parse_math": False,  # a name with two dollar signs is no formula
}
_EAST_ASIAN = re.compile(
    "[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff]"
)
_FAMILIES = (
    *(
        "Noto Sans CJK JP",
        "Noto Sans JP",
        "Source Han Sans JP",
        "Source Han Sans",
        "IPAexGothic",
        "IPAPGothic",
    ),
    *("IPAGothic", "TakaoPGothic", "TakaoGothic", "VL PGothic", "VL Gothic", "Hiragino Sans", "Yu Gothic"),
    *("Meiryo", "MS Gothic", "Noto Serif CJK JP", "IPAexMincho", "WenQuanYi Zen Hei", "Droid Sans Fallback"),
)
"""Fonts that have kana and kanji, the most readable first."""
_MISSING = re.compile(r"Glyph (\d+) .*missing from ")
"""What matplotlib says of a character."""
_TOLD: set[str] = set()
"""Characters that a warning named already."""
_FONT_PACKAGES = ("matplotlib_fontja", "japanize_matplotlib")
"""Packages whose fonts are taken without importing them, which would set them for the whole process."""


def style() -> AbstractContextManager[None]:
    """Return the settings that all figures are drawn with, as a context."""
    from matplotlib import rc_context

    return rc_context(_STYLE)


def new_figure(size: tuple[float, float]) -> Figure:
    """Return a figure of width and height in inches, with an Agg canvas of its own."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as NewFigure

    figure = NewFigure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def check_figure(option: str, path: str | Path) -> None:
    """Refuse a figure's name that ends in no format.

    Raises:
        ConfigError: it does; the formats are listed.
    """
    if not is_stream(path) and Path(path).suffix.lower() not in FORMATS:
        raise ConfigError(f"{option} {path}: must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure in the format of the path's suffix; PNG where it has none, such as a pipe.

    The same figure gives the same bytes. In SVG text stays text, in PDF fonts are embedded as journals ask.

    Of other characters that no font here has, a warning names each once; PNG and PDF have boxes for them.

    Args:
        figure: from :func:`new_figure`, drawn inside :func:`style`.
        path: of the file; its folder must exist.

    Raises:
        DataError: the file cannot be written, or the figure holds Japanese and there is no font for it.
    """
    from matplotlib import rc_context

    kind = Path(path).suffix.lower().removeprefix(".")
    if f".{kind}" not in FORMATS:
        kind = "png"
    _spell(figure)
    wide = _east_asian_texts(figure)
    family = east_asian_font() if wide else None
    if wide and family is None and kind != "svg":
        raise DataError(
            f"{path}: no font here has the characters of {wide[0].get_text()!r:.40}: {FONT_ADVICE}"
        )
    _set_fonts(wide, family)
    # TrueType is what journals take, and what fonts such as Noto's cannot be embedded as.
    settings = {"svg.fonttype": "none", "svg.hashsalt": "suisei", "pdf.fonttype": 3 if wide else 42}
    metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[kind]
    box = _with_room(figure, wide) if wide and family is None else None
    # In SVG the reader's font has them.
    missing = _ignored() if kind == "svg" else _told_once()
    with replacing(Path(path)) as temporary, rc_context(settings), missing:
        figure.savefig(
            temporary,
            dpi=150,
            format=kind,
            metadata=metadata,
            bbox_inches=box,
            transparent=True if kind == "svg" else None,
        )


def lay_out(figure: Figure) -> None:
    """Find where everything in a figure will stand, before it is saved; of fonts nothing is said yet.

    Args:
        figure: from :func:`new_figure`, drawn inside :func:`style`.
    """
    _spell(figure)
    wide = _east_asian_texts(figure)
    _set_fonts(wide, east_asian_font() if wide else None)
    with _ignored():
        figure.draw_without_rendering()


@contextmanager
def _ignored() -> Iterator[None]:
    """Hold back what matplotlib says of each character that its fonts lack."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_MISSING.pattern)
        yield


@contextmanager
def _told_once() -> Iterator[None]:
    """Say in one line, and of each character once, what no font has, in place of matplotlib's many."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", message=_MISSING.pattern)
        yield
    lacking = set()
    for each in caught:
        found = _MISSING.match(str(each.message))
        if found:
            lacking.add(chr(int(found[1])))
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    if fresh := sorted(lacking - _TOLD):
        _TOLD.update(fresh)
        listed = ", ".join(f"{character} (U+{ord(character):04X})" for character in fresh)
        warnings.warn(
            f"no font here has {listed}: a box is drawn; SVG needs no font "
            "(--plot FILE.svg, or --figures DIR where a command has it)",
            UserWarning,
            stacklevel=1,
        )


@cache
def east_asian_font() -> str | None:
    """Return the family of a font that has kana and kanji, None if there is none on this machine."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {font.name for font in fontManager.ttflist}
    if known.isdisjoint(_FAMILIES):  # installed since matplotlib looked, or in a package
        seen = {font.fname for font in fontManager.ttflist}
        for file in [*findSystemFonts(), *_packaged_fonts()]:
            if file not in seen:
                _add_font(fontManager, file)
        known = {font.name for font in fontManager.ttflist}
    return next((name for name in _FAMILIES if name in known), None)


def _packaged_fonts() -> list[str]:
    found: list[str] = []
    for package in _FONT_PACKAGES:
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            found += [str(file) for file in sorted(Path(folder).rglob("*.[to]t[fc]"))]
    return found


def _add_font(manager: Any, file: str) -> None:
    try:
        manager.addfont(file)
    except (OSError, RuntimeError, ValueError):  # a broken font is as good as none
        return


def _spell(figure: Figure) -> None:
    """Write as escapes what is no character in a file's name, which no font has."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_text(without_surrogates(text.get_text()))


def _east_asian_texts(figure: Figure) -> list[Any]:
    from matplotlib.text import Text

    return [text for text in figure.findobj(Text) if _EAST_ASIAN.search(text.get_text())]


def _set_fonts(texts: list[Any], family: str | None) -> None:
    for text in texts:
        text.set_fontfamily(["DejaVu Sans", *([family] if family else []), "sans-serif"])


def _with_room(figure: Figure, texts: list[Any]) -> Any:
    """Return the figure's box with room at its sides for characters wider than what they were measured by."""
    from matplotlib.transforms import Bbox

    widest = max(0.5 * len(_EAST_ASIAN.findall(text.get_text())) * text.get_fontsize() / 72 for text in texts)
    width, height = figure.get_size_inches()
    return Bbox([[-min(widest, 3.0), 0], [width + min(widest, 3.0), height]])

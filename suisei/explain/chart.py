"""An explanation as a small chart."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from suisei.data.figures import check_figure, new_figure, save_figure, style
from suisei.explain.explanation import Explanation
from suisei.explain.wording import input_label, inputs_there, parts_of, signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _ORANGE, _GREY = "#2b6ca3", "#d9722b", "#8a8a8a"
MOST_REFERENCES, MOST_WORDS, MOST_INPUTS = 8, 30, 8
_LABEL = 36
"""Cells of the longest label; a kanji takes two."""

Bar = tuple[str, float, str]
"""A label, how long the bar is, and what is written at its end."""


def plot_explanation(path: str | Path, explanation: Explanation) -> None:
    """Write the chart as PNG, PDF or SVG, by the path's suffix.

    Args:
        path: of the file; its folder must exist.
        explanation: what to draw.

    Raises:
        ConfigError: another suffix.
        DataError: the file cannot be written, or there is no font for its Japanese (SVG needs none).
    """
    check_figure("path", path)
    with style():
        save_figure(explanation_figure(explanation), path)


def explanation_figure(explanation: Explanation) -> Figure:
    """Return the chart: scores with and without each part, and what words and numbers move.

    Call it inside :func:`suisei.data.figures.style`.
    """
    words = [(word.text, word.moved) for word in explanation.words if word.moved is not None]
    far, weak = "references farther away", "of less effect"
    references = len(explanation.references) - MOST_REFERENCES
    numbers = len(inputs_there(explanation)) - MOST_INPUTS
    panels = [
        (
            _titled("score with and without", references, far),
            _part_bars(explanation),
            True,
        ),
        (_titled("moved by each word", len(words) - MOST_WORDS, weak), _moved(_strongest(words)), False),
        (_titled("moved by numbers that went in", numbers, weak), _input_bars(explanation), False),
    ]
    panels = [panel for panel in panels if panel[1]]
    heights = [len(bars) + 1.6 for _, bars, _ in panels]
    figure = new_figure((6.4, 0.9 + 0.235 * sum(heights)))
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, (title, bars, absolute) in zip(axes, panels, strict=True):
        _panel(axis, title, bars, None if absolute else explanation.helps)
    title = f"{explanation.metric} {explanation.score:.3f}\n{_wrapped(explanation.candidate)}"
    figure.suptitle(title, fontsize=10, x=0.02, ha="left")
    if explanation.notes:
        figure.supxlabel("\n".join(map(_wrapped, explanation.notes)), fontsize=8, x=0.02, ha="left")
    return figure


def _titled(title: str, more: int, what: str) -> str:
    """Return a panel's title, with how many bars there is no room for."""
    return f"{title} (not drawn: {more} {what})" if more > 0 else title


def _strongest(words: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return the words that move the score most, in the order of the caption."""
    places = sorted(range(len(words)), key=lambda place: abs(words[place][1]), reverse=True)[:MOST_WORDS]
    return [words[place] for place in sorted(places)]


def _part_bars(explanation: Explanation) -> list[Bar]:
    named = parts_of(explanation)
    named += [
        (f"only reference {number}: {effect.text}", effect.alone)  # as the terminal's table counts
        for number, effect in enumerate(explanation.references[:MOST_REFERENCES], start=1)
        if effect.alone is not None and len(explanation.references) > 1
    ]
    return [(_short(name), score, f"{score:.3f}") for name, score in named]


def _input_bars(explanation: Explanation) -> list[Bar]:
    shown = [*explanation.groups, *inputs_there(explanation)[:MOST_INPUTS]]
    return _moved([(input_label(effect), effect.moved) for effect in shown])


def _moved(effects: Iterable[tuple[str, float | None]]) -> list[Bar]:
    return [(_short(name), moved, signed(moved)) for name, moved in effects if moved is not None]


def _panel(axis: Axes, title: str, bars: Sequence[Bar], helps: Callable[[float | None], bool] | None) -> None:
    """Draw a panel: scores, the first of them the full one, where ``helps`` is None; else what moves it."""
    labels, values, texts = zip(*bars, strict=True)
    places = range(len(bars))
    colours = [
        (_GREY if place else _BLUE) if helps is None else (_BLUE if helps(value) else _ORANGE)
        for place, value in zip(places, values, strict=True)
    ]
    axis.barh(places, values, color=colours, height=0.7)
    low, high = min(0.0, *values), max(0.0, *values)
    span = (high - low) or 1.0
    for place, value, text in zip(places, values, texts, strict=True):
        right = value >= 0
        axis.annotate(
            text, (value, place), xytext=(3 if right else -3, 0), textcoords="offset points", va="center",
            ha="left" if right else "right", fontsize=8,
        )  # fmt: skip
    axis.set_yticks(places, labels, fontsize=8)
    axis.set_ylim(len(bars) - 0.4, -0.6)
    axis.set_xlim(low - (0.17 * span if low < 0 else 0), high + 0.17 * span)
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set_title(title, fontsize=9, loc="left")
    axis.tick_params(axis="x", labelsize=8)
    axis.grid(axis="x", color="#e6e6e6", linewidth=0.6)
    axis.set_axisbelow(True)


def _cells(text: str) -> int:
    return sum(2 if ord(character) > 0x2E7F else 1 for character in text)


def _short(label: str) -> str:
    """Return a label that is not too wide, its end cut off."""
    label = " ".join(label.split())
    if _cells(label) <= _LABEL:
        return label
    while _cells(label) >= _LABEL:
        label = label[:-1]
    return f"{label.rstrip()}…"


def _wrapped(caption: str) -> str:
    width = 84 * len(caption) // max(_cells(caption), 1)
    return "\n".join(textwrap.wrap(" ".join(caption.split()), max(width, 20), max_lines=3, placeholder=" …"))

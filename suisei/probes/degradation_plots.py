"""Figures of degraded captions: curves, where sets of captions stand, and by how much scores fall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from suisei.data.figures import new_figure, save_figure, style
from suisei.errors import DataError
from suisei.metaeval.plots import COLOURS

_BLUE, _ORANGE, _GREY, _LIGHT = (COLOURS[name] for name in ("blue", "orange", "grey", "grid"))
_MARKERS = "osv^Dp*X"


def plot_degradation(
    path: str | Path,
    panels: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]],
    *,
    title: str,
) -> None:
    """Write a figure of falling curves, with the line of a fall in proportion.

    Args:
        path: of the file; its folder must exist.
        panels: {panel: {name: (shares of what is made bad, score as a share of the untouched one)}}.
        title: above the panels.

    Raises:
        DataError: there is no curve.
    """
    if not any(panels.values()):
        raise DataError("plot: no curve to show")
    with style():
        figure = new_figure((4.2 * len(panels) + 1.6, 4.2))
        axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axis, (name, curves) in zip(axes, panels.items(), strict=True):
            axis.plot([0, 1], [1, 0], color=_GREY, linewidth=1, linestyle="--", label="in proportion")
            for number, (label, (x, y)) in enumerate(curves.items()):
                drawn = {"color": f"C{number % 10}", "marker": _MARKERS[number % len(_MARKERS)]}
                axis.plot(x, y, linewidth=1.4, markersize=4.5, label=label, **drawn)
            axis.set(xlabel="share of captions changed", xlim=(-0.02, 1.02))
            axis.set_title(name, fontsize=10)
            axis.grid(color=_LIGHT, linewidth=0.6)
            axis.set_axisbelow(True)
        axes[0].set_ylabel(
            "score, as a share of the untouched\n(of distances, the untouched as a share of it)"
        )
        axes[-1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False)
        figure.suptitle(title)
        save_figure(figure, path)


def plot_orders(path: str | Path, panels: Mapping[str, Mapping[str, Sequence[float]]], *, title: str) -> None:
    """Draw where sets of captions stand when all are sorted by score, as histograms.

    Args:
        path: of the file; its folder must exist.
        panels: {panel: {set: captions in each part of the sorted list, from the lowest score}}.
        title: above the panels.

    Raises:
        DataError: there is no panel.
    """
    if not panels:
        raise DataError("plot: no order to show")
    with style():
        figure = new_figure((3.6 * len(panels) + 0.6, 3.4))
        axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
        for axis, (name, sets) in zip(axes, panels.items(), strict=True):
            for colour, (label, counts) in zip((_ORANGE, _BLUE, _GREY, "C2"), sets.items(), strict=False):
                edges = np.linspace(0, 1, len(counts) + 1)
                axis.stairs(counts, edges, fill=True, color=colour, alpha=0.45, label=label)
            axis.set(xlabel="place by score, the best at 1", xlim=(0, 1))
            axis.set_title(name, fontsize=10)
            axis.legend(fontsize=8, frameon=False)
        axes[0].set_ylabel("captions")
        figure.suptitle(title)
        save_figure(figure, path)


def plot_boxes(path: str | Path, boxes: Mapping[str, Sequence[float]]) -> None:
    """Draw a distribution per row: whiskers from 5 to 95 %, a box from 25 to 75 %, the median.

    Args:
        path: of the file; its folder must exist.
        boxes: {name: quantiles at 5, 25, 50, 75 and 95 % of how much a score falls}.

    Raises:
        DataError: there is no distribution.
    """
    if not boxes:
        raise DataError("plot: no distribution to show")
    low, first, middle, third, high = np.array(list(boxes.values()), dtype=np.float64).T
    places = np.arange(len(boxes))
    with style():
        figure = new_figure((5.6, 1.2 + 0.3 * len(boxes)))
        axis = figure.subplots()
        axis.axvline(0, color=_GREY, linewidth=1, linestyle="--", zorder=1)
        axis.hlines(places, low, high, color=_BLUE, linewidth=1.2, zorder=2)
        axis.barh(places, third - first, left=first, height=0.55, color=_LIGHT, edgecolor=_BLUE, zorder=3)
        axis.vlines(middle, places - 0.275, places + 0.275, color=_ORANGE, linewidth=1.6, zorder=4)
        axis.set_yticks(places, list(boxes))
        axis.invert_yaxis()
        axis.set_xlabel("by how much it falls (5, 25, 50, 75, 95 %)")
        axis.grid(axis="x", color=_LIGHT, linewidth=0.6)
        axis.set_axisbelow(True)
        save_figure(figure, path)

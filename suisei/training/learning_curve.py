"""The learning curve of a run: loss and validation figures by step, as a picture in its folder."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path

from suisei.data.figures import new_figure, save_figure, style
from suisei.metaeval.plots import COLOURS

Curve = list[tuple[int, float]]
"""(step, figure) by step; the step counts from 1."""

_PANELS = {
    "loss": {"train_loss": ("training", "grey"), "val_loss": ("validation", "blue")},
    "agreement with ratings": {
        "val_pearson": ("Pearson", "blue"),
        "val_kendall": ("Kendall tau-b", "orange"),
    },
}
"""{what a panel shows: {logged name: (label, colour)}}."""


def read_curves(logs: Path) -> dict[str, Curve]:
    """Return what the CSV files of a run say, of all its starts: a later start decides where steps meet.

    Args:
        logs: the folder of the logs, a version per start.

    Returns:
        {logged name: its curve}; empty without a log.
    """
    found: dict[str, dict[int, float]] = {}
    starts = sorted(logs.glob("version_*/metrics.csv"), key=lambda path: int(path.parent.name.split("_")[1]))
    for path in starts:
        rows = _rows(path)
        first = min((step for step, _, _ in rows), default=0)
        for curve in found.values():  # what was done again
            for step in [step for step in curve if step >= first]:
                del curve[step]
        for step, name, value in rows:
            found.setdefault(name, {})[step] = value
    return {name: sorted(curve.items()) for name, curve in found.items() if curve}


def _rows(path: Path) -> list[tuple[int, str, float]]:
    rows = []
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                step = row.pop("step", None)
                for name, text in row.items():
                    if step and text and name not in (None, "epoch") and math.isfinite(value := float(text)):
                        rows.append((int(step) + 1, name, value))
    except (OSError, ValueError, TypeError):  # a row that was cut off ends the file
        pass
    return rows


def plot_curves(path: Path, curves: Mapping[str, Curve], chosen: int | None) -> bool:
    """Draw loss, and agreement on the validation part, by step.

    Args:
        path: of the picture.
        curves: from :func:`read_curves`.
        chosen: the step whose weights were kept; None for unknown.

    Returns:
        False where there is nothing to draw, and no picture.

    Raises:
        DataError: the file cannot be written.
    """
    panels = {name: lines for name, lines in _PANELS.items() if any(line in curves for line in lines)}
    if not panels:
        return False
    with style():
        figure = new_figure((4.6 * len(panels) + 0.4, 3.8))
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axis, (name, lines) in zip(axes, panels.items(), strict=True):
            for key, (label, colour) in lines.items():
                if key in curves:
                    steps, values = zip(*curves[key], strict=True)
                    marked = "o" if len(steps) <= 40 and key.startswith("val_") else None
                    axis.plot(steps, values, color=COLOURS[colour], label=label, marker=marked, markersize=3)
            if chosen is not None:
                axis.axvline(chosen, color=COLOURS["grey"], linestyle=":", linewidth=1, label="weights kept")
            axis.set_xlabel("step")
            axis.set_ylabel(name)
            axis.grid(color=COLOURS["grid"])
            axis.legend(frameon=False)
        figure.suptitle("Learning curve")
        save_figure(figure, path)
    return True

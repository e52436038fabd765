"""The learning curve of a run: loss and validation figures by step, as a picture in its folder."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from suisei.data.figures import new_figure, save_figure, style
from suisei.metaeval.plots import COLOURS

Curve = dict[float, float]
"""{step: figure}, in order; the step counts from 1."""

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
    found: dict[str, Curve] = {}
    for path in sorted(logs.glob("version_*/metrics.csv"), key=_start):
        rows = list(_rows(path))
        first = min((step for step, _, _ in rows), default=math.inf)
        for curve in found.values():  # what was done again; of the first step, a validation may stand
            for step in [step for step in curve if step > first]:
                del curve[step]
        for step, name, value in rows:
            found.setdefault(name, {})[step] = value
    return {name: dict(sorted(curve.items())) for name, curve in found.items() if curve}


def _start(log: Path) -> int:
    number = log.parent.name.rpartition("_")[2]
    return int(number) if number.isdecimal() and len(number) < 10 else -1


def _rows(path: Path) -> Iterator[tuple[float, str, float]]:
    """Yield step, figure and value; nothing of what is no number, such as in a row that was cut off."""
    try:
        with path.open(encoding="utf-8", newline="", errors="replace") as stream:
            for row in csv.DictReader(stream):
                step = _number(row.pop("step", None))
                row.pop("epoch", None)
                for name, text in row.items():
                    value = _number(text)
                    if step is not None and value is not None and isinstance(name, str):
                        yield step + 1, name, value  # logs count from 0
    except (OSError, csv.Error):
        return


def _number(text: Any) -> float | None:
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


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
    from matplotlib.ticker import MaxNLocator

    panels = {name: lines for name, lines in _PANELS.items() if any(line in curves for line in lines)}
    if not panels:
        return False
    with style():
        figure = new_figure((4.6 * len(panels) + 0.4, 3.8))
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axis, (name, lines) in zip(axes, panels.items(), strict=True):
            for key, (label, colour) in lines.items():
                if key in curves:
                    steps, values = list(curves[key]), list(curves[key].values())
                    few = len(steps) <= 40 and key.startswith("val_")
                    marked = "o" if few or len(steps) == 1 else None  # of one point there is no line
                    axis.plot(steps, values, color=COLOURS[colour], label=label, marker=marked, markersize=3)
            if chosen is not None:
                axis.axvline(chosen, color=COLOURS["grey"], linestyle=":", linewidth=1, label="weights kept")
            axis.set_xlabel("step")
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            axis.set_ylabel(name)
            axis.grid(color=COLOURS["grid"])
            axis.legend(frameon=False)
        figure.suptitle("Learning curve")
        save_figure(figure, path)
    return True

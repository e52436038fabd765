"""The figure of predicted against human scores: points or their density, and their running mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from suisei.data.figures import new_figure, save_figure, style
from suisei.data.sample import LANGUAGE_NAMES
from suisei.errors import DataError
from suisei.metaeval.agreement import DIGITS
from suisei.metaeval.calibration import on_human_scale
from suisei.metaeval.correlation import CorrelationError, kendall_tau_c, pearson
from suisei.metaeval.plots import COLOURS, TURNED, legend_below
from suisei.metaeval.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap, LogNorm

_ORANGE, _GREY, _LIGHT = (COLOURS[name] for name in ("orange", "grey", "grid"))
_CLOUD = "#3a80bf"
"""Points may be an image, which takes no colour of a page: this stands out from white and black alike."""
_ALL = "All"
_FEW = 3000
"""Points up to which each is drawn; of more, their density."""
_MARGIN = 0.03
"""Of the range of scores, above and below it."""
_MANY = 400
"""Points from which a cloud of them is an image inside of a vector figure."""
_MOST_LEVELS = 40
"""Ratings of more values have a histogram of equal bins."""
_MOST_BINS = 16
"""Bins of the human score that predictions are averaged in."""


def plot_predicted(
    path: str | Path,
    predicted: np.ndarray,
    human: np.ndarray,
    languages: Sequence[str] | None = None,
    *,
    title: str = "Predicted against human scores",
    figures: tuple[Table, str] | None = None,
    note: str = "",
    distance: bool = False,
) -> None:
    """Draw predicted against human scores, one panel per language and one for all.

    Args:
        path: of the file; its folder must exist.
        predicted: scores [N]; samples with NaN are left out, and their number is shown.
        human: mean human scores in [0, 1], [N].
        languages: "ja" or "en" per sample, or None.
        title: above the panels.
        figures: a table of correlations and the label of the row that says the panels' coefficients, so that
            both say the same; None for those of the points.
        note: how these count samples, where a table beside the plot counts otherwise.
        distance: whether the scores are those of a distance with their sign turned: they are on no scale of
            people's, even where all of them are 0.

    Raises:
        DataError: different lengths, or nothing to plot.
    """
    from matplotlib.cm import ScalarMappable

    predicted, human = np.asarray(predicted, dtype=np.float64), np.asarray(human, dtype=np.float64)
    human = human.round(DIGITS)  # or equal means differ, and are no ties
    names = np.array(list(languages) if languages is not None else [_ALL] * len(predicted), dtype=object)
    if not len(predicted) == len(human) == len(names):
        raise DataError(
            f"plot: {len(predicted)} predicted, {len(human)} human, {len(names)} languages; must match"
        )
    known = np.isfinite(predicted) & np.isfinite(human)
    if not known.any():
        raise DataError("plot: no sample has both a predicted and a human score")
    missing = int((~known).sum())
    predicted, human, names = predicted[known], human[known], names[known]
    distinct = sorted(set(names.tolist()))
    panels = [(str(name), names == name) for name in distinct]
    if len(panels) > 1:
        panels.insert(0, (_ALL, np.ones(len(names), dtype=bool)))
    with style():
        figure = new_figure((4.3 * len(panels) + 0.4, 4.6))
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        on_scale = not distance and on_human_scale(predicted)
        limits, density = _limits(predicted, on_scale), _density(panels)
        for axis, (name, mask) in zip(axes, panels, strict=True):
            if on_scale:
                _identity(axis)
            _predicted_panel(axis, predicted[mask], human[mask], limits, density)
            said = _statistics(predicted[mask], human[mask]) + (f"\n({note})" if note else "")
            if figures is not None:
                said = _said(*figures, "overall" if name == _ALL or len(panels) == 1 else f"language: {name}")
            heading = f"{LANGUAGE_NAMES.get(name, name)}, n = {mask.sum():,}\n{said}"
            axis.set_title(heading, fontsize=10)
        if len(human) > _FEW:
            scale = ScalarMappable(density, _blues())
            figure.colorbar(
                scale, ax=axes[-1], label="samples per cell", format=lambda value, _: f"{value:,g}"
            )
        axes[0].set_ylabel("predicted score" + (TURNED if distance else ""))
        legend_below(figure, axes[0])
        figure.suptitle(title + (f" ({missing} without a score left out)" if missing else ""))
        save_figure(figure, path)


def _identity(axis: Axes) -> None:
    axis.plot([0, 1], [0, 1], color=_GREY, linewidth=1, linestyle="--", label="identity", zorder=2.5)


def _predicted_panel(
    axis: Axes,
    predicted: np.ndarray,
    human: np.ndarray,
    limits: tuple[float, float],
    density: LogNorm,
) -> None:
    low, high = limits
    if len(predicted) <= _FEW:
        # Ratings take few values: a seeded jitter keeps the points from hiding each other.
        jitter = np.random.default_rng(0).uniform(-0.012, 0.012, size=len(human))
        alpha = float(np.clip(60 / len(human) ** 0.7, 0.12, 0.8))
        axis.scatter(
            human + jitter, predicted, s=11, color=_CLOUD, alpha=alpha, linewidths=0, zorder=2,
            rasterized=len(human) > _MANY,
        )  # fmt: skip
    else:
        x_edges, y_edges = _edges(human), np.linspace(low, high, 49)
        counts = np.histogram2d(human, predicted, bins=(x_edges, y_edges))[0].T
        shown = np.ma.masked_equal(counts, 0)
        axis.pcolormesh(
            x_edges, y_edges, shown, cmap=_blues(), norm=density, zorder=1.5, linewidth=0, rasterized=True
        )
    middles, means = _running_mean(human, predicted)
    axis.plot(
        middles, means, color=_ORANGE, linewidth=2, marker="o", markersize=4, label="mean predicted", zorder=3
    )
    axis.set(xlim=(-0.03, 1.03), ylim=(low, high), xlabel="human score (mean of raters)")
    axis.grid(color=_LIGHT, linewidth=0.6, zorder=-1)
    axis.set_axisbelow(True)


def _said(table: Table, label: str, section: str) -> str:
    """Return the coefficients of a row of a table, and how they count ratings where that is not as drawn."""
    row = table.row(label, section)
    values = {kind: row.value(kind) for kind in ("pearson", "tau-c")}
    if None in values.values():
        return "correlation undefined"
    raters = table.meta.get("settings", {}).get("raters")
    per_rating = raters == "rows" and row.info.get("samples") != row.value("n")
    text = f"Pearson {values['pearson']:z.3f}, tau-c {values['tau-c']:z.3f}"
    return f"{text}\n(each rating a row)" if per_rating else text


def _statistics(predicted: np.ndarray, human: np.ndarray) -> str:
    try:
        return f"Pearson {pearson(predicted, human):z.3f}, tau-c {kendall_tau_c(predicted, human):z.3f}"
    except CorrelationError:
        return "correlation undefined"


def _edges(human: np.ndarray) -> np.ndarray:
    """Return histogram edges over [0, 1], half-way between the levels where ratings take few values."""
    levels = np.unique(np.round(human, 9))
    if not 1 < len(levels) <= _MOST_LEVELS:
        return np.linspace(-0.0125, 1.0125, _MOST_LEVELS + 2)
    middles = (levels[1:] + levels[:-1]) / 2
    half = np.diff(levels).min() / 2
    return np.r_[max(levels[0] - half, -0.03), middles, min(levels[-1] + half, 1.03)]


def _density(panels: list[tuple[str, np.ndarray]]) -> LogNorm:
    """Return one colour scale for all panels: samples per cell, logarithmic."""
    from matplotlib.colors import LogNorm as NewLogNorm

    return NewLogNorm(1, max(10.0, max(mask.sum() for _, mask in panels) / 80))


def _running_mean(human: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean human and mean predicted score in up to _MOST_BINS bins of the human score."""
    levels = np.unique(human)
    if len(levels) <= _MOST_BINS:
        bins = np.searchsorted(levels, human)
    else:
        inner = np.unique(np.quantile(human, np.linspace(0, 1, _MOST_BINS + 1)[1:-1]))
        bins = np.unique(np.searchsorted(inner, human, side="right"), return_inverse=True)[1]
    counts = np.bincount(bins)
    return np.bincount(bins, weights=human) / counts, np.bincount(bins, weights=predicted) / counts


def _limits(predicted: np.ndarray, on_scale: bool) -> tuple[float, float]:
    """Return [0, 1] with a margin; of scores on a scale of their own, their range with one."""
    low, high = (0.0, 1.0) if on_scale else (float(predicted.min()), float(predicted.max()))
    margin = _MARGIN * ((high - low) or 1.0)
    return low - margin, high + margin


def _blues() -> LinearSegmentedColormap:
    """Return a scale from nearly transparent to opaque, which shows on paper and on a dark page."""
    from matplotlib.colors import LinearSegmentedColormap as NewColormap
    from matplotlib.colors import to_rgba

    return NewColormap.from_list("density", [to_rgba(_CLOUD, 0.18), to_rgba(_CLOUD, 1.0)])

"""Figures with their intervals, curves and reliability, see :mod:`suisei.data.figures`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from suisei.data.figures import lay_out, new_figure, save_figure, style
from suisei.errors import DataError
from suisei.metaeval.labels import HUMAN, short_names
from suisei.metaeval.settings import CONFIDENCE
from suisei.metaeval.tables import Row, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from suisei.metaeval.calibration import Calibration

_BLUE, _ORANGE, _GREY, _LIGHT = "#2b6ca3", "#d9722b", "#8a8a8a", "#e6e6e6"
COLOURS = {"blue": _BLUE, "orange": _ORANGE, "grey": _GREY, "grid": _LIGHT}
"""What is drawn in which colour: a page may put its own in their place."""
TURNED = ", sign turned"
"""What an axis says of the scores of a distance, which are lower for the better."""
_APART = 12.0
"""Points of 1/72 inch from one number to the next in a figure of systems."""
_RINGS = 25
"""Around a system, in which room for its number is looked for."""
_WIDE = 7
"""Inches from which four entries of a legend stand beside each other."""
_MARKED = 40
"""Points of a curve below which each has a marker."""
_ROOMY = 24
"""Systems that can be named beside a figure in letters of usual size."""
_LONGEST = 60
"""Characters of a system's name, of which the middle is left out where there are more."""


def plot_table(path: str | Path, table: Table, correlation: str = "tau-c") -> None:
    """Draw the overall section: one bar per metric, best first, with its interval.

    Args:
        path: of the file; its folder must exist.
        table: from :func:`suisei.metaeval.correlation_tables.evaluation_table`.
        correlation: key of the column to show, such as the name of a coefficient.

    Raises:
        DataError: no metric has that coefficient.
    """
    rows = [row for row in table.overall.rows if row.value(correlation) is not None]
    if not rows:
        raise DataError(f"plot: no metric has a {correlation} to show")
    rows.sort(key=lambda row: row.value(correlation) or 0.0)
    with style():
        figure = new_figure((5.4 + _room([row.label for row in rows]), 1.5 + 0.38 * len(rows)))
        axis = figure.subplots()
        _bars(axis, rows, correlation)
        axis.set_xlabel(_heading(table.columns[correlation], table, rows, correlation))
        figure.suptitle(table.title)
        save_figure(figure, path)


def plot_dots(
    path: str | Path,
    table: Table,
    column: str,
    *,
    line: float | None = 0.0,
    limits: tuple[float, float] | None = None,
    heading: str | None = None,
    figures: bool = False,
) -> None:
    """Draw one column: a panel per section, a dot with its interval per row.

    Args:
        path: of the file; its folder must exist.
        table: any table.
        column: key of the column.
        line: where to draw a vertical line, such as "no difference"; None for none.
        limits: of the axis; those of the data where it is None.
        heading: below the axis; the column's own where it is None.
        figures: whether each dot's number and interval are written above it.

    Raises:
        DataError: the column has no value.
    """
    shown = [
        section for section in table.sections if any(row.value(column) is not None for row in section.rows)
    ]
    if not shown:
        raise DataError(f"plot: no row has a {table.columns.get(column, column)} to show")
    labels = list(dict.fromkeys(row.label for section in shown for row in section.rows))
    with style():
        figure = new_figure((_room(labels) + 3.6 * len(shown), 1.5 + 0.34 * len(labels)))
        axes = figure.subplots(1, len(shown), squeeze=False, sharey=True)[0]
        for axis, section in zip(axes, shown, strict=True):
            _dots(axis, section.rows, labels, column, line)
            if figures:
                _figures(axis, section.rows, labels, column, table.digits)
            axis.set_xlabel(_heading(heading or table.columns[column], table, section.rows, column))
            if limits:
                axis.set_xlim(*limits)
            if len(table.sections) > 1:
                axis.set_title(section.title, fontsize=10)
        axes[0].set_yticks(range(len(labels)), list(short_names(labels).values()))
        axes[0].set_ylim(len(labels) - 0.4, -0.6)
        figure.suptitle(table.title)
        save_figure(figure, path)


def _dots(axis: Axes, rows: Sequence[Row], labels: list[str], column: str, line: float | None) -> None:
    if line is not None:
        axis.axvline(line, color=_GREY, linewidth=1, linestyle="--", zorder=1)
    for row in rows:
        value, place = row.value(column), labels.index(row.label)
        if value is None:
            continue
        cell = row.cells[column]
        if cell.low is not None and cell.high is not None:
            axis.hlines(place, cell.low, cell.high, color=_BLUE, linewidth=1.6, zorder=2)
        axis.plot([value], [place], marker="o", markersize=6, color=_BLUE, zorder=3)
    axis.grid(axis="x", color=_LIGHT, linewidth=0.6)
    axis.set_axisbelow(True)


def _figures(axis: Axes, rows: Sequence[Row], labels: list[str], column: str, digits: int) -> None:
    """Write each row's number and interval above its dot, which may hide a narrow interval."""
    for row in rows:
        value = row.value(column)
        if value is not None:
            axis.annotate(
                row.cells[column].text(digits), (value, labels.index(row.label)),
                xytext=(0, 6), textcoords="offset points", ha="center", fontsize=8,
            )  # fmt: skip
    axis.margins(x=0.28)


def plot_reliability(path: str | Path, calibrations: Mapping[str, Calibration], *, title: str) -> None:
    """Write a reliability diagram: mean rating over mean score per bin, and how many scores are in each.

    Args:
        path: of the file; its folder must exist.
        calibrations: {panel: calibration}.
        title: above the panels.
    """
    with style():
        figure = new_figure((4.0 * len(calibrations) + 0.4, 5.2))
        axes = figure.subplots(2, len(calibrations), squeeze=False, sharex=True, height_ratios=(3, 1))
        for (name, value), upper, lower in zip(calibrations.items(), axes[0], axes[1], strict=True):
            _reliability_panel(upper, value)
            upper.set_title(f"{name}, n = {value.n:,}\ncalibration error {value.error:.3f}", fontsize=10)
            middles = [(each.start + each.stop) / 2 for each in value.bins]
            widths = [0.92 * (each.stop - each.start) for each in value.bins]
            lower.bar(middles, [each.n for each in value.bins], width=widths, color=_BLUE)
            lower.set(xlabel="score", xlim=(-0.03, 1.03))
        axes[0][0].set_ylabel("mean rating")
        axes[1][0].set_ylabel("samples")
        legend_below(figure, axes[0][0])
        figure.suptitle(title)
        save_figure(figure, path)


def plot_systems(
    path: str | Path,
    predicted: np.ndarray,
    human: np.ndarray,
    systems: Sequence[str],
    *,
    distance: bool = False,
) -> None:
    """Draw mean predicted against mean human score, a numbered point per captioning system.

    Where systems are so near that their numbers would hide one another, these stand beside them.

    Args:
        path: of the file; its folder must exist.
        predicted: scores [N]; samples with NaN are left out.
        human: mean human scores in [0, 1], [N].
        systems: name of each sample's system, [N].
        distance: whether the scores are those of a distance with their sign turned.

    Raises:
        DataError: no sample has both.
    """
    known = np.isfinite(predicted) & np.isfinite(human)
    if not known.any():
        raise DataError("plot: no sample has both a predicted and a human score")
    names, number = np.unique(np.asarray(systems, dtype=object)[known].astype(str), return_inverse=True)
    shown, counts = _legible([str(name) for name in names]), np.bincount(number)
    x, y = (np.bincount(number, weights=values[known]) / counts for values in (human, predicted))
    with style():
        figure = new_figure((4.2 + _room(shown), 4.6))
        axis = figure.subplots()
        axis.scatter(x, y, s=150, color=_BLUE, alpha=0.25, linewidths=0, zorder=2)
        for place, name in enumerate(shown, start=1):
            axis.text(
                1.04, 1 - place / (len(names) + 1), f"{place}  {name}", va="center",
                transform=axis.transAxes, fontsize=8 if len(names) <= _ROOMY else 6,
            )  # fmt: skip
        axis.margins(0.1)
        axis.set(xlabel="mean human score", ylabel="mean predicted score" + (TURNED if distance else ""))
        axis.grid(color=_LIGHT, linewidth=0.6)
        axis.set_axisbelow(True)
        _number(figure, axis, np.stack([x, y], axis=1))
        save_figure(figure, path)


def _number(figure: Figure, axis: Axes, points: np.ndarray) -> None:
    """Write the number of each point [N, 2], from 1, on it, or beside it where others are too near."""
    lay_out(figure)  # so that it is known how far apart points are
    scale = 72 / figure.dpi
    places = axis.transData.transform(points) * scale
    box = axis.get_window_extent()
    inside = np.array([[_APART / 2], [-_APART / 2]])  # so that no number lies on the frame
    found = _beside(places, np.array([box.min, box.max]) * scale + inside)
    for number, (point, offset) in enumerate(zip(points, found - places, strict=True), start=1):
        line = {"arrowstyle": "-", "color": _GREY, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0}
        axis.annotate(
            str(number), point, xytext=offset, textcoords="offset points", ha="center", va="center",
            fontsize=8, zorder=3, arrowprops=line if offset.any() else None,
        ).set_in_layout(False)  # fmt: skip


def _beside(places: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Return where the numbers of points stand, [N, 2]: as near to these as other points and numbers allow.

    Args:
        places: of the points, [N, 2], in units of 1/72 inch.
        box: lowest and highest place, [2, 2].
    """
    found = np.empty((0, 2))
    for number, place in enumerate(places):
        taken = np.concatenate([np.delete(places, number, axis=0), found])
        found = np.concatenate([found, [_free(place, taken, box)]])
    return found


def _free(place: np.ndarray, taken: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Return the place itself where nothing is near, else the emptiest on the nearest ring with room."""
    for ring in range(_RINGS):
        angles = np.linspace(0, 2 * np.pi, 8 * ring, endpoint=False) if ring else np.zeros(1)
        tried = place + ring * _APART * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        tried = tried[((tried >= box[0]) & (tried <= box[1])).all(axis=1)]
        room = np.linalg.norm(tried[:, None] - taken, axis=2).min(axis=1, initial=np.inf)
        if len(room) and room.max() >= _APART - 1e-9:
            return tried[room.argmax()]
    return place


def plot_curves(
    path: str | Path,
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    headings: tuple[str, str] = ("", ""),
) -> None:
    """Draw lines, such as how a figure changes from epoch to epoch.

    Args:
        path: of the file; its folder must exist.
        curves: {name: (x values, y values)}.
        headings: of both axes.

    Raises:
        DataError: there is no curve.
    """
    if not curves:
        raise DataError("plot: no curve to show")
    styles = [(_BLUE, "-"), (_ORANGE, "--"), (_GREY, ":"), (_BLUE, "-."), (_ORANGE, "-"), (_GREY, "--")]
    with style():
        figure = new_figure((5.2, 3.6))
        axis = figure.subplots()
        for number, (name, (x, y)) in enumerate(curves.items()):
            colour, line = styles[number % len(styles)]
            axis.plot(
                x, y, color=colour, linestyle=line, label=name, linewidth=1.6, markersize=4,
                marker="o" if len(x) < _MARKED else "",
            )  # fmt: skip
        axis.set(xlabel=headings[0], ylabel=headings[1])
        if len(curves) > 1:
            legend_below(figure, axis)
        axis.grid(color=_LIGHT, linewidth=0.6)
        axis.set_axisbelow(True)
        save_figure(figure, path)


def _legible(systems: Sequence[str]) -> list[str]:
    """Return systems' names for beside a figure; no two that differ become the same."""
    short, half = short_names(systems), _LONGEST // 2
    cut = {
        system: name if len(name) <= _LONGEST else f"{name[:half]}…{name[-half:]}"
        for system, name in short.items()
    }
    taken = Counter(cut.values())
    return [cut[system] if taken[cut[system]] == 1 else short[system] for system in systems]


def _heading(heading: str, table: Table, rows: Sequence[Row], column: str) -> str:
    """Return what stands below an axis: what is drawn, how sure its intervals are, and of how many."""
    drawn, said = [row for row in rows if row.value(column) is not None], []
    if any(row.cells[column].low is not None for row in drawn):
        said.append(_interval(table.meta.get("settings", {}).get("confidence", CONFIDENCE)))
    counts = [int(n) for row in drawn if (n := row.value("n")) is not None]
    if counts:
        least, most = min(counts), max(counts)
        said.append(f"n = {least:,}" + (f" to {most:,}" if most > least else ""))
    return f"{heading}\n({', '.join(said)})" if said else heading


def _interval(confidence: float = CONFIDENCE) -> str:
    return f"{confidence:.0%} bootstrap interval"


def _room(labels: Sequence[str]) -> float:
    """Return the inches that labels beside an axis take, within limits."""
    longest = max(map(len, short_names(labels).values()), default=0)
    return min(max(0.4 + 0.088 * longest, 1.8), 6.0)


def legend_below(figure: Figure, axis: Axes) -> None:
    """Say below all panels what the lines of one are: inside of it, that would hide points."""
    lines, names = axis.get_legend_handles_labels()
    wide = figure.get_figwidth() > _WIDE
    figure.legend(lines, names, loc="outside lower center", ncols=4 if wide else 2, fontsize=8, frameon=False)


def _reliability_panel(axis: Axes, value: Calibration) -> None:
    axis.plot([0, 1], [0, 1], color=_GREY, linewidth=1, linestyle="--", label="identity")
    sure = any(each.low is not None for each in value.bins)
    for each in value.bins:
        if each.low is not None and each.high is not None:
            axis.vlines(each.predicted, each.low, each.high, color=_ORANGE, linewidth=1.6)
    axis.plot(
        [each.predicted for each in value.bins], [each.human for each in value.bins],
        color=_ORANGE, marker="o", markersize=5, linewidth=1.2,
        label=f"mean rating, {_interval()}" if sure else "mean rating",
    )  # fmt: skip
    axis.set_ylim(-0.03, 1.03)
    axis.grid(color=_LIGHT, linewidth=0.6)
    axis.set_axisbelow(True)


def _bars(axis: Axes, rows: list[Row], correlation: str) -> None:
    values = np.array([row.value(correlation) for row in rows], dtype=np.float64)
    positions = np.arange(len(rows))
    colours = [_GREY if row.label == HUMAN else _BLUE for row in rows]
    axis.barh(positions, values, color=colours, height=0.68)
    cells = [row.cells[correlation] for row in rows]
    ends = []
    for position, value, cell in zip(positions, values, cells, strict=True):
        end = value
        if cell.low is not None and cell.high is not None:
            axis.hlines(position, cell.low, cell.high, color="black", linewidth=1.3)
            axis.vlines([cell.low, cell.high], position - 0.14, position + 0.14, color="black", linewidth=1.3)
            end = max(value, cell.high)
        ends.append(max(end, 0.0))
    low = min(
        0.0, *(cell.low if cell.low is not None else value for cell, value in zip(cells, values, strict=True))
    )
    span = max(ends) - low or 1.0
    for height, value, end in zip(positions.tolist(), values, ends, strict=True):
        axis.text(end + 0.015 * span, height, f"{value:.3f}", va="center", fontsize=9)
    names = short_names([row.label for row in rows])
    axis.set_yticks(positions, [names[row.label] for row in rows])
    axis.set(xlim=(low - (0.03 * span if low < 0 else 0), max(ends) + 0.13 * span))
    axis.axvline(0, color="black", linewidth=0.8)
    axis.grid(axis="x", color=_LIGHT, linewidth=0.6)
    axis.set_axisbelow(True)

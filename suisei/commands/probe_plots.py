"""The figures of ``suisei probe``: those of each metric, and the curves of all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.commands.probe_findings import Findings
from suisei.data.outputs import raise_first
from suisei.data.sample import LANGUAGE_NAMES
from suisei.errors import DataError

if TYPE_CHECKING:
    from suisei.metaeval.calibration import Calibration
    from suisei.metaeval.tables import Table
    from suisei.probes.outcomes import Scored


def plot_findings(
    path: str,
    metrics: list[Scored],
    found: Findings,
    calibrations: dict[str, dict[str, Calibration] | str],
) -> None:
    """Write the plots of each metric, and the curves of all, into a folder.

    Raises:
        DataError: it cannot be written to, or some cannot be drawn, such as a name in letters that no font
            has; the others are written.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be written to: {error.strerror or error}") from None
    problems = []
    for plot in _plots(folder, metrics, found, calibrations):
        try:
            plot()
        except DataError as error:
            problems.append(error)
    raise_first(problems)


def _plots(
    folder: Path,
    metrics: list[Scored],
    found: Findings,
    calibrations: dict[str, dict[str, Calibration] | str],
) -> Iterator[Callable[[], None]]:
    """Yield what writes each plot."""
    from suisei.metaeval.plots import plot_dots, plot_reliability
    from suisei.probes.curves import SHARES
    from suisei.probes.degradation_plots import plot_degradation, plot_orders

    for metric, name in zip(metrics, file_names(metrics), strict=True):
        for kind in ("degradations", "invariances"):
            if kind in found.tables and metric.label in found.changed:
                own = _of_metric(found.tables[kind], metric, found.changed)
                looks: dict[str, Any] = {"line": 0.5, "limits": (-0.03, 1.03)}
                looks["heading"] = "share that scores lower"
                yield partial(plot_dots, folder / f"{name}-{kind}.png", own, "lower", **looks)
        value = calibrations.get(metric.label)
        if value is not None and not isinstance(value, str):
            title = f"Reliability of {metric.label}"
            yield partial(plot_reliability, folder / f"{name}-reliability.png", value, title=title)
        beside = {
            f"{each.names[0]}, {LANGUAGE_NAMES[each.language]}": dict(
                zip(each.names, each.orders().tolist(), strict=True)
            )
            for each in found.beside_people
            if each.metric == metric.label
        }
        if beside:
            title = f"Systems beside people by {metric.label}"
            yield partial(plot_orders, folder / f"{name}-systems.png", beside, title=title)
    if found.curves:
        panels: dict[str, dict[str, Any]] = {}
        for curve in found.curves:
            panel = panels.setdefault(f"{curve.kind}, {LANGUAGE_NAMES[curve.language]}", {})
            panel[curve.metric] = (SHARES, [cell.value for cell in curve.values])
        yield partial(plot_degradation, folder / "curves.png", panels, title="Degradation curves")


def _of_metric(table: Table, metric: Scored, metrics: Sequence[str]) -> Table:
    """Return one metric's part of a table whose sections are by metric, then by language."""
    width, number = len(table.sections) // len(metrics), metrics.index(metric.label)
    own = table.sections[number * width : (number + 1) * width]
    return replace(table, title=f"{table.title}: {metric.label}", sections=own)


def file_names(metrics: Sequence[Scored]) -> list[str]:
    """Return what the metrics' files are called, no two alike and none too long."""
    names: list[str] = []
    for metric in metrics:
        name = re.sub(r"[/:\\\s]+", "-", metric.label.strip("/"))[-60:]
        names.append(name if name not in names else f"{name}-{len(names) + 1}")
    return names

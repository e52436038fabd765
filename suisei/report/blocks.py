"""From a result to a part of the page: which tables and figures stand under which heading."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from suisei.data.sample import LANGUAGE_NAMES, language_of
from suisei.errors import DataError
from suisei.metaeval.calibration import Bin, Calibration, calibrate_by_language, calibration_table
from suisei.metaeval.plots import (
    plot_curves,
    plot_dots,
    plot_predicted,
    plot_reliability,
    plot_systems,
    plot_table,
)
from suisei.metaeval.significance import Interval
from suisei.metaeval.tables import Cell, Row, Section, Table
from suisei.report.examples import Explain, human_scores, nearest_metric, prediction_cards
from suisei.report.parts import Block, Figure, Part, Rated, Result
from suisei.report.vector import plain

_MOST_SYSTEMS = 40
_VERDICTS = 2
_PREFERRED = ("tau-c", "mean", "average-precision", "accuracy")
"""Columns of a main table, of which the first that is there is drawn."""
_NOT_DRAWN = ("published",)
"""Tables that repeat figures of another."""
_PROBES = "lower"
"""The column of a probe that is drawn: how often the score falls."""


def part_of(result: Result, explained: Callable[[str], Explain | None] | None = None) -> Part:
    """Return a result as a part of a page; headings without content are left out.

    Args:
        result: the result.
        explained: gives what explains a metric's scores, or None where they are not explained.
    """
    calibration = {name: table for name, table in result.tables.items() if _is_calibration(name)}
    probes = {name: table for name, table in result.tables.items() if _PROBES in table.columns}
    others = [t for name, t in result.tables.items() if name not in calibration and name not in probes]
    drawn = [table for name, table in result.tables.items() if name not in _NOT_DRAWN and table in others]
    blocks = [
        Block("Results", others, _bars(drawn), notes=result.notes),
        Block("Probes", list(probes.values()), [f for t in probes.values() for f in probe_figures(t)]),
    ]
    graded = result.rated if result.rated is not None and _is_graded(result.rated) else None
    if graded is not None:
        blocks.append(Block("Predicted against human", figures=_predicted(graded, result.drawn)))
    blocks.append(_calibration(calibration, graded))
    blocks.append(Block("Learning curves", figures=_curves(result.curves)))
    if result.rated is not None and result.rated.scores:
        label = nearest_metric(result.rated)
        explain = explained(label) if explained and result.examples else None
        cards = prediction_cards(result.rated, label, result.examples, explain)
        blocks.append(Block("Best and worst predictions", cards=cards))
    blocks.append(Block("Examples", cards=result.cards))
    blocks.append(Block("Where it comes from", texts=[fact for fact in result.facts if fact[1]]))
    return Part(result.title, [block for block in blocks if block])


def _plain_table(table: Table) -> Table:
    """Return a table whose words may be drawn."""
    sections = tuple(
        Section(plain(section.title), tuple(replace(row, label=plain(row.label)) for row in section.rows))
        for section in table.sections
    )
    columns = {key: plain(heading) for key, heading in table.columns.items()}
    return replace(table, title="", columns=columns, sections=sections)


def _is_calibration(name: str) -> bool:
    return name == "calibration" or name.startswith("reliability ")


def _bars(tables: Sequence[Table]) -> list[Figure]:
    """Return the bars of each table that has one of the columns that sum up a benchmark."""
    figures = []
    for number, table in enumerate(tables):
        column = next((key for key in _PREFERRED if key in table.columns), None)
        rows = [row for row in table.overall.rows if column and _value(row, column) is not None]
        if column is None or not rows:
            continue
        heading = table.columns[column]
        text = "; ".join(f"{row.label} {row.cells[column].text(table.digits)}" for row in rows)
        drawn = partial(plot_table, table=_plain_table(table), correlation=column)
        figures.append(Figure(f"agreement-{number + 1}", f"{table.title}, {heading}", plain(text), drawn))
    return figures


def _value(row: Row, column: str) -> Any:
    return row.cells[column].value if column in row.cells else None


def probe_figures(table: Table) -> list[Figure]:
    """Return how often the score falls, a figure per metric and language."""
    figures = []
    for number, section in enumerate(_plain_table(table).sections):
        named = [(row, _value(row, _PROBES)) for row in section.rows]
        text = "; ".join(f"{row.label} {value:.0%}" for row, value in named if value is not None)
        if text:
            own = replace(_plain_table(table), sections=(section,))
            drawn = partial(
                plot_dots, table=own, column=_PROBES, line=0.5, limits=(-0.03, 1.03),
                heading="share that scores lower",
            )  # fmt: skip
            title = f"{table.title}: {section.title}"
            figures.append(Figure(f"probe-{number + 1}", title, text, drawn))
    return figures


def _is_graded(rated: Rated) -> bool:
    """Say whether people gave more than good or bad: of two values there is no curve."""
    human = human_scores(rated.samples)
    return len(np.unique(human[np.isfinite(human)])) > _VERDICTS


def _predicted(rated: Rated, most: int) -> list[Figure]:
    human, figures = human_scores(rated.samples), []
    languages = np.array([language_of(sample) for sample in rated.samples], dtype=object)
    systems = np.array([sample.system or "" for sample in rated.samples], dtype=object)
    for metric, (label, scores) in enumerate(list(rated.scores.items())[:most]):
        known = np.isfinite(scores) & np.isfinite(human)
        found = [name for name in LANGUAGE_NAMES if (known & (languages == name)).any()]
        scopes = [(LANGUAGE_NAMES[name], languages == name) for name in found]
        if len(found) > 1:
            scopes.insert(0, ("all", np.ones(len(human), dtype=bool)))
        for scope, mask in scopes:
            names = None if scope == "all" else languages[mask].tolist()
            drawn = partial(
                plot_predicted, predicted=scores[mask], human=human[mask], languages=names, title=""
            )
            text = f"predicted over human scores of {int((known & mask).sum()):,} samples"
            figures.append(Figure(f"predicted-{metric + 1}-{scope}", f"{plain(label)}, {scope}", text, drawn))
        named = known & (systems != "")
        if 1 < len(set(systems[named])) <= _MOST_SYSTEMS:
            names = [plain(name) for name in systems[named]]
            drawn = partial(plot_systems, predicted=scores[named], human=human[named], systems=names)
            text = f"mean predicted over mean human score of {len(set(names))} systems"
            figures.append(Figure(f"systems-{metric + 1}", f"{plain(label)}, by system", text, drawn))
    return figures


def _calibration(tables: Mapping[str, Table], rated: Rated | None) -> Block:
    """Return calibration as the tables have it, else as the scores give it."""
    if not tables and rated is not None:
        named = {label: _calibrate(scores, rated) for label, scores in rated.scores.items()}
        if any(not isinstance(value, str) for value in named.values()):
            figures = [
                _reliability(label, value, number)
                for number, (label, value) in enumerate(named.items())
                if not isinstance(value, str)
            ]
            return Block("Calibration", [calibration_table(named)], figures)
    figures = []
    for number, (name, table) in enumerate(tables.items()):
        label = name.removeprefix("reliability ")
        if label != name:
            figures.append(_reliability(label, _read_calibrations(table), number))
    return Block("Calibration", list(tables.values()), figures)


def _calibrate(scores: np.ndarray, rated: Rated) -> dict[str, Calibration] | str:
    try:
        return calibrate_by_language(scores, rated.samples)
    except DataError as error:
        return str(error)


def _reliability(label: str, values: Mapping[str, Calibration], number: int) -> Figure:
    text = "; ".join(f"{scope}: calibration error {value.error:.3f}" for scope, value in values.items())
    drawn = partial(plot_reliability, calibrations=values, title="")
    return Figure(f"reliability-{number + 1}", f"Reliability of {plain(label)}", text, drawn)


def _read_calibrations(table: Table) -> dict[str, Calibration]:
    """Return what a reliability table was made of, as far as a figure needs it."""
    found = {}
    for section in table.sections:
        bins = tuple(_bin(row) for row in section.rows if _value(row, "predicted") is not None)
        total = sum(each.n for each in bins)
        error = sum(each.n * abs(each.predicted - each.human) for each in bins) / max(total, 1)
        found[plain(section.title)] = Calibration(bins, error, Interval(None, None), 0.0, 0.0, None, total)
    return found


def _bin(row: Row) -> Bin:
    start, _, stop = row.label.partition(" to ")
    cell = row.cells.get("human", Cell(None))
    try:
        return Bin(
            float(start), float(stop), float(_value(row, "predicted")), float(cell.value or 0.0),
            cell.low, cell.high, int(_value(row, "n") or 0),
        )  # fmt: skip
    except ValueError:
        raise DataError(
            f"a reliability table has a row {row.label[:40]!r}; expected such as '0.1 to 0.2'"
        ) from None


def _curves(curves: Mapping[str, Mapping[float, float]]) -> list[Figure]:
    """Return the loss in one figure, and what validation measured in another."""
    kinds = {
        "loss": {name: values for name, values in curves.items() if "loss" in name and values},
        "validation": {name: values for name, values in curves.items() if "loss" not in name and values},
    }
    figures = []
    for kind, named in kinds.items():
        if named:
            lines = {plain(name): (list(values), list(values.values())) for name, values in named.items()}
            ends = "; ".join(
                f"{name} ends at {list(values.values())[-1]:.4g}" for name, values in named.items()
            )
            drawn = partial(plot_curves, curves=lines, headings=("step", kind))
            figures.append(Figure(f"learning-{kind}", f"Learning curves: {kind}", plain(ends), drawn))
    return figures

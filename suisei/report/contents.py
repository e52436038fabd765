"""From a result to a part of the page: which tables and figures stand under which heading."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from suisei.cli import counted
from suisei.data.sample import LANGUAGE_NAMES, language_of
from suisei.errors import DataError
from suisei.metaeval.calibration import (
    Bin,
    Calibration,
    calibrate_metrics,
    calibration_table,
    is_graded,
)
from suisei.metaeval.plots import (
    plot_curves,
    plot_dots,
    plot_reliability,
    plot_systems,
    plot_table,
)
from suisei.metaeval.prediction_plots import plot_predicted
from suisei.metaeval.resampling import Interval
from suisei.metaeval.settings import Resampling
from suisei.metaeval.tables import Cell, Row, Section, Table
from suisei.probes.degradation_plots import plot_boxes, plot_degradation
from suisei.report.examples import Explain, human_scores, nearest_metric, prediction_cards
from suisei.report.parts import Block, Figure, Part, Rated, Result
from suisei.report.vector import plain

_MOST_SYSTEMS = 40
_PREFERRED = ("tau-c", "mean", "average-precision", "accuracy")
"""Columns of a main table that does not say what figures show, of which the first that is there is drawn."""
_STEM_BYTES = 120
_NOT_DRAWN = ("published",)
"""Tables that repeat figures of another."""
_FALLS = "lower"
"""The column of a probe that is drawn: how often the score falls."""
_PROBES = (
    "degradations",
    "invariances",
    "probes",
    "replacing",
    "shuffling",
    "curves",
    "references",
    "spread",
)
"""Tables of the probes; :mod:`suisei.commands.probe` names them."""


def part_of(result: Result, explained: Callable[[str], Explain | None] | None = None) -> Part:
    """Return a result as a part of a page; headings without content are left out.

    Args:
        result: the result.
        explained: gives what explains a metric's scores, or None where they are not explained.
    """
    calibration = {name: table for name, table in result.tables.items() if _is_calibration(name)}
    probes = {
        name: table
        for name, table in result.tables.items()
        if name not in calibration and _kind(name) in _PROBES
    }
    others = [t for name, t in result.tables.items() if name not in calibration and name not in probes]
    drawn = [
        table for name, table in result.tables.items() if _kind(name) not in _NOT_DRAWN and table in others
    ]
    blocks = [
        Block("Results", others, [*_bars(drawn), *_system_scores(drawn)], notes=result.notes),
        Block(
            "Probes",
            list(probes.values()),
            [figure for table in probes.values() for figure in probe_figures(table)],
            texts=_example_texts(probes.values()),
        ),
    ]
    graded = result.rated if result.rated is not None and is_graded(result.rated.samples) else None
    if graded is not None:
        figures = _predicted(graded, result.drawn)
        notes = _not_drawn(graded, result.drawn) if figures else []
        blocks.append(Block("Predicted against human", figures=figures, notes=notes))
    blocks.append(_calibration(calibration, graded, result.resampling))
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


def _stem(title: str) -> str:
    """Return a title as part of a file's name, short enough that a number after it is not cut off."""
    name = re.sub(r"\W+", "-", title.lower()).encode()[:_STEM_BYTES].decode(errors="ignore")
    return name.strip("-")


def _kind(name: str) -> str:
    """Return what a table is called; in the JSON of an examination what was measured stands before it."""
    return name.rpartition("/")[2]


def _is_calibration(name: str) -> bool:
    return name == "calibration" or name.startswith("reliability ")


def _bars(tables: Sequence[Table]) -> list[Figure]:
    """Return the bars of each table that has one of the columns that sum up a benchmark."""
    figures = []
    for number, table in enumerate(tables):
        preferred = (table.meta.get("plotted"), *_PREFERRED)
        column = next((key for key in preferred if key in table.columns), None)
        rows = [row for row in table.overall.rows if column and row.value(column) is not None]
        if column is None or not rows:
            continue
        section = table.overall.title  # the first of several, where no section is of all
        of = "" if section == "overall" else f"{section}, "
        heading = table.columns[column]
        text = "; ".join(f"{row.label} {row.cells[column].text(table.digits)}" for row in rows)
        drawn = partial(plot_table, table=_plain_table(table), correlation=column)
        name = f"agreement-{number + 1}-{_stem(table.title)}-{_stem(of + heading)}"
        figures.append(Figure(name, f"{table.title}, {of}{heading}", plain(text), drawn))
    return figures


def _system_scores(tables: Sequence[Table]) -> Iterator[Figure]:
    """Yield the corpus scores of captioning systems with their intervals, a figure per metric."""
    scored = [(table, key) for table in tables for key in table.columns if f"{key} rank" in table.columns]
    for number, (table, key) in enumerate(scored, 1):  # through all tables: figures are files of these names
        rows = [row for row in table.overall.rows if row.value(key) is not None]
        if not rows:
            continue
        text = "; ".join(f"{row.label} {row.cells[key].text(table.digits)}" for row in rows)
        plainly = _plain_table(table)
        drawn = partial(
            plot_dots, table=plainly, column=key, line=None, figures=True,
            heading=f"{plainly.columns[key]}, corpus score",
        )  # fmt: skip
        name = f"scores-{number}-{plain(key)}"
        yield Figure(name, f"{table.title}: {table.columns[key]}", plain(text), drawn)


def probe_figures(table: Table) -> list[Figure]:
    """Return what is drawn of a table of probes: how often and by how much scores fall, curves, or rho."""
    plainly = _plain_table(table)
    if "rho" in table.columns:
        return _ranks(table, plainly)
    draw = _changes if _FALLS in table.columns else _curve
    found = [figure for section in plainly.sections for figure in draw(plainly, section)]
    stem = _stem(table.title)
    return [
        replace(each, name=f"{stem}-{number}-{each.title}", title=f"{table.title}: {each.title}")
        for number, each in enumerate(found, 1)
    ]


def _changes(table: Table, section: Section) -> Iterator[Figure]:
    """Yield how often each change lowers the score, and by how much."""
    named = [(row, row.value(_FALLS)) for row in section.rows]
    text = "; ".join(f"{row.label} {value:.0%}" for row, value in named if value is not None)
    if not text:
        return
    drawn = partial(
        plot_dots, table=replace(table, sections=(section,)), column=_FALLS, line=0.5, limits=(-0.03, 1.03),
        heading="share that scores lower",
    )  # fmt: skip
    yield Figure("", section.title, text, drawn)
    places = ("0.05", "0.25", "0.5", "0.75", "0.95")
    boxes = {
        row.label: [row.info["quantiles"][place] for place in places]
        for row in section.rows
        if set(places) <= set(row.info.get("quantiles", ()))
    }
    if boxes:
        text = "; ".join(f"{name} median {values[2]:z.3f}" for name, values in boxes.items())
        drawn = partial(plot_boxes, boxes=boxes)
        yield Figure("", f"{section.title}, distributions", text, drawn)


def _curve(table: Table, section: Section) -> Iterator[Figure]:
    """Yield the degradation curves of one section, a line per metric."""
    shares = {key: float(key.removeprefix("at")) for key in table.columns if re.fullmatch(r"at[\d.]+", key)}
    lines = {}
    for row in section.rows:
        values = [value for key in shares if (value := row.value(key)) is not None]
        if len(values) == len(shares):
            lines[row.label] = (list(shares.values()), values)
    if shares and lines:
        text = "; ".join(f"{name} falls to {values[-1]:z.2f}" for name, (_, values) in lines.items())
        drawn = partial(plot_degradation, panels={section.title: lines}, title="")
        yield Figure("", section.title, text, drawn)


def _ranks(table: Table, plainly: Table) -> list[Figure]:
    """Return the rank correlations of a protocol, a figure per language."""
    figures = []
    for number, section in enumerate(plainly.sections, 1):
        rows = [row for row in section.rows if row.value("rho") is not None]
        if rows:
            own = replace(plainly, sections=(replace(section, rows=tuple(rows)),))
            text = "; ".join(f"{row.label} {row.cells['rho'].text(3)}" for row in rows)
            drawn = partial(plot_table, table=own, correlation="rho")
            told = table.title.endswith(f": {section.title}")  # of an examination
            title = table.title if told else f"{table.title}: {section.title}"
            name = f"{_stem(table.title)}-{number}-{plain(section.title)}"
            figures.append(Figure(name, title, text, drawn))
    return figures


def _example_texts(tables: Iterable[Table]) -> list[tuple[str, str]]:
    """Return an example of each change that can be read, a text per section."""
    texts = []
    for table in tables:
        for section in table.sections:
            lines = []
            for row in section.rows:
                example = row.info.get("examples", {}).get("typical")
                if example:
                    fall = f"{example['before']:z.3f} to {example['after']:z.3f}"
                    lines.append(f"{row.label} ({fall})\n  {example['original']}\n  {example['changed']}")
            if lines:
                title = table.title[:1].lower() + table.title[1:]
                texts.append((f"Examples of {title}: {section.title}", "\n".join(lines)))
    return texts


def _predicted(rated: Rated, most: int) -> list[Figure]:
    human, figures = human_scores(rated.samples), []
    languages = np.array([language_of(sample) for sample in rated.samples], dtype=object)
    systems = np.array([sample.system or "" for sample in rated.samples], dtype=object)
    several = any(s.rating is not None and len(s.rating.values) > 1 for s in rated.samples)
    note = "each sample once, by its mean rating" if several else ""
    for metric, (label, scores) in enumerate(list(rated.scores.items())[:most]):
        distance = label in rated.distances
        known = np.isfinite(scores) & np.isfinite(human)
        found = [name for name in LANGUAGE_NAMES if (known & (languages == name)).any()]
        scopes = [(LANGUAGE_NAMES[name], languages == name) for name in found]
        if len(found) > 1:
            scopes.insert(0, ("all", np.ones(len(human), dtype=bool)))
        for scope, mask in scopes:
            names = None if scope == "all" else languages[mask].tolist()
            drawn = partial(
                plot_predicted,
                predicted=scores[mask],
                human=human[mask],
                languages=names,
                title="",
                note=note,
                distance=distance,
            )
            text = f"predicted over human scores of {counted(int((known & mask).sum()), 'sample')}"
            name = f"predicted-{metric + 1}-{scope}-{plain(label)}"
            figures.append(Figure(name, f"{plain(label)}, {scope}", text, drawn))
        named = known & (systems != "")
        if 1 < len(set(systems[named])) <= _MOST_SYSTEMS:
            names = [plain(name) for name in systems[named]]
            drawn = partial(
                plot_systems,
                predicted=scores[named],
                human=human[named],
                systems=names,
                distance=distance,
            )
            text = f"mean predicted over mean human score of {len(set(names))} systems"
            name = f"systems-{metric + 1}-{plain(label)}"
            figures.append(Figure(name, f"{plain(label)}, by system", text, drawn))
    return figures


def _not_drawn(rated: Rated, most: int) -> list[str]:
    """Say which metrics, and which figures by system, are left out beside ratings."""
    notes, metrics = [], len(rated.scores)
    if metrics > most:
        notes.append(f"the first {most} of {metrics} metrics are drawn; tables have all")
    systems = len({sample.system for sample in rated.samples if sample.system and sample.rating is not None})
    if systems > _MOST_SYSTEMS:
        notes.append(f"by system, metrics are drawn for up to {_MOST_SYSTEMS} systems; there are {systems}")
    return notes


def _calibration(tables: Mapping[str, Table], rated: Rated | None, resampling: Resampling) -> Block:
    """Return calibration as the tables have it; what they leave out, as the scores give it."""
    drawn = {
        name.removeprefix("reliability "): _read_calibrations(table)
        for name, table in tables.items()
        if name.startswith("reliability ")
    }
    shown = list(tables.values())
    if not drawn and rated is not None:
        settings = {"n_resamples": resampling.n_resamples, "seed": resampling.seed}
        named = calibrate_metrics(rated.scores, rated.samples, distances=rated.distances, **settings)
        drawn = {label: value for label, value in named.items() if not isinstance(value, str)}
        shown = shown or ([calibration_table(named)] if drawn else [])
    figures = [_reliability(label, value, number) for number, (label, value) in enumerate(drawn.items())]
    return Block("Calibration", shown, figures)


def _reliability(label: str, values: Mapping[str, Calibration], number: int) -> Figure:
    text = "; ".join(f"{scope}: calibration error {value.error:.3f}" for scope, value in values.items())
    drawn = partial(plot_reliability, calibrations=values, title="")
    name = f"reliability-{number + 1}-{plain(label)}"
    return Figure(name, f"Reliability of {plain(label)}", text, drawn)


def _read_calibrations(table: Table) -> dict[str, Calibration]:
    """Return what a reliability table was made of, as far as a figure needs it."""
    found = {}
    for section in table.sections:
        bins = tuple(_bin(row) for row in section.rows if row.value("predicted") is not None)
        total = sum(each.n for each in bins)
        error = sum(each.n * abs(each.predicted - each.human) for each in bins) / max(total, 1)
        found[plain(section.title)] = Calibration(bins, error, Interval(None, None), 0.0, 0.0, None, total)
    return found


def _bin(row: Row) -> Bin:
    start, _, stop = row.label.partition(" to ")
    cell = row.cells.get("human", Cell(None))
    try:
        return Bin(
            float(start), float(stop), float(row.value("predicted") or 0.0), float(cell.value or 0.0),
            cell.low, cell.high, int(row.value("n") or 0),
        )  # fmt: skip
    except ValueError:
        raise DataError(
            f"a reliability table has a row {row.label[:40]!r}; expected such as '0.1 to 0.2'"
        ) from None


def _curves(curves: Mapping[str, Mapping[float, float]]) -> list[Figure]:
    """Return the loss in one figure, and what validation measured in others."""
    kinds: dict[str, dict[str, Mapping[float, float]]] = {"loss": {}, "reward": {}, "validation": {}}
    for name, values in curves.items():
        kind = next((kind for kind in ("loss", "reward") if kind in name), "validation")
        if values and (kind == "loss" or name.startswith("val")):
            kinds[kind][name] = values
    figures = []
    for kind, named in kinds.items():
        if named:
            lines = {plain(name): (list(values), list(values.values())) for name, values in named.items()}
            ends = "; ".join(
                f"{name} ends at {list(values.values())[-1]:.4g}" for name, values in named.items()
            )
            heading = kind if len(lines) > 1 else next(iter(lines))  # a single line has no legend
            drawn = partial(plot_curves, curves=lines, headings=("step", heading))
            figures.append(Figure(f"learning-{kind}", f"Learning curves: {kind}", plain(ends), drawn))
    return figures

"""The overview of an examination: metrics in rows, what they were examined on in columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from suisei.examination.measures import Measure
from suisei.metaeval.best import too_few_resamples
from suisei.metaeval.tables import Cell, Row, Section, Table
from suisei.scoring.columns import sign_notes

_NOTE = (
    "in bold: better than each of the other metrics by a paired bootstrap over images (5 %, two-sided, "
    "Bonferroni over the others); nothing is bold where no metric is, and probes are not tested"
)


def overview_table(
    labels: Sequence[str],
    measures: Sequence[Measure],
    skipped: Mapping[str, str],
    failed: Mapping[str, str],
    resamples: int,
) -> Table:
    """Return one row per metric and one column per benchmark and probe.

    Args:
        labels: the metrics.
        measures: what came of each benchmark and probe.
        skipped: {benchmark: why it was not examined}.
        failed: {metric: why it cannot be made}.
        resamples: of the bootstrap.
    """
    rows = []
    for label in labels:
        cells = {measure.name: _cell(measure, label) for measure in measures}
        best = [measure.name for measure in measures if measure.best == label]
        error = failed.get(label)
        rows.append(Row(label, {} if error else cells, error=error, info={"best": best}))
    notes = [_NOTE] if len(labels) > 1 else []
    most = max((_figures(measure) for measure in measures), default=0)
    wanted = too_few_resamples(most, resamples) if most > 1 else 0
    if wanted:
        notes.append(
            f"{resamples} resamples are too few for one of {most} metrics to be in bold; use at least "
            f"--bootstrap {wanted}"
        )
    seen = {label: [each.name for each in measures if label in each.seen] for label in labels}
    notes += [
        f"{label} learned from the ratings of {', '.join(names)}, where its figure is too good and never bold"
        for label, names in seen.items()
        if names
    ]
    columns = {
        each.label: each for measure in measures for each in measure.columns if each.scores is not None
    }
    notes += sign_notes(list(columns.values()))
    if skipped:
        notes.append(f"not examined, see the end of the page: {', '.join(skipped)}")
    headings = {measure.name: measure.heading for measure in measures}
    return Table("Overview", headings, (Section("overall", tuple(rows)),), tuple(notes))


def _figures(measure: Measure) -> int:
    """Return how many metrics have a figure, among which the best is sought."""
    return sum(cell.value is not None for cell in measure.figures.values())


def _cell(measure: Measure, label: str) -> Cell:
    """Return a metric's figure, or why it has none there."""
    cell = measure.figures.get(label, Cell(None, reason=measure.errors.get(label, "no figure")))
    return replace(cell, reason=f"{measure.name}: {cell.reason}") if cell.reason else cell


def skipped_table(skipped: Mapping[str, str]) -> Table:
    """Return what was not examined, and why."""
    rows = tuple(Row(name, error=why) for name, why in skipped.items())
    return Table("Not examined", {}, (Section("overall", rows),), row_heading="Benchmark")

"""Captions rated on several scales, or measured with each choice of references: more than one correlation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from suisei.data.judged import ScaledCaption
from suisei.data.sample import CaptionSample
from suisei.data.splits import group_of
from suisei.errors import DataError
from suisei.metaeval.correlation_tables import evaluation_table
from suisei.metaeval.settings import EvaluationSettings
from suisei.metaeval.tables import LABELS, Cell, Row, Section, Table
from suisei.scoring.columns import ScoreColumn, oriented_scores

PAIR_KINDS = ("pearson", "spearman", "tau-b")
"""The coefficients that papers give of PFN-PIC-gen."""


def scale_table(
    named_scores: Mapping[str, np.ndarray],
    samples: Sequence[CaptionSample],
    settings: EvaluationSettings | None = None,
    *,
    title: str = "Agreement by scale",
) -> Table:
    """Return correlations with the ratings of each scale, on each part of the data.

    Args:
        named_scores: {name: float64 [N]}, higher is better; NaN where a sample has no score.
        samples: N captions with ratings on scales.
        settings: as of :func:`suisei.metaeval.correlation_tables.evaluation_table`.
        title: of the table.

    Returns:
        A table with a section per part and scale.

    Raises:
        DataError: no sample has such ratings.
    """
    settings = settings or EvaluationSettings()
    scaled = [sample if isinstance(sample, ScaledCaption) else None for sample in samples]
    scopes = dict.fromkeys(
        (part, scale) for sample in scaled if sample for part in sample.parts for scale, _ in sample.scales
    )
    if not scopes:
        raise DataError("no sample is rated on scales")
    parts, scales = (list(dict.fromkeys(names)) for names in zip(*scopes, strict=True))
    sections, table = [], None
    for part, scale in ((part, scale) for part in parts for scale in scales if (part, scale) in scopes):
        kept = [
            (position, replace(sample, rating=dict(sample.scales)[scale]))
            for position, sample in enumerate(scaled)
            if sample and part in sample.parts and scale in dict(sample.scales)
        ]
        places = [position for position, _ in kept]
        own = {name: scores[places] for name, scores in named_scores.items()}
        table = evaluation_table(
            own, [sample for _, sample in kept], settings, by_scope=False, human=False, title=title
        )
        sections.append(Section(f"{scale}, {part}", table.overall.rows))
    assert table is not None  # there is at least one scope
    groups = {group_of(sample) for sample in scaled if sample}
    counts = {"samples": sum(sample is not None for sample in scaled), "groups": len(groups)}
    meta = {**table.meta, **counts, "plotted": settings.correlation}
    return replace(table, sections=tuple(sections), meta=meta)


def reference_pair_table(
    columns: Mapping[int | None, Sequence[ScoreColumn]],
    samples: Sequence[CaptionSample],
    settings: EvaluationSettings | None = None,
    *,
    title: str = "Protocol of PFN-PIC-gen",
) -> Table:
    """Return correlations with each ordered pair of references: with the first pair, and the best of them.

    The authors' program scores every ordered pair of the three references and prints the figures of the first
    and the largest; which of the two papers report is not said.

    Args:
        columns: {number of the pair, from 0: the metrics' scores with it}.
        samples: N samples, all rated.
        settings: raters and averaging; there are no intervals.
        title: of the table.
    """
    settings = replace(settings or EvaluationSettings(), n_resamples=0)
    found: dict[str, list[Row]] = {}
    failed: dict[str, str] = {}
    for number in sorted(key for key in columns if key is not None):
        named = oriented_scores(columns[number])
        failed |= {column.label: column.error or "" for column in columns[number] if column.scores is None}
        table = evaluation_table(named, samples, settings, by_scope=False, human=False)
        for row in table.overall.rows:
            found.setdefault(row.label, []).append(row)
    heads: dict[str, str] = {}
    for kind in PAIR_KINDS:
        heads |= {kind: f"{LABELS[kind]} first pair", f"{kind}-best": f"{LABELS[kind]} best pair"}
    rows = [  # of a metric that failed with some pairs, no figure is of the first or of all
        Row(label, _pair_cells(rows), info={"pairs": len(rows)})
        for label, rows in found.items()
        if label not in failed
    ]
    rows += [Row(label, error=error) for label, error in failed.items()]
    notes = (
        "each ordered pair of a row's references by itself; the best pair is that of the largest figure over "
        "all rows, which favours metrics that depend on the choice",
    )
    return Table(title, heads, (Section("overall", tuple(rows)),), notes)


def _pair_cells(rows: Sequence[Row]) -> dict[str, Cell]:
    cells = {}
    for kind in PAIR_KINDS:
        values = [row.cells[kind].value for row in rows]
        defined = [float(value) for value in values if value is not None]
        cells[kind] = rows[0].cells[kind]
        cells[f"{kind}-best"] = Cell(max(defined)) if defined else rows[0].cells[kind]
    return cells

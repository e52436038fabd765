"""Tables of published figures beside those computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.metaeval.correlation_tables import evaluation_table
from suisei.metaeval.labels import HUMAN
from suisei.metaeval.published_backbones import BACKBONE_NOTE, BACKBONED, published_name
from suisei.metaeval.published_figures import PUBLISHED, PUBLISHED_OF_MEANS, PublishedFigures
from suisei.metaeval.settings import EvaluationSettings
from suisei.metaeval.tables import LABELS, Cell, Row, Section, Table

Backbones = Mapping[str, str | None]
"""{a row's label: :attr:`suisei.scoring.columns.ScoreColumn.backbone`}."""


def published_table(
    data: str,
    named_scores: Mapping[str, np.ndarray],
    samples: Sequence[CaptionSample],
    raters: str = "rows",
    backbones: Backbones | None = None,
) -> Table | None:
    """Return a data set's published figures beside those of ``named_scores``.

    Ours are computed as the papers did, whatever the options of the main table are: all rows pooled,
    and a sample's ratings as ``PublishedFigures.raters`` says.

    Args:
        data: the data set's name.
        named_scores: {label: float64 [N]}; a label is a registry name, perhaps with its ``:ARGUMENT``.
        samples: N samples, all rated.
        raters: "mean" for the figures of PUBLISHED_OF_MEANS where there are any.
        backbones: what the metrics with a backbone have.

    Returns:
        The table, or None where no figures are known.
    """
    of_means = PUBLISHED_OF_MEANS.get(data) if raters == "mean" else None
    known = of_means or PUBLISHED.get(data)
    if known is None:
        return None
    settings = EvaluationSettings(raters=known.raters)
    ours = evaluation_table(named_scores, samples, settings, by_scope=False, human=HUMAN in known.figures)
    heads = {kind: LABELS[kind] for kind in known.kinds}
    meta = {"data": data, "settings": {"averaging": "pooled", "raters": known.raters}}
    return _beside(data, known, ours.overall.rows, heads, meta, backbones or {})


def beside_published(data: str, table: Table, backbones: Backbones | None = None) -> dict[str, Table]:
    """Return {"published": a table of a protocol's figures beside the published ones}; empty without any.

    Args:
        data: the data set's name.
        table: the figures here; its columns are the kinds of the published figures.
        backbones: what the metrics with a backbone have.
    """
    if data not in PUBLISHED:
        return {}
    heads = {kind: table.columns.get(kind, kind) for kind in PUBLISHED[data].kinds}
    meta = {"data": data, "settings": table.meta.get("settings", {})}
    return {"published": _beside(data, PUBLISHED[data], table.overall.rows, heads, meta, backbones or {})}


def _beside(
    data: str,
    known: PublishedFigures,
    ours: Sequence[Row],
    heads: Mapping[str, str],
    meta: dict[str, Any],
    backbones: Backbones,
) -> Table:
    rows, told = [], set()
    for row in ours:
        name = published_name(row.label, backbones.get(row.label), {*known.figures, *known.backbones})
        if name is not None:
            told.add(name)
            here = {kind: _bare(row.cells[kind]) for kind in known.kinds if kind in row.cells}
            rows.append(Row(row.label, {**here, **_cells(known, name)}, row.signature, row.error))
    rows += [Row(name, _cells(known, name)) for name in known.figures if name not in told]
    rows.sort(key=lambda row: row.label == HUMAN)  # the ceiling comes last, as in the main table
    columns: dict[str, str] = {}
    for kind in known.kinds:
        columns |= {kind: f"{heads[kind]} here", _key(kind): f"{heads[kind]} published"}
    of_backbone = (BACKBONE_NOTE,) if BACKBONED & known.figures.keys() else ()
    notes = (f"published: {known.source}", *of_backbone, *known.differences)
    return Table(
        f"Beside published figures: {data}",
        columns,
        (Section("overall", tuple(rows)),),
        notes,
        meta,
        digits=4,
    )


def _cells(known: PublishedFigures, name: str) -> dict[str, Cell]:
    values = zip(known.kinds, {**known.figures, **known.backbones}[name], strict=True)
    return {_key(kind): Cell(value / known.scale) for kind, value in values if value is not None}


def _bare(cell: Cell) -> Cell:
    """Return a cell without its interval, which stands in the main table."""
    return replace(cell, low=None, high=None)


def _key(kind: str) -> str:
    return f"{kind}-published"

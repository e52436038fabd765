"""Tables of published figures beside those computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.metaeval.correlation_tables import evaluation_table
from suisei.metaeval.published_figures import PUBLISHED, PUBLISHED_OF_MEANS, PublishedFigures
from suisei.metaeval.settings import EvaluationSettings
from suisei.metaeval.tables import HUMAN, LABELS, Cell, Row, Section, Table


def published_table(
    data: str,
    named_scores: Mapping[str, np.ndarray],
    samples: Sequence[CaptionSample],
    raters: str = "rows",
) -> Table | None:
    """Return a data set's published figures beside those of ``named_scores``.

    Ours are computed as the papers did, whatever the options of the main table are: all rows pooled,
    and a sample's ratings as ``PublishedFigures.raters`` says.

    Args:
        data: the data set's name.
        named_scores: {label: float64 [N]}; a label is a registry name, perhaps with its ``:ARGUMENT``.
        samples: N samples, all rated.
        raters: "mean" for the figures of PUBLISHED_OF_MEANS where there are any.

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
    return _beside(data, known, ours.overall.rows, heads, meta)


def beside_published(data: str, table: Table) -> dict[str, Table]:
    """Return {"published": a table of a protocol's figures beside the published ones}; empty without any.

    Args:
        data: the data set's name.
        table: the figures here; its columns are the kinds of the published figures.
    """
    if data not in PUBLISHED:
        return {}
    heads = {kind: table.columns.get(kind, kind) for kind in PUBLISHED[data].kinds}
    meta = {"data": data, "settings": table.meta.get("settings", {})}
    return {"published": _beside(data, PUBLISHED[data], table.overall.rows, heads, meta)}


def _beside(
    data: str, known: PublishedFigures, ours: Sequence[Row], heads: Mapping[str, str], meta: dict[str, Any]
) -> Table:
    rows, told = [], set()
    for row in ours:
        with_measure = row.label.partition("@")[0]  # recap:MEASURE@MODEL
        name = with_measure if with_measure in known.figures else row.label.partition(":")[0]
        if name in known.figures:
            told.add(name)
            here = {kind: _bare(row.cells[kind]) for kind in known.kinds if kind in row.cells}
            rows.append(Row(row.label, {**here, **_cells(known, name)}, row.signature, row.error))
    rows += [Row(name, _cells(known, name)) for name in known.figures if name not in told]
    rows.sort(key=lambda row: row.label == HUMAN)  # the ceiling comes last, as in the main table
    columns: dict[str, str] = {}
    for kind in known.kinds:
        columns |= {kind: f"{heads[kind]} here", _key(kind): f"{heads[kind]} published"}
    notes = (f"published: {known.source}", *known.differences)
    return Table(
        f"Beside published figures: {data}",
        columns,
        (Section("overall", tuple(rows)),),
        notes,
        meta,
        digits=4,
    )


def _cells(known: PublishedFigures, name: str) -> dict[str, Cell]:
    values = zip(known.kinds, known.figures[name], strict=True)
    return {_key(kind): Cell(value / known.scale) for kind, value in values if value is not None}


def _bare(cell: Cell) -> Cell:
    """Return a cell without its interval, which stands in the main table."""
    return replace(cell, low=None, high=None)


def _key(kind: str) -> str:
    return f"{kind}-published"

"""Scoring with fewer references than there are, as VATEX-EVAL's protocol does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from suisei.data.benchmarks.vatex import limit_references
from suisei.data.sample import CaptionSample
from suisei.metrics.registry import get_entry
from suisei.scoring.columns import MetricPlan, ScoreColumn

REFERENCE_COUNTS = (1, 9)
"""With how many references the metrics that read any are measured; the others, and those that can do
without, are measured with none."""

Scoring = Callable[[MetricPlan, Sequence[CaptionSample], int], ScoreColumn]


def columns_by_references(
    plans: Sequence[MetricPlan],
    columns: Sequence[ScoreColumn],
    samples: Sequence[CaptionSample],
    score: Scoring,
) -> tuple[dict[int | None, list[ScoreColumn]], list[str]]:
    """Return the score columns with 0, 1 and 9 references, scoring where they are not there yet.

    Args:
        plans: the metrics.
        columns: their scores with all references that the samples have, in the same order.
        samples: N samples.
        score: scores a metric on samples with so many references each.

    Returns:
        {number of references: columns}, and what could not be had.
    """
    found: dict[int | None, list[ScoreColumn]] = {}
    least = min((len(sample.references) for sample in samples), default=0)
    limited = {count: limit_references(samples, count) for count in REFERENCE_COUNTS if count <= least}
    notes = [
        f"no figures with {count} references: a sample has only {least}"
        for count in REFERENCE_COUNTS
        if count > least
    ]
    for plan, column in zip(plans, columns, strict=True):
        needs = set(get_entry(plan.spec.partition(":")[0]).needs)
        if "references" not in needs:
            alone = column if needs else _without_references(plan, samples, score)
            found.setdefault(0, []).append(alone)
            if needs or _same(alone, column):
                continue
        for count, fewer in limited.items():
            there = column.scores is None or all(len(sample.references) == count for sample in samples)
            found.setdefault(count, []).append(column if there else score(plan, fewer, count))
    return found, notes


def _without_references(plan: MetricPlan, samples: Sequence[CaptionSample], score: Scoring) -> ScoreColumn:
    return score(plan, limit_references(samples, 0), 0)


def _same(first: ScoreColumn, second: ScoreColumn) -> bool:
    """Return whether a metric scores alike with and without references, so that it does not read them."""
    if first.scores is None or second.scores is None:
        return first.scores is second.scores
    return np.array_equal(first.scores, second.scores, equal_nan=True)

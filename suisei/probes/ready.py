"""Metrics that are made, fitted on captions that nothing was changed in, and ready to be probed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from suisei.cli import counted
from suisei.data.sample import CaptionSample
from suisei.data.splits import group_of
from suisei.errors import one_line
from suisei.metrics.base import SummableCorpus
from suisei.metrics.registry import get_metric
from suisei.probes.outcomes import Refused, Scored
from suisei.scoring.columns import KeepsScores, shown_problems
from suisei.scoring.corpus import summands
from suisei.scoring.fitting import fit_unrated
from suisei.scoring.plan import MetricPlan


def ready_metric(
    plan: MetricPlan,
    samples: Sequence[CaptionSample],
    *,
    batch_size: int = 64,
    progress: bool = False,
    refused: Refused | None = None,
    keep: KeepsScores | None = None,
) -> Scored:
    """Make a metric and fit it, once, where it must be fitted.

    A sample that it refuses, such as one of a broken image, costs its own score and no other.

    Args:
        plan: the metric.
        samples: what it is fitted on, with their ratings taken away.
        batch_size: handed to the metric.
        progress: handed to the metric.
        refused: gets what it refuses; a dictionary of its own if None.
        keep: where scores are kept as they come, and read from if they are there.

    Raises:
        ConfigError: it cannot be made.
        DataError: it cannot be fitted on so few samples; from ``score``, it refuses all samples.
        KeptError: from ``score``, scores cannot be kept.
    """
    metric = get_metric(plan.spec, **plan.options)
    learns = metric.needs_fit  # once it is fitted, it needs that no more
    fitted = fit_unrated(metric, samples) if learns else ""
    signature = metric.signature + fitted
    sign, told = 1.0 if metric.higher_is_better else -1.0, {} if refused is None else refused

    def score(wanted: Sequence[CaptionSample]) -> np.ndarray:
        if keep is None:
            scores, problems = metric.score_each(wanted, batch_size=batch_size, progress=progress)
        else:
            scores, problems, _ = keep.score(
                metric, plan.label, signature, wanted, batch_size=batch_size, progress=progress
            )
        if problems and len(problems) == len(wanted):
            raise problems[0]
        for place, problem in problems.items():
            told[group_of(wanted[place]), wanted[place].candidate] = one_line(problem, None)
        return sign * scores

    counts = partial(summands, metric) if isinstance(metric, SummableCorpus) else None
    return Scored(
        plan.label, score, signature, counts,
        learned=learns, distance=not metric.higher_is_better, refused=told,
    )  # fmt: skip


def refused_notes(metrics: Sequence[Scored]) -> list[str]:
    """Say how many captions, changed ones too, each metric has refused and why."""
    return [
        f"{metric.label}: {counted(len(metric.refused), 'caption')}, changed ones counted too, without score"
        f": {shown_problems(list(dict.fromkeys(metric.refused.values())))}"
        for metric in metrics
        if metric.refused
    ]

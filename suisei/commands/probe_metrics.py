"""The metrics that ``suisei probe`` tests: made, fitted on good captions, those that fail left out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from suisei.cli import say
from suisei.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from suisei.data.sample import CaptionSample
    from suisei.probes.outcomes import Scored
    from suisei.scoring.plan import MetricPlan


def probed_metrics(
    plans: Sequence[MetricPlan], samples: list[CaptionSample], batch_size: int, console: Console
) -> tuple[list[Scored], list[np.ndarray], dict[str, str]]:
    """Return the metrics that can score, their scores of all samples, and why the others cannot."""
    from suisei.scoring.columns import FAILURES, failure_text

    metrics, scores, failed = [], [], {}
    for plan in plans:
        say(console, f"scoring with {plan.spec}")
        try:
            metric = _scored(plan, samples, batch_size)
            scores.append(metric.score(samples))
            metrics.append(metric)
        except FAILURES as error:
            failed[plan.label] = failure_text(error)
            say(console, f"{plan.spec} failed: {failed[plan.label]}", "red")
    if not metrics:
        raise ConfigError("no metric could score: " + "; ".join(f"{k}: {v}" for k, v in failed.items()))
    return metrics, scores, failed


def _scored(plan: MetricPlan, samples: list[CaptionSample], batch_size: int) -> Scored:
    """Make a metric and fit it, once, on what is not degraded."""
    from suisei.metrics.base import SummableCorpus
    from suisei.metrics.registry import get_metric
    from suisei.probes.outcomes import Scored as NewScored
    from suisei.scoring.corpus import summands
    from suisei.scoring.fitting import fit_unrated

    metric = get_metric(plan.spec, **plan.options)
    learns = metric.needs_fit  # once it is fitted, it needs that no more
    if learns:
        fit_unrated(metric, samples)
    sign = 1.0 if metric.higher_is_better else -1.0

    def score(wanted: Sequence[CaptionSample]) -> np.ndarray:
        return sign * metric.score(wanted, batch_size=batch_size, progress=True)

    counts = partial(summands, metric) if isinstance(metric, SummableCorpus) else None
    return NewScored(
        plan.label, score, metric.signature, counts,
        learned=learns, distance=not metric.higher_is_better,
    )  # fmt: skip


def fitted_on(
    humans: list[CaptionSample],
    plans: Sequence[MetricPlan],
    metrics: list[Scored],
    batch_size: int,
) -> tuple[list[Scored], list[str]]:
    """Return the metrics, those with corpus statistics fitted on the references of these samples alone.

    One that cannot be, because they are too few, is left out; the second list says why.
    """
    by_label = {plan.label: plan for plan in plans}
    fitted, lost = [], []
    for metric in metrics:
        try:
            own = _scored(by_label[metric.label], humans, batch_size) if metric.learned else metric
            fitted.append(own)
        except DataError as error:
            lost.append(f"{metric.label}: not in the protocols of papers: {error}")
    return fitted, lost

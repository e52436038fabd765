"""The metrics that ``suisei probe`` tests: made, fitted on good captions, those that fail left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from suisei.cli import say
from suisei.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from suisei.data.sample import CaptionSample
    from suisei.probes.outcomes import Scored
    from suisei.scoring.columns import KeepsScores
    from suisei.scoring.plan import MetricPlan


def probed_metrics(
    plans: Sequence[MetricPlan],
    samples: list[CaptionSample],
    batch_size: int,
    console: Console,
    keep: KeepsScores | None = None,
) -> tuple[list[Scored], list[np.ndarray], dict[str, str]]:
    """Return the metrics that can score, their scores of all samples, and why the others cannot.

    Args:
        plans: of the metrics.
        samples: what they are fitted on, and score first.
        batch_size: handed to the metrics.
        console: where it is said which one scores, and which one fails.
        keep: where scores are kept.

    Raises:
        ConfigError: no metric could score.
        KeptError: scores cannot be kept.
    """
    from suisei.probes.ready import ready_metric
    from suisei.scoring.columns import FAILURES, KeptError, failure_text

    metrics, scores, failed = [], [], dict[str, str]()
    for plan in plans:
        say(console, f"scoring with {plan.spec}")
        try:
            metric = ready_metric(plan, samples, batch_size=batch_size, progress=True, keep=keep)
            scores.append(metric.score(samples))
            metrics.append(_guarded(metric, failed, console))
        except KeptError:
            raise
        except FAILURES as error:
            failed[plan.label] = failure_text(error)
            say(console, f"{plan.spec} failed: {failed[plan.label]}", "red")
    if not metrics:
        raise ConfigError("no metric could score: " + "; ".join(f"{k}: {v}" for k, v in failed.items()))
    return metrics, scores, failed


def _guarded(metric: Scored, failed: dict[str, str], console: Console) -> Scored:
    """Return a metric that gives no scores any more once it has failed, as where its server went away.

    Args:
        metric: the metric.
        failed: gets its label and the reason.
        console: where that is said.
    """
    import numpy as np

    from suisei.scoring.columns import FAILURES, KeptError, failure_text

    def score(wanted: Sequence[CaptionSample]) -> np.ndarray:
        if metric.label not in failed:
            try:
                return metric.score(wanted)
            except KeptError:
                raise
            except FAILURES as error:
                failed[metric.label] = failure_text(error)
                say(console, f"{metric.label} failed: {failed[metric.label]}", "red")
        return np.full(len(wanted), np.nan)

    return replace(metric, score=score)


def fitted_on(
    humans: list[CaptionSample],
    plans: Sequence[MetricPlan],
    metrics: list[Scored],
    batch_size: int,
    failed: dict[str, str],
    console: Console,
    keep: KeepsScores | None = None,
) -> tuple[list[Scored], list[str]]:
    """Return the metrics, those with corpus statistics fitted on the references of these samples alone.

    One that cannot be, because they are too few, is left out; the second list says why.

    Args:
        humans: the samples.
        plans: of the metrics.
        metrics: from :func:`probed_metrics`.
        batch_size: handed to the metrics.
        failed: gets the label and the reason of one that fails later.
        console: where that is said.
        keep: where scores are kept.
    """
    from suisei.probes.ready import ready_metric

    by_label = {plan.label: plan for plan in plans}
    fitted, lost = [], []
    for metric in metrics:
        if not metric.learned:
            fitted.append(metric)
            continue
        try:
            own = ready_metric(
                by_label[metric.label],
                humans,
                batch_size=batch_size,
                progress=True,
                refused=metric.refused,
                keep=keep,
            )
            fitted.append(_guarded(own, failed, console))
        except DataError as error:
            lost.append(f"{metric.label}: not in the protocols of papers: {error}")
    return fitted, lost

"""Which metric is the best on a benchmark, and whether that is more than chance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.metaeval.correlation import CorrelationError
from suisei.metaeval.protocol import Protocol
from suisei.metaeval.resampling import percentile_interval
from suisei.metaeval.settings import EvaluationSettings

LEVEL = 0.05
"""Chance that a metric is called the best which is no better than the others."""


def significantly_best(
    values: Mapping[str, float],
    scores: Mapping[str, np.ndarray],
    samples: Sequence[CaptionSample],
    protocol: Protocol,
    settings: EvaluationSettings,
) -> str | None:
    """Return the metric that is significantly better than each of the others; None if there is none.

    The best is compared with every other by a paired bootstrap over groups (images), two-sided, with
    Bonferroni's correction for their number, at LEVEL.

    Args:
        values: {metric: its figure on the benchmark}, higher is better.
        scores: {metric: float64 [N]}, higher is better, NaN where missing.
        samples: N samples.
        protocol: how the benchmark is measured.
        settings: the coefficient, resamples and seed; without resamples, with too few that are defined
            (:func:`too_few_resamples`), or with half of them undefined, nothing is significant.
    """
    if len(values) < 2 or not settings.n_resamples:
        return None
    best = max(values, key=lambda name: values[name])
    for other in values:
        if other != best:
            differences = protocol.resampled_difference(scores[best], scores[other], samples, settings)
            if differences is None or not _is_above_zero(differences, len(values)):
                return None
    return best


def too_few_resamples(metrics: int, resamples: int) -> int:
    """Return how many resamples could tell the best of so many metrics from chance; 0 where these can."""
    wanted = math.ceil(1 / _level(metrics) - 1e-9) - 1
    return 0 if resamples >= wanted else wanted


def _is_above_zero(differences: np.ndarray, metrics: int) -> bool:
    """Say whether all but a few resamples are above 0; never where a table would have no interval of them.

    Args:
        differences: resampled, float64 [B], NaN where one is not defined.
        metrics: among which the best is sought.
    """
    try:
        interval = percentile_interval(differences, 1 - 2 * _level(metrics))
    except CorrelationError:
        return False
    defined = interval.n_resamples - interval.undefined
    return not too_few_resamples(metrics, defined) and interval.low is not None and interval.low > 0


def _level(metrics: int) -> float:
    """Return the share of resamples that may say otherwise, of each comparison with another."""
    return LEVEL / (metrics - 1) / 2

"""Which metric is the best on a benchmark, and whether that is more than chance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.metaeval.protocols import Protocol
from suisei.metaeval.settings import EvaluationSettings


def significantly_best(
    values: Mapping[str, float],
    scores: Mapping[str, np.ndarray],
    samples: Sequence[CaptionSample],
    protocol: Protocol,
    settings: EvaluationSettings,
    *,
    alpha: float = 0.05,
) -> str | None:
    """Return the metric that is significantly better than each of the others; None if there is none.

    The best is compared with every other by a paired bootstrap over groups (images), two-sided, with
    Bonferroni's correction for their number.

    Args:
        values: {metric: its figure on the benchmark}, higher is better.
        scores: {metric: float64 [N]}, higher is better, NaN where missing.
        samples: N samples.
        protocol: how the benchmark is measured.
        settings: the coefficient, resamples and seed; without resamples, or with too few
            (:func:`too_few_resamples`), nothing is significant.
        alpha: level of the whole.
    """
    if len(values) < 2 or not settings.n_resamples:
        return None
    best = max(values, key=lambda name: values[name])
    if too_few_resamples(len(values), settings.n_resamples, alpha):
        return None
    level = _level(len(values), alpha)
    for other in values:
        if other != best:
            differences = protocol.resampled_difference(scores[best], scores[other], samples, settings)
            if differences is None or not np.nanquantile(differences, level) > 0:
                return None
    return best


def too_few_resamples(metrics: int, resamples: int, alpha: float = 0.05) -> int:
    """Return how many resamples could tell the best of so many metrics from chance; 0 where these can."""
    wanted = math.ceil(1 / _level(metrics, alpha) - 1e-9) - 1
    return 0 if resamples >= wanted else wanted


def _level(metrics: int, alpha: float) -> float:
    """Return the share of resamples that may say otherwise, of each comparison with another."""
    return alpha / (metrics - 1) / 2

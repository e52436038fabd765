"""The human ceiling: how well one rater agrees with the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from suisei.metaeval.agreement import Agreement, AgreementData, Rows, agree, mean_rating
from suisei.metaeval.correlation import CorrelationError
from suisei.metaeval.resampling import Interval, bootstrap_values, group_weights, percentile_interval

LEFT_ONE_OUT = "leave-one-out"
"""How ratings became rows: one of each sample beside the mean of its others."""


def human_rounds(data: AgreementData, seed: int = 0) -> tuple[Rows, ...]:
    """Return rounds of one rating per sample (y) beside the mean of the sample's other ratings (x).

    There are as many rounds as the most raters of a sample, and together they leave out every rating.
    A round takes one rating of each sample because two ratings of one sample disagree by construction
    with each other's means, and because over all ratings at once the means per system would be the
    ratings' own. Which rating a round takes is drawn per sample: files may list ratings sorted. The draw is
    the same in whatever order samples and their ratings come.

    Args:
        data: ratings; the scores are not used.
        seed: of the draw.

    Returns:
        Rows of the samples with at least two ratings; the others are counted in ``dropped``.

    Raises:
        CorrelationError: no sample has two ratings.
    """
    several = np.array([len(values) > 1 for values in data.ratings], dtype=bool)
    if not several.any():
        raise CorrelationError("not available: one rater")
    kept = data.subset(several)
    ratings = [sorted(values) for values in kept.ratings]
    counts = np.array([len(values) for values in ratings])
    first = _drawn(kept, ratings, seed)
    rounds = []
    for number in range(int(counts.max())):
        pairs = []
        for values, position in zip(ratings, (first + number) % counts, strict=True):
            others = [*values[:position], *values[position + 1 :]]
            pairs.append((mean_rating(others), values[position]))
        x, y = np.array(pairs, dtype=np.float64).T
        rows = replace(kept, scores=x, ratings=tuple((value,) for value in y.tolist())).rows()
        rounds.append(replace(rows, dropped=int((~several).sum()), raters=LEFT_ONE_OUT))
    return tuple(rounds)


def _drawn(data: AgreementData, ratings: Sequence[Sequence[float]], seed: int) -> np.ndarray:
    """Return which of its sorted ratings each sample's first round takes, int [N]."""
    keys = zip(data.groups, (name or "" for name in data.systems), ratings, strict=True)
    order = [place for _, place in sorted((key, place) for place, key in enumerate(keys))]
    counts = np.array([len(ratings[place]) for place in order])
    first = np.empty(len(order), dtype=np.int64)
    first[order] = np.random.default_rng(seed).integers(0, counts)
    return first


def human_agreement(rounds: tuple[Rows, ...], correlation: str, averaging: str) -> Agreement:
    """Return the mean over rounds of the correlation of a rating with the mean of the others.

    ``n`` counts the pairs of all rounds; ``undefined`` has the groups undefined in any round.

    Raises:
        CorrelationError: it is not defined in one of the rounds.
    """
    results = [agree(rows, correlation, averaging) for rows in rounds]
    return replace(
        results[0],
        value=float(np.mean([result.value for result in results])),
        n=sum(result.n for result in results),
        undefined=tuple(sorted({name for result in results for name in result.undefined})),
    )


def human_bootstrap(
    rounds: tuple[Rows, ...],
    correlation: str,
    averaging: str,
    *,
    n_resamples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Interval:
    """Return the percentile interval of :func:`human_agreement` by a bootstrap over groups.

    Raises:
        CorrelationError: fewer than two groups, or undefined on half of the resamples.
    """
    weights = group_weights(len(rounds[0].group_names), n_resamples, seed)
    values = [bootstrap_values(rows, correlation, averaging, weights) for rows in rounds]
    return percentile_interval(np.mean(values, axis=0), confidence)

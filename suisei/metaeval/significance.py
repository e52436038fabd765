"""How sure a correlation is: bootstrap intervals, paired tests, correction, rank clusters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from suisei.errors import ConfigError
from suisei.metaeval.agreement import SYSTEM_DIGITS, Rows, agree, group_values, unit_scores
from suisei.metaeval.correlation import MINIMUM, CorrelationError, Prepared, prepare, standardized
from suisei.metaeval.kendall import GroupSum, weight_chunks
from suisei.metaeval.tables import Cell

MAX_WEIGHTS = 1 << 29
"""Most numbers that say how often a group is drawn, 4 GB: a thousand resamples of half a million groups."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A percentile interval.

    Attributes:
        low: lower end; None where there is no interval.
        high: upper end.
        n_resamples: resamples behind it.
        undefined: resamples left out because the correlation is not defined on them.
    """

    low: float | None
    high: float | None
    n_resamples: int = 0
    undefined: int = 0


@dataclass(frozen=True, slots=True)
class TestResult:
    """The outcome of a paired comparison of two metrics A and B.

    Attributes:
        difference: correlation of A minus correlation of B.
        p_value: probability of a difference at least as large if the two were as good.
        test: name and settings of the test, for the signature.
    """

    __test__ = False  # not a test class, whatever its name

    difference: float
    p_value: float
    test: str


class RowStatistic:
    """A correlation of fixed rows under many integer row weightings, with any averaging.

    Args:
        rows: the rows.
        correlation: name of the coefficient.
        averaging: "pooled", "item" or "system".
    """

    def __init__(self, rows: Rows, correlation: str, averaging: str) -> None:
        self._kind, self._averaging = correlation, averaging
        if averaging == "pooled":
            self._parts: list[tuple[np.ndarray | slice, Prepared]] = [
                (slice(None), prepare(correlation, rows.x, rows.y))
            ]
        elif averaging == "item":
            order = np.argsort(rows.group, kind="stable")
            parts = np.split(order, np.flatnonzero(np.diff(rows.group[order])) + 1)
            self._parts = [(part, prepare(correlation, rows.x[part], rows.y[part])) for part in parts]
        else:
            self._sums, self._shares = GroupSum(rows.system), rows.shares()
            self._sides = unit_scores(rows), rows.y

    def values(self, weights: np.ndarray) -> np.ndarray:
        """Return the statistic for weights [B, M]: float64 [B], NaN where it is undefined."""
        if self._averaging == "system":
            return self._system_values(weights)
        columns = np.stack([prepared.values(weights[:, part]) for part, prepared in self._parts])
        points = np.stack([weights[:, part].sum(axis=1) for part, _ in self._parts])
        defined = ~np.isnan(columns) & (points >= MINIMUM[self._kind])  # as the figure itself is defined
        counts = defined.sum(axis=0)
        result = np.full(len(weights), np.nan)
        np.divide(np.where(defined, columns, 0.0).sum(axis=0), counts, out=result, where=counts > 0)
        return result

    def _system_values(self, weights: np.ndarray) -> np.ndarray:
        weights = weights * self._shares
        counts = self._sums(weights)
        x, y = (
            np.divide(self._sums(weights * side), counts, out=np.full(counts.shape, np.nan), where=counts > 0)
            for side in self._sides
        )
        result, means = np.full(len(weights), np.nan), np.stack([x, y], axis=1).round(SYSTEM_DIGITS)
        for number, (x_means, y_means) in enumerate(means):
            there = ~np.isnan(x_means)
            ones = np.ones((1, int(there.sum())), dtype=np.int64)
            if there.sum() >= MINIMUM[self._kind]:
                result[number] = prepare(self._kind, x_means[there], y_means[there]).values(ones)[0]
        return result


def group_weights(n_groups: int, n_resamples: int, seed: int) -> np.ndarray:
    """Return how often each group is drawn in each bootstrap resample, int64 [resamples, groups].

    Raises:
        ConfigError: they would take more than MAX_WEIGHTS numbers.
    """
    if n_groups * n_resamples > MAX_WEIGHTS:
        size, most = 8 * n_groups * n_resamples / 1e9, MAX_WEIGHTS // n_groups
        raise ConfigError(
            f"{n_resamples:,} resamples of {n_groups:,} groups take {size:,.0f} GB of memory; use at most "
            f"{most:,} resamples (--bootstrap)"
        )
    none = np.empty((0, n_groups), dtype=np.int64)
    return np.concatenate([none, *weight_parts(n_groups, n_resamples, seed)])


def weight_parts(n_groups: int, n_resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield :func:`group_weights` some resamples at a time, so that memory stays bounded."""
    rng = np.random.default_rng(seed)
    chances = np.full(n_groups, 1 / n_groups)
    for part in weight_chunks(n_resamples, n_groups):
        yield rng.multinomial(n_groups, chances, size=part.stop - part.start)


def bootstrap_values(rows: Rows, correlation: str, averaging: str, weights: np.ndarray) -> np.ndarray:
    """Return the correlation on each resample.

    Args:
        rows: the rows; whole groups are resampled, because captions of one image are not independent.
        correlation: name of the coefficient.
        averaging: "pooled", "item" or "system".
        weights: int [B, groups], from :func:`group_weights`.

    Returns:
        float64 [B], NaN where it is undefined.

    Raises:
        CorrelationError: the weights are for another number of groups, or there is a single group.
    """
    if weights.shape[1] != len(rows.group_names):
        raise CorrelationError(f"weights for {weights.shape[1]} groups, data with {len(rows.group_names)}")
    if weights.shape[1] < 2:
        raise CorrelationError("one group: resampling needs at least two")
    if averaging == "item":  # each group keeps its own correlation, only the mean over groups changes
        values = group_values(rows, correlation)
        defined = ~np.isnan(values)
        counts = weights[:, defined].sum(axis=1)
        result = np.full(len(weights), np.nan)
        np.divide(weights[:, defined] @ values[defined], counts, out=result, where=counts > 0)
        return result
    statistic = RowStatistic(rows, correlation, averaging)
    result = np.empty(len(weights))
    for part in weight_chunks(len(weights), len(rows.x)):
        result[part] = statistic.values(weights[part][:, rows.group])
    return result


def percentile_interval(values: np.ndarray, confidence: float = 0.95) -> Interval:
    """Return the central interval that holds ``confidence`` of the resampled values.

    Raises:
        ConfigError: the confidence is not between 0 and 1.
        CorrelationError: more than half of the resamples are undefined.
    """
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence must be between 0 and 1, got {confidence:g}")
    defined = values[~np.isnan(values)]
    undefined = len(values) - len(defined)
    if 2 * undefined >= len(values):
        raise CorrelationError(f"undefined on {undefined} of {len(values)} resamples")
    low, high = np.quantile(defined, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high), len(values), undefined)


def with_interval(cell: Cell, values: np.ndarray, confidence: float, name: str = "") -> Cell:
    """Return a figure with the interval of its resampled values [R], or the reason why it has none.

    Args:
        cell: the figure.
        values: the resampled ones; NaN where one is not defined, as in resamples that lack a rare kind.
        confidence: between 0 and 1.
        name: what the reason begins with.
    """
    try:
        interval = percentile_interval(values, confidence)
    except CorrelationError as error:
        return replace(cell, reason=f"{name}no interval: {error}")
    return replace(cell, low=interval.low, high=interval.high)


def bootstrap(
    rows: Rows,
    correlation: str = "tau-c",
    averaging: str = "pooled",
    *,
    n_resamples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Interval:
    """Return the percentile interval of a correlation by a bootstrap over groups.

    Raises:
        CorrelationError: fewer than two groups, or undefined on half of the resamples.
    """
    weights = group_weights(len(rows.group_names), n_resamples, seed)
    return percentile_interval(bootstrap_values(rows, correlation, averaging, weights), confidence)


def bootstrap_difference(
    a: Rows,
    b: Rows,
    correlation: str = "tau-c",
    averaging: str = "pooled",
    *,
    n_resamples: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Interval:
    """Return the percentile interval of correlation(a) - correlation(b) on shared resamples.

    The rows are those of :func:`paired_rows`.

    Args:
        a: rows of one metric.
        b: rows of another metric on the same samples.
        correlation: name of the coefficient.
        averaging: "pooled", "item" or "system".
        n_resamples: number of resamples.
        seed: of the resamples.
        confidence: of the interval.

    Raises:
        CorrelationError: the two are not about the same samples, or there is no interval.
    """
    a, b = paired_rows(a, b, correlation, averaging)
    weights = group_weights(len(a.group_names), n_resamples, seed)
    values = [bootstrap_values(rows, correlation, averaging, weights) for rows in (a, b)]
    return percentile_interval(values[0] - values[1], confidence)


def permutation_test(
    a: Rows,
    b: Rows,
    correlation: str = "tau-c",
    averaging: str = "pooled",
    *,
    unit: str = "item",
    n_permutations: int = 1000,
    seed: int = 0,
    alternative: str = "greater",
) -> TestResult:
    """Test whether metric A agrees better than metric B: PERM-BOTH (Deutsch et al., 2021, section 4).

    Both metrics are standardized; under the null hypothesis their scores may then be swapped unit by
    unit. The p-value is (1 + permutations with at least the observed difference) / (1 + permutations),
    which is never 0. The rows are those of :func:`paired_rows`.

    Args:
        a: rows of metric A.
        b: rows of metric B on the same samples.
        correlation: name of the coefficient.
        averaging: "pooled", "item" or "system".
        unit: what is swapped as a whole: "item" (a sample with all its ratings) or "group".
        n_permutations: number of permutations.
        seed: of the permutations.
        alternative: "greater" (A better than B) or "two-sided".

    Raises:
        CorrelationError: the two are not about the same samples, or a correlation is undefined.
        ConfigError: an unknown choice.
    """
    a, b = paired_rows(a, b, correlation, averaging)
    if unit not in ("item", "group") or alternative not in ("greater", "two-sided"):
        raise ConfigError(
            f"unit {unit!r} must be item or group, alternative {alternative!r} greater or two-sided"
        )
    observed = agree(a, correlation, averaging).value - agree(b, correlation, averaging).value
    units = np.unique(a.item if unit == "item" else a.group, return_inverse=True)[1]
    statistic = RowStatistic(_stacked(a, b), correlation, averaging)
    rng = np.random.default_rng(seed)
    extreme = 0
    for part in weight_chunks(n_permutations, 2 * len(a.x)):
        swaps = rng.integers(0, 2, size=(part.stop - part.start, int(units.max()) + 1))[:, units]
        chosen = np.concatenate([1 - swaps, swaps], axis=1)
        difference = statistic.values(chosen) - statistic.values(1 - chosen)
        if alternative == "two-sided":
            difference, threshold = np.abs(difference), abs(observed)
        else:
            threshold = observed
        # An undefined permutation counts against significance; the tolerance is for rounding.
        extreme += int((~(difference < threshold - 1e-12)).sum())
    test = f"perm-both|{correlation}|avg:{averaging}|unit:{unit}|n:{n_permutations}|seed:{seed}|{alternative}"
    return TestResult(observed, (1 + extreme) / (1 + n_permutations), test)


def _stacked(a: Rows, b: Rows) -> Rows:
    """Return the standardized rows of A, then those of B: a permutation is a 0/1 weighting of them."""
    x = np.concatenate([_standardized(a), _standardized(b)])
    y, item, group, system = (np.tile(column, 2) for column in (a.y, a.item, a.group, a.system))
    return Rows(x, y, item, group, system, a.group_names, a.system_names)


def _standardized(rows: Rows) -> np.ndarray:
    _, first, place = np.unique(rows.item, return_index=True, return_inverse=True)
    return standardized(rows.x[first])[place]


def williams_test(r_a: float, r_b: float, r_ab: float, n: int, *, alternative: str = "greater") -> TestResult:
    """Williams' test for two dependent Pearson correlations that share the human ratings.

    t = (r_a - r_b) sqrt((n-1)(1+r_ab)) / sqrt(2K(n-1)/(n-3) + ((r_a+r_b)/2)^2 (1-r_ab)^3) with n-3
    degrees of freedom, where K = 1 - r_a^2 - r_b^2 - r_ab^2 + 2 r_a r_b r_ab (Williams, 1959; Graham
    and Baldwin, 2014). It takes the n rows as independent, which several ratings of a sample are not.

    Args:
        r_a: correlation of metric A with the ratings.
        r_b: correlation of metric B with the ratings.
        r_ab: correlation of the two metrics.
        n: number of rows.
        alternative: "greater" (A better than B) or "two-sided".

    Raises:
        CorrelationError: fewer than four rows, or the two metrics are the same (r_ab = 1).
    """
    from scipy.stats import t as student

    if alternative not in ("greater", "two-sided"):
        raise ConfigError(f"alternative is {alternative!r}; expected greater or two-sided")
    if n < 4:
        raise CorrelationError(f"Williams' test needs at least 4 rows, got {n}")
    k = 1 - r_a**2 - r_b**2 - r_ab**2 + 2 * r_a * r_b * r_ab
    spread = 2 * max(k, 0.0) * (n - 1) / (n - 3) + ((r_a + r_b) / 2) ** 2 * (1 - r_ab) ** 3
    if spread <= 1e-15:
        raise CorrelationError("Williams' test is undefined: the two metrics rate alike (correlation 1)")
    statistic = (r_a - r_b) * math.sqrt((n - 1) * (1 + r_ab)) / math.sqrt(spread)
    p = student.sf(statistic, n - 3) if alternative == "greater" else 2 * student.sf(abs(statistic), n - 3)
    return TestResult(r_a - r_b, float(p), f"williams|n:{n}|{alternative}")


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Return Holm's step-down adjusted p-values, float64 in input order.

    An adjusted p-value of at most alpha is significant with the family-wise error rate kept at alpha; at
    twice alpha, if the p-values are one-sided in the direction that the data show.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise CorrelationError("p-values must be between 0 and 1")
    order = np.argsort(p, kind="stable")
    adjusted = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    result = np.empty(len(p))
    result[order] = np.minimum(adjusted, 1.0)
    return result


def rank_clusters(p_values: np.ndarray, alpha: float = 0.05) -> list[int]:
    """Return the rank cluster, from 1, of metrics sorted by decreasing correlation.

    A metric starts a new cluster when any member of the current one is significantly better than it,
    as in the WMT metrics tasks; so no metric is significantly beaten inside its own cluster.

    Args:
        p_values: [K, K]; entry [i, j], i < j, is the p-value of "metric i is better than metric j".
        alpha: the level.
    """
    clusters: list[int] = []
    start = 0
    for j in range(len(p_values)):
        beaten = j > 0 and bool((np.asarray(p_values)[start:j, j] <= alpha).any())
        if beaten:
            start = j
        clusters.append((clusters[-1] + beaten) if clusters else 1)
    return clusters


def too_few_permutations(pairs: int, count: int, alpha: float) -> list[str]:
    """Return a note if no pair can be significant after Holm's correction, however clear its difference."""
    if pairs / (count + 1) <= alpha:
        return []
    return [
        f"{count} permutations are too few for {pairs} pairs: after Holm's correction none "
        f"can reach {alpha:g}; use at least {int(2 * pairs / alpha)}"
    ]


def check_paired(a: Rows, b: Rows) -> None:
    """Raise CorrelationError unless both are rows of the same samples and ratings, in one order."""
    same = len(a.x) == len(b.x) and np.array_equal(a.y, b.y) and a.group_names == b.group_names
    if not (same and np.array_equal(a.group, b.group)):
        raise CorrelationError(
            "the two metrics are not scored on the same samples; keep those that both score"
        )


def paired_rows(a: Rows, b: Rows, correlation: str, averaging: str) -> tuple[Rows, Rows]:
    """Return the rows that two metrics are compared on: with averaging "item", of the groups of both means.

    A group in which one metric's correlation is undefined, such as that of a constant, is left out: it is in
    one mean at most, while metrics whose scores are swapped would often be defined in it.

    Raises:
        CorrelationError: the two are not about the same samples, or share no group.
    """
    check_paired(a, b)
    if averaging != "item":
        return a, b
    defined = ~np.isnan(group_values(a, correlation) + group_values(b, correlation))
    if not defined.any():
        raise CorrelationError(f"in no group is {correlation} of both defined")
    return a.of_groups(defined), b.of_groups(defined)

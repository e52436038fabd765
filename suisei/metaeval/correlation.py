"""Correlation coefficients: Pearson, Spearman, Kendall tau-b and tau-c, with ties.

The pure functions never return a number that is not a correlation: NaN, a constant side, too few
points and different lengths are refused. ``prepare`` gives the same coefficients for thousands of
weightings of the same points, which is what resampling needs; there an undefined one is NaN, to be
counted by the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from suisei.errors import ConfigError, DataError
from suisei.metaeval.kendall import GroupSum, PreparedTau, dense_ranks, weight_chunks

CORRELATIONS = ("pearson", "spearman", "tau-b", "tau-c")
"""Names of the coefficients, in the order in which tables show them."""

MINIMUM = {"pearson": 3, "spearman": 3, "tau-b": 2, "tau-c": 2}
"""Points that each coefficient takes: any two lie on a line."""

_CANCELLED = 1e-3
"""Share of a sum of squares that must be left beside the mean's: of less, the last digits are rounding."""


class CorrelationError(DataError):
    """A correlation that is not defined for the data; never reported as 0."""


class Prepared(Protocol):
    """A coefficient of fixed points, evaluated under many weightings."""

    def values(self, weights: np.ndarray) -> np.ndarray:
        """Return the coefficient for integer weights [B, N]: float64 [B], NaN where undefined."""


def pearson(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> float:
    """Return Pearson's r = cov(x, y) / (sd(x) sd(y)), in [-1, 1].

    Args:
        x: finite numbers [N], N >= 3 (any two points correlate perfectly).
        y: finite numbers [N].

    Raises:
        CorrelationError: different lengths, too few points, NaN or infinity, a constant side.

    >>> round(pearson([1, 2, 3, 4], [1, 3, 2, 4]), 3)
    0.8
    """
    return _pearson(*check_pair(x, y, "pearson"))


def spearman(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> float:
    """Return Spearman's rho: Pearson's r of the ranks, tied values sharing their mean rank.

    Takes and raises what :func:`pearson` does.

    >>> round(spearman([1, 2, 3, 100], [1, 3, 2, 4]), 3)
    0.8
    """
    x, y = check_pair(x, y, "spearman")
    return _pearson(_mid_ranks(x), _mid_ranks(y))


def kendall_tau_b(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> float:
    """Return Kendall's tau-b, (C - D) / sqrt((P - T_x)(P - T_y)), in [-1, 1].

    C, D: concordant and discordant pairs; P: all pairs; T_x, T_y: pairs tied in x, in y. Exact, in
    O(N log N). Takes and raises what :func:`pearson` does, but two points are enough.

    >>> round(kendall_tau_b([1, 2, 3, 4], [1, 3, 3, 4]), 3)
    0.913
    """
    return _tau(x, y, "b")


def kendall_tau_c(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> float:
    """Return Stuart's tau-c, 2m(C - D) / (N^2 (m - 1)), m the smaller number of distinct values.

    For sides with different numbers of levels, such as a real-valued score beside ratings of 1 to 4.
    Takes and raises what :func:`kendall_tau_b` does.

    >>> round(kendall_tau_c([1, 2, 3, 4], [1, 1, 2, 2]), 3)
    1.0
    """
    return _tau(x, y, "c")


def correlate(kind: str, x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> float:
    """Return the coefficient named ``kind``, one of :data:`CORRELATIONS`, of x and y [N], in [-1, 1].

    Raises:
        ConfigError: there is no such coefficient.
        CorrelationError: it is not defined, see :func:`check_pair`.
    """
    check_kind(kind)
    functions = {"pearson": pearson, "spearman": spearman, "tau-b": kendall_tau_b, "tau-c": kendall_tau_c}
    return functions[kind](x, y)


def prepare(kind: str, x: np.ndarray, y: np.ndarray) -> Prepared:
    """Return the coefficient named ``kind`` of points x, y [N], ready for many weightings.

    Raises:
        CorrelationError: different lengths, or NaN or infinity. A constant side is allowed here: under
            some weightings it may still be constant, and those give NaN.
    """
    check_kind(kind)
    x, y = _finite_pair(x, y, kind)
    if kind == "pearson":
        return _WeightedPearson(x, y)
    if kind == "spearman":
        return _WeightedSpearman(x, y)
    return PreparedTau(x, y, kind.removeprefix("tau-"))


def check_kind(kind: str) -> None:
    """Raise ConfigError unless ``kind`` is one of :data:`CORRELATIONS`."""
    if kind not in CORRELATIONS:
        raise ConfigError(f"no correlation {kind!r}; there are: {', '.join(CORRELATIONS)}")


def check_pair(
    x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray, kind: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return both sides as float64 [N] once the correlation ``kind`` of them is defined.

    Raises:
        CorrelationError: it is not; the message says which side and why.
    """
    first, second = _finite_pair(x, y, kind)
    if len(first) < MINIMUM[kind]:
        raise CorrelationError(f"{kind} needs at least {MINIMUM[kind]} points, got {len(first)}")
    for name, side in (("first", first), ("second", second)):
        if np.all(side == side[0]):
            raise CorrelationError(
                f"{kind} is undefined: all {len(side)} values of the {name} side are {side[0]:zg}"
            )
    return first, second


def _finite_pair(
    x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray, kind: str
) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.ndim != 1 or y.ndim != 1:
        raise CorrelationError(f"{kind} takes two 1-D arrays, got shapes {x.shape} and {y.shape}")
    if len(x) != len(y):
        raise CorrelationError(f"{kind} takes two sides of one length, got {len(x)} and {len(y)}")
    for name, side in (("first", x), ("second", y)):
        bad = np.flatnonzero(~np.isfinite(side))
        if len(bad):
            raise CorrelationError(
                f"{kind} is undefined: the {name} side has {len(bad)} values that are not finite, "
                f"the first ({side[bad[0]]}) at position {bad[0]}"
            )
    return x, y


def _pearson(x: np.ndarray, y: np.ndarray) -> float:
    x, y = _unit(x), _unit(y)
    return float(np.clip(x @ y, -1.0, 1.0))


def _unit(values: np.ndarray) -> np.ndarray:
    """Return the centred values at Euclidean length 1; scaled first, so that nothing overflows."""
    scaled = values / np.abs(values).max()
    centred = scaled - scaled.mean()
    length = np.linalg.norm(centred)
    if not length > np.finfo(np.float64).eps * np.sqrt(len(values)):
        raise CorrelationError(
            f"pearson is undefined: the values differ from {values[0]:g} by less than float64 resolves"
        )
    return centred / length


def _mid_ranks(values: np.ndarray) -> np.ndarray:
    ranks, _ = dense_ranks(values)
    counts = np.bincount(ranks)
    return (np.cumsum(counts) - counts / 2)[ranks]


def _tau(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray, variant: str) -> float:
    x, y = check_pair(x, y, f"tau-{variant}")
    return float(PreparedTau(x, y, variant).values(np.ones((1, len(x)), dtype=np.int64))[0])


class _WeightedPearson:
    """Pearson's r from sums of products; point by point where those drawn lie close beside others."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self._given = x, y
        x, y = standardized(x), standardized(y)
        self._moments = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)

    def values(self, weights: np.ndarray) -> np.ndarray:
        sums = np.empty((len(weights), 6))
        for part in weight_chunks(len(weights), weights.shape[1]):
            sums[part] = weights[part].astype(np.float64) @ self._moments
        total, x, y, xx, yy, xy = sums.T
        total = np.maximum(total, 1.0)  # an empty resample has no variance, and is NaN for that
        spread = xx - x * x / total, yy - y * y / total
        result = _ratio(xy - x * y / total, *spread, np.zeros(len(weights)))
        for number in np.flatnonzero((spread[0] <= _CANCELLED * xx) | (spread[1] <= _CANCELLED * yy)):
            result[number] = self._pointwise(weights[number])
        return result

    def _pointwise(self, weights: np.ndarray) -> float:
        drawn = weights > 0
        times = weights[drawn]
        try:
            return correlate("pearson", *(np.repeat(side[drawn], times) for side in self._given))
        except CorrelationError:
            return float("nan")


class _WeightedSpearman:
    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self._ranks = dense_ranks(x)[0], dense_ranks(y)[0]
        self._sums = GroupSum(self._ranks[0]), GroupSum(self._ranks[1])

    def values(self, weights: np.ndarray) -> np.ndarray:
        result = np.empty(len(weights))
        for part in weight_chunks(len(weights), weights.shape[1]):
            result[part] = self._chunk(weights[part])
        return result

    def _chunk(self, weights: np.ndarray) -> np.ndarray:
        total = weights.sum(axis=1)
        sides, variances = [], []
        for ranks, group_sum in zip(self._ranks, self._sums, strict=True):
            sums = group_sum(weights)
            centred = np.cumsum(sums, axis=1) - sums / 2 - total[:, None] / 2  # mean mid-rank is W/2
            variances.append((sums * centred**2).sum(axis=1))
            sides.append(centred[:, ranks])
        covariance = (weights * sides[0] * sides[1]).sum(axis=1)
        return _ratio(covariance, variances[0], variances[1], np.full(len(weights), 1e-9))


def standardized(values: np.ndarray) -> np.ndarray:
    """Return values [N] at mean 0 and standard deviation 1; scaled first, so that nothing overflows."""
    scaled = values / (np.abs(values).max() or 1.0)
    centred = scaled - scaled.mean()
    return centred / (centred.std() or 1.0)


def _ratio(covariance: np.ndarray, x: np.ndarray, y: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Return covariance / sqrt(x y), NaN where a variance is not above ``least`` (rounding noise)."""
    result = np.full(len(covariance), np.nan)
    product = np.sqrt(np.maximum(x, 0.0)) * np.sqrt(np.maximum(y, 0.0))
    np.divide(covariance, product, out=result, where=(x > least) & (y > least))
    return np.clip(result, -1.0, 1.0)

"""How far a correlation moves when the images are drawn anew: intervals of one metric and of a difference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from suisei.errors import ConfigError
from suisei.metaeval.agreement import SYSTEM_DIGITS, Rows, group_values, unit_scores
from suisei.metaeval.correlation import MINIMUM, CorrelationError, Prepared, prepare
from suisei.metaeval.kendall import GroupSum, weight_chunks
from suisei.metaeval.tables import Cell

MAX_WEIGHTS = 1 << 29
"""Most numbers that say how often a group is drawn, 4 GB: a thousand resamples of half a million groups."""
_ROUNDING = 1e-9
"""What a figure is not outside of its interval by: a perfect one is 1 but for its last digits."""


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

    @property
    def left_out(self) -> str | None:
        """How many resamples it is not of, in words; None where it is of all."""
        if not self.undefined:
            return None
        return f"{self.undefined} of {self.n_resamples} resamples left out of the interval: undefined on them"

    def outside(self, value: float) -> str | None:
        """Return what to think of a figure that lies outside; None of one inside, or without an interval."""
        if self.low is None or self.high is None or self.low - _ROUNDING <= value <= self.high + _ROUNDING:
            return None
        return (
            "a figure lies outside its interval: resamples lack some of the groups, so their correlations "
            "are noisier and mostly nearer to 0; the figure holds, and how sure it is can be seen from the "
            "interval's width, not from its ends"
        )


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
    """Return the central interval that holds ``confidence`` of the resampled values [R].

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

    Where the interval is not of all resamples, the figure's reason says of how many.

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
    left_out = f"{name}{interval.left_out}" if interval.left_out else None
    reason = "; ".join(filter(None, (cell.reason, left_out))) or None
    return replace(cell, low=interval.low, high=interval.high, reason=reason)


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

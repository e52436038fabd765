"""Kendall's tau under integer weights: exact, fast enough to be resampled thousands of times.

A bootstrap resample and a permutation both keep the same points and only change how often each one
counts. So everything that depends on order (sorting, ranking) is done once, in the constructor, and
each resample costs a few vectorised passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

CHUNK = 1 << 18
"""Elements that one vectorised step may hold; about the size of a processor's cache."""

_KEEP_PASSES = 1 << 23


def dense_ranks(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Return ranks 0..R-1 with equal values sharing one, int64 [N], and R."""
    distinct, ranks = np.unique(values, return_inverse=True)
    return ranks.reshape(-1).astype(np.int64), len(distinct)


def weight_chunks(rows: int, width: int) -> Iterator[slice]:
    """Yield slices over ``rows`` resamples such that rows x width stays within :data:`CHUNK`."""
    step = max(1, CHUNK // max(width, 1))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


class GroupSum:
    """Sums weights over points that share a key: [B, N] to [B, K], for keys 0..K-1 that all occur."""

    def __init__(self, keys: np.ndarray) -> None:
        self.order = np.argsort(keys, kind="stable")
        ordered = keys[self.order]
        self.starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        self.keys = ordered[self.starts]

    def __call__(self, weights: np.ndarray) -> np.ndarray:
        """Return the sums, in the order of ``keys``."""
        return np.add.reduceat(weights[:, self.order], self.starts, axis=1)


class PreparedTau:
    """Kendall's tau-b or tau-c of fixed points under any number of integer weightings.

    With W the total weight, P = W(W-1)/2 pairs, T_x and T_y the pairs tied in x and in y, C and D the
    concordant and discordant pairs, K the pairs of copies of one point and m the smaller number of distinct
    values: tau-b = (C - D) / sqrt((P - T_x)(P - T_y)) and tau-c = 2m(C - D) / ((W^2 - 2K)(m - 1)).

    A point and its copy are tied, in a resample and in no sample: counted among its pairs, they would make
    tau-c of every resample too small, by about one in N. In tau-b, T_x and T_y leave them out. Where that
    puts tau-c of a few points beyond 1 or -1, it is cut off there.

    Ratings take few values, and then C - D comes from a contingency table of x ranks by levels,
    O(N + ranks x levels). Otherwise D is counted bit by bit of the y ranks, O(N log N).

    Args:
        x: finite values [N].
        y: finite values [N].
        variant: "b" or "c".
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, variant: str) -> None:
        self.variant = variant
        x_ranks, x_count = dense_ranks(x)
        y_ranks, y_count = dense_ranks(y)
        if x_count < y_count:  # tau is symmetric; the side with fewer values makes the levels
            x_ranks, y_ranks, x_count, y_count = y_ranks, x_ranks, y_count, x_count
        self._shape = (x_count, y_count)
        bits = max(1, (y_count - 1).bit_length())
        self._tabled = x_count * y_count <= 2 * len(x) * bits
        self._cells = GroupSum(y_ranks * x_count + x_ranks)
        if not self._tabled:
            self._x_sums, self._y_sums = GroupSum(x_ranks), GroupSum(y_ranks)
            self._order = np.lexsort((y_ranks, x_ranks))
            # NumPy sorts 16 bits by radix.
            self._y: Any = y_ranks[self._order].astype(np.uint16 if y_count <= 1 << 16 else np.int64)
            self._bits = bits
            self._passes = list(self._make_passes()) if len(x) * bits <= _KEEP_PASSES else None
        self._width = max(len(x), x_count * y_count if self._tabled else 0)

    def values(self, weights: np.ndarray) -> np.ndarray:
        """Return tau for each weighting; NaN where it is undefined (a side is constant).

        Args:
            weights: non-negative integers [B, N].

        Returns:
            float64 [B], in [-1, 1].
        """
        result = np.empty(len(weights))
        for part in weight_chunks(len(weights), self._width):
            chunk = weights[part].astype(np.int64, copy=False)
            result[part] = self._tabulate(chunk) if self._tabled else self._merge(chunk)
        return result

    def _tabulate(self, weights: np.ndarray) -> np.ndarray:
        x_count, y_count = self._shape
        cells = np.zeros((len(weights), y_count * x_count), dtype=np.int64)
        cells[:, self._cells.keys] = self._cells(weights)
        table = cells.reshape(len(weights), y_count, x_count)
        x_sums, y_sums = table.sum(axis=1), table.sum(axis=2)
        all_before = np.cumsum(x_sums, axis=1) - x_sums  # weight of lower x
        below = np.zeros_like(all_before)  # ... and of lower y than this level's
        score = np.zeros(len(weights), dtype=np.int64)
        for level in range(y_count):
            here = table[:, level]
            before = np.cumsum(here, axis=1) - here
            # Of lower x: those of lower y are concordant, those of higher y discordant.
            score += np.einsum("br,br->b", here, 2 * below + before - all_before)
            below += before
        return self._tau(score, x_sums, y_sums, weights)

    def _merge(self, weights: np.ndarray) -> np.ndarray:
        x_sums, y_sums, cells = self._x_sums(weights), self._y_sums(weights), self._cells(weights)
        discordant = np.zeros(len(weights), dtype=np.int64)
        for order, is_one, starts in self._passes or self._make_passes():
            placed = weights[:, order]
            ones = np.where(is_one, placed, 0)
            before = np.cumsum(ones, axis=1) - ones
            discordant += ((placed - ones) * (before - before[:, starts])).sum(axis=1)
        total = weights.sum(axis=1)
        untied = _pairs(total) - _tied(x_sums) - _tied(y_sums) + _tied(cells)
        return self._tau(untied - 2 * discordant, x_sums, y_sums, weights)

    def _make_passes(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield, per bit of y from the highest: an order of the points, their bit, their block's start.

        Points are grouped into blocks that agree in all higher bits, in x order inside a block. A
        discordant pair differs first in exactly one bit; in that bit's pass both points share a block
        and a one stands before a zero. Points tied in x are in y order, so they are never counted.
        """
        for bit in reversed(range(self._bits)):
            prefix = self._y >> (bit + 1)
            order = np.argsort(prefix, kind="stable")
            ordered = prefix[order]
            is_start = np.r_[True, ordered[1:] != ordered[:-1]]
            starts = np.flatnonzero(is_start)[np.cumsum(is_start) - 1]
            yield self._order[order], (self._y[order] >> bit & 1).astype(bool), starts

    def _tau(
        self, score: np.ndarray, x_sums: np.ndarray, y_sums: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        total = x_sums.sum(axis=1)
        x_free = (_pairs(total) - _tied(x_sums)).astype(np.float64)
        y_free = (_pairs(total) - _tied(y_sums)).astype(np.float64)
        defined = (x_free > 0) & (y_free > 0)
        if self.variant == "b":
            numerator, denominator = score.astype(np.float64), np.sqrt(x_free) * np.sqrt(y_free)
        else:
            copies = (np.einsum("bn,bn->b", weights, weights) - total) // 2
            classes = np.minimum((x_sums > 0).sum(axis=1), (y_sums > 0).sum(axis=1))
            numerator = 2.0 * classes * score
            denominator = (total.astype(np.float64) ** 2 - 2.0 * copies) * (classes - 1)
        tau = np.full(len(score), np.nan)
        np.divide(numerator, denominator, out=tau, where=defined)
        return np.clip(tau, -1.0, 1.0)


def _pairs(weight: np.ndarray) -> np.ndarray:
    return weight * (weight - 1) // 2


def _tied(sums: np.ndarray) -> np.ndarray:
    return _pairs(sums).sum(axis=-1)

"""Whether one metric agrees better than another: paired tests, correction for many, rank clusters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

import numpy as np

from suisei.cli import counted, usable_cores
from suisei.errors import ConfigError
from suisei.metaeval.agreement import Rows, agree
from suisei.metaeval.correlation import CorrelationError, standardized
from suisei.metaeval.kendall import weight_chunks
from suisei.metaeval.resampling import RowStatistic, paired_rows
from suisei.metaeval.settings import ALPHA, USUAL

ROUNDING = 1e-12
"""Differences of two correlations that are no further apart are the same."""

_MOST_THREADS = 16
"""That permutations are counted in: each takes memory, and more wait for that."""


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


def permutation_test(
    a: Rows,
    b: Rows,
    correlation: str = "tau-c",
    averaging: str = "pooled",
    *,
    unit: str = "group",
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
        unit: what is swapped as a whole: "group" (an image with all its captions) or "item" (a sample with
            all its ratings, as in the paper). Errors of a metric on captions of one image go together, so
            that items of groups with several are not exchangeable, and their p-values come out too small.
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

    def gains(swaps: np.ndarray) -> np.ndarray:
        swapped = swaps[:, units]
        chosen = np.concatenate([1 - swapped, swapped], axis=1)
        gained = statistic.values(chosen) - statistic.values(1 - chosen)
        return np.abs(gained) if alternative == "two-sided" else gained

    # Not what the two show by themselves: it is computed otherwise, and means of systems are rounded in other
    # units, so that swapping nothing would often fall short of it.
    [unswapped] = gains(np.zeros((1, int(units.max()) + 1), dtype=np.int64))

    def extreme(swaps: np.ndarray) -> int:
        # An undefined permutation counts against significance; the tolerance is for rounding.
        return int((~(gains(swaps) < unswapped - ROUNDING)).sum())

    sizes = [part.stop - part.start for part in weight_chunks(n_permutations, 2 * len(a.x))]
    # With "item" each group is a few numbers: threads would but wait for one another in Python.
    cores = 1 if averaging == "item" else min(usable_cores(), _MOST_THREADS)
    count = _counted(extreme, _swaps(sizes, int(units.max()) + 1, seed), cores)
    test = f"perm-both|{correlation}|avg:{averaging}|unit:{unit}|n:{n_permutations}|seed:{seed}|{alternative}"
    return TestResult(observed, (1 + count) / (1 + n_permutations), test)


def _swaps(sizes: Sequence[int], n_units: int, seed: int) -> Iterator[np.ndarray]:
    """Yield which units are swapped, 0 or 1, [size, units] for each of the sizes."""
    rng = np.random.default_rng(seed)
    for size in sizes:
        yield rng.integers(0, 2, size=(size, n_units))


def _counted(count: Callable[[np.ndarray], int], parts: Iterator[np.ndarray], cores: int) -> int:
    """Return the sum of what is counted in each part; NumPy lets threads count large ones side by side."""
    with ThreadPoolExecutor(cores) as pool:
        total = 0
        while some := list(islice(parts, cores)):  # no more at once, for memory and for Ctrl-C
            total += sum(pool.map(count, some))
    return total


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
        CorrelationError: fewer than four rows, or nothing is left to chance, as of one metric twice.
        ConfigError: another alternative.
    """
    from scipy.stats import t as student

    if alternative not in ("greater", "two-sided"):
        raise ConfigError(f"alternative is {alternative!r}; expected greater or two-sided")
    if n < 4:
        raise CorrelationError(f"Williams' test needs at least 4 rows, got {n}")
    k = 1 - r_a**2 - r_b**2 - r_ab**2 + 2 * r_a * r_b * r_ab
    spread = 2 * max(k, 0.0) * (n - 1) / (n - 3) + ((r_a + r_b) / 2) ** 2 * (1 - r_ab) ** 3
    if spread <= 1e-15:
        why = "the two metrics rate alike (correlation 1)"
        if r_ab < 1 - 1e-6:  # one the reverse of the other, or the ratings a sum of both
            why = f"of the two metrics (correlation {r_ab:.3g}) and the ratings, one follows from the others"
        raise CorrelationError(f"Williams' test is undefined: {why}")
    statistic = (r_a - r_b) * math.sqrt((n - 1) * (1 + r_ab)) / math.sqrt(spread)
    p = student.sf(statistic, n - 3) if alternative == "greater" else 2 * student.sf(abs(statistic), n - 3)
    return TestResult(r_a - r_b, float(p), f"williams|n:{n}|{alternative}")


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Return Holm's step-down adjusted p-values, float64 in input order.

    An adjusted p-value of at most alpha is significant with the family-wise error rate kept at alpha; at
    twice alpha, if the p-values are one-sided in the direction that the data show.

    Raises:
        CorrelationError: a p-value is not in [0, 1].
    """
    p = np.asarray(p_values, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise CorrelationError("p-values must be between 0 and 1")
    order = np.argsort(p, kind="stable")
    adjusted = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    result = np.empty(len(p))
    result[order] = np.minimum(adjusted, 1.0)
    return result


def rank_clusters(p_values: np.ndarray, alpha: float = ALPHA) -> list[int]:
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
        f"{count} permutations are too few for {counted(pairs, 'pair')}: after Holm's correction none "
        f"can reach {alpha:g}; use at least {_enough(pairs, alpha)} (--bootstrap {_enough(pairs, alpha)})"
    ]


def usual_permutations(pairs: int, alpha: float = ALPHA) -> int:
    """Return how many permutations there are where nobody says: enough for Holm over the pairs."""
    return max(USUAL, _enough(pairs, alpha))


def _enough(pairs: int, alpha: float) -> int:
    """Return how many permutations let Holm's p-value of a clear difference be half of the level."""
    return math.ceil(2 * pairs / alpha - 1e-9)


def too_few_units(pairs: int, units: int, alpha: float, *, two_sided: bool, what: str) -> list[str]:
    """Return a note if so few units can be swapped that no pair can be significant, however clear.

    One of the 2**units swaps, that of none, is as extreme as the data; two-sided, that of all is too.

    Args:
        pairs: that Holm's correction is for.
        units: that are swapped as a whole.
        alpha: the level.
        two_sided: whether the p-values are.
        what: the units' name in the plural.
    """
    sides = 2 if two_sided else 1
    if pairs * sides / 2**units <= alpha:
        return []
    return [
        f"{units} {what} can be swapped in {2**units:,} ways, so that no p-value is really below "
        f"{sides / 2**units:.3g}: after Holm's correction over {counted(pairs, 'pair')} none can reach "
        f"{alpha:g}; it takes {math.ceil(math.log2(pairs * sides / alpha))} {what}"
    ]

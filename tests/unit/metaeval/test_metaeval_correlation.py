"""Correlation coefficients against SciPy, with ties, and what is refused."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from suisei.errors import ConfigError, DataError
from suisei.metaeval.correlation import (
    CORRELATIONS,
    CorrelationError,
    correlate,
    kendall_tau_b,
    kendall_tau_c,
    pearson,
    prepare,
    spearman,
)
from tests.unit.metaeval.simulated import without_copies

SCIPY = {
    "pearson": lambda x, y: scipy.stats.pearsonr(x, y)[0],
    "spearman": lambda x, y: scipy.stats.spearmanr(x, y)[0],
    "tau-b": lambda x, y: scipy.stats.kendalltau(x, y)[0],
    "tau-c": lambda x, y: scipy.stats.kendalltau(x, y, variant="c")[0],
}


def varied(array):
    return (array != array[0]).any()


@st.composite
def pairs(draw):
    """Two sides with few or many levels, so with many ties, some ties or none."""
    n = draw(st.integers(3, 60))
    sides = []
    for _ in range(2):
        levels = draw(st.sampled_from([2, 3, 5, 30, 10**6]))
        sides.append(draw(arrays(np.float64, n, elements=st.integers(-levels, levels).map(lambda v: v / 7))))
    assume(varied(sides[0]) and varied(sides[1]))
    return sides


@pytest.mark.parametrize("kind", CORRELATIONS)
@settings(max_examples=150, deadline=None)
@given(pair=pairs())
def test_equals_scipy(kind, pair):
    assert correlate(kind, *pair) == pytest.approx(SCIPY[kind](*pair), abs=1e-12)


@pytest.mark.parametrize("kind", CORRELATIONS)
@settings(max_examples=100, deadline=None)
@given(pair=pairs(), seed=st.integers(0, 2**32 - 1))
def test_weights_equal_repetition(kind, pair, seed):
    x, y = pair
    weights = np.random.default_rng(seed).integers(0, 4, size=(3, len(x)))
    for got, row in zip(prepare(kind, x, y).values(weights), weights, strict=True):
        repeated = np.repeat(x, row), np.repeat(y, row)
        if row.sum() > 2 and varied(repeated[0]) and varied(repeated[1]):
            expected = SCIPY[kind](*repeated)
            if kind == "tau-c":
                expected = without_copies(expected, row)
            assert got == pytest.approx(expected, abs=1e-11)
        elif not row.sum() or not varied(repeated[0]) or not varied(repeated[1]):
            assert np.isnan(got)


@pytest.mark.parametrize(
    ("x_levels", "y_levels"), [(4, 4), (5000, 4), (4, 5000), (5000, 5000), (10**7, 10**7)]
)
def test_tau_of_many_points(x_levels, y_levels):
    rng = np.random.default_rng(x_levels + y_levels)
    signal = rng.random(6000)
    x = np.floor(signal * x_levels)
    y = np.floor(((signal + rng.random(6000)) / 2) * y_levels)
    assert kendall_tau_b(x, y) == pytest.approx(SCIPY["tau-b"](x, y), abs=1e-12)
    assert kendall_tau_c(x, y) == pytest.approx(SCIPY["tau-c"](x, y), abs=1e-12)
    assert kendall_tau_b(y, x) == pytest.approx(kendall_tau_b(x, y), abs=1e-12)


def test_known_values():
    # Worked by hand: of six pairs, five concordant and one discordant, none tied.
    assert kendall_tau_b([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(4 / 6)
    # x has a tie: C - D = 5, P = 6, T_x = 1.
    assert kendall_tau_b([1, 2, 2, 4], [1, 2, 3, 4]) == pytest.approx(5 / np.sqrt(5 * 6))
    # m = 3, n = 4: 2 * 3 * 5 / (16 * 2).
    assert kendall_tau_c([1, 2, 2, 4], [1, 2, 3, 4]) == pytest.approx(30 / 32)
    assert pearson([0, 1, 2], [2, 1, 0]) == pytest.approx(-1)
    assert spearman([1, 10, 100], [1, 2, 3]) == pytest.approx(1)


@pytest.mark.parametrize("kind", CORRELATIONS)
@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([1, 2, 3], [1, 2], "3 and 2"),
        ([1, float("nan"), 3], [1, 2, 3], "first side has 1 values that are not finite.*position 1"),
        ([1, 2, 3], [1, 2, float("inf")], "second side.*position 2"),
        ([5, 5, 5], [1, 2, 3], "all 3 values of the first side are 5"),
        ([1, 2, 3], [0.1, 0.1, 0.1], "all 3 values of the second side are 0.1"),
        ([-0.0, -0.0, -0.0], [1, 2, 3], "all 3 values of the first side are 0$"),
        ([1], [1], "at least"),
        ([], [], "at least"),
        ([[1, 2]], [[1, 2]], "1-D"),
    ],
)
def test_refuses_what_has_no_correlation(kind, x, y, message):
    with pytest.raises(CorrelationError, match=message):
        correlate(kind, x, y)


def test_error_is_a_data_error_and_unknown_name_lists_the_valid_ones():
    assert issubclass(CorrelationError, DataError)
    with pytest.raises(ConfigError, match="tau-b, tau-c"):
        correlate("kendall", [1, 2, 3], [1, 2, 3])


def test_two_points_are_enough_for_tau_only():
    assert kendall_tau_b([1, 2], [1, 2]) == 1
    with pytest.raises(CorrelationError, match="at least 3 points, got 2"):
        pearson([1, 2], [1, 2])
    with pytest.raises(CorrelationError, match="at least 3 points, got 2"):
        spearman([1, 2], [1, 2])


def test_extreme_magnitudes():
    x = np.array([1e300, -1e300, 5e299, 0.0])
    assert pearson(x, x) == pytest.approx(1)
    assert prepare("pearson", x, -x).values(np.ones((1, 4), dtype=int)) == pytest.approx([-1])
    y = 1e9 + np.array([0.0, 1.0, 2.0, 4.0])
    assert pearson(y, [0, 1, 2, 4]) == pytest.approx(1, abs=1e-6)
    with pytest.raises(CorrelationError, match="less than float64 resolves"):
        pearson([1.0, 1.0, 1.0 + 2e-16], [1, 2, 3])


@pytest.mark.parametrize("kind", CORRELATIONS)
def test_rounding_never_leaves_the_range(kind):
    rng = np.random.default_rng(0)
    for count in range(3, 60):
        x = rng.normal(size=count)
        ones = np.ones((1, count), dtype=int)
        for y, sign in ((3 * x, 1), (-3 * x, -1)):
            for value in (correlate(kind, x, y), prepare(kind, x, y).values(ones)[0]):
                assert abs(value) <= 1
                assert value == pytest.approx(sign)


def test_scores_that_differ_little_beside_their_size_keep_their_weighted_correlation():
    rng = np.random.default_rng(0)
    x, y = 1e6 + 0.1 * rng.normal(size=50), rng.normal(size=50)
    value = prepare("pearson", x, y).values(np.ones((1, 50), dtype=int))[0]
    assert value == pytest.approx(SCIPY["pearson"](x - 1e6, y), abs=1e-6)


@pytest.mark.parametrize("kind", CORRELATIONS)
def test_a_resample_of_two_points_agrees_or_disagrees(kind):
    prepared = prepare(kind, np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]))
    assert prepared.values(np.array([[1, 1, 0], [0, 1, 1]])) == pytest.approx([1, -1])


@pytest.mark.parametrize("kind", CORRELATIONS)
def test_points_to_be_weighted_are_checked_too(kind):
    with pytest.raises(CorrelationError, match="3 and 2"):
        prepare(kind, np.arange(3.0), np.arange(2.0))
    with pytest.raises(CorrelationError, match=r"second side has 2 values .*position 0"):
        prepare(kind, np.arange(3.0), np.array([np.nan, 1, np.inf]))
    with pytest.raises(ConfigError, match="'kendall'"):
        prepare("kendall", np.arange(3.0), np.arange(3.0))


@pytest.mark.parametrize("largest", [1e3, 1e5, 1e7, 1e12])
def test_points_beside_one_far_away_keep_their_correlation_where_it_is_not_drawn(largest):
    rng = np.random.default_rng(0)
    y = rng.integers(1, 6, 200).astype(float)
    x = 0.2 * y + rng.random(200)
    x[0] = largest
    weights = rng.integers(0, 3, (20, 200))
    weights[:10, 0] = 0
    for sides in ((x, y), (y, x)):
        for got, row in zip(prepare("pearson", *sides).values(weights), weights, strict=True):
            expected = scipy.stats.pearsonr(np.repeat(x, row), np.repeat(y, row))[0]
            assert got == pytest.approx(expected, abs=1e-11)

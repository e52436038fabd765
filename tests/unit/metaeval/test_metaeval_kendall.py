"""Weighted coefficients: memory stays bounded, and no chunk, size or type changes a value."""

import numpy as np
import pytest
import scipy.stats

from suisei.metaeval.correlation import CORRELATIONS, kendall_tau_b, kendall_tau_c, prepare
from suisei.metaeval.kendall import CHUNK, GroupSum, PreparedTau, dense_ranks, weight_chunks
from tests.unit.metaeval.simulated import without_copies


@pytest.mark.parametrize(
    ("rows", "width"), [(0, 5), (1, 5), (1000, 1000), (1000, 0), (7, CHUNK), (7, CHUNK // 2), (3, CHUNK + 1)]
)
def test_chunks_hold_every_resample_once_and_as_many_as_fit(rows, width):
    parts = list(weight_chunks(rows, width))
    assert [row for part in parts for row in range(part.start, part.stop)] == list(range(rows))
    fit = max(1, CHUNK // max(1, width))
    assert all(part.stop - part.start == fit for part in parts[:-1])
    assert all(0 < part.stop - part.start <= fit for part in parts)


@pytest.mark.parametrize("kind", CORRELATIONS)
@pytest.mark.parametrize("levels", [4, 10**6])
def test_many_resamples_at_once_equal_each_alone(kind, levels):
    rng = np.random.default_rng(levels)
    count = CHUNK // 8
    x, y = rng.normal(size=count), rng.integers(0, levels, size=count).astype(float)
    weights = rng.integers(0, 3, size=(19, count))  # eight rows fit into a chunk: two full ones and a rest
    prepared = prepare(kind, x, y)
    together = prepared.values(weights)
    alone = [float(prepared.values(row[None])[0]) for row in weights]
    np.testing.assert_allclose(together, alone, rtol=1e-9, atol=1e-12)
    assert len(set(together)) == 19


def test_more_distinct_values_than_16_bits_hold():
    rng = np.random.default_rng(0)
    x = rng.permutation(70_000).astype(float)
    y = x + 30_000 * rng.normal(size=70_000)
    assert kendall_tau_b(x, y) == pytest.approx(scipy.stats.kendalltau(x, y)[0], abs=1e-12)


@pytest.mark.parametrize("variant", ["b", "c"])
def test_a_table_and_the_count_by_bits_give_one_value(variant):
    """The same points are tabled where they are few levels among many points, otherwise counted by bits."""
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 40, size=100).astype(float), rng.integers(0, 40, size=100).astype(float)
    weights = rng.integers(0, 3, size=(6, 100))
    alone, among = PreparedTau(x, y, variant), PreparedTau(np.tile(x, 20), np.tile(y, 20), variant)
    assert (alone._tabled, among._tabled) == (False, True)
    spread = np.concatenate([weights, np.zeros((6, 19 * 100), dtype=int)], axis=1)
    expected = [
        scipy.stats.kendalltau(np.repeat(x, row), np.repeat(y, row), variant=variant)[0] for row in weights
    ]
    if variant == "c":
        expected = [without_copies(value, row) for value, row in zip(expected, weights, strict=True)]
    np.testing.assert_allclose(alone.values(weights), expected, atol=1e-12)
    np.testing.assert_allclose(among.values(spread), expected, atol=1e-12)


def test_a_side_that_a_resample_makes_constant_has_no_tau():
    x, y = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 2.0])
    weights = np.array([[0, 2, 2], [2, 0, 0], [0, 0, 0], [1, 1, 0]])
    for variant in ("b", "c"):
        with np.errstate(all="raise"):  # nobody is warned of what is expected
            values = PreparedTau(x, y, variant).values(weights)
        np.testing.assert_array_equal(values, [np.nan, np.nan, np.nan, 1])


def test_levels_that_a_resample_leaves_out_do_not_count_in_tau_c():
    x, y = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([1.0, 1.0, 2.0, 3.0, 3.0])
    weights = np.array([[1, 1, 0, 1, 1]])
    kept = [0, 1, 3, 4]
    assert PreparedTau(x, y, "c").values(weights)[0] == pytest.approx(kendall_tau_c(x[kept], y[kept]))


@pytest.mark.parametrize("levels", [2, 8])  # tabled, counted by bits
def test_resamples_of_tau_c_lie_around_it_and_not_below(levels):
    rng = np.random.default_rng(5)
    x = rng.permutation(60).astype(float)
    y = np.argsort(np.argsort(x + 20 * rng.normal(size=60))) * levels // 60
    prepared = PreparedTau(x, y.astype(float), "c")
    assert prepared._tabled == (levels == 2)
    value = prepared.values(np.ones((1, 60), dtype=int))[0]
    weights = rng.multinomial(60, np.full(60, 1 / 60), size=20_000)
    assert 0.3 < value < 0.9
    assert prepared.values(weights).mean() == pytest.approx(value, rel=0.005)


def test_sums_by_key_come_in_the_order_of_the_keys():
    total = GroupSum(np.array([2, 0, 1, 0, 2]))
    assert total.keys.tolist() == [0, 1, 2]
    assert total(np.array([[1, 10, 100, 1000, 5], [0, 1, 0, 0, 0]])).tolist() == [[1010, 100, 6], [1, 0, 0]]


def test_ranks_share_and_leave_no_gap():
    ranks, count = dense_ranks(np.array([7.0, -1.0, 7.0, 3.0]))
    assert (ranks.tolist(), count) == ([2, 0, 2, 1], 3)

"""PERM-BOTH, Williams' test, Holm, rank clusters."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.stats

from suisei.errors import ConfigError
from suisei.metaeval import significance
from suisei.metaeval.agreement import AVERAGING, AgreementData, agree
from suisei.metaeval.correlation import CORRELATIONS, CorrelationError
from suisei.metaeval.kendall import CHUNK, weight_chunks
from suisei.metaeval.resampling import (
    RowStatistic,
    bootstrap,
    bootstrap_difference,
)
from suisei.metaeval.significance import (
    holm,
    permutation_test,
    rank_clusters,
    too_few_permutations,
    too_few_units,
    usual_permutations,
    williams_test,
)
from tests.unit.metaeval.simulated import simulate


@pytest.mark.parametrize("averaging", AVERAGING)
@pytest.mark.parametrize("correlation", ["pearson", "tau-c"])
def test_tests_find_a_clear_difference(correlation, averaging):
    better, worse = (d.rows() for d in simulate(5, groups=60, noise=(0.2, 1.5)))
    if averaging == "system":  # four systems of equal quality say nothing about metrics
        result = permutation_test(better, worse, correlation, averaging, n_permutations=50)
        assert 0 < result.p_value <= 1
        return
    assert permutation_test(better, worse, correlation, averaging, n_permutations=200).p_value < 0.01
    assert permutation_test(worse, better, correlation, averaging, n_permutations=200).p_value > 0.99
    for unit in ("item", "group"):
        two_sided = permutation_test(
            worse, better, correlation, averaging, unit=unit, n_permutations=200, alternative="two-sided"
        )
        assert two_sided.p_value < 0.01
        assert two_sided.difference < 0
    interval = bootstrap_difference(better, worse, correlation, averaging, n_resamples=200)
    assert interval.low > 0


@pytest.mark.parametrize("correlation", CORRELATIONS)
def test_permutations_leave_out_the_images_that_the_figure_leaves_out(correlation):
    """Two captions of an image correlate perfectly: by Pearson and Spearman they would be noise."""
    (data,) = simulate(4, groups=30, noise=(0.5,))
    kept = np.array([number < 40 or number % 4 < 2 for number in range(len(data.scores))])
    rows = data.subset(kept).rows("mean")  # ten images of four captions, twenty of two
    ones = np.ones((1, len(rows.x)), dtype=np.int64)
    expected = agree(rows, correlation, "item")
    assert RowStatistic(rows, correlation, "item").values(ones)[0] == pytest.approx(expected.value)
    assert (len(expected.undefined) >= 20) == (correlation in ("pearson", "spearman"))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("averaging", AVERAGING)
@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_what_scores_are_multiplied_by_changes_no_permutation_test(scale, averaging):
    a, b = simulate(5, groups=10, noise=(0.5, 0.9))
    given = {"averaging": averaging, "n_permutations": 50, "alternative": "two-sided"}
    one = permutation_test(a.rows(), b.rows(), "tau-b", **given)
    scaled = replace(a, scores=a.scores * scale)
    other = permutation_test(scaled.rows(), b.rows(), "tau-b", **given)
    assert (other.p_value, other.difference) == pytest.approx((one.p_value, one.difference))
    same = permutation_test(scaled.rows(), a.rows(), "tau-b", **given)
    assert (same.p_value, same.difference) == pytest.approx((1, 0))


def test_permutations_are_the_same_on_any_number_of_cores(monkeypatch):
    a, b = (d.rows() for d in simulate(5, groups=20, noise=(0.5, 0.55)))
    monkeypatch.setattr(significance, "weight_chunks", lambda rows, _: weight_chunks(rows, CHUNK // 7))
    found = set()
    for cores in (1, 3):
        monkeypatch.setattr(significance, "usable_cores", lambda cores=cores: cores)
        found.add(permutation_test(a, b, n_permutations=200, seed=3).p_value)
    swaps = np.random.default_rng(3).integers(0, 2, size=(200, 20))[:, a.group]
    statistic = RowStatistic(significance._stacked(a, b), "tau-c", "pooled")
    sides = [statistic.values(np.concatenate([s, 1 - s], axis=1)) for s in (1 - swaps, swaps)]
    observed = agree(a, "tau-c").value - agree(b, "tau-c").value
    extreme = (sides[0] - sides[1] >= observed - 1e-12).sum()
    assert 0 < extreme < 200
    assert found == {(1 + extreme) / 201}


@pytest.mark.parametrize(("averaging", "threads"), [("pooled", 3), ("item", 1), ("system", 3)])
def test_groups_of_a_few_captions_are_counted_in_one_thread(averaging, threads, monkeypatch):
    seen, plain = [], significance.ThreadPoolExecutor
    monkeypatch.setattr(significance, "ThreadPoolExecutor", lambda cores: seen.append(cores) or plain(cores))
    monkeypatch.setattr(significance, "usable_cores", lambda: 3)
    a, b = (data.rows() for data in simulate(5, groups=20, noise=(0.5, 0.55)))
    permutation_test(a, b, averaging=averaging, n_permutations=9)
    assert seen == [threads]


def test_permutation_weights_are_permutations():
    """A 0/1 weighting of the stacked rows is the correlation of the swapped scores."""
    a, b = (d.rows("mean") for d in simulate(6, groups=10, noise=(0.3, 0.6)))
    from suisei.metaeval.significance import _stacked, _standardized

    swap = np.random.default_rng(0).integers(0, 2, size=len(a.x))
    value = RowStatistic(_stacked(a, b), "tau-b", "pooled").values(np.r_[1 - swap, swap][None])[0]
    swapped = np.where(swap, _standardized(b), _standardized(a))
    assert value == pytest.approx(scipy.stats.kendalltau(swapped, a.y)[0])


def test_a_metric_is_not_better_than_itself():
    rows = simulate(7)[0].rows()
    result = permutation_test(rows, rows, n_permutations=50)
    assert (result.difference, result.p_value) == (0, 1)


def test_comparison_needs_the_same_samples():
    a, b = simulate(8)[0].rows(), simulate(9)[0].rows()
    with pytest.raises(CorrelationError, match="not scored on the same samples"):
        permutation_test(a, b)
    with pytest.raises(ConfigError, match="item or group"):
        permutation_test(a, a, unit="row")


def test_williams_worked_example():
    # r_a = .65, r_b = .50, r_ab = .60, n = 100, by the formula in exact arithmetic:
    # K = 1 - .4225 - .25 - .36 + 2(.65)(.5)(.6) = .3575
    k = 0.3575
    t = 0.15 * np.sqrt(99 * 1.6) / np.sqrt(2 * k * 99 / 97 + 0.575**2 * 0.4**3)
    result = williams_test(0.65, 0.5, 0.6, 100)
    assert result.p_value == pytest.approx(scipy.stats.t.sf(t, 97))
    assert williams_test(0.5, 0.65, 0.6, 100, alternative="two-sided").p_value == pytest.approx(
        2 * result.p_value
    )
    with pytest.raises(CorrelationError, match="at least 4"):
        williams_test(0.5, 0.4, 0.1, 3)
    with pytest.raises(CorrelationError, match=r"rate alike \(correlation 1\)"):
        williams_test(0.5, 0.5, 1.0, 50)
    for between in (-1.0, 0.5):
        with pytest.raises(
            CorrelationError, match=rf"\(correlation {between:g}\) and the ratings, one follows"
        ):
            williams_test(0.5, -0.5, between, 50)


def test_holm_equals_its_definition():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    assert len(holm([])) == 0
    with pytest.raises(CorrelationError, match="between 0 and 1"):
        holm([0.5, float("nan")])


def test_rank_clusters_begin_where_any_member_is_better():
    p = np.ones((4, 4))
    assert rank_clusters(p) == [1, 1, 1, 1]
    p[0, 2] = 0.01  # the first beats the third, though the second does not
    assert rank_clusters(p) == [1, 1, 2, 2]
    p[0, 3] = 0.01  # the first is no member of the third's cluster
    assert rank_clusters(p) == [1, 1, 2, 2]
    p[2, 3] = 0.01
    assert rank_clusters(p) == [1, 1, 2, 3]
    assert rank_clusters(np.ones((0, 0))) == []


@pytest.mark.slow
@pytest.mark.parametrize("correlation", ["pearson", "tau-c"])
def test_perm_both_rejects_at_its_level_under_the_null(correlation):
    p_values = []
    for seed in range(400):
        a, b = (d.rows() for d in simulate(seed, groups=25, noise=(0.8, 0.8)))
        p_values.append(permutation_test(a, b, correlation, n_permutations=199, seed=seed).p_value)
    for level, spread in ((0.05, 0.011), (0.2, 0.02)):
        assert abs(np.mean(np.array(p_values) <= level) - level) < 4 * spread
    counts = np.histogram(p_values, bins=5, range=(0, 1))[0]
    assert all(abs(a - b) < 60 for a, b in pairwise(counts))


def test_metrics_that_err_by_image_are_told_apart_at_the_level_of_the_test_alone():
    """Swapped caption by caption they are not exchangeable, and a true null is rejected far too often."""
    rejected = {"default": 0, "item": 0}
    kind = {"groups": 20, "per_group": 8, "raters": 1, "group_effect": 1, "group_noise": 1}
    for seed in range(200):
        a, b = (d.rows() for d in simulate(seed, noise=(0, 0), **kind))
        given = {"n_permutations": 99, "seed": seed}
        default = permutation_test(a, b, "pearson", **given)
        item = permutation_test(a, b, "pearson", unit="item", **given)
        rejected["default"] += default.p_value <= 0.05
        rejected["item"] += item.p_value <= 0.05
        assert "|unit:group|" in default.test
    assert 0.01 <= rejected["default"] / 200 <= 0.1
    assert rejected["item"] / 200 > 0.15


def test_memory_of_resamples_and_permutations_is_bounded_without_changing_them(monkeypatch):
    a, b = (d.rows() for d in simulate(3, groups=12, noise=(0.4, 0.5)))
    once = bootstrap(a, n_resamples=40), permutation_test(a, b, n_permutations=40).p_value
    monkeypatch.setattr("suisei.metaeval.kendall.CHUNK", 3 * len(a.x))
    assert bootstrap(a, n_resamples=40) == once[0]
    assert permutation_test(a, b, n_permutations=40).p_value == once[1]


def test_items_are_swapped_one_by_one_and_groups_whole():
    """Two groups have four ways to be swapped, so the p-value has few steps; samples have many."""
    a, b = (d.rows() for d in simulate(11, groups=2, per_group=15, noise=(0.4, 0.6)))
    grouped, single = (
        permutation_test(a, b, "pearson", unit=unit, n_permutations=400, alternative="two-sided")
        for unit in ("group", "item")
    )
    # Swapping nothing or both shows the same difference again: half of the permutations are extreme.
    assert grouped.p_value > 0.4
    assert single.p_value != grouped.p_value
    assert grouped.difference == single.difference == agree(a, "pearson").value - agree(b, "pearson").value
    assert grouped.test == "perm-both|pearson|avg:pooled|unit:group|n:400|seed:0|two-sided"


def test_williams_takes_four_rows_and_both_alternatives():
    result = williams_test(0.65, 0.5, 0.6, 100)
    assert result.difference == pytest.approx(0.15)
    assert result.test == "williams|n:100|greater"
    assert 0 < williams_test(0.65, 0.5, 0.6, 4).p_value < 0.5
    assert williams_test(0.5, 0.65, 0.6, 100).p_value == pytest.approx(1 - result.p_value)
    with pytest.raises(ConfigError, match="'less'; expected greater or two-sided"):
        williams_test(0.5, 0.4, 0.1, 30, alternative="less")


def test_too_few_permutations_are_told_with_a_number_that_is_enough():
    assert too_few_permutations(3, 999, 0.05) == []
    assert too_few_permutations(1, 19, 0.05) == []  # 1 / 20 is just enough
    [note] = too_few_permutations(1, 18, 0.05)
    assert "18 permutations are too few for 1 pair:" in note
    [note] = too_few_permutations(10, 99, 0.05)
    assert note.endswith("can reach 0.05; use at least 400 (--bootstrap 400)")
    assert too_few_permutations(10, 400, 0.05) == []


def test_as_many_permutations_as_holm_takes_are_usual():
    assert [usual_permutations(pairs) for pairs in (0, 1, 25, 26, 66)] == [1000, 1000, 1000, 1040, 2640]
    for pairs in range(200):
        assert too_few_permutations(pairs, usual_permutations(pairs), 0.05) == []
    assert usual_permutations(66, 0.01) == 13_200


def test_too_few_units_are_told_with_a_number_that_is_enough():
    for two_sided, enough in ((False, 8), (True, 9)):  # 10 / 2**8 = .039, 2 * 10 / 2**9 = .039
        given = {"two_sided": two_sided, "what": "images"}
        assert too_few_units(10, enough, 0.05, **given) == []
        [note] = too_few_units(10, enough - 1, 0.05, **given)
        assert note.endswith(f"over 10 pairs none can reach 0.05; it takes {enough} images")
    [note] = too_few_units(10, 5, 0.05, two_sided=True, what="images")
    assert note.startswith("5 images can be swapped in 32 ways, so that no p-value is really below 0.0625")
    assert too_few_units(0, 0, 0.05, two_sided=True, what="images") == []


def test_holm_and_clusters_at_their_edges():
    assert holm([0.0, 1.0]) == pytest.approx([0.0, 1.0])
    for wrong in (-0.1, 1.1):
        with pytest.raises(CorrelationError, match="between 0 and 1"):
            holm([0.5, wrong])
    p = np.ones((2, 2))
    p[0, 1] = 0.05
    assert rank_clusters(p) == [1, 2]
    assert rank_clusters(p, alpha=0.04) == [1, 1]
    assert rank_clusters(p.T) == [1, 1]  # that the worse one beats the better is no matter


def test_p_value_is_that_of_scores_swapped_in_a_plain_loop():
    a, b = (d.rows("mean") for d in simulate(21, groups=15, noise=(0.6, 0.7)))
    both = np.stack([scipy.stats.zscore(rows.x) for rows in (a, b)])
    rng = np.random.default_rng(99)

    def difference(first, second):
        return scipy.stats.pearsonr(first, a.y)[0] - scipy.stats.pearsonr(second, a.y)[0]

    swaps = rng.integers(0, 2, size=(1500, len(a.x))).astype(bool)
    found = [difference(np.where(s, both[1], both[0]), np.where(s, both[0], both[1])) for s in swaps]
    expected = np.mean(np.array(found) >= difference(*both))
    assert 0.05 < expected < 0.4
    result = permutation_test(a, b, "pearson", unit="item", n_permutations=4000)
    assert result.p_value == pytest.approx(expected, abs=0.04)


def one_rating_each(scores, ratings):
    names = tuple(f"g{n}" for n in range(len(scores)))
    return AgreementData(np.array(scores, dtype=float), tuple((float(r),) for r in ratings), names).rows()


def test_a_p_value_is_never_zero():
    ratings = np.arange(40)
    good, noise = (one_rating_each(scores, ratings) for scores in (ratings, np.sin(7.0 * ratings)))
    assert permutation_test(good, noise, "pearson", n_permutations=9).p_value == pytest.approx(0.1)


def test_a_permutation_without_a_correlation_counts_against_significance():
    a, b = one_rating_each([0, 1], [0, 1]), one_rating_each([1, 0], [0, 1])
    # Of four permutations one is the data, one its opposite, and two make both sides constant.
    assert permutation_test(a, b, "tau-b", n_permutations=2000).p_value == pytest.approx(0.75, abs=0.04)


def test_permutations_that_differ_by_rounding_alone_are_as_extreme():
    a, b = one_rating_each([3, 2, 2, 1], [0, 3, 2, 3]), one_rating_each([1, 0, 0, 0], [0, 3, 2, 3])
    # 12 of the 16 permutations, two of them below the observed difference in the last digit.
    assert permutation_test(a, b, "spearman", n_permutations=2000).p_value == pytest.approx(0.75, abs=0.04)


@pytest.mark.parametrize("correlation", CORRELATIONS)
@pytest.mark.parametrize("averaging", AVERAGING)
def test_swapping_nothing_is_as_extreme_as_the_data(correlation, averaging):
    """Of three images one swap in eight is that of none; means of systems are rounded, in units of scores."""
    for seed in range(12):
        given = simulate(seed, groups=3, noise=(0.3, 2.0))
        a, b = (replace(data, scores=data.scores * 0.37 + 0.2).rows() for data in given)
        result = permutation_test(a, b, correlation, averaging, n_permutations=400)
        assert result.p_value > 1 / 8 - 0.05
        two_sided = permutation_test(
            a, b, correlation, averaging, n_permutations=400, alternative="two-sided"
        )
        assert two_sided.p_value > 1 / 4 - 0.07


def test_metrics_are_standardized_over_samples_however_many_ratings_each_has():
    from suisei.metaeval.significance import _stacked

    ratings = ((1, 2, 3), (2,), (4, 5), (3,))
    a, b = (
        AgreementData(np.array(scores), ratings, tuple("abcd")).rows()
        for scores in ([0.1, 0.5, 0.2, 0.9], [30.0, 10.0, 40.0, 20.0])
    )
    stacked = _stacked(a, b).x.reshape(2, -1)[:, [0, 3, 4, 6]]  # the first row of each sample
    assert stacked == pytest.approx(np.stack([scipy.stats.zscore(s) for s in ([1, 5, 2, 9], [3, 1, 4, 2])]))

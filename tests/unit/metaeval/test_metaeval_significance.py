"""Bootstrap, PERM-BOTH, Williams' test, Holm, rank clusters."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.stats

from suisei.errors import ConfigError
from suisei.metaeval.agreement import AVERAGING, AgreementData, agree
from suisei.metaeval.correlation import CORRELATIONS, CorrelationError
from suisei.metaeval.significance import (
    RowStatistic,
    bootstrap,
    bootstrap_difference,
    bootstrap_values,
    group_weights,
    holm,
    percentile_interval,
    permutation_test,
    rank_clusters,
    too_few_permutations,
    williams_test,
)


def simulate(seed, groups=30, per_group=4, noise=(0.6,), raters=2, group_effect=0.0):
    """Ratings of 1 to 5 of a hidden quality, and one score array per noise level."""
    rng = np.random.default_rng(seed)
    n = groups * per_group
    quality = rng.normal(size=n) + group_effect * np.repeat(rng.normal(size=groups), per_group)
    ratings = np.clip(np.round(3 + quality[:, None] + 0.5 * rng.normal(size=(n, raters))), 1, 5)
    names = tuple(f"g{i // per_group}" for i in range(n))
    systems = tuple(f"s{i % 4}" for i in range(n))
    return [
        AgreementData(quality + sigma * rng.normal(size=n), tuple(map(tuple, ratings)), names, (), systems)
        for sigma in noise
    ]


@pytest.mark.parametrize("averaging", AVERAGING)
@pytest.mark.parametrize("correlation", CORRELATIONS)
def test_a_resample_is_the_correlation_of_the_repeated_groups(correlation, averaging):
    (data,) = simulate(1, groups=8, per_group=8)
    rows = data.rows()
    weights = group_weights(8, 5, seed=3)
    for value, counts in zip(bootstrap_values(rows, correlation, averaging, weights), weights, strict=True):
        copies, names = [], []
        for group, count in enumerate(counts):
            members = [i for i, name in enumerate(data.groups) if name == rows.group_names[group]]
            for copy in range(count):
                copies += members
                names += [f"{group}-{copy}"] * len(members)
        repeated = AgreementData(
            data.scores[copies],
            tuple(data.ratings[i] for i in copies),
            tuple(names),
            (),
            tuple(data.systems[i] for i in copies),
        )
        assert value == pytest.approx(agree(repeated.rows(), correlation, averaging).value, abs=1e-9)


def test_intervals_repeat_with_the_seed_and_zero_is_a_seed():
    rows = simulate(2)[0].rows()
    assert bootstrap(rows, n_resamples=50, seed=0) == bootstrap(rows, n_resamples=50, seed=0)
    assert bootstrap(rows, n_resamples=50, seed=0) != bootstrap(rows, n_resamples=50, seed=1)


def test_interval_holds_the_estimate_and_widens_with_confidence():
    rows = simulate(3)[0].rows()
    value = agree(rows).value
    narrow, wide = (bootstrap(rows, n_resamples=300, confidence=c) for c in (0.5, 0.95))
    assert wide.low < narrow.low < value < narrow.high < wide.high


def test_groups_are_resampled_as_a_whole():
    (data,) = simulate(4, groups=20, per_group=10, group_effect=3.0)
    alone = AgreementData(data.scores, data.ratings, tuple(map(str, range(200))))
    grouped, single = (bootstrap(d.rows(), "pearson", n_resamples=300) for d in (data, alone))
    assert grouped.high - grouped.low > 1.3 * (single.high - single.low)


def test_undefined_resamples_are_counted_not_zeroed():
    interval = percentile_interval(np.array([0.1, 0.2, np.nan, 0.3]), 0.5)
    assert interval.undefined == 1
    assert 0.1 < interval.low < interval.high < 0.3
    with pytest.raises(CorrelationError, match="3 of 4 resamples"):
        percentile_interval(np.array([np.nan, np.nan, 0.1, np.nan]))
    with pytest.raises(ConfigError, match="confidence"):
        percentile_interval(np.array([0.1]), 95)


def test_one_group_has_no_interval():
    rows = AgreementData(np.arange(4.0), ((1,), (2,), (3,), (3,)), ("g",) * 4).rows()
    with pytest.raises(CorrelationError, match="one group"):
        bootstrap(rows)


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
    with pytest.raises(CorrelationError, match="rate alike"):
        williams_test(0.5, 0.5, 1.0, 50)


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
def test_bootstrap_covers_the_truth_at_its_rate(correlation):
    truth = agree(simulate(999, groups=40_000)[0].rows(), correlation).value
    hits = 0
    for seed in range(400):
        interval = bootstrap(
            simulate(seed, groups=80)[0].rows(), correlation, n_resamples=400, seed=seed, confidence=0.9
        )
        hits += interval.low <= truth <= interval.high
    # 90 % of 400 with a standard deviation of 1.5 %: four of them, and 2 % for the small sample.
    assert 0.82 <= hits / 400 <= 0.96


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


def test_weights_draw_as_many_groups_as_there_are_and_are_bounded(monkeypatch):
    weights = group_weights(7, 500, seed=1)
    assert weights.shape == (500, 7)
    assert set(weights.sum(axis=1)) == {7}
    assert weights.mean(axis=0) == pytest.approx(np.ones(7), abs=0.2)
    assert group_weights(7, 0, seed=1).shape == (0, 7)
    monkeypatch.setattr("suisei.metaeval.significance.MAX_WEIGHTS", 100)
    assert group_weights(10, 10, seed=1).shape == (10, 10)
    with pytest.raises(ConfigError, match=r"20 resamples of 10 groups .* at most 10 resamples"):
        group_weights(10, 20, seed=1)
    with pytest.raises(ConfigError, match="11 resamples of 10 groups"):
        group_weights(10, 11, seed=1)


@pytest.mark.parametrize("count", [9, 11])
def test_weights_of_other_groups_are_refused(count):
    rows = simulate(2, groups=10)[0].rows()
    with pytest.raises(CorrelationError, match=f"weights for {count} groups, data with 10"):
        bootstrap_values(rows, "pearson", "pooled", np.ones((2, count), dtype=int))


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


def test_item_and_system_statistics_leave_out_what_is_undefined():
    data = AgreementData(
        np.array([1.0, 2.0, 3.0, 1.0, 2.0, 3.0]),
        ((1,), (2,), (3,), (3,), (1,), (2,)),
        tuple("aaabbb"),
        (),
        tuple("xyzxyz"),
    )
    rows = data.rows()
    weights = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0], [1, 0, 0, 0, 0, 1], [0] * 6])
    item = RowStatistic(rows, "tau-b", "item").values(weights)
    first, second = 1, scipy.stats.kendalltau([1, 2, 3], [3, 1, 2])[0]
    np.testing.assert_allclose(item, [(first + second) / 2, 1, np.nan, np.nan])
    system = RowStatistic(rows, "tau-b", "system").values(weights)
    expected = scipy.stats.kendalltau([1, 2, 3], [2, 1.5, 2.5])[0]
    np.testing.assert_allclose(system, [expected, scipy.stats.kendalltau([1, 2, 3], [2, 2, 3])[0], 1, np.nan])


def test_resampled_systems_are_those_of_the_figure_however_many_ratings_a_caption_has():
    ratings = ((1, 3), (2,), (5, 5, 6), (6,), (1,), (0, 0, 0, 1))
    data = AgreementData(np.array([1.0, 3, 5, 4, 2, 4]), ratings, tuple("aabbcc"), (), tuple("xxyyzz"))
    rows = data.rows()
    weights = np.array([np.ones(len(rows.x)), np.where(rows.group == 2, 0, 2)]).astype(np.int64)
    few = data.subset(np.isin(data.groups, ("a", "b")))
    figures = [agree(part.rows(), "tau-b", "system").value for part in (data, few)]
    np.testing.assert_allclose(RowStatistic(rows, "tau-b", "system").values(weights), figures)


def test_resampled_means_of_systems_count_a_caption_once_however_many_ratings_it_has():
    ratings = ((1, 1, 1, 1), (5,), (2,), (4,), (3, 3), (0,))
    data = AgreementData(np.array([1.0, 4, 2, 5, 3, 9]), ratings, tuple("abcdef"), (), tuple("xxyyzz"))
    ones = np.ones((1, len(data.rows().x)), dtype=np.int64)
    value = RowStatistic(data.rows(), "pearson", "system").values(ones)[0]
    assert value == pytest.approx(scipy.stats.pearsonr([2.5, 3.5, 6], [3, 3, 1.5])[0])
    assert value == pytest.approx(agree(data.rows(), "pearson", "system").value)


@pytest.mark.parametrize(("correlation", "defined"), [("pearson", 0), ("spearman", 0), ("tau-b", 1)])
def test_a_resample_of_two_systems_has_no_more_a_correlation_than_two_systems_have(correlation, defined):
    data = AgreementData(np.array([1.0, 2, 3]), ((1,), (2,), (3,)), tuple("abc"), (), tuple("xyz"))
    values = RowStatistic(data.rows(), correlation, "system").values(np.array([[1, 1, 1], [2, 1, 0]]))
    assert values[0] == pytest.approx(1)
    assert np.isfinite(values[1]) == defined


def test_systems_of_equal_means_are_tied():
    """The mean of .1, .2 and .3 is not .2 in floating point."""
    scores = np.array([0.1, 0.2, 0.3, 0.2, 0.2, 0.2, 0.9, 0.9, 0.9])
    ratings = tuple((value,) for value in (0, 0, 0, 1, 1, 1, 2, 2, 2))
    rows = AgreementData(scores, ratings, tuple("abcabcabc"), (), tuple("xxxyyyzzz")).rows()
    expected = scipy.stats.kendalltau([0, 0, 1], [0, 1, 2])[0]
    assert agree(rows, "tau-b", "system").value == pytest.approx(expected)
    ones = np.ones((1, 9), dtype=np.int64)
    assert RowStatistic(rows, "tau-b", "system").values(ones)[0] == pytest.approx(expected)


def test_an_interval_stands_on_more_than_half_of_its_resamples():
    values = np.array([0.1, 0.2, 0.3, np.nan, np.nan])
    interval = percentile_interval(values, 0.5)
    assert (interval.n_resamples, interval.undefined) == (5, 2)
    assert [interval.low, interval.high] == pytest.approx([0.15, 0.25])
    with pytest.raises(CorrelationError, match="2 of 4"):
        percentile_interval(values[1:])
    for confidence in (0, 1, -0.5):
        with pytest.raises(ConfigError, match="between 0 and 1"):
            percentile_interval(values, confidence)


def test_difference_is_that_of_shared_resamples():
    a, b = (d.rows() for d in simulate(12, groups=15, noise=(0.3, 0.9)))
    weights = group_weights(15, 60, seed=4)
    values = [bootstrap_values(rows, "pearson", "pooled", weights) for rows in (a, b)]
    interval = bootstrap_difference(a, b, "pearson", n_resamples=60, seed=4, confidence=0.8)
    assert [interval.low, interval.high] == pytest.approx(np.quantile(values[0] - values[1], [0.1, 0.9]))


@pytest.mark.parametrize("change", ["ratings", "groups", "names", "length"])
def test_other_ratings_groups_or_samples_are_no_pair(change):
    data = simulate(13, groups=4)[0]
    fields = {"ratings": data.ratings, "groups": data.groups}
    if change == "ratings":
        fields["ratings"] = ((5.0, 1.0), *data.ratings[1:])
    elif change == "groups":
        fields["groups"] = (data.groups[-1], *data.groups[1:])
    elif change == "names":
        fields["groups"] = tuple(f"other {name}" for name in data.groups)
    else:
        data = data.subset(np.arange(len(data.groups)) > 0)
        fields = {"ratings": data.ratings, "groups": data.groups}
    other = AgreementData(data.scores, fields["ratings"], fields["groups"])
    with pytest.raises(CorrelationError, match="same samples"):
        bootstrap_difference(simulate(13, groups=4)[0].rows(), other.rows(), n_resamples=5)


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
    assert "18 permutations are too few for 1 pairs" in note
    [note] = too_few_permutations(10, 99, 0.05)
    assert note.endswith("can reach 0.05; use at least 400")
    assert too_few_permutations(10, 400, 0.05) == []


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
    result = permutation_test(a, b, "pearson", n_permutations=4000)
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


def test_metrics_are_standardized_over_samples_however_many_ratings_each_has():
    from suisei.metaeval.significance import _stacked

    ratings = ((1, 2, 3), (2,), (4, 5), (3,))
    a, b = (
        AgreementData(np.array(scores), ratings, tuple("abcd")).rows()
        for scores in ([0.1, 0.5, 0.2, 0.9], [30.0, 10.0, 40.0, 20.0])
    )
    stacked = _stacked(a, b).x.reshape(2, -1)[:, [0, 3, 4, 6]]  # the first row of each sample
    assert stacked == pytest.approx(np.stack([scipy.stats.zscore(s) for s in ([1, 5, 2, 9], [3, 1, 4, 2])]))

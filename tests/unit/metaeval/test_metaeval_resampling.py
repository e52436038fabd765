"""Bootstrap intervals of correlations and of their differences."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from suisei.errors import ConfigError
from suisei.metaeval.agreement import AVERAGING, AgreementData, agree
from suisei.metaeval.correlation import CORRELATIONS, CorrelationError
from suisei.metaeval.resampling import (
    RowStatistic,
    bootstrap,
    bootstrap_difference,
    bootstrap_values,
    group_weights,
    percentile_interval,
)
from tests.unit.metaeval.simulated import simulate, without_copies


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
        expected = agree(repeated.rows(), correlation, averaging).value
        if (correlation, averaging) == ("tau-c", "pooled"):
            expected = without_copies(expected, counts[rows.group])
        assert value == pytest.approx(expected, abs=1e-9)


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


def test_weights_draw_as_many_groups_as_there_are_and_are_bounded(monkeypatch):
    weights = group_weights(7, 500, seed=1)
    assert weights.shape == (500, 7)
    assert set(weights.sum(axis=1)) == {7}
    assert weights.mean(axis=0) == pytest.approx(np.ones(7), abs=0.2)
    assert group_weights(7, 0, seed=1).shape == (0, 7)
    monkeypatch.setattr("suisei.metaeval.resampling.MAX_WEIGHTS", 100)
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


def test_resampled_means_over_groups_leave_out_a_group_without_a_correlation():
    scores = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 7.0, 7.0])
    data = AgreementData(scores, tuple((n,) for n in (1, 2, 3) * 3), tuple("aaabbbccc"), (), tuple("xyz" * 3))
    interval = bootstrap(data.rows(), "pearson", "item", n_resamples=50)
    assert [interval.low, interval.high] == pytest.approx([1, 1])


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


def test_metrics_are_compared_on_the_groups_in_which_both_have_a_correlation():
    a, b = simulate(14, groups=8, noise=(0.3, 0.9))
    first = np.array([name == "g0" for name in a.groups])
    a = replace(a, scores=np.where(first, 0.5, a.scores)).rows()
    b = b.rows()
    others = np.array([name != "g0" for name in a.group_names])
    found, expected = (
        bootstrap_difference(*pair, "pearson", "item", n_resamples=40, seed=2)
        for pair in ((a, b), (a.of_groups(others), b.of_groups(others)))
    )
    assert found == expected


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

"""The human ceiling."""

import numpy as np
import pytest
import scipy.stats

from suisei.metaeval.agreement import AVERAGING, AgreementData
from suisei.metaeval.correlation import CorrelationError
from suisei.metaeval.human import human_agreement, human_bootstrap, human_rounds
from suisei.metaeval.resampling import bootstrap_values, group_weights


def make(ratings, groups=None, systems=()):
    ratings = tuple(map(tuple, ratings))
    names = groups or tuple(f"g{i}" for i in range(len(ratings)))
    return AgreementData(np.zeros(len(ratings)), ratings, tuple(names), (), tuple(systems))


def simulate(seed=0, count=400, raters=3, noise=0.7, systems=5):
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=count)
    ratings = np.round(quality[:, None] + noise * rng.normal(size=(count, raters)), 1)
    return make(
        ratings, [f"g{i // 4}" for i in range(count)], [f"s{i % systems}" for i in range(count)]
    ), ratings


def test_rounds_leave_out_every_rating_once():
    rounds = human_rounds(make([(1, 2, 3), (4, 4, 8), (2,)]))
    assert len(rounds) == 3
    pairs = [sorted((rows.x[i], rows.y[i]) for rows in rounds) for i in range(2)]
    assert pairs == [[(1.5, 3), (2, 2), (2.5, 1)], [(4, 8), (6, 4), (6, 4)]]
    assert all(rows.dropped == 1 and len(rows.x) == 2 for rows in rounds)


def test_samples_with_fewer_raters_come_round_again():
    rounds = human_rounds(make([(1, 2), (3, 4, 5)]))
    assert [len(rows.x) for rows in rounds] == [2, 2, 2]
    assert sorted(rows.y[1] for rows in rounds) == [3, 4, 5]


def test_which_rating_is_left_out_does_not_follow_the_file_order():
    rounds = human_rounds(make([(1, 2, 3)] * 3000))
    for rows in rounds:
        counts = np.bincount(rows.y.astype(int), minlength=4)[1:]
        assert counts.min() > 900


@pytest.mark.parametrize("averaging", AVERAGING)
def test_order_of_samples_and_of_their_ratings_changes_nothing(averaging):
    rng = np.random.default_rng(5)
    rows = [
        (tuple(rng.integers(1, 5, size=rng.integers(1, 5)).tolist()), f"g{i // 5}", f"s{i % 7}")
        for i in range(80)
    ]
    shuffled = [rows[place] for place in rng.permutation(len(rows))]
    shuffled = [(tuple(rng.permutation(ratings)), group, system) for ratings, group, system in shuffled]
    results = [
        human_agreement(human_rounds(make(*zip(*each, strict=True))), "tau-b", averaging)
        for each in (rows, shuffled)
    ]
    assert results[0].value == pytest.approx(results[1].value, abs=1e-12)
    assert results[0].undefined == results[1].undefined


def test_agreement_is_that_of_a_rater_with_the_others():
    data, ratings = simulate(count=4000)
    result = human_agreement(human_rounds(data), "pearson", "pooled")
    others = (ratings.sum(axis=1, keepdims=True) - ratings) / 2
    expected = np.mean([scipy.stats.pearsonr(ratings[:, k], others[:, k])[0] for k in range(3)])
    assert result.value == pytest.approx(expected, abs=0.01)
    assert result.n == 12_000
    assert result.signature.startswith("pearson|avg:pooled|raters:leave-one-out|n:12000|")


def test_system_level_is_not_perfect_by_construction():
    # Systems of equal quality: what their means share is noise, so raters must not agree.
    data, _ = simulate(count=300, systems=30)
    assert human_agreement(human_rounds(data), "pearson", "system").value < 0.9


def test_agreement_inside_groups_is_not_lowered_by_a_samples_own_ratings():
    # No rater noise at all: whatever the averaging, raters agree perfectly.
    quality = np.arange(40) % 4
    data = make([(q, q, q) for q in quality], [f"g{i // 4}" for i in range(40)], [f"s{q}" for q in quality])
    for averaging in AVERAGING:
        assert human_agreement(human_rounds(data), "tau-b", averaging).value == pytest.approx(1)


def test_interval_holds_the_estimate():
    rounds = human_rounds(simulate()[0])
    value = human_agreement(rounds, "tau-b", "pooled").value
    interval = human_bootstrap(rounds, "tau-b", "pooled", n_resamples=200)
    assert interval.low < value < interval.high


def test_interval_is_of_the_mean_over_rounds_of_each_resample():
    rounds = human_rounds(simulate(count=80)[0])
    weights = group_weights(20, 300, seed=5)
    means = np.mean([bootstrap_values(rows, "pearson", "pooled", weights) for rows in rounds], axis=0)
    interval = human_bootstrap(rounds, "pearson", "pooled", n_resamples=300, seed=5, confidence=0.8)
    np.testing.assert_allclose([interval.low, interval.high], np.quantile(means, [0.1, 0.9]), atol=1e-9)


def test_groups_that_are_undefined_in_any_round_are_named_once():
    ratings = [(1, 2, 3), (3, 5, 9), (2, 7, 8), (4, 4, 4), (4, 4, 4), (4, 4, 4)]
    data = make(ratings, ["a", "a", "a", "c", "c", "c"])
    result = human_agreement(human_rounds(data), "pearson", "item")
    assert result.undefined == ("c",)
    assert result.n == 18


def test_mean_of_others_does_not_depend_on_their_order():
    thirds = (1 / 3, 2 / 3, 0.1)
    rounds = human_rounds(make([(0.5, *thirds), (0.5, *reversed(thirds))]))
    means = [{rows.x[i] for rows in rounds} for i in range(2)]
    assert means[0] == means[1]


def test_one_rater_has_no_ceiling():
    with pytest.raises(CorrelationError, match="not available: one rater"):
        human_rounds(make([(1,), (2,)]))

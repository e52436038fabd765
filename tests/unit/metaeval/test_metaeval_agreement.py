"""Raters, averaging, missing scores, and the human ceiling."""

import numpy as np
import pytest
import scipy.stats

from suisei.data.sample import CaptionSample, Rating
from suisei.errors import ConfigError
from suisei.metaeval.agreement import AgreementData, agree
from suisei.metaeval.correlation import CORRELATIONS, CorrelationError
from suisei.metaeval.resampling import RowStatistic


def make(scores, ratings, groups=None, systems=()):
    groups = groups or tuple(f"g{i}" for i in range(len(ratings)))
    return AgreementData(
        np.array(scores, dtype=float), tuple(map(tuple, ratings)), tuple(groups), (), systems
    )


UNEQUAL = make([0.1, 0.5, 0.3, 0.9], [(1, 2), (2,), (1, 3, 2), (4, 4)])


def test_rows_give_each_rating_a_row():
    result = agree(UNEQUAL.rows("rows"), "tau-b")
    expected = scipy.stats.kendalltau([0.1, 0.1, 0.5, 0.3, 0.3, 0.3, 0.9, 0.9], [1, 2, 2, 1, 3, 2, 4, 4])[0]
    assert result.value == pytest.approx(expected)
    assert (result.n, result.samples, result.groups) == (8, 4, 4)
    assert result.signature.startswith("tau-b|avg:pooled|raters:rows|n:8|suisei:")


def test_mean_averages_the_raters_first():
    result = agree(UNEQUAL.rows("mean"), "pearson")
    assert result.value == pytest.approx(scipy.stats.pearsonr([0.1, 0.5, 0.3, 0.9], [1.5, 2, 2, 4])[0])
    assert "raters:mean|n:4" in result.signature


def test_item_averaging_names_the_groups_without_a_correlation():
    data = make(
        [1, 2, 3, 3, 2, 1, 5, 5, 7],
        [(1,), (2,), (3,), (1,), (3,), (2,), (1,), (2,), (3,)],
        ("a", "a", "a", "b", "b", "b", "c", "c", "d"),
    )
    result = agree(data.rows(), "tau-b", "item")
    assert result.value == pytest.approx((1 + scipy.stats.kendalltau([3, 2, 1], [1, 3, 2])[0]) / 2)
    assert result.undefined == ("c", "d")  # a constant side, a single point
    assert "undefined-groups:2" in result.signature


def test_item_averaging_is_undefined_without_a_defined_group():
    with pytest.raises(CorrelationError, match="each of 3 groups"):
        agree(make([1, 2, 3], [(1,), (2,), (3,)]).rows(), "tau-b", "item")


def test_system_level_correlates_means():
    data = make(
        [1, 3, 5, 5, 2, 4], [(1, 3), (2,), (5,), (6,), (1,), (0,)], systems=("x", "x", "y", "y", "z", "z")
    )
    result = agree(data.rows(), "pearson", "system")
    means = [2, 5, 3], [2, 5.5, 0.5]  # the caption with two ratings counts once
    assert result.value == pytest.approx(scipy.stats.pearsonr(*means)[0])
    with pytest.raises(CorrelationError, match="at least two systems"):
        agree(UNEQUAL.rows(), "pearson", "system")


def test_missing_scores_are_refused_or_counted():
    data = make([0.1, np.nan, np.nan, 0.9], [(1,), (2,), (3,), (4,)])
    with pytest.raises(CorrelationError, match=r"2 of 4 scores are missing.*position 1"):
        data.rows()
    data = make([0.1, np.nan, 0.3, 0.9], [(1,), (2,), (3,), (4,)])
    assert make([0.1, 0.2], [(1,), (2,)]).rows().dropped == 0
    rows = data.rows(missing="drop")
    assert rows.dropped == 1
    assert "dropped:1" in agree(rows, "tau-c").signature
    with pytest.raises(CorrelationError, match="no scores"):
        make([np.nan], [(1,)]).rows(missing="drop")


def test_equal_means_stay_tied():
    # 0.1 + 0.2 + 0.3 and 0.3 + 0.2 + 0.1 differ in floating point; their means are one rating.
    data = make([1, 2], [(0.1, 0.2, 0.3), (0.3, 0.2, 0.1)])
    assert len(set(data.rows("mean").y.tolist())) == 1


def test_systems_with_equal_means_stay_tied_whichever_way_raters_count():
    # Captions rated 2/3 on average twice, and 1/3 and 1: both systems have a mean of 2/3.
    thirds = [(0, 1, 1), (0, 1, 1), (0, 0, 1), (1,), (0,), (1, 1)]
    data = make([1, 2, 4, 5, 9, 7], thirds, systems=("x", "x", "y", "y", "z", "w"))
    rows, means = (agree(data.rows(raters), "tau-b", "system").value for raters in ("rows", "mean"))
    assert means == pytest.approx(rows)
    assert means == pytest.approx(scipy.stats.kendalltau([1.5, 4.5, 9, 7], [2, 2, 0, 3])[0])
    resampled = RowStatistic(data.rows("mean"), "tau-b", "system").values(np.ones((1, 6), dtype=np.int64))
    assert resampled[0] == pytest.approx(rows)


@pytest.mark.parametrize("correlation", CORRELATIONS)
@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e12, 1e300])
def test_what_scores_are_multiplied_by_changes_nothing_at_system_level(scale, correlation):
    rng = np.random.default_rng(0)
    scores, systems = rng.normal(size=40), [f"s{n % 8}" for n in range(40)]
    ratings = rng.integers(1, 6, size=(40, 1))
    one, other = (make(scores * by, ratings, systems=systems).rows() for by in (1.0, scale))
    assert agree(other, correlation, "system").value == pytest.approx(agree(one, correlation, "system").value)
    weights = rng.integers(0, 3, size=(20, 40))
    resampled = [RowStatistic(rows, correlation, "system").values(weights) for rows in (one, other)]
    assert resampled[1] == pytest.approx(resampled[0], nan_ok=True)


def test_an_outlier_ties_no_other_systems():
    scores = [1, 1, 2, 2, 3, 3, 4, 1e15]
    data = make(scores, [(n // 2,) for n in range(8)], systems=[f"s{n // 2}" for n in range(8)])
    assert agree(data.rows(), "spearman", "system").value == pytest.approx(1)


def test_systems_without_a_score_above_0_leave_the_others_apart():
    scores = [0, 0, 0, 0, 0, 0, 1e-20, 2e-20, 3e-20, 3e-20]
    data = make(scores, [(n // 2,) for n in range(10)], systems=[f"s{n // 2}" for n in range(10)])
    expected = scipy.stats.kendalltau([0, 0, 0, 1.5, 3], range(5))[0]
    assert agree(data.rows(), "tau-b", "system").value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("scores", "ratings", "groups", "message"),
    [
        ([1, 2], [(1,)], ("a",), "ratings has 1 entries, scores has 2"),
        ([1], [(1,)], ("a", "b"), "groups has 2 entries"),
        ([1, 2], [(1,), ()], ("a", "b"), "1 sample without a rating, the first at position 1"),
        ([1, np.inf], [(1,), (2,)], ("a", "b"), "score 1 is infinite"),
    ],
)
def test_refuses_what_does_not_fit(scores, ratings, groups, message):
    with pytest.raises(CorrelationError, match=message):
        make(scores, ratings, groups)


def test_unknown_choices_list_the_valid_ones():
    with pytest.raises(ConfigError, match="rows, mean"):
        UNEQUAL.rows("each")
    with pytest.raises(ConfigError, match="pooled, item, system"):
        agree(UNEQUAL.rows(), "tau-b", "segment")


def test_from_samples_scales_ratings_and_groups_by_image():
    samples = [
        CaptionSample("a dog", image="one.png", rating=Rating((1, 3), 1, 5), system="s"),
        CaptionSample("犬", group="g", rating=Rating((5,), 1, 5)),
    ]
    data = AgreementData.from_samples(np.array([0.1, 0.2]), samples)
    assert data.ratings == ((0.0, 0.5), (1.0,))
    assert data.languages == ("en", "ja")
    assert data.systems == ("s", None)
    assert data.groups[1] == "g"
    with pytest.raises(CorrelationError, match="1 scores for 2 samples"):
        AgreementData.from_samples(np.array([0.1]), samples)

"""Calibration: bins, their intervals, and the lines of its tables."""

import numpy as np
import pytest

from suisei.data.sample import CaptionSample, Rating
from suisei.errors import DataError
from suisei.metaeval.calibration import (
    calibrate,
    calibrate_by_language,
    calibrate_metrics,
    calibration_table,
    reliability_table,
)
from tests.unit.rated_captions import captions

PREDICTED = np.array([0.0, 0.1, 0.25, 0.3, 0.999, 1.0])
HUMAN = np.array([0.2, 0.0, 0.5, 0.3, 1.0, 0.4])
GROUPS = list("aabbcc")


def test_figures_by_hand():
    result = calibrate(PREDICTED, HUMAN, GROUPS, bins=4, n_resamples=0)
    assert [(each.start, each.stop, each.n) for each in result.bins] == [
        (0, 0.25, 2), (0.25, 0.5, 2), (0.75, 1, 2),
    ]  # fmt: skip
    assert [each.predicted for each in result.bins] == pytest.approx([0.05, 0.275, 0.9995])
    assert [each.human for each in result.bins] == pytest.approx([0.1, 0.4, 0.7])
    assert result.error == pytest.approx((0.05 + 0.125 + 0.2995) / 3)
    assert result.bias == pytest.approx((PREDICTED - HUMAN).mean())
    assert result.rmse == pytest.approx(np.sqrt(((PREDICTED - HUMAN) ** 2).mean()))
    assert result.slope == pytest.approx(np.polyfit(PREDICTED, HUMAN, 1)[0])
    assert result.n == 6


def test_no_resamples_or_one_group_give_no_interval():
    for result in (
        calibrate(PREDICTED, HUMAN, GROUPS, n_resamples=0),
        calibrate(PREDICTED, HUMAN, ["a"] * 6, n_resamples=20),
    ):
        assert (result.interval.low, result.interval.high) == (None, None)
        assert {(each.low, each.high) for each in result.bins} == {(None, None)}
    two = calibrate(PREDICTED, HUMAN, list("aaabbb"), n_resamples=20)
    assert two.interval.low is not None


def test_intervals_are_those_of_whole_groups_drawn_again():
    rng = np.random.default_rng(0)
    names = [f"g{n // 4}" for n in range(120)]
    human, predicted = np.repeat(rng.random(30), 4), rng.random(120)
    result = calibrate(predicted, human, names, bins=1, n_resamples=2000, seed=1)
    draws = rng.integers(0, 30, size=(2000, 30))
    drawn = human.reshape(30, 4)[draws].mean(axis=(1, 2))
    errors = np.abs((predicted - human).reshape(30, 4)[draws].mean(axis=(1, 2)))
    assert [result.bins[0].low, result.bins[0].high] == pytest.approx(
        np.quantile(drawn, [0.025, 0.975]), abs=0.02
    )
    assert [result.interval.low, result.interval.high] == pytest.approx(
        np.quantile(np.maximum(2 * result.error - errors, 0), [0.025, 0.975]), abs=0.02
    )
    assert result.interval.n_resamples == 2000
    same, other = (calibrate(predicted, human, names, bins=1, n_resamples=2000, seed=s) for s in (1, 2))
    assert same == result
    assert other.interval != result.interval
    assert other.error == result.error


@pytest.mark.parametrize(("bias", "least"), [(0.0, 20), (0.1, 34)])
def test_an_interval_is_of_the_error_that_would_be_left_without_noise(bias, least):
    """Scores that are right have an error of .03 by noise alone; resamples of it never reach down to 0."""
    hits = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        predicted = rng.uniform(0.1, 0.85, 300)
        human = rng.binomial(4, predicted + bias) / 4
        result = calibrate(predicted, human, [str(n) for n in range(300)], n_resamples=200, seed=seed)
        hits += result.interval.low <= bias <= result.interval.high
    assert hits >= least


def test_a_bin_of_one_group_has_no_other_rating():
    names = [str(n) for n in range(60)]
    predicted = np.array([0.05] * 59 + [0.95])
    full, rare = calibrate(predicted, np.linspace(0, 1, 60), names, bins=2, n_resamples=300).bins
    assert full.low < full.human < full.high
    assert (rare.low, rare.human, rare.high) == (1, 1, 1)  # the 37 % of resamples without it do not count


@pytest.mark.parametrize(
    ("predicted", "human", "message"),
    [
        ([], [], "no sample has both a score and a rating"),
        ([np.nan, 1], [0, 1], "all of its 2 samples"),
        ([0, 1], [0, np.nan], "all of its 2 samples"),
        ([-0.1, 1], [0, 1], "from -0.1 to 1 are not on the human scale"),
        ([-1, -0.0], [0, 1], "from -1 to 0 are not on the human scale"),
        ([0, 1.1], [0, 1], "from 0 to 1.1 are not"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(predicted, human, message):
    with pytest.raises(DataError, match=message):
        calibrate(np.array(predicted, dtype=float), np.array(human, dtype=float), ["a", "b"][: len(human)])


def test_rounding_beyond_the_ends_of_the_scale_is_no_error():
    result = calibrate(np.array([-1e-12, 1 + 1e-12]), np.array([0.0, 1.0]), ["a", "b"], n_resamples=0)
    assert [(each.start, each.stop) for each in result.bins] == [(0, 0.1), (0.9, 1)]


def test_scores_that_hardly_differ_have_a_slope_and_equal_ones_none():
    near = 0.5 + np.array([-1e-6, 0, 1e-6])
    human = np.array([0.2, 0.3, 0.4])
    assert calibrate(near, human, list("abc"), n_resamples=0).slope == pytest.approx(1e5, rel=1e-3)
    assert calibrate(np.full(3, 0.1), human, list("abc"), n_resamples=0).slope is None


def rated(captions):
    return [
        CaptionSample(text, rating=None if value is None else Rating((value,)), group=str(n // 2))
        for n, (text, value) in enumerate(captions)
    ]


def test_one_language_or_none_that_is_rated_makes_no_scope_of_its_own():
    samples = rated([("a dog", 0.5), ("a cat", 1.0), ("犬", None), ("猫", 0.0)])
    named = calibrate_by_language(np.array([0.5, 0.5, 0.5, np.nan]), samples, bins=5, n_resamples=0)
    assert list(named) == ["all"]
    assert named["all"].n == 2
    both = calibrate_by_language(np.array([0.5, 0.5, 0.5, 0.7]), samples, bins=5, n_resamples=0)
    assert {name: value.n for name, value in both.items()} == {"all": 3, "Japanese": 1, "English": 2}
    assert both["Japanese"].bins[0].start == pytest.approx(0.6)


@pytest.mark.parametrize("bins", [10, 40, 1000])
def test_rows_of_many_bins_have_their_own_edges(bins):
    predicted = (np.arange(bins) + 0.5) / bins
    table = reliability_table("m", {"all": calibrate(predicted, predicted, ["a"] * bins, bins=bins)})
    edges = [tuple(map(float, row.label.split(" to "))) for row in table.overall.rows]
    assert edges == [(n / bins, (n + 1) / bins) for n in range(bins)]


def test_tables_say_every_figure_once():
    samples = rated([("a dog", 0.5), ("a cat", 1.0), ("犬", 0.25), ("猫", 0.0)])
    scores = np.array([0.5, 0.5, 0.5, 0.5])
    named = calibrate_by_language(scores, samples, n_resamples=50)
    table = calibration_table({"x": named, "y": {"all": named["all"]}, "z": "why"})
    assert [section.title for section in table.sections] == ["all", "Japanese", "English"]
    assert [[row.label for row in section.rows] for section in table.sections] == [
        ["x", "y", "z"], ["x", "z"], ["x", "z"],
    ]  # fmt: skip
    cells, figures = table.row("x", "all").cells, named["all"]
    assert [cells[name].value for name in ("error", "bias", "rmse", "slope", "n")] == [
        figures.error, figures.bias, figures.rmse, None, 4,
    ]  # fmt: skip
    assert (cells["error"].low, cells["error"].high) == (figures.interval.low, figures.interval.high)
    assert cells["slope"].reason == "all scores are equal"
    sloped = calibrate(PREDICTED, HUMAN, GROUPS, n_resamples=0)
    assert calibration_table({"x": {"all": sloped}}).row("x").cells["slope"].reason is None
    lines = reliability_table("x", {"all": named["all"]}).sections[0].rows
    assert [row.label for row in lines] == ["0.5 to 0.6"]
    assert lines[0].cells["predicted"].value == pytest.approx(0.5)
    human = lines[0].cells["human"]
    assert (human.value, human.low, human.high) == (
        named["all"].bins[0].human, named["all"].bins[0].low, named["all"].bins[0].high,
    )  # fmt: skip


def test_languages_are_resampled_by_their_own_groups():
    samples = [
        CaptionSample(text, rating=Rating((float(n % 3),), 0, 2), group=f"{language}{n // size}")
        for language, text, size in (("en", "a dog", 4), ("ja", "犬", 6))
        for n in range(24)
    ]
    scores = np.random.default_rng(0).random(48)
    found = calibrate_by_language(scores, samples, n_resamples=50, seed=1)
    groups = [sample.group for sample in samples[24:]]
    human = np.array([sample.rating.mean for sample in samples[24:]])
    alone = calibrate(scores[24:], human, groups, n_resamples=50, seed=1)
    assert found["Japanese"].interval == alone.interval


def test_a_bin_that_most_resamples_lack_has_no_interval():
    lone = [calibrate(np.array([0.1, 0.9]), np.ones(2), ["a", "b"], n_resamples=1, seed=s) for s in range(8)]
    ends = {each.low for result in lone for each in result.bins}
    assert ends == {None, 1.0}


def test_calibration_against_a_plain_loop():
    rng = np.random.default_rng(1)
    human = rng.random(300)
    predicted = np.clip(0.2 + 0.5 * human + 0.1 * rng.normal(size=300), 0, 1)
    groups = [f"g{n // 3}" for n in range(300)]
    result = calibrate(predicted, human, groups, bins=5, n_resamples=200)
    expected = 0.0
    for n in range(5):
        inside = (predicted >= n / 5) & ((predicted < (n + 1) / 5) | (n == 4))
        if inside.any():
            expected += inside.mean() * abs(predicted[inside].mean() - human[inside].mean())
    assert result.error == pytest.approx(expected)
    assert result.interval.low < result.error * 1.2
    assert result.interval.high > result.error * 0.8
    assert sum(each.n for each in result.bins) == 300
    assert result.bias == pytest.approx((predicted - human).mean())
    assert result.slope == pytest.approx(np.polyfit(predicted, human, 1)[0])
    middle = max(result.bins, key=lambda each: each.n)
    assert middle.low < middle.human < middle.high


def test_perfect_scores_have_no_calibration_error():
    human = np.linspace(0, 1, 50)
    result = calibrate(human, human, [str(n) for n in range(50)], n_resamples=20)
    assert (result.error, result.bias, result.slope) == pytest.approx((0, 0, 1))
    assert calibrate(np.full(3, 0.5), human[:3], ["a"] * 3).slope is None


def test_scores_off_the_human_scale_are_refused_and_explained():
    with pytest.raises(DataError, match="from 0 to 40 are not on the human scale"):
        calibrate(np.array([0.0, 40.0]), np.array([0.0, 1.0]), ["a", "b"])
    table = calibration_table({"chrf": "not on the human scale"})
    assert table.overall.rows[0].error == "not on the human scale"


def test_calibration_by_language_leaves_out_what_has_no_score():
    rows = captions()
    scores = np.array([s.rating.mean for s in rows])
    scores[0] = np.nan
    named = calibrate_by_language(scores, rows, n_resamples=10)
    assert {name: value.n for name, value in named.items()} == {"all": 39, "Japanese": 20, "English": 19}
    table = calibration_table({"x": named, "y": "why"})
    assert table.row("x", "English").cells["error"].value == pytest.approx(0)
    assert reliability_table("x", named).row("0.9 to 1", "all").cells["n"].value == 8


def test_a_distance_is_not_on_the_human_scale_even_where_all_its_scores_are_0():
    rows = captions()
    zeros = np.zeros(len(rows))
    found = calibrate_metrics({"far": -zeros, "near": zeros}, rows, distances=["far"], n_resamples=0)
    assert "lower is better" in found["far"]
    assert not isinstance(found["near"], str)

"""Metrics compared pair by pair: order, gaps, notes and columns."""

import re
import weakref
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from suisei.data.sample import CaptionSample, Rating
from suisei.metaeval import metric_pairs
from suisei.metaeval.agreement import AgreementData
from suisei.metaeval.metric_pairs import compare_metrics
from suisei.metaeval.resampling import bootstrap_difference
from suisei.metaeval.settings import EvaluationSettings
from suisei.metaeval.significance import williams_test


@pytest.fixture(scope="module")
def rated():
    rng = np.random.default_rng(0)
    quality = rng.random(60)
    ratings = np.clip(np.round(1 + 4 * quality + 0.4 * rng.normal(size=60)), 1, 5)
    samples = [
        CaptionSample("a dog", rating=Rating((float(value),), 1, 5), group=f"g{n // 2}")
        for n, value in enumerate(ratings)
    ]
    noise = rng.normal(size=60)
    return samples, {"poor": quality + noise, "good": quality, "fair": quality + 0.3 * noise}


def rows_of(result):
    return {row.label: row for row in result.table.sections[0].rows}


def test_every_pair_has_its_better_metric_first_and_progress_counts_them(rated):
    samples, scores = rated
    seen = []
    settings = EvaluationSettings(correlation="pearson", n_resamples=99, seed=3, unit="group")
    result = compare_metrics(scores, samples, settings, progress=lambda *counts: seen.append(counts))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    rows = rows_of(result)
    assert list(rows) == ["good > fair", "good > poor", "fair > poor"]
    assert list(result.ranks) == ["good", "fair", "poor"]
    human = [sample.rating.values[0] for sample in samples]
    r = {name: scipy.stats.pearsonr(values, human)[0] for name, values in scores.items()}
    between = scipy.stats.pearsonr(scores["good"], scores["poor"])[0]
    cells = rows["good > poor"].cells
    assert cells["difference"].value == pytest.approx(r["good"] - r["poor"])
    assert cells["difference"].low < cells["difference"].value < cells["difference"].high
    assert cells["williams"].value == pytest.approx(
        williams_test(r["good"], r["poor"], between, 60).p_value, rel=1e-6
    )
    assert all(cells[name].is_p_value for name in ("p", "holm", "williams"))
    assert cells["p"].signature == "perm-both|pearson|avg:pooled|unit:group|n:99|seed:3|greater"
    assert rows["good > poor"].info["n"] == 60
    assert any("seed 3; Holm over 3 pairs" in note for note in result.table.notes)


def test_of_metrics_that_agree_equally_well_none_is_the_better_one(rated):
    samples, scores = rated
    equal = {"good": scores["good"], "warped": np.exp(5 * scores["good"]), "poor": scores["poor"]}
    settings = EvaluationSettings(correlation="tau-b", n_resamples=99)
    first, second = (
        {frozenset(label.split(" > ")): row.cells for label, row in rows_of(result).items()}
        for result in (
            compare_metrics({name: equal[name] for name in names}, samples, settings)
            for names in (list(equal), list(equal)[::-1])
        )
    )
    assert first[frozenset(("good", "warped"))]["difference"].value == 0
    for pair, cells in first.items():
        assert cells["p"].value == second[pair]["p"].value
        assert cells["p"].value == 1 or pair != {"good", "warped"}


def test_a_metric_is_resampled_once_for_all_of_its_pairs(rated, monkeypatch):
    samples, scores = rated
    scores = {**scores, "less": np.r_[np.nan, scores["fair"][1:] ** 3]}
    seen, plain = [], metric_pairs.bootstrap_values
    monkeypatch.setattr(
        metric_pairs, "bootstrap_values", lambda rows, *rest: seen.append(rows) or plain(rows, *rest)
    )
    settings = EvaluationSettings(n_resamples=40)
    rows = rows_of(compare_metrics(scores, samples, settings))
    assert sorted(len(each.x) for each in seen) == [59] * 4 + [60] * 3  # with "less" on fewer samples
    for label, there in (("good > poor", slice(None)), ("good > less", slice(1, None))):
        a, b = (
            AgreementData.from_samples(scores[name][there], samples[there]).rows()
            for name in label.split(" > ")
        )
        interval = bootstrap_difference(a, b, n_resamples=40)
        cell = rows[label].cells["difference"]
        assert (cell.low, cell.high) == (interval.low, interval.high)


def test_rows_on_samples_that_a_pair_alone_has_are_not_kept(rated, monkeypatch):
    samples, scores = rated
    made, alive, plain = [], [], AgreementData.rows

    def rows(*given):
        found = plain(*given)
        made.append(weakref.ref(found.x))
        return found

    def count(*_):
        alive.append(sum(each() is not None for each in made))

    monkeypatch.setattr(AgreementData, "rows", rows)
    lacking = {f"m{n}": np.where(np.arange(60) == n, np.nan, scores["fair"] ** (2 * n + 1)) for n in range(5)}
    compare_metrics(lacking, samples, EvaluationSettings(n_resamples=20), progress=count)
    assert len(alive) == 10
    assert max(alive) <= 5


def test_level_of_the_clusters(rated):
    samples, scores = rated
    two = {name: scores[name] for name in ("good", "poor")}
    settings = EvaluationSettings(n_resamples=99)
    strict, usual = (compare_metrics(two, samples, settings, alpha=alpha) for alpha in (0.001, 0.05))
    assert usual.ranks == {"good": 1, "poor": 2}
    assert strict.ranks == {"good": 1, "poor": 1}
    assert any("too few" in note for note in strict.table.notes)
    assert not any("too few" in note for note in usual.table.notes)


@pytest.mark.parametrize(("correlation", "averaging"), [("tau-c", "pooled"), ("pearson", "item")])
def test_williams_is_for_pooled_pearson_alone(rated, correlation, averaging):
    samples, scores = rated
    groups = [
        CaptionSample(sample.candidate, rating=sample.rating, group=f"g{n % 6}")
        for n, sample in enumerate(samples)
    ]
    for settings, there in (
        (EvaluationSettings(correlation=correlation, averaging=averaging, n_resamples=19), False),
        (EvaluationSettings(correlation="pearson", n_resamples=19), True),
    ):
        result = compare_metrics(scores, groups, settings)
        assert ("williams" in result.table.columns) is there
        assert all(("williams" in row.cells) is there for row in rows_of(result).values())
        assert any("Williams" in note for note in result.table.notes) is there


def test_a_pair_without_a_common_sample_says_so_and_is_not_counted(rated):
    samples, scores = rated
    half = np.arange(60) < 30
    parts = {
        "first": np.where(half, scores["good"], np.nan),
        "second": np.where(half, np.nan, scores["fair"]),
        "poor": scores["poor"],
    }
    result = compare_metrics(parts, samples, EvaluationSettings(n_resamples=99))
    rows = rows_of(result)
    [apart] = [row for label, row in rows.items() if "poor" not in label]
    assert apart.error == "no sample has a score of both"
    assert not apart.cells
    others = [row for label, row in rows.items() if "poor" in label]
    assert [row.info["n"] for row in others] == [30, 30]
    smallest = min(others, key=lambda row: row.cells["p"].value).cells
    assert smallest["holm"].value == pytest.approx(2 * smallest["p"].value)  # two tests, not three
    assert any("Holm over 2 pairs" in note for note in result.table.notes)
    few = compare_metrics(parts, samples, EvaluationSettings(n_resamples=49)).table.notes
    assert not any("too few" in note for note in few)  # 2 / 50 is within 5 %, 3 / 50 would not be
    assert result.ranks["first"] == result.ranks["second"] == 1


def test_a_difference_without_an_interval_is_shown_with_its_p_value():
    """One image drawn twice has no correlation, which of two images is half of the resamples."""
    samples = [
        CaptionSample("a dog", rating=Rating((value,), 1, 5), group=group)
        for group, value in (("one", 1.0), ("two", 4.0))
    ]
    scores = {"right": np.array([0.1, 0.9]), "wrong": np.array([0.9, 0.1])}
    settings = EvaluationSettings(n_resamples=99, correlation="tau-b", seed=1)
    [row] = rows_of(compare_metrics(scores, samples, settings)).values()
    assert row.error is None
    difference = row.cells["difference"]
    assert (difference.value, difference.low, difference.high) == (pytest.approx(2), None, None)
    assert re.fullmatch(r"no interval: undefined on \d+ of 99 resamples", difference.reason)
    assert 0.25 < row.cells["p"].value <= 1  # two images that are swapped or not: one of four in favour


def test_pairs_that_score_different_samples_are_said_to_share_so_many(rated):
    samples, scores = rated
    few = {**scores, "poor": np.where(np.arange(60) < 24, scores["poor"], np.nan)}
    found = compare_metrics(few, samples, EvaluationSettings(n_resamples=99)).table.notes
    [note] = [note for note in found if "both score" in note]
    assert note.count("24 of 60") == note.count("poor") == 2
    assert "good > fair" not in note
    few = {**scores, "good": np.where(np.arange(60) < 24, scores["good"], np.nan)}
    found = compare_metrics(few, samples, EvaluationSettings(n_resamples=99)).table.notes
    [note] = [note for note in found if "both score" in note]
    assert note.count("24 of 60") == note.count("good >") == 2
    whole = compare_metrics(scores, samples, EvaluationSettings(n_resamples=99)).table.notes
    assert not any("both score" in note for note in whole)


def test_a_metric_that_nothing_is_better_than_stands_before_one_that_is_beaten(rated):
    samples, scores = rated
    few = np.where(np.arange(60) < 4, -scores["good"], np.nan)  # too few for any difference to be significant
    settings = EvaluationSettings(correlation="pearson", n_resamples=199)
    result = compare_metrics({"good": scores["good"], "poor": scores["poor"], "few": few}, samples, settings)
    assert result.ranks == {"good": 1, "few": 1, "poor": 2}


def test_a_metric_that_scores_easy_samples_alone_is_not_better_for_it():
    rng = np.random.default_rng(1)
    hard = np.arange(300) < 150
    ratings = np.where(hard, rng.uniform(45, 55, 300), rng.uniform(0, 100, 300))
    samples = [
        CaptionSample("a dog", rating=Rating((float(value),), 0, 100), group=f"g{n}")
        for n, value in enumerate(ratings)
    ]
    error = np.where(hard, rng.normal(0, 40, 300), 0)
    scores = {
        "all": ratings + rng.normal(0, 5, 300) + error,
        "too": ratings + rng.normal(0, 5, 300) + 0.6 * error,
        "easy": np.where(hard, np.nan, ratings + rng.normal(0, 20, 300)),
    }
    settings = EvaluationSettings(correlation="pearson", n_resamples=199)
    result = compare_metrics(scores, samples, settings)
    rows = rows_of(result)
    assert set(rows) == {"too > all", "all > easy", "too > easy"}
    for label in ("all > easy", "too > easy"):
        cells = rows[label].cells
        assert 0 < cells["difference"].low < cells["difference"].value
        assert max(cells[kind].value for kind in ("p", "holm", "williams")) < 0.05
    assert result.ranks == {"too": 1, "all": 2, "easy": 3}
    alone = scipy.stats.pearsonr(scores["easy"][~hard], ratings[~hard])[0]
    assert alone > max(scipy.stats.pearsonr(scores[name], ratings)[0] for name in ("all", "too"))


def test_averaged_over_images_a_pair_is_compared_where_both_are_defined():
    """A metric that is constant on many images and as good on the others is not found to be better."""
    rng = np.random.default_rng(2)
    quality = rng.normal(size=160)
    samples = [
        CaptionSample("a dog", rating=Rating((float(value),), 1, 5), group=f"g{n // 4}")
        for n, value in enumerate(np.clip(np.round(3 + quality), 1, 5))
    ]
    constant = np.arange(160) // 4 >= 10
    noisy = {name: quality + 0.6 * rng.normal(size=160) for name in ("all", "few")}
    noisy["few"] = np.where(constant, 0.5, noisy["few"])
    settings = EvaluationSettings(correlation="pearson", averaging="item", n_resamples=199)
    result = compare_metrics(noisy, samples, settings)
    [row] = rows_of(result).values()
    alone = compare_metrics(
        {name: scores[~constant] for name, scores in noisy.items()}, samples[:40], settings
    )
    [expected] = rows_of(alone).values()
    cells = [each.cells["difference"] for each in (row, expected)]
    assert abs(cells[0].value) == pytest.approx(abs(cells[1].value))
    assert cells[0].high - cells[0].low == pytest.approx(cells[1].high - cells[1].low)
    assert row.cells["p"].value > 0.05
    assert row.info == {"n": 40, "groups": 10, "groups_left_out": 30}
    [note] = [note for note in result.table.notes if "both are defined" in note]
    assert note.endswith(f"{row.label} 10 of 40")
    assert not any("both are defined" in note for note in alone.table.notes)
    noisy["all"] = np.where(constant, noisy["all"], 0.5)
    [apart] = rows_of(compare_metrics(noisy, samples, settings)).values()
    assert apart.error == "in no group is pearson of both defined"


def test_samples_that_are_swapped_one_by_one_are_said_where_images_have_several(rated):
    samples, scores = rated
    settings = EvaluationSettings(correlation="pearson", n_resamples=19)
    whole, single = (
        compare_metrics(scores, samples, each).table for each in (settings, replace(settings, unit="item"))
    )
    assert any("unit group" in note for note in whole.notes)
    assert not any("one by one" in note for note in whole.notes)
    [note] = [note for note in single.notes if "one by one" in note]
    assert "several in 30 of 30 groups (images)" in note
    apart = [replace(sample, group=f"g{number}") for number, sample in enumerate(samples)]
    alone = compare_metrics(scores, apart, replace(settings, unit="item")).table
    assert not any("one by one" in note for note in alone.notes)


@pytest.mark.parametrize(("unit", "said"), [("group", True), ("item", False)])
def test_few_images_are_said_where_whole_images_are_swapped(rated, unit, said):
    samples, scores = rated
    four = [replace(sample, group=f"g{n % 4}") for n, sample in enumerate(samples)]
    two = {name: scores[name] for name in ("good", "poor")}
    notes = compare_metrics(two, four, EvaluationSettings(n_resamples=99, unit=unit)).table.notes
    few = [note for note in notes if "can be swapped in" in note]
    assert [note[:32] for note in few] == (["4 groups (images) can be swapped"] if said else [])
    assert any("; Holm over 1 pair;" in note for note in notes)


def test_the_same_metric_twice_has_no_williams_test_but_a_difference_of_zero(rated):
    samples, scores = rated
    settings = EvaluationSettings(correlation="pearson", n_resamples=1)
    result = compare_metrics({"a": scores["good"], "b": scores["good"].copy()}, samples, settings)
    [row] = rows_of(result).values()
    assert (row.cells["difference"].value, row.cells["p"].value) == (0, 1)
    assert row.cells["williams"].value is None
    assert "rate alike" in row.cells["williams"].reason


def test_less_confidence_gives_a_narrower_interval_of_the_same_difference(rated):
    samples, scores = rated
    cells = [
        rows_of(compare_metrics(scores, samples, EvaluationSettings(n_resamples=200, confidence=confidence)))[
            "good > poor"
        ].cells["difference"]
        for confidence in (0.95, 0.5)
    ]
    sure, less = cells
    assert less.value == sure.value
    assert sure.low < less.low < less.high < sure.high

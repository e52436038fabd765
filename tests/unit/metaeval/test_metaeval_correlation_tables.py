"""Tables of correlations and comparisons: figures, sections, reasons and notes."""

import dataclasses

import numpy as np
import pytest
import scipy.stats

from suisei.data.sample import CaptionSample, Rating
from suisei.errors import ConfigError
from suisei.metaeval.correlation import CORRELATIONS, CorrelationError
from suisei.metaeval.correlation_tables import add_failed, evaluation_table
from suisei.metaeval.labels import HUMAN
from suisei.metaeval.metric_pairs import compare_metrics
from suisei.metaeval.resampling import group_weights
from suisei.metaeval.settings import EvaluationSettings
from tests.unit.metaeval.simulated import rated


def test_system_level_tables_say_rows_and_systems():
    samples, quality = rated(systems=("s", "t", "u"))
    table = evaluation_table({"q": quality}, samples, EvaluationSettings(averaging="system"))
    assert table.columns["n"] == "rows"
    for label in ("q", HUMAN):
        assert table.row(label).cells["systems"].value == 3
        assert table.row(label).cells["n"].value == 80
    assert "|n:80|systems:3|" in table.row("q").cells["tau-c"].signature
    pooled = evaluation_table({"q": quality}, samples)
    assert "systems" not in pooled.columns
    assert "systems" not in pooled.row("q").cells["tau-c"].signature


def test_samples_without_a_system_are_no_system():
    samples, quality = rated(count=60, systems=("s", "t", "u", None))
    named = np.array([sample.system is not None for sample in samples])
    settings = EvaluationSettings(averaging="system", correlation="tau-b", n_resamples=50)
    table = evaluation_table({"q": quality}, samples, settings)
    few = [sample for sample in samples if sample.system]
    expected = evaluation_table({"q": quality[named]}, few, settings)
    for label in ("q", HUMAN):
        assert table.row(label).cells == expected.row(label).cells
        assert table.row(label).cells["systems"].value == 3
    said = "left out of the means per system: 15 of 60 samples, without a system"
    assert said in table.notes
    assert expected.notes == tuple(note for note in table.notes if note != said)
    scores = {"q": quality, "r": quality + np.linspace(0, 1, 60)}
    pairs = compare_metrics(scores, samples, settings)
    alone = compare_metrics({name: each[named] for name, each in scores.items()}, few, settings)
    assert pairs.table.sections == alone.table.sections
    assert said in pairs.table.notes
    assert not any("without a system" in note for note in evaluation_table({"q": quality}, samples).notes)


def test_a_figure_outside_its_interval_is_said_to_be_one():
    samples, quality = rated(count=64, systems=tuple("abcdefgh"), seed=18)
    settings = EvaluationSettings(averaging="system", n_resamples=100)
    table = evaluation_table({"q": quality}, samples, settings)
    cells = {kind: table.row(HUMAN).cells[kind] for kind in CORRELATIONS}
    outside = [kind for kind, cell in cells.items() if not cell.low <= cell.value <= cell.high]
    assert outside == ["tau-b", "tau-c"] == [kind for kind, cell in cells.items() if cell.reason]
    said = [note.partition(" its interval:")[0] for note in table.all_notes() if "outside" in note]
    assert said == ["human: a figure lies outside"]


def test_a_perfect_figure_is_not_outside_an_interval_that_ends_at_one():
    samples, quality = rated(count=64, systems=tuple("abcd"), seed=2)
    settings = EvaluationSettings(averaging="system", n_resamples=100)
    cells = evaluation_table({"q": quality, "-q": -quality}, samples, settings).overall.rows
    for row, end in zip(cells, (1, -1), strict=False):
        assert row.cells["spearman"].value == pytest.approx(end)
        assert row.cells["spearman"].reason is None


@pytest.mark.parametrize(("systems", "count"), [(("s", None), 1), ((None,), 1)])
def test_means_per_system_need_two_named_systems(systems, count):
    samples, quality = rated(systems=systems)
    table = evaluation_table({"q": quality}, samples, EvaluationSettings(averaging="system"))
    cell = table.row("q").cells["tau-c"]
    assert cell.value is None
    assert cell.reason == f"system-level correlation needs at least two systems, got {count}"


def test_table_has_the_right_figures_everywhere():
    samples, quality = rated(languages=("en", "ja"), systems=("s", "s", "t", "t"))
    result = evaluation_table({"q": quality}, samples)
    titles = [section.title for section in result.sections]
    assert titles == ["overall", "language: en", "language: ja", "system: s", "system: t"]
    ratings = np.array([sample.rating.values for sample in samples])
    japanese = np.arange(40) % 2 == 1
    for title, mask in (("overall", np.ones(40, bool)), ("language: ja", japanese)):
        x, y = np.repeat(quality[mask], 2), ratings[mask].ravel()
        cells = result.row("q", title).cells
        assert cells["pearson"].value == pytest.approx(scipy.stats.pearsonr(x, y)[0])
        assert cells["spearman"].value == pytest.approx(scipy.stats.spearmanr(x, y)[0])
        assert cells["tau-b"].value == pytest.approx(scipy.stats.kendalltau(x, y)[0])
        assert cells["tau-c"].value == pytest.approx(scipy.stats.kendalltau(x, y, variant="c")[0])
        assert cells["n"].value == mask.sum() * 2
        human = result.row(HUMAN, title)
        expected = scipy.stats.pearsonr(ratings[mask].ravel(), ratings[mask][:, ::-1].ravel())[0]
        assert human.cells["pearson"].value == pytest.approx(expected, abs=0.05)
        assert human.cells["n"].value == mask.sum() * 2
    mean = (
        evaluation_table({"q": quality}, samples, EvaluationSettings(raters="mean")).row("q").cells["pearson"]
    )
    assert mean.value == pytest.approx(scipy.stats.pearsonr(quality, ratings.mean(axis=1))[0])
    assert "raters:mean" in mean.signature


def test_one_language_and_one_system_need_no_sections():
    samples, quality = rated(systems=("s",))
    assert len(evaluation_table({"q": quality}, samples).sections) == 1


def test_undefined_figures_have_a_reason_and_no_zero():
    samples, quality = rated(raters=1)
    constant, zero, none = (np.full(40, value) for value in (0.5, -0.0, np.nan))
    columns = {"constant": constant, "zero": zero, "none": none, "q": quality}
    result = evaluation_table(columns, samples)
    for kind in CORRELATIONS:
        assert result.row("constant").cells[kind].value is None
        assert "all 40 scores are 0.5" in result.row("constant").cells[kind].reason
        assert result.row("zero").cells[kind].reason.endswith("all 40 scores are 0")
        assert "no scores" in result.row("none").cells[kind].reason
        assert "one rater" in result.row(HUMAN).cells[kind].reason
        assert result.row("q").cells[kind].value > 0.5
    assert "human: not available: one rater" in result.to_markdown()
    explained = "human: a rating of each sample against"
    assert explained not in result.to_markdown()
    samples, quality = rated(raters=2)
    assert explained in evaluation_table({"q": quality}, samples).to_markdown()


def test_equal_ratings_are_said_without_a_value_on_a_scale_that_is_not_the_users():
    samples, quality = rated(4)
    samples = [dataclasses.replace(sample, rating=Rating((5.0, 5.0), 1, 5)) for sample in samples]
    result = evaluation_table({"q": quality}, samples)
    for label, count in (("q", 8), (HUMAN, 4)):
        reasons = {result.row(label).cells[kind].reason for kind in CORRELATIONS}
        assert reasons == {f"undefined: all {count} ratings are equal"}


def test_groups_without_a_correlation_are_named_with_the_reason():
    samples, quality = rated(raters=1)
    samples = [dataclasses.replace(sample, group=f"g{i // 4}") for i, sample in enumerate(samples)]
    own = np.array([sample.group == "g0" for sample in samples])
    table = evaluation_table(
        {"q": np.where(own, 0.5, quality)}, samples, EvaluationSettings(averaging="item")
    )
    for kind, minimum in (("pearson", 3), ("tau-b", 2)):
        cell = table.row("q").cells[kind]
        assert cell.value is not None
        expected = f"undefined in 1 of 10 groups (fewer than {minimum} rows, or all equal), left out: g0"
        assert cell.reason == expected


def test_groups_without_a_correlation_are_named_where_there_is_no_interval_either():
    ratings = [(1, 0, 0), (1, 0, 1), (0, 0, 0), (1, 0, 1), (0, 0, 0), (0, 1, 1)]
    samples = [
        CaptionSample(f"a {n}", rating=Rating(values, 0, 1), group=f"g{n // 2}")
        for n, values in enumerate(ratings)
    ]
    settings = EvaluationSettings(averaging="item", n_resamples=50, seed=5)
    table = evaluation_table({"a": np.arange(6.0)}, samples, settings, by_scope=False)
    reason = table.row(HUMAN).cells["tau-b"].reason
    assert reason.startswith(
        "undefined in 3 of 3 groups by one rater or more (fewer than 2 rows, or all equal)"
    )
    assert reason.endswith("; no interval: undefined on 31 of 50 resamples")


def test_missing_scores_are_dropped_and_counted_or_refused():
    samples, quality = rated()
    quality[[1, 5]] = np.nan
    row = evaluation_table({"q": quality}, samples).row("q")
    assert row.cells["n"].value == 76
    assert row.info["skipped"] == 2
    with pytest.raises(CorrelationError, match="2 of 40 scores are missing"):
        evaluation_table({"q": quality}, samples, EvaluationSettings(missing="raise"))


def test_intervals_and_progress():
    samples, quality = rated()
    seen = []
    result = evaluation_table(
        {"q": quality},
        samples,
        EvaluationSettings(n_resamples=50),
        progress=lambda done, total: seen.append((done, total)),
    )
    cell = result.row("q").cells["tau-c"]
    assert cell.low < cell.value < cell.high
    assert seen == [(1, 2), (2, 2)]
    assert any("50 resamples, seed 0" in note for note in result.notes)


def test_an_interval_says_how_many_resamples_it_leaves_out():
    """Without the one image that is rated otherwise, all ratings are equal."""
    samples = [
        CaptionSample(f"c{n}", rating=Rating((2 if n == 0 else 1,), 1, 4), group=f"g{n}") for n in range(12)
    ]
    scores = np.random.default_rng(0).random(12)
    table = evaluation_table({"q": scores}, samples, EvaluationSettings(n_resamples=100))
    lacking = int((group_weights(12, 100, seed=0)[:, 0] == 0).sum())  # g0 is the first by name
    assert 20 < lacking < 50
    reason = f"{lacking} of 100 resamples left out of the interval: undefined on them"
    assert {table.row("q").cells[kind].reason for kind in CORRELATIONS} == {reason}
    assert f"q: {reason}" in table.all_notes()
    pair = compare_metrics({"q": scores, "r": -scores}, samples, EvaluationSettings(n_resamples=100)).table
    assert pair.row("q > r").cells["difference"].reason == reason


def test_a_failed_metric_keeps_its_place():
    samples, quality = rated()
    result = add_failed(evaluation_table({"q": quality}, samples), {"bad": "it died"}, ["bad", "q"])
    assert [row.label for row in result.overall.rows] == ["bad", "q", HUMAN]
    assert "bad: it died" in result.to_markdown()


def test_comparison_ranks_and_corrects():
    samples, quality = rated(120)
    rng = np.random.default_rng(1)
    scores = {
        "bad": rng.random(120),
        "good": quality + 0.02 * rng.normal(size=120),
        "alike": quality + 0.021 * rng.normal(size=120),
        "constant": np.zeros(120),
    }
    scores["alike"][:3] = np.nan
    result = compare_metrics(scores, samples, EvaluationSettings(correlation="pearson", n_resamples=199))
    assert result.ranks["good"] == result.ranks["alike"] == 1
    assert result.ranks["bad"] == 2
    assert "constant" not in result.ranks
    assert any(note.startswith("constant is not compared") for note in result.table.notes)
    row = next(row for row in result.table.overall.rows if row.label == "good > bad")
    assert row.cells["p"].value == pytest.approx(1 / 200)
    assert row.cells["holm"].value == pytest.approx(3 / 200)
    assert row.cells["williams"].value < 0.001
    assert row.cells["difference"].low > 0
    pair = next(row for row in result.table.overall.rows if "good" in row.label and "alike" in row.label)
    assert pair.info["n"] == 117 * 2  # only what both score


def test_comparison_says_when_permutations_are_too_few():
    samples, quality = rated()
    result = compare_metrics(
        {"a": quality, "b": quality[::-1].copy()}, samples, EvaluationSettings(n_resamples=9)
    )
    assert any("too few for 1 pair:" in note for note in result.table.notes)


@pytest.mark.parametrize(("unit", "what"), [("group", "4 groups (images)"), ("item", "8 samples")])
def test_comparison_says_when_nothing_could_be_significant_of_so_few_images(unit, what):
    samples, quality = rated(8)
    told = []
    for names in ("ab", "abcdefgh"):
        rng = np.random.default_rng(0)
        scores = {name: quality + rng.normal(size=8) for name in names}
        table = compare_metrics(scores, samples, EvaluationSettings(n_resamples=999, unit=unit)).table
        told.append(any(note.startswith(f"{what} can be swapped") for note in table.notes))
    assert told == [unit == "group", True]


def test_a_comparison_without_resamples_is_refused():
    samples, quality = rated()
    with pytest.raises(ConfigError, match="n_resamples 0"):
        compare_metrics({"a": quality, "b": -quality}, samples, EvaluationSettings())

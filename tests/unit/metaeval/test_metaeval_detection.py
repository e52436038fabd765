"""Average precision of finding bad captions."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from suisei.data.judged import PairCaption
from suisei.data.sample import CaptionSample, Rating
from suisei.errors import DataError
from suisei.metaeval.detection import (
    AVERAGE_PRECISION,
    chance_precision,
    detection_table,
    resampled_difference,
)
from suisei.metaeval.settings import EvaluationSettings
from suisei.scoring.columns import ScoreColumn


def samples_of(good):
    return [CaptionSample("x", rating=Rating((float(one),)), group=f"g{n:02}") for n, one in enumerate(good)]


def column(scores, label="m", **fields):
    return ScoreColumn(label, np.array(scores, dtype=float), **fields)


def test_low_scores_find_the_bad_ones():
    samples = samples_of([1, 0, 1, 0])
    columns = [
        column([3, 1, 4, 2], "perfect"),
        column([1, 4, 2, 3], "reversed"),
        column([-3, -1, -4, -2], "distance", higher_is_better=False),
        column([1, 1, 1, 1], "constant"),
    ]
    table = detection_table(columns, samples)
    found = {row.label: row.cells[AVERAGE_PRECISION].value for row in table.overall.rows}
    assert found == {
        "perfect": 1,
        "reversed": pytest.approx((1 / 3 + 2 / 4) / 2),
        "distance": 1,
        "constant": 0.5,
    }
    assert values(table.row("perfect")) == (2, 4)
    assert "gives 0.681 on average, more than the share of bad ones, 0.500" in table.notes[0]


@pytest.mark.parametrize("bad", range(1, 7))
def test_chance_is_the_mean_over_all_orders(bad):
    orders = list(itertools.permutations(range(6)))
    found = [average_precision_score(np.arange(6) < bad, np.array(order)) for order in orders]
    assert chance_precision(bad, 6) == pytest.approx(np.mean(found))


def values(row):
    return row.cells["bad"].value, row.cells["n"].value


def test_captions_without_score_are_left_out_and_counted():
    columns = [
        column([3, 1, np.nan, 2], "some"),
        column([3, np.nan, 1, np.nan], "no bad one"),
        column([np.nan, 3, np.nan, 1], "no good one"),
        column([np.nan] * 4, "none"),
        ScoreColumn("failed", None, error="broken"),
    ]
    table = detection_table(columns, samples_of([1, 0, 1, 0]), EvaluationSettings(n_resamples=5))
    assert values(table.row("some")) == (2, 3)
    assert table.row("some").info == {"skipped": 1}
    assert table.row("no bad one").cells[AVERAGE_PRECISION].reason == "no bad caption has a score"
    assert table.row("no good one").cells[AVERAGE_PRECISION].reason == "no good caption has a score"
    assert table.row("none").cells[AVERAGE_PRECISION].reason == "no caption has a score"
    assert table.row("failed").error == "broken"


def test_the_interval_resamples_images():
    generator = np.random.default_rng(0)
    samples = samples_of(generator.random(60) > 0.3)
    scores = generator.normal(size=60)
    cell = detection_table([column(scores)], samples, EvaluationSettings(n_resamples=200, seed=1))
    cell = cell.row("m").cells[AVERAGE_PRECISION]
    bad = np.array([sample.rating.mean == 0 for sample in samples])
    assert cell.value == pytest.approx(average_precision_score(bad, -scores))
    weights = np.random.default_rng(1).multinomial(60, np.full(60, 1 / 60), size=200)
    resampled = [average_precision_score(np.repeat(bad, row), -np.repeat(scores, row)) for row in weights]
    assert (cell.low, cell.high) == pytest.approx(tuple(np.quantile(resampled, [0.025, 0.975])))


def test_a_resample_without_a_good_caption_finds_nothing(monkeypatch):
    drawn = np.array([[0, 3, 0], [1, 1, 1], [2, 1, 0]])  # the first is of a bad caption alone
    monkeypatch.setattr("suisei.metaeval.detection.group_weights", lambda *_: drawn)
    samples = samples_of([1, 0, 1])
    settings = EvaluationSettings(n_resamples=3)
    cell = detection_table([column([1, 2, 3])], samples, settings).row("m").cells[AVERAGE_PRECISION]
    assert cell.value == pytest.approx(1 / 2)
    assert cell.high < cell.value
    assert cell.reason == "1 of 3 resamples left out of the interval: undefined on them"
    differences = resampled_difference(np.array([1, 2, 3.0]), np.array([3, 2, 1.0]), samples, settings)
    assert np.isnan(differences).tolist() == [True, False, False]


@pytest.mark.parametrize(("groups", "n_resamples"), [("gg", 9), ("ab", 0)])
def test_nothing_is_resampled_of_one_image_or_where_nobody_asks(groups, n_resamples):
    samples = [CaptionSample("x", rating=Rating((float(n),)), group=group) for n, group in enumerate(groups)]
    settings = EvaluationSettings(n_resamples=n_resamples)
    assert resampled_difference(np.array([1.0, 2.0]), np.array([2.0, 1.0]), samples, settings) is None
    cell = detection_table([column([1, 2])], samples, settings).row("m").cells[AVERAGE_PRECISION]
    assert (cell.value, cell.low, cell.high, cell.reason) == (1, None, None, None)


def test_rows_without_id_and_group_are_not_one_group():
    samples = [CaptionSample(f"caption {n}", rating=Rating((n % 2,))) for n in range(20)]
    scores = np.random.default_rng(0).normal(size=20)
    cell = detection_table([column(scores)], samples, EvaluationSettings(n_resamples=50))
    assert cell.row("m").cells[AVERAGE_PRECISION].low is not None


def test_an_interval_that_most_resamples_lack_is_a_reason(monkeypatch):
    few = np.array([[2, 0], [2, 0], [1, 1]])  # the second image, with the bad caption, is drawn once
    monkeypatch.setattr("suisei.metaeval.detection.group_weights", lambda *_: few)
    table = detection_table([column([3, 1])], samples_of([1, 0]), EvaluationSettings(n_resamples=3))
    cell = table.row("m").cells[AVERAGE_PRECISION]
    assert (cell.value, cell.low, cell.high) == (1, None, None)
    assert cell.reason == "no interval: undefined on 2 of 3 resamples"


def test_pairs_have_a_section_per_kind():
    samples = [
        PairCaption("x", rating=Rating((good,)), group=kind, pair=kind, preferred=((kind, good),))
        for kind in ("near", "in")
        for good in (1.0, 0.0)
    ]
    table = detection_table([column([2, 1, 1, 2])], samples)
    found = {section.title: section.rows[0].cells[AVERAGE_PRECISION].value for section in table.sections}
    assert found == {"overall": pytest.approx(0.5), "in": 0.5, "near": 1}
    alone = detection_table([column([2, 1])], samples[:2])  # of one kind, all there is to say is said overall
    assert [section.title for section in alone.sections] == ["overall"]


@pytest.mark.parametrize(
    ("ratings", "message"),
    [([1, 0.5], "sample 1 .* is rated neither the best nor the worst"), ([1, 1], "2 captions, all good")],
)
def test_what_cannot_be_found_is_refused(ratings, message):
    with pytest.raises(DataError, match=message):
        detection_table([], samples_of(ratings))

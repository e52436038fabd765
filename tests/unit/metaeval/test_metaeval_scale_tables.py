"""Correlations by scale and part, and by pairs of references."""

import numpy as np
import pytest
import scipy.stats

from suisei.data.judged import ScaledCaption
from suisei.data.sample import CaptionSample, Rating
from suisei.errors import DataError
from suisei.metaeval.scale_tables import reference_pair_table, scale_table
from suisei.metaeval.settings import EvaluationSettings
from suisei.scoring.columns import ScoreColumn


def test_every_scale_is_measured_on_every_part():
    generator = np.random.default_rng(0)
    ratings = generator.integers(1, 6, size=(40, 2)).astype(float)
    samples = [
        ScaledCaption(
            "x",
            rating=Rating((3,), 1, 5),
            group=f"g{n // 2}",
            scales=(("precision", Rating((p,), 1, 5)), *((("recall", Rating((r,), 1, 5)),) if n % 4 else ())),
            parts=("all", "machines") if n % 5 else ("all",),
        )
        for n, (p, r) in enumerate(ratings)
    ]
    scores = generator.normal(size=40)
    table = scale_table({"m": scores}, samples, EvaluationSettings(n_resamples=50), title="by scale")
    titles = ["precision, all", "recall, all", "precision, machines", "recall, machines"]
    assert [section.title for section in table.sections] == titles
    kept = np.array([bool(n % 4 and n % 5) for n in range(40)])
    cell = table.row("m", "recall, machines").cells["pearson"]
    assert cell.value == pytest.approx(scipy.stats.pearsonr(scores[kept], ratings[kept, 1])[0])
    assert cell.low < cell.value < cell.high
    assert table.row("m", "recall, machines").cells["n"].value == kept.sum()
    assert table.title == "by scale"
    assert (table.meta["samples"], table.meta["groups"]) == (40, 20)  # of all parts, not of the last


def test_figures_show_the_coefficient_of_the_settings_on_every_scale():
    ratings = [Rating((float(n % 5 + 1),), 1, 5) for n in range(10)]
    samples = [ScaledCaption("x", rating=r, scales=(("recall", r),), parts=("all",)) for r in ratings]
    settings = EvaluationSettings(n_resamples=0, correlation="pearson")
    assert scale_table({"m": np.arange(10.0)}, samples, settings).meta["plotted"] == "pearson"


def test_without_scales_there_is_nothing_to_measure():
    with pytest.raises(DataError, match="no sample is rated on scales"):
        scale_table({}, [CaptionSample("x", rating=1.0)])


def test_first_and_best_pair_of_references():
    ratings = [0.0, 0.25, 0.5, 1.0]
    samples = [CaptionSample("x", rating=rating, group=str(n)) for n, rating in enumerate(ratings)]
    columns = {
        0: [ScoreColumn("m", np.array([1.0, 2, 4, 3])), ScoreColumn("broken", None, error="no")],
        1: [ScoreColumn("m", np.array([1.0, 2, 3, 4])), ScoreColumn("broken", None, error="no")],
        2: [ScoreColumn("m", np.array([4.0, 3, 2, 1])), ScoreColumn("broken", None, error="no")],
    }
    table = reference_pair_table(columns, samples)
    cells = table.row("m").cells
    assert cells["spearman"].value == pytest.approx(0.8)
    assert cells["spearman"].low is None  # the largest of several has no interval that could be drawn
    assert cells["spearman-best"].value == pytest.approx(1)
    assert cells["tau-b-best"].value == pytest.approx(1)
    assert table.row("m").info == {"pairs": 3}
    assert table.row("broken").error == "no"
    assert [row.label for row in table.overall.rows] == ["m", "broken"]  # nor people, of whom there is one
    assert list(table.columns) == list(cells)
    constant = (
        reference_pair_table({0: [ScoreColumn("m", np.ones(4))]}, samples).row("m").cells["spearman-best"]
    )
    assert (constant.value, constant.reason) == (None, "undefined: all 4 scores are 1")


def test_of_a_metric_that_failed_with_some_pairs_no_figure_is_called_the_first_or_the_best():
    samples = [CaptionSample("x", rating=rating, group=str(rating)) for rating in (0.0, 0.25, 0.5, 1.0)]
    columns = {
        0: [ScoreColumn("m", None, error="the server went away")],
        1: [ScoreColumn("m", np.array([1.0, 2, 3, 4]))],
    }
    row = reference_pair_table(columns, samples).row("m")
    assert row.error == "the server went away"
    assert row.cells == {}

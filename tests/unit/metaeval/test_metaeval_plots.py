"""Figures: the right files, no change of global state."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from PIL import Image

from suisei.data.sample import CaptionSample, Rating
from suisei.errors import DataError
from suisei.metaeval import plots, prediction_plots
from suisei.metaeval.calibration import calibrate
from suisei.metaeval.correlation_tables import evaluation_table
from suisei.metaeval.plots import (
    plot_curves,
    plot_dots,
    plot_reliability,
    plot_systems,
    plot_table,
)
from suisei.metaeval.prediction_plots import _edges, _running_mean, plot_predicted
from suisei.metaeval.settings import EvaluationSettings
from suisei.metaeval.tables import Cell, Row, Section, Table


def test_one_panel_per_language_and_one_for_all(tmp_path):
    rng = np.random.default_rng(0)
    human = rng.integers(0, 5, 300) / 4
    predicted = np.clip(human + 0.2 * rng.normal(size=300), 0, 1)
    predicted[:2] = np.nan
    plot_predicted(tmp_path / "one.png", predicted, human)
    plot_predicted(tmp_path / "two.png", predicted, human, np.where(np.arange(300) % 3, "ja", "en"))
    one, two = (Image.open(tmp_path / name) for name in ("one.png", "two.png"))
    assert one.format == "PNG"
    assert two.width > 2 * one.width
    assert np.asarray(two.convert("L")).std() > 10  # something is drawn


def luminance(colour):
    """The relative luminance of WCAG 2.2 in [0, 1]."""
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in to_rgb(colour)]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


@pytest.mark.parametrize("count", [500, 5000])
def test_points_that_are_an_image_stand_out_from_light_and_dark(count, drawn):
    human = np.linspace(0, 1, count)
    plot_predicted("x", human, human)
    (cloud,) = drawn[0].axes[0].collections
    assert cloud.get_rasterized()
    blue = luminance(cloud.cmap(1.0) if count > 3000 else cloud.get_facecolor()[0])
    for paper in ("#ffffff", "#14171a"):  # of the page, light and dark
        light, dark = sorted([luminance(paper), blue], reverse=True)
        assert (light + 0.05) / (dark + 0.05) > 4


def test_thousands_of_points_become_a_density(tmp_path):
    rng = np.random.default_rng(0)
    human = rng.random(5000)
    plot_predicted(tmp_path / "many.png", human**2, human)
    assert Image.open(tmp_path / "many.png").width > 600


def test_pyplot_and_settings_stay_untouched(tmp_path):
    import matplotlib

    before, backend = dict(matplotlib.rcParams), matplotlib.get_backend(auto_select=False)
    plot_predicted(tmp_path / "a.png", np.array([0.1, 0.9]), np.array([0.0, 1.0]))
    assert dict(matplotlib.rcParams) == before
    assert matplotlib.get_backend(auto_select=False) == backend


def test_constant_predictions_are_drawn_without_a_correlation(tmp_path):
    plot_predicted(tmp_path / "a.png", np.full(5, 0.5), np.linspace(0, 1, 5))
    assert (tmp_path / "a.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("predicted", "human", "message"),
    [([0.1], [0.1, 0.2], "must match"), ([np.nan], [0.1], "no sample has both")],
)
def test_refuses(tmp_path, predicted, human, message):
    with pytest.raises(DataError, match=message):
        plot_predicted(tmp_path / "a.png", np.array(predicted), np.array(human))


def test_unwritable_path_is_one_clear_error(tmp_path):
    with pytest.raises(DataError, match="cannot be written"):
        plot_predicted(tmp_path / "absent" / "a.png", np.array([0.1, 0.2]), np.array([0.0, 1.0]))


def test_running_mean_follows_levels_or_quantiles():
    human = np.array([0.0, 0.0, 0.5, 1.0])
    middles, means = _running_mean(human, np.array([0.2, 0.4, 0.1, 0.9]))
    assert middles.tolist() == [0, 0.5, 1]
    assert means == pytest.approx([0.3, 0.1, 0.9])
    fine = np.linspace(0, 1, 1000)
    middles, means = _running_mean(fine, fine)
    assert len(middles) == 16
    assert means == pytest.approx(middles)


def test_density_edges_lie_between_rating_levels():
    assert _edges(np.array([0, 0.5, 1.0, 0.5])) == pytest.approx([-0.03, 0.25, 0.75, 1.03])
    assert len(_edges(np.random.default_rng(0).random(500))) == 42


def test_bars_of_a_table(tmp_path):
    rows = (
        Row("a", {"tau-c": Cell(0.4, 0.3, 0.5)}),
        Row("negative", {"tau-c": Cell(-0.2)}),
        Row("failed", error="died"),
    )
    table = Table("t", {"tau-c": "tau-c"}, (Section("overall", rows),))
    plot_table(tmp_path / "bars.png", table)
    assert Image.open(tmp_path / "bars.png").height > 200
    with pytest.raises(DataError, match="no metric has a pearson"):
        plot_table(tmp_path / "bars.png", table, "pearson")


@pytest.fixture
def drawn(monkeypatch):
    """Figures instead of files."""
    figures = []
    for module in (plots, prediction_plots):
        monkeypatch.setattr(module, "save_figure", lambda figure, _: figures.append(figure))
    return figures


@pytest.mark.parametrize("raters", ["rows", "mean"])
def test_the_figure_says_the_coefficients_of_the_table(raters, drawn):
    rng = np.random.default_rng(0)
    quality = rng.random(60)
    samples = [
        CaptionSample("犬" if i % 3 else "dog", rating=Rating(tuple(np.clip(v + rng.normal(size=3), 0, 1))))
        for i, v in enumerate(quality)
    ]
    settings = EvaluationSettings(raters=raters)
    table = evaluation_table({"suisei": quality}, samples, settings)
    human = np.array([sample.rating.mean for sample in samples])
    languages = ["ja" if i % 3 else "en" for i in range(60)]
    plot_predicted("x", quality, human, languages, figures=(table, "suisei"))
    plot_predicted("x", quality, human, figures=(table, "suisei"))
    scopes = ["overall", "language: en", "language: ja", "overall"]
    titles = [axis.get_title() for figure in drawn for axis in figure.axes]
    for title, scope in zip(titles, scopes, strict=True):
        cells = table.row("suisei", scope).cells
        assert f"Pearson {cells['pearson'].value:.3f}, tau-c {cells['tau-c'].value:.3f}" in title
        assert ("each rating a row" in title) == (raters == "rows")


def test_equal_means_of_raters_are_ties_in_the_figure_too(drawn):
    rng = np.random.default_rng(0)
    quality = rng.integers(1, 5, 500)
    given = np.clip(quality[:, None] + rng.integers(-1, 2, (500, 3)), 1, 4)
    samples = [CaptionSample("dog", rating=Rating(tuple(values), 1, 4)) for values in given.tolist()]
    scores = np.round(quality + rng.normal(0, 2, 500))
    human = np.array([sample.rating.mean for sample in samples])
    assert len(np.unique(human)) == 11  # 0.777... is two numbers, by the order of its raters
    table = evaluation_table({"m": scores}, samples, EvaluationSettings(raters="mean"))
    plot_predicted("x", scores, human)
    title = drawn[0].axes[0].get_title()
    assert f"tau-c {table.row('m').cells['tau-c'].value:.3f}" in title


def test_legends_stand_outside_of_what_is_drawn(drawn):
    human = np.linspace(0, 1, 50)
    plot_predicted("x", human, human, np.where(human > 0.3, "ja", "en"))
    calibration = calibrate(human, human, [str(value) for value in human])
    plot_reliability("x", {"a": calibration}, title="t")
    plot_curves("x", {"a": ([1, 2], [1, 2]), "b": ([1, 2], [2, 1])})
    assert len(drawn) == 3
    for figure in drawn:
        figure.canvas.draw()
        (legend,) = figure.legends
        box = legend.get_window_extent()
        assert not any(axis.get_legend() or box.overlaps(axis.get_window_extent()) for axis in figure.axes)


def test_labels_are_names_and_have_room(drawn):
    labels = ["suisei:/home/me/runs/a-very-long-name-of-a-run/model", "suisei:/home/me/runs/b/model", "cider"]
    rows = tuple(Row(label, {"tau-c": Cell(0.4, 0.3, 0.5)}) for label in labels)
    table = Table("t", {"tau-c": "tau-c"}, (Section("overall", rows),))
    plot_table("x", table)
    plot_dots("x", table, "tau-c")
    assert len(drawn) == 2
    for figure in drawn:
        figure.canvas.draw()
        (axis,) = figure.axes
        texts = [text.get_text() for text in axis.get_yticklabels()]
        assert sorted(texts) == ["cider", "suisei:a-very-long-name-of-a-run", "suisei:b"]
        assert min(text.get_window_extent().x0 for text in axis.get_yticklabels()) >= 0
        assert axis.get_window_extent().width > figure.bbox.width / 3


@pytest.mark.parametrize(
    ("cells", "meta", "said"),
    [
        ([(0.4, 0.3, 0.5), (0.2, 0.1, 0.3)], {}, "tau-c\n(95% bootstrap interval, n = 1,200 to 3,400)"),
        ([(0.4, 0.3, 0.5)], {"settings": {"confidence": 0.9}}, "tau-c\n(90% bootstrap interval, n = 1,200)"),
        ([(0.4,)], {}, "tau-c\n(n = 1,200)"),
    ],
)
def test_axes_say_how_sure_and_of_how_many(cells, meta, said, drawn):
    rows = [Row(f"m{n}", {"tau-c": Cell(*cell), "n": Cell(1200 + 2200 * n)}) for n, cell in enumerate(cells)]
    rows.append(Row("failed", {"tau-c": Cell(None), "n": Cell(9)}))
    table = Table("t", {"tau-c": "tau-c", "n": "n"}, (Section("overall", tuple(rows)),), meta=meta)
    plot_table("x", table)
    plot_dots("x", table, "tau-c")
    assert [figure.axes[0].get_xlabel() for figure in drawn] == [said, said]


@pytest.mark.parametrize(
    ("n_resamples", "said"), [(20, "mean rating, 95% bootstrap interval"), (0, "mean rating")]
)
def test_a_reliability_diagram_says_how_sure(n_resamples, said, drawn):
    human = np.linspace(0, 1, 50)
    groups = [str(value) for value in human]
    plot_reliability("x", {"a": calibrate(human, human, groups, n_resamples=n_resamples)}, title="t")
    texts = [text.get_text() for text in drawn[0].legends[0].get_texts()]
    assert texts == ["identity", said]


@pytest.mark.parametrize(
    ("factor", "limits", "lines"),
    [
        (1.0, (-0.03, 1.03), ["identity", "mean predicted"]),
        (10.0, (-0.3, 10.3), ["mean predicted"]),
        (-0.1, (-0.103, 0.003), ["mean predicted"]),
    ],
)
def test_only_scores_on_the_human_scale_have_an_identity(factor, limits, lines, drawn):
    human = np.linspace(0, 1, 50)
    plot_predicted("x", factor * human, human)
    (figure,) = drawn
    assert figure.axes[0].get_ylim() == pytest.approx(limits)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == lines


def test_a_distance_has_no_identity_even_where_all_its_scores_are_0(drawn):
    human = np.linspace(0, 1, 50)
    plot_predicted("x", -np.zeros(50), human, distance=True)
    plot_systems("x", -np.zeros(50), human, ["a", "b"] * 25, distance=True)
    assert [text.get_text() for text in drawn[0].legends[0].get_texts()] == ["mean predicted"]
    assert all("sign turned" in figure.axes[0].get_ylabel() for figure in drawn)


def test_numbers_of_systems_that_nearly_coincide_stand_beside_each_other(drawn):
    scores = np.r_[np.full(12, 0.8) + np.arange(12) * 1e-4, 0.1]
    plot_systems("x", scores, scores, [f"s{n:02}" for n in range(13)])
    (figure,) = drawn
    figure.canvas.draw()
    numbers = {text.get_text(): text for text in figure.axes[0].texts if text.get_text().isdigit()}
    assert sorted(numbers, key=int) == [str(number) for number in range(1, 14)]
    boxes = [Text.get_window_extent(text) for text in numbers.values()]
    assert not any(box.overlaps(other) for place, box in enumerate(boxes) for other in boxes[:place])
    assert numbers["13"].arrow_patch is None  # alone, on its point
    assert all(numbers[str(number)].arrow_patch for number in range(1, 13))


def test_numbers_of_systems_near_a_corner_do_not_lie_on_the_frame(drawn):
    scores = np.r_[np.full(30, 0.8) + np.arange(30) * 1e-4, 0.1]
    plot_systems("x", scores, scores, [f"s{n:02}" for n in range(31)])
    (figure,) = drawn
    figure.canvas.draw()
    frame = figure.axes[0].get_window_extent()
    numbers = [text for text in figure.axes[0].texts if text.get_text().isdigit()]
    for box in map(Text.get_window_extent, numbers):
        assert frame.x0 < box.x0 < box.x1 < frame.x1
        assert frame.y0 < box.y0 < box.y1 < frame.y1


@pytest.mark.filterwarnings("error")
def test_systems_with_japanese_names_are_laid_out_without_a_word_of_fonts(drawn):
    plot_systems("x", np.array([0.1, 0.9]), np.array([0.2, 0.8]), ["人手の説明文", "機械"])
    said = [text.get_text() for text in drawn[0].axes[0].texts]
    assert said == ["1  人手の説明文", "2  機械", "1", "2"]


def test_systems_are_numbered_and_named(tmp_path):
    human, systems = np.array([0.0, 0.5, 1.0, np.nan]), ["a", "b", "b", "c"]
    plot_systems(tmp_path / "s.svg", np.array([0.1, 0.2, 0.4, 0.9]), human, systems)
    text = (tmp_path / "s.svg").read_text()
    assert "1  a</text>" in text
    assert "2  b</text>" in text
    assert "3  c" not in text
    with pytest.raises(DataError, match="no sample has both"):
        plot_systems(tmp_path / "s.svg", np.array([np.nan]), np.array([1.0]), ["a"])


def test_systems_whose_names_begin_alike_can_be_told_apart(drawn):
    names = [f"blip2-opt-2.7b-finetuned-coco-karpathy-{end}" for end in ("epoch0", "epoch1")]
    names += [f"{40 * 'a'}{middle}{40 * 'b'}" for middle in "xy"] + [f"{60 * 'c'} the end"]
    human = np.linspace(0, 1, len(names))
    plot_systems("x", human, human, names)
    (figure,) = drawn
    figure.canvas.draw()
    (axis,) = figure.axes
    entries = [text for text in axis.texts if "  " in text.get_text()]
    assert [text.get_text()[3:] for text in entries[:4]] == sorted(names[2:4]) + names[:2]
    assert entries[4].get_text() == f"5  {30 * 'c'}…{22 * 'c'} the end"
    assert max(text.get_window_extent().x1 for text in entries) <= figure.bbox.width
    assert axis.get_window_extent().width > figure.bbox.width / 4

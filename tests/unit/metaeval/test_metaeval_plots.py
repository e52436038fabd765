"""Figures: the right files, no change of global state."""

import numpy as np
import pytest
from PIL import Image

from suisei.errors import DataError
from suisei.metaeval.plots import _edges, _running_mean, plot_curves, plot_predicted, plot_systems, plot_table
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


def test_the_name_of_the_file_decides_its_kind_and_text_stays_text(tmp_path):
    names = {".svg": b"<?xml", ".pdf": b"%PDF", ".png": b"\x89PNG", "": b"\x89PNG"}
    for suffix, start in names.items():
        plot_curves(
            tmp_path / f"a{suffix}", {"$x$ & <y>": ([0, 1], [1, 2])}, title="a $title$", headings=("x", "$")
        )
        assert (tmp_path / f"a{suffix}").read_bytes().startswith(start)
    assert ">a $title$</text>" in (tmp_path / "a.svg").read_text()


def test_a_figure_is_the_same_twice(tmp_path):
    for name in ("a.svg", "b.svg"):
        plot_curves(tmp_path / name, {"x": ([0, 1], [1, 2])})
    assert (tmp_path / "a.svg").read_text() == (tmp_path / "b.svg").read_text()


def test_systems_are_numbered_and_named(tmp_path):
    human, systems = np.array([0.0, 0.5, 1.0, np.nan]), ["a", "b", "b", "c"]
    plot_systems(tmp_path / "s.svg", np.array([0.1, 0.2, 0.4, 0.9]), human, systems)
    text = (tmp_path / "s.svg").read_text()
    assert "1  a</text>" in text
    assert "2  b</text>" in text
    assert "3  c" not in text
    with pytest.raises(DataError, match="no sample has both"):
        plot_systems(tmp_path / "s.svg", np.array([np.nan]), np.array([1.0]), ["a"])
    with pytest.raises(DataError, match="no curve"):
        plot_curves(tmp_path / "c.svg", {})

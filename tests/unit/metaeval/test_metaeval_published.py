"""Published figures beside ours: under the paper's protocol, whatever was evaluated."""

import numpy as np
import pytest
import scipy.stats

from suisei.data.benchmarks import BENCHMARKS
from suisei.data.load import load_data
from suisei.data.sample import CaptionSample, Rating
from suisei.metaeval.labels import HUMAN
from suisei.metaeval.published import beside_published, published_table
from suisei.metaeval.published_figures import PUBLISHED, PUBLISHED_OF_MEANS
from suisei.metaeval.tables import Cell, Row, Section, Table
from suisei.metrics.registry import REGISTRY, get_metric

ELSEWHERE = {
    HUMAN, "Polos", "FLEUR", "BEiTScore", "LEIC", "BERT-S++", "UMIC", "TIGEr", "ViLBERTScore", "FAIEr", "MID"
}  # fmt: skip
"""What papers have figures of, and there is no metric of here."""


@pytest.fixture
def rated():
    rng = np.random.default_rng(0)
    samples = [
        CaptionSample("a dog", rating=Rating(tuple(rng.integers(0, 2, size=3)), 0, 1), group=f"g{i}")
        for i in range(50)
    ]
    return samples, rng.random(50)


def test_known_data_sets_are_benchmarks_and_figures_fit_their_columns():
    assert set(PUBLISHED) <= set(BENCHMARKS)
    for known in PUBLISHED.values():
        assert known.source
        assert known.differences
        for name, values in known.figures.items():
            assert name in REGISTRY or name in ELSEWHERE
            assert len(values) == len(known.kinds)
            assert any(value is not None for value in values)
            assert all(value is None or 0 < value / known.scale < 1 for value in values)


def test_no_figures_are_known_of_other_data(rated):
    samples, scores = rated
    assert published_table("ratings.csv", {"cider": scores}, samples) is None


def test_figures_of_a_protocol_stand_beside_its_own_table():
    cells = {"HC": Cell(0.6, 0.5, 0.7), "mean": Cell(0.8, 0.7, 0.9), "n": Cell(4)}
    ours = Table("t", {"HC": "HC", "mean": "mean of kinds"}, (Section("overall", (Row("fleur", cells),)),))
    assert beside_published("ratings.csv", ours) == {}
    table = beside_published("pascal-50s", ours)["published"]
    assert "fleur" not in {row.label for row in table.overall.rows}  # a name is matched as it is written
    ours = Table("t", ours.columns, (Section("overall", (Row("clip-s:model", cells),)),))
    backbones = {"clip-s:model": "ViT-B-32@openai"}
    row = beside_published("pascal-50s", ours, backbones)["published"].row("clip-s:model")
    assert (row.cells["mean"].value, row.cells["mean-published"].value) == (0.8, pytest.approx(0.809))
    assert row.cells["mean"].low is None  # the interval stands in the main table
    assert "HI" not in row.cells
    assert table.columns["mean"] == "mean of kinds here"
    assert list(table.row("FLEUR").cells) == ["mean-published"]


def test_a_row_stands_beside_the_figures_of_its_own_backbone():
    backbones = {
        "clip-s": None,  # scores from a file
        "clip-s:ViT-L-14@openai": "ViT-L-14@openai",
        "pac-s:clip_ViT-L-14.pth": "ViT-L-14@laion2b",
        "pac-s:tiny": "other",
        "ref-pac-s:large": "ViT-L-14@openai",  # of which the paper prints nothing
        "ref-clip-s:from-a-file": None,
    }
    rows = tuple(Row(label, {"mean": Cell(0.9)}) for label in backbones)
    ours = Table("t", {"mean": "mean of kinds"}, (Section("overall", rows),))
    table = beside_published("pascal-50s", ours, backbones)["published"]
    published = {row.label: row.value("mean-published") for row in table.overall.rows}
    assert published["clip-s:ViT-L-14@openai"] == pytest.approx(0.817)
    assert published["pac-s:clip_ViT-L-14.pth"] == pytest.approx(0.828)
    assert not published.keys() & {"pac-s:tiny", "ref-pac-s:large", "ref-clip-s:from-a-file"}
    assert {label for label in published if "clip-s" in label} == {
        "clip-s", "clip-s:ViT-L-14@openai", "ref-clip-s"
    }  # fmt: skip
    assert table.row("pac-s").value("mean") is None  # that of ViT-B/32 stands alone
    assert table.row("clip-s").value("mean") == 0.9
    assert any("ViT-B/32" in note for note in table.notes)


def test_rows_of_pascal_are_of_one_table_and_have_its_mean():
    known = PUBLISHED["pascal-50s"]
    whole = {name: values for name, values in known.figures.items() if None not in values}
    assert set(known.figures) - set(whole) == {"Polos", "FLEUR"}
    for *kinds, mean in whole.values():
        assert np.mean(kinds) == pytest.approx(mean, abs=0.0501)
    assert whole["clip-s"][-1] == 80.9
    assert whole["pac-s"] == (60.6, 99.3, 96.9, 72.9, 82.4)
    assert whole["length"][-1] == 54.3


def test_figures_of_text_metrics_and_of_those_that_are_not_here_are_known():
    last = {name: known.figures for name, known in PUBLISHED.items()}
    assert [last[name]["bertscore"][-1] for name in ("flickr8k-expert", "composite", "pascal-50s")] == [
        39.2, 30.1, 79.1
    ]  # fmt: skip
    assert last["flickr8k-cf"]["bertscore"] == (22.8, None)
    assert last["flickr8k-expert"]["LEIC"] == (46.6, None)
    assert last["foil"]["bleu-1"] == (65.7, 85.4)
    for name in ("flickr8k-expert", "composite", "pascal-50s"):
        assert any("which encoder" in note for note in PUBLISHED[name].differences)


@pytest.mark.parametrize(
    ("data", "hessel", "sarto"), [("flickr8k-expert", 1, 1), ("flickr8k-cf", 2, 1), ("composite", 3, 2)]
)
def test_sources_name_the_table_of_their_own_data(data, hessel, sarto):
    source = PUBLISHED[data].source
    assert f"Hessel et al. (EMNLP 2021), table {hessel}; Sarto et al. (CVPR 2023), table {sarto}" in source
    assert "tables" not in source


def test_backbones_have_all_figures_of_their_table():
    counts = {name: len(known.backbones) for name, known in PUBLISHED.items() if known.backbones}
    assert counts == dict.fromkeys(("flickr8k-expert", "flickr8k-cf", "pascal-50s", "foil"), 8)
    for name in counts:
        known = PUBLISHED[name]
        assert {key.partition(":")[0] for key in known.backbones} == {"clip-s", "pac-s"}
        assert all(
            0.1 < v / known.scale < 1 for own in known.backbones.values() for v in own if v is not None
        )
    assert PUBLISHED["flickr8k-expert"].backbones["clip-s:ViT-L-14@openai"] == (52.6, 53.0)
    assert PUBLISHED["flickr8k-expert"].backbones["pac-s:ViT-L-14@openai"] == (55.1, 55.5)


def test_ours_follow_the_protocol_of_the_paper(rated):
    samples, scores = rated
    table = published_table("flickr8k-cf", {"cider": scores, "length": -scores}, samples)
    mean = np.array([sample.rating.mean for sample in samples])
    cells = table.row("cider").cells
    assert cells["tau-b"].value == pytest.approx(scipy.stats.kendalltau(scores, mean)[0])
    assert cells["tau-b-published"].value == pytest.approx(0.24619)
    assert cells["tau-c-published"].value == pytest.approx(0.12724)
    labels = [row.label for row in table.overall.rows]
    assert labels[0] == "cider"
    assert "length" not in labels
    assert set(labels) == set(PUBLISHED["flickr8k-cf"].figures)
    assert list(table.row("Polos").cells) == ["tau-b-published", "tau-c-published"]


def test_rows_of_ratings_are_rows(rated):
    samples, scores = rated
    table = published_table("flickr8k-expert", {"cider": scores}, samples)
    ratings = np.ravel([sample.rating.values for sample in samples])
    expected = scipy.stats.kendalltau(np.repeat(scores, 3), ratings, variant="c")[0]
    assert table.row("cider").cells["tau-c"].value == pytest.approx(expected)


def test_every_model_stands_beside_the_paper_and_people_come_last(rated):
    samples, scores = rated
    table = published_table("shichimi", {"suisei:a": scores, "suisei:b": -scores}, samples)
    assert table.row("suisei:a").cells["pearson-published"].value == 0.672
    assert table.row("suisei:b").cells["pearson"].value == -table.row("suisei:a").cells["pearson"].value
    assert [row.label for row in table.overall.rows][-1] == HUMAN
    assert table.row(HUMAN).cells["pearson"].value is not None
    assert any("tokenizer" in note for note in table.notes)
    assert "table 2" in table.notes[0]


def test_without_any_score_the_published_column_is_whole(rated):
    samples, _ = rated
    table = published_table("shichimi", {}, samples)
    assert table.row("bleu-4").cells["tau-b-published"].value == 0.260
    assert "| jaspice | – | 0.4990 |" in table.to_markdown()


def test_figures_of_mean_ratings_stand_beside_those_of_the_same_measure(rated):
    samples, scores = rated
    named = {"recap:ssim@models/sd": scores, "recap-noise:ssim@models/sd": -scores, "recap:clip@x": scores}
    table = published_table("flickr8k-expert", named, samples, "mean")
    cells = table.row("recap:ssim@models/sd").cells
    mean = np.array([sample.rating.mean for sample in samples])
    assert cells["tau-b"].value == pytest.approx(scipy.stats.kendalltau(scores, mean)[0])
    assert cells["tau-b-published"].value == 0.0196
    assert table.row("recap-noise:ssim@models/sd").cells["tau-b-published"].value == 0.0597
    labels = [row.label for row in table.overall.rows]
    assert "recap:clip@x" not in labels  # no such measure in the paper
    assert "recap:ssim" not in labels
    assert "recap:gmsd" in labels
    by_rows = published_table("flickr8k-expert", named, samples)
    assert "Polos" in [row.label for row in by_rows.overall.rows]


@pytest.mark.realdata
def test_bleu_is_nearer_to_the_paper_of_mean_ratings_with_own_captions(shared):
    found = {}
    for data in ("flickr8k-expert", "flickr8k-expert-all"):
        samples = load_data(data, root=shared / "data" / "flickr8k")
        scores = get_metric("bleu-1").score(samples)
        table = published_table(data, {"bleu-1": scores}, samples, "mean")
        assert table.row("bleu-1").value("tau-b-published") == 0.3759
        found[data] = table.row("bleu-1").value("tau-b")
        assert any("158" in note for note in table.notes) == (data == "flickr8k-expert")
    assert found == {
        "flickr8k-expert": pytest.approx(0.3390, abs=5e-5),
        "flickr8k-expert-all": pytest.approx(0.3773, abs=5e-5),
    }  # fmt: skip


def test_figures_of_mean_ratings_are_of_registered_metrics():
    for known in PUBLISHED_OF_MEANS.values():
        assert known.raters == "mean"
        for name, values in known.figures.items():
            assert name.partition(":")[0] in {*REGISTRY, "recap-latent"}
            assert len(values) == len(known.kinds)

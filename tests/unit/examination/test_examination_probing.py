"""The probes of an examination: of which captions they are, and what is said of metrics without a figure."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from suisei.commands.examine import main
from suisei.data.images import load_image
from suisei.data.sample import CaptionSample, Rating
from suisei.errors import DataError
from suisei.examination.places import Place
from suisei.metrics.overlap import UnigramF1
from suisei.metrics.registry import REGISTRY
from suisei.metrics.sacrebleu import ChrF

DOGS = ("runs", "sleeps", "barks", "swims", "jumps", "digs", "eats", "plays")


def bilingual():
    """Return well rated captions of both languages, each with references of both."""
    samples = []
    for n, verb in enumerate(DOGS):
        english = [f"a brown dog {verb} on the grass", f"one dog {verb} near the grass", f"the dog {verb}"]
        japanese = [f"茶色い犬{n}が草の上にいる", f"犬{n}が草の近くにいる"]
        for candidate, language in ((f"a dog {verb} on the grass", "en"), (f"犬{n}が草の上にいる", "ja")):
            samples.append(
                CaptionSample(
                    candidate, [*japanese, *english], group=f"g{n}", language=language,
                    rating=Rating((0.9 - n / 100,)),
                )
            )  # fmt: skip
    return samples


@pytest.fixture
def examined(tmp_path, monkeypatch):
    """Return what examines samples as the captions of a benchmark: its exit status and its JSON."""

    def run(samples, metrics, *arguments):
        monkeypatch.setattr(
            "suisei.examination.places.find_benchmark", lambda name, root: Place(name, root, samples)
        )
        output = tmp_path / "out"
        chosen = ["--metrics", metrics, "--root", str(tmp_path), "--output", str(output), "--bootstrap", "0"]
        status = main([*chosen, "--benchmarks", "scenes", *arguments])
        return status, json.loads((output / "examination.json").read_text(encoding="utf-8"))

    return run


def test_probes_of_a_language_are_of_its_captions_where_references_are_of_both(examined):
    _, content = examined(bilingual(), "unigram-f1,length")
    for language, images in (("Japanese", 8), ("English", 8)):
        table = content["tables"][f"probes, {language}/shuffling"]
        assert [section["title"] for section in table["sections"]] == [language]
        assert table["sections"][0]["rows"][0]["cells"]["n"]["value"] == images
        curves = content["tables"][f"probes, {language}/curves"]
        assert {s["title"] for s in curves["sections"]} == {
            f"{k}, {language}" for k in ("shuffled", "swapped")
        }
        assert {row["cells"]["n"]["value"] for s in curves["sections"] for row in s["rows"]} == {images}


def refuse_one_image(monkeypatch):
    """Let unigram-f1 refuse captions of the image g1, as a metric does whose image cannot be read."""
    whole = UnigramF1._score

    def score(self, samples, **settings):
        if any(sample.group == "g1" for sample in samples):
            raise DataError("g1.jpg cannot be read")
        return whole(self, samples, **settings)

    monkeypatch.setattr(UnigramF1, "_score", score)


def test_a_sample_that_a_metric_refuses_costs_no_probe_of_the_others(examined, monkeypatch):
    refuse_one_image(monkeypatch)
    status, content = examined(bilingual(), "unigram-f1,length")
    assert status == 0
    shares = {row["label"]: row["cells"] for row in content["tables"]["overview"]["sections"][0]["rows"]}
    assert shares["unigram-f1"]["probes, English"]["value"] is not None
    table = content["tables"]["probes, English/degradations"]
    assert [section["title"] for section in table["sections"]] == ["unigram-f1", "length"]
    shuffled = content["tables"]["probes, English/shuffling"]["sections"][0]["rows"]
    assert {row["label"]: row["cells"]["n"]["value"] for row in shuffled} == {"unigram-f1": 7, "length": 8}


def test_an_image_that_can_be_read_by_now_counts_at_the_next_start(examined, monkeypatch, tmp_path):
    whole = UnigramF1._score

    def look(self, samples, **settings):
        for sample in samples:
            load_image(sample.image)
        return whole(self, samples, **settings)

    monkeypatch.setattr(UnigramF1, "_score", look)
    samples = []
    for sample in bilingual():
        path = tmp_path / f"{sample.group}.png"
        Image.new("RGB", (30, 30) if sample.group == "g1" else (8, 8)).save(path)
        samples.append(replace(sample, image=path))
    monkeypatch.setenv("SUISEI_MAX_IMAGE_PIXELS", "100")
    _, lacking = examined(samples, "unigram-f1")
    assert examined(samples, "unigram-f1")[1] == lacking
    monkeypatch.delenv("SUISEI_MAX_IMAGE_PIXELS")
    _, mended = examined(samples, "unigram-f1")
    shutil.rmtree(tmp_path / "out")
    _, fresh = examined(samples, "unigram-f1")
    for key, table in fresh["tables"].items():
        assert mended["tables"][key] == table
        assert lacking["tables"][key] != table
    assert mended == fresh


def reasons_of(content, label):
    """Return why a metric has no figure in the columns of the overview."""
    rows = content["tables"]["overview"]["sections"][0]["rows"]
    cells = next(row["cells"] for row in rows if row["label"] == label)
    return {name: cell["reason"] for name, cell in cells.items() if cell["value"] is None}


def test_the_overview_the_json_and_the_console_say_why_a_metric_failed(examined, monkeypatch, capsys):
    def failing(*_, **__):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(UnigramF1, "_score", failing)
    status, content = examined(bilingual(), "unigram-f1,length")
    assert status == 1
    columns = [
        "scenes",
        *(f"{k}, {lang}" for lang in ("Japanese", "English") for k in ("probes", "shuffling")),
    ]
    reasons = reasons_of(content, "unigram-f1")
    assert {name: reasons[name] for name in columns} == {
        name: f"{name}: RuntimeError: out of memory" for name in columns
    }
    assert "unigram-f1: RuntimeError: out of memory" in content["notes"]["probes, English"]
    told = capsys.readouterr().err.splitlines()
    for name in ("scenes", "probes, English"):
        assert f"{name}: unigram-f1 failed: RuntimeError: out of memory" in told


def test_the_overview_says_what_a_metric_needs_that_no_probed_caption_has(examined, monkeypatch, capsys):
    monkeypatch.setitem(REGISTRY, "chrf", replace(REGISTRY["chrf"], needs=("image",)))
    monkeypatch.setattr(ChrF, "needs", frozenset({"image"}))
    status, content = examined(bilingual(), "chrf,length")
    assert status == 0
    reasons = reasons_of(content, "chrf")
    assert reasons["probes, English"] == "probes, English: needs image, of which there is nothing here"
    assert "failed" not in capsys.readouterr().err


def test_the_overview_says_why_a_metric_has_no_rank_correlation(examined, monkeypatch):
    whole = UnigramF1._score

    def score(self, samples, **settings):
        held_out = [sample.candidate.startswith(("a brown", "one dog", "the dog")) for sample in samples]
        return np.where(held_out, np.nan, whole(self, samples, **settings))

    monkeypatch.setattr(UnigramF1, "_score", score)
    _, content = examined(bilingual(), "unigram-f1,length")
    why = "0 images with a score of every set, and it takes two"
    assert reasons_of(content, "unigram-f1")["shuffling, English"] == f"shuffling, English: {why}"
    assert f"unigram-f1, shuffling, English: {why}" in content["notes"]["probes, English"]


def test_the_overview_does_not_blame_the_captions_for_a_metric_without_scores(examined, monkeypatch):
    monkeypatch.setattr(UnigramF1, "_score", lambda self, samples, **_: np.full(len(samples), np.nan))
    _, content = examined(bilingual(), "unigram-f1,length")
    why = "no caption to which it applies has a score"
    assert reasons_of(content, "unigram-f1")["probes, English"] == f"probes, English: {why}"

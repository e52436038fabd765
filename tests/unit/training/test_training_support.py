"""Captions beside the ratings."""

import json
from pathlib import Path

import pytest

from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, DataError
from suisei.training.datamodule import CaptionDataModule
from suisei.training.support import CaptionCorpus, Support, read_support
from suisei.training.synthetic import Synthetic


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.fixture
def pairs(tmp_path, pictures):
    rows = [{"image": str(p), "captions": [f"caption {n}", f"other {n}"]} for n, p in enumerate(pictures)]
    return write(tmp_path / "pairs.jsonl", rows)


@pytest.fixture
def rated(tmp_path):
    rows = [
        {"candidate": "a dog", "references": ["a puppy"], "rating": 0.8},
        {"candidate": "a cat", "references": ["ships at sea"], "rating": 0.1},
    ]
    return write(tmp_path / "rated.jsonl", rows)


def test_pairs_and_rated_samples_are_told_apart(pairs, rated, pictures):
    support = read_support(pairs, images=pictures[0].parent)
    assert support.groups[0] == ("caption 0", "other 0")
    assert support.images[0] == (pictures[0], ("caption 0", "other 0"))
    assert not support.rated
    support = read_support(rated)
    assert support.groups == [("a puppy", "a dog"), ("ships at sea",)]  # a poor candidate says something else
    assert [sample.candidate for sample in support.rated] == ["a dog", "a cat"]
    with pytest.raises(ConfigError, match="unknown data 'flickr9k'"):
        read_support("flickr9k")


def test_rows_without_a_rating_lend_their_references_alone_and_those_without_references_no_rating(tmp_path):
    rows = [
        {"candidate": "a dog", "references": ["a puppy", "the dog"]},
        {"candidate": "a cat", "rating": 0.9},
        {"candidate": "a ship", "references": ["ships at sea"], "rating": 0.9},
        {"candidate": "a car", "rating": 0.1},
    ]
    support = read_support(write(tmp_path / "some.jsonl", rows))
    assert support.groups == [("a puppy", "the dog"), ("a cat",), ("ships at sea", "a ship")]
    assert [sample.candidate for sample in support.rated] == ["a ship"]


def test_what_holds_a_held_out_reference_is_left_out(pairs, rated, pictures):
    support = read_support(pairs, images=pictures[0].parent)
    support.add(read_support(rated))
    kept = support.without([CaptionSample("x", ("other 1", "ships at sea"))])
    assert ("caption 1", "other 1") not in kept.groups
    assert len(kept.groups) == len(support.groups) - 2
    assert [captions for _, captions in kept.images if "other 1" in captions] == []
    assert len(kept.images) == len(support.images) - 1
    assert [sample.candidate for sample in kept.rated] == ["a dog"]
    by_candidate = support.without([CaptionSample("x", ("a dog",))])
    assert [sample.candidate for sample in by_candidate.rated] == ["a cat"]


def test_a_held_out_reference_is_the_same_in_another_case_and_without_its_punctuation():
    rated = CaptionSample("A puppy!", ("On a lawn",), rating=0.9)
    support = Support([("two Dogs", "x"), ("two dogs play",)], [rated], [(Path("a.png"), ("TWO DOGS。",))])
    kept = support.without([CaptionSample("a puppy", ("Two dogs.", "on a lawn ."))])
    assert kept == Support([("two dogs play",)])
    by_candidate = [support.without([CaptionSample("a puppy")], candidates=on).rated for on in (False, True)]
    assert by_candidate == [[rated], []]


def test_a_corpus_joins_the_references_of_an_image_and_holds_no_candidate(rated):
    training = [
        CaptionSample("wrong", ("one", "two"), rating=0.1, group="a", image="a.png"),
        CaptionSample("right", ("two", "three"), rating=0.9, group="a", image=str(Path.cwd() / "a.png")),
    ]
    corpus = CaptionCorpus.of(training, read_support(rated))
    assert corpus.groups == [("one", "two", "three"), ("a puppy", "a dog"), ("ships at sea",)]
    assert corpus.rated == [("a dog", "a puppy", 0.8), ("a cat", "ships at sea", 0.1)]
    assert [(str(path), captions) for path, captions in corpus.images] == [("a.png", ("one", "two", "three"))]
    assert CaptionCorpus.of(training, Support()).rated == []


def test_the_data_module_keeps_test_captions_out_of_the_support(tmp_path):
    rows = [
        {"candidate": f"c {n}", "references": [f"r {n}", f"s {n}"], "rating": n / 20, "group": str(n)}
        for n in range(20)
    ]
    train = write(tmp_path / "train.jsonl", rows)
    data = CaptionDataModule(train, support=[train])
    data.load()
    held_out = {r for part in ("validation", "test") for s in data.part(part) for r in s.references}
    captions = set(data.support_data.captions())
    assert held_out
    assert captions.isdisjoint(held_out)
    assert {r for s in data.part("train") for r in s.references} <= captions
    with pytest.raises(DataError, match="absent"):
        CaptionDataModule(train, support=str(tmp_path / "absent.jsonl")).load()


def test_added_training_samples_are_in_the_training_part_alone(tmp_path):
    rows = [{"candidate": f"c {n}", "references": ["r"], "rating": 0.5, "group": str(n)} for n in range(20)]
    data = CaptionDataModule(write(tmp_path / "train.jsonl", rows))
    data.load()
    before = {part: data.part(part) for part in ("train", "validation", "test")}
    made = [CaptionSample("made", ("r",), rating=0.0, group=before["train"][0].group)]
    data.add_training(Synthetic(made, [-1]))
    assert data.part("train") == before["train"] + made
    assert data.part("test") == before["test"]
    assert data.part("validation") == before["validation"]


def test_scale_and_bad_rows_of_the_training_data_are_those_of_the_support(tmp_path):
    rows = [
        {"candidate": f"c {n}", "references": [f"r {n}"], "rating": 1 + n % 5, "group": str(n)}
        for n in range(20)
    ]
    train = write(tmp_path / "train.jsonl", rows)
    support = write(tmp_path / "support.jsonl", [*rows[:4], {**rows[4], "candidate": ""}])
    options = {"support": [support, "scenes"], "rating_scale": (1, 5)}
    with pytest.raises(DataError, match=r"support.jsonl, row 5: candidate is empty"):
        CaptionDataModule(train, **options).load()
    data = CaptionDataModule(train, on_error="skip", **options)
    data.load()
    assert [row.number for row in data.skipped] == [5]
    assert {s.rating.scaled[0] for s in data.support_data.rated if s.candidate.startswith("c ")} <= {
        0, 0.25, 0.5, 0.75, 1,
    }  # fmt: skip


def test_images_of_the_support_that_are_tested_are_said(tmp_path, caplog):
    from PIL import Image

    for number in range(10):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(tmp_path / f"{number}.png")
    rows = [
        {"candidate": f"c{n}", "references": [f"r{n}"], "image": f"{n}.png", "group": f"g{n}", "rating": 0.5}
        for n in range(10)
    ]
    (tmp_path / "rated.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    pairs = [{"image": f"{n}.png", "captions": [f"something else {n}"]} for n in range(10)]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pairs), encoding="utf-8")
    data = CaptionDataModule(str(tmp_path / "rated.jsonl"), support=str(tmp_path / "pairs.jsonl"))
    data.load()
    counts = {"rows": 0, "images": 1, "references": 0}
    assert data.shared == {"test and support": counts, "validation and support": counts}
    assert "test and support share 1 image: captions of what is tested were learned from" in caplog.text

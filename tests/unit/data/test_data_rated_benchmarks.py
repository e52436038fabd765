"""Benchmarks of rated captions on a few rows in their published layouts."""

import json
import pickle
from collections import Counter

import pytest

from suisei.data.benchmarks import BENCHMARKS
from suisei.data.judged import ScaledCaption
from suisei.errors import DataError

COMPOSITE = {
    "source": "flickr8k",
    "image": "909.jpg",
    "caption": "a boy leaps",
    "references": ["A boy is leaping .", "Two children ."],
    "all_references": ["A boy is leaping .", "Two children .", "a boy leaps"],
    "rating": 5,
    "is_reference": True,
}


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def test_composite(tmp_path):
    other = {**COMPOSITE, "image": "910.jpg", "source": "coco", "rating": 1}
    write_lines(tmp_path / "composite.jsonl", [COMPOSITE, {**COMPOSITE, "caption": "trees"}, other])
    samples = BENCHMARKS["composite"].read(tmp_path)
    assert [sample.id for sample in samples] == ["909.jpg/1", "909.jpg/2", "910.jpg/1"]
    assert (samples[0].rating.values, samples[0].rating.low, samples[0].rating.high) == ((5.0,), 1, 5)
    assert samples[0].references == ("A boy is leaping .", "Two children .")
    assert (samples[0].group, samples[0].image, samples[0].language) == ("909.jpg", None, "en")
    (tmp_path / "images" / "flickr8k").mkdir(parents=True)
    (tmp_path / "images" / "flickr8k" / "909.jpg").write_bytes(b"x")
    with pytest.raises(
        DataError, match=r"composite.jsonl, row 3: the image file .*coco/910.jpg is not there"
    ):
        BENCHMARKS["composite"].read(tmp_path)
    found = BENCHMARKS["composite"].read(tmp_path, on_error="skip")
    assert [sample.image for sample in found] == [tmp_path / "images" / "flickr8k" / "909.jpg"] * 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rating": "5"}, "rating must be a number, got '5'"),
        ({"rating": 6}, "rating 6 is outside the scale 1 to 5"),
        ({"references": None}, "references must be a list of text"),
        ({"image": ""}, "image must be text, got ''"),
    ],
)
def test_composite_problems_are_named(tmp_path, change, message):
    write_lines(tmp_path / "composite.jsonl", [{**COMPOSITE, **change}])
    with pytest.raises(DataError, match=rf"composite.jsonl, row 1: {message}"):
        BENCHMARKS["composite"].read(tmp_path)


def test_capeval1k_from_the_pickle_of_several_sets(tmp_path):
    entry = {"candidate": [["a dog"], "a cat"], "reference": [["x", "y"], ["z"]], "score": [0.8, 3]}
    path = tmp_path / "captioning_human_judgments.pkl"
    path.write_bytes(pickle.dumps({"flickr8k": {"candidate": []}, "capeval1k": entry}))
    first, second = BENCHMARKS["capeval1k"].read(tmp_path)
    assert (first.candidate, first.references, first.rating.values) == ("a dog", ("x", "y"), (0.8,))
    assert first.group != second.group
    path.write_bytes(pickle.dumps({"capeval1k": {**entry, "score": [1]}}))
    with pytest.raises(DataError, match="lists of equal length in candidate, reference, score"):
        BENCHMARKS["capeval1k"].read(tmp_path)
    for empty in ([], None):
        path.write_bytes(pickle.dumps({"capeval1k": {**entry, "score": empty}}))
        with pytest.raises(DataError, match="with lists of equal length"):
            BENCHMARKS["capeval1k"].read(tmp_path)
    path.write_bytes(pickle.dumps({"capeval1k": {name: [] for name in entry}}))
    with pytest.raises(DataError, match="with lists of equal length"):
        BENCHMARKS["capeval1k"].read(tmp_path)
    path.write_bytes(pickle.dumps({"capeval1k": print}))
    with pytest.raises(DataError, match="which arrays do not need"):
        BENCHMARKS["capeval1k"].read(tmp_path)


THUMB = {
    "SYS": "Up-Down",
    "seg_id": "974",
    "set_id": 5,
    "hyp": "A dog runs.",
    "image": "COCO_val2014_000000000974.jpg",
    "P": 4.0,
    "R": 3.0,
    "Fl": -0.0,
    "Inc": -0.0,
    "Con": -0.0,
    "human_score": 3.5,
}


def test_thumb(tmp_path):
    human = {**THUMB, "SYS": "Human", "hyp": "An elephant with a man.", "human_score": 4.7, "P": 5.0}
    write_lines(tmp_path / "mscoco_THumB-1.0.jsonl", [THUMB, human])
    first, second = BENCHMARKS["thumb"].read(tmp_path)
    assert isinstance(first, ScaledCaption)
    scales = {name: rating.values[0] for name, rating in first.scales}
    assert scales == {"precision": 4, "recall": 3, "total": 3.5}
    assert first.parts == ("with human captions", "without human captions")
    assert second.parts == ("with human captions",)
    assert (first.system, first.id, first.references) == ("Up-Down", "974/Up-Down", ())
    captions = [{"image_id": 974, "caption": text} for text in ("an elephant with a man ", "b")]
    (tmp_path / "captions_val2014.json").write_text(json.dumps({"annotations": captions}))
    assert [sample.references for sample in BENCHMARKS["thumb"].read(tmp_path)] == [("b",), ("b",)]
    write_lines(tmp_path / "mscoco_THumB-1.0.jsonl", [{**THUMB, "P": 6}])
    with pytest.raises(DataError, match=r"THumB-1.0.jsonl, row 1: rating 6 is outside the scale 1 to 5"):
        BENCHMARKS["thumb"].read(tmp_path)


def test_thumb_with_the_references_of_its_release(tmp_path):
    other = {**THUMB, "seg_id": "975", "image": "COCO_val2014_000000000975.jpg"}
    write_lines(tmp_path / "mscoco_THumB-1.0.jsonl", [THUMB, {**THUMB, "SYS": "Human", "hyp": "A."}, other])
    references = tmp_path / "mscoco_references.json"
    write_lines(references, [{"seg_id": "975", "refs": ["x"]}, {"seg_id": "974", "refs": ["a dog", "Dogs."]}])
    captions = [{"image_id": 974, "caption": "not this one"}]
    (tmp_path / "captions_val2014.json").write_text(json.dumps({"annotations": captions}))
    samples = BENCHMARKS["thumb"].read(tmp_path)
    assert [sample.references for sample in samples] == [("a dog", "Dogs.")] * 2 + [("x",)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"seg_id": "1", "refs": ["a"]}], r"1.0.jsonl, row 1: seg_id '974' has no references in .*json"),
        ([{"seg_id": "974", "refs": "a"}], r"references.json, row 1: refs must be a list of text, got 'a'"),
        ([{"seg_id": 974, "refs": ["a"]}], r"references.json, row 1: seg_id must be text, got 974"),
        ([{"seg_id": "974", "refs": ["a"]}] * 2, r"references.json, row 2: seg_id '974' occurs twice"),
        ([["974", "a"]], r"references.json, row 1: expected a JSON object"),
    ],
)
def test_what_is_wrong_with_the_references_of_thumb_is_named(tmp_path, rows, message):
    write_lines(tmp_path / "mscoco_THumB-1.0.jsonl", [THUMB])
    write_lines(tmp_path / "mscoco_references.json", rows)
    with pytest.raises(DataError, match=message):
        BENCHMARKS["thumb"].read(tmp_path)


@pytest.mark.realdata
def test_real_composite(shared):
    samples = BENCHMARKS["composite"].read(shared / "data" / "benchmarks" / "composite")
    assert len(samples) == 11_985
    assert set(Counter(sample.group for sample in samples).values()) == {3}
    ratings = Counter(sample.rating.values[0] for sample in samples)
    assert ratings == {1: 3387, 2: 1436, 3: 1401, 4: 1454, 5: 4307}

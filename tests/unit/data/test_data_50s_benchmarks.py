"""PASCAL-50S and Abstract-50S on a few rows in their published layouts."""

import json
from collections import Counter

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from suisei.data.benchmarks import BENCHMARKS
from suisei.data.benchmarks.consensus50s import DRAWS, JUDGEMENTS
from suisei.errors import ConfigError, DataError


def write(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")


PASCAL = {
    "image": "VOC2012/JPEGImages/2008_1.jpg",
    "captions": ["a ship", "a dog"],
    "label": 0,
    "references": ["a boat", "a large ship"],
}


def test_pascal_50s_as_published_with_fleur(tmp_path):
    content = {kind: [PASCAL, {**PASCAL, "label": 1}] for kind in ("HI", "HC", "HM", "MM")}
    write(tmp_path / "pascal_50s.json", content)
    samples = BENCHMARKS["pascal-50s"].read(tmp_path)
    assert Counter(kind for sample in samples for kind, _ in sample.preferred) == dict.fromkeys(content, 4)
    assert [sample.rating.mean for sample in samples[:4]] == [1, 0, 0, 1]
    assert samples[0].id == "HC/1/1"
    images = tmp_path / "images"
    images.mkdir()
    (images / "2008_1.jpg").write_bytes(b"x")
    found = BENCHMARKS["pascal-50s"].read(tmp_path, images=images)
    assert found[0].image == images / "2008_1.jpg"  # the file's own folders need not be there


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": 2}, "HC: label must be 0 or 1"),
        ({"captions": ["one"]}, "captions must hold 2 captions, got 1"),
    ],
)
def test_pascal_50s_problems_are_named(tmp_path, change, message):
    content = {kind: [PASCAL] for kind in ("HI", "HM", "MM")} | {"HC": [{**PASCAL, **change}]}
    write(tmp_path / "pascal_50s.json", content)
    with pytest.raises(DataError, match=rf"pascal_50s.json, row 1: {message}"):
        BENCHMARKS["pascal-50s"].read(tmp_path)
    write(tmp_path / "pascal_50s.json", {"HC": [PASCAL]})
    with pytest.raises(DataError, match="HI must hold a list of pairs"):
        BENCHMARKS["pascal-50s"].read(tmp_path)


def cell(text):
    """A MATLAB cell that holds text."""
    found = np.empty((1, 1), dtype=object)
    found[0, 0] = text
    return found


def write_triplets(path, pairs):
    """Write judgements of (first, second, references, times the first won), as CIDEr's authors do."""
    fields = [("A", object), ("B", object), ("C", object), ("winner", object)]
    records = np.empty((1, sum(len(references) for _, _, references, _ in pairs)), dtype=fields)
    number = 0
    for first, second, references, wins in pairs:
        for position, reference in enumerate(references):
            winner = 1.0 if position < wins else -1.0
            records[0, number] = (cell(f"{reference} "), cell(first), cell(second), winner)
            number += 1
    savemat(str(path), {"triplets": records})


REFERENCES = [f"reference {number}" for number in range(JUDGEMENTS)]


def write_pairs(path, pairs, structs=False):
    """Write images and captions as cells in a cell, or as an array of structs."""
    fields = [(name, object) for name in ("image", "b", "c")]
    entries = np.empty((1, len(pairs)), dtype=fields if structs else object)
    for number, pair in enumerate(pairs):
        entry = np.empty(3, dtype=object)
        entry[:] = pair
        entries[0, number] = tuple(pair) if structs else entry
    savemat(str(path), {"new_input": entries, "category": np.array([[1, 4][: len(pairs)]])})


@pytest.mark.parametrize("structs", [False, True])
def test_pascal_50s_in_matlab_files_draws_five_references_five_times(tmp_path, structs):
    write_triplets(
        tmp_path / "consensus_pascal.mat",
        [("a ship", "a dog", REFERENCES, 30), ("a cat", "a cow", REFERENCES[::-1], 24)],
    )
    pairs = [("1.jpg", "a ship", "a dog"), ("2.jpg", "a cat", "a cow")]
    write_pairs(tmp_path / "pair_pascal.mat", pairs, structs)
    samples = BENCHMARKS["pascal-50s"].read(tmp_path)
    assert len(samples) == DRAWS * 2 * 2
    assert samples == BENCHMARKS["pascal-50s"].read(tmp_path)
    assert {len(set(sample.references)) for sample in samples} == {5}
    assert set(samples[0].references) <= set(REFERENCES)
    assert len({sample.references for sample in samples}) == 2 * DRAWS
    assert (samples[0].id, samples[0].group) == ("draw-1/HC/1/1", "1.jpg")
    assert dict(samples[0].preferred) == {"HC": pytest.approx(30 / 48)}
    assert dict(samples[2].preferred) == {"MM": 0.5}  # a tie of people is no preference


def test_matlab_files_that_do_not_belong_together(tmp_path):
    path, pairs = tmp_path / "consensus_pascal.mat", tmp_path / "pair_pascal.mat"
    write_triplets(path, [("a ship", "a dog", REFERENCES, 30)])
    with pytest.raises(DataError, match=r"has no pair_pascal.mat"):
        BENCHMARKS["pascal-50s"].read(tmp_path)
    write_pairs(pairs, [("1.jpg", "a ship", "a bus")])
    with pytest.raises(DataError, match=r"pair 1: its judgements are about other captions"):
        BENCHMARKS["pascal-50s"].read(tmp_path)
    write_pairs(pairs, [("1.jpg", "a ship", "a dog"), ("2.jpg", "a", "b")])
    with pytest.raises(DataError, match="48 judgements, 48 of each of the 2 pairs are expected"):
        BENCHMARKS["pascal-50s"].read(tmp_path)
    content = loadmat(str(pairs))
    savemat(str(pairs), {"new_input": content["new_input"], "category": np.array([[1, np.nan]])})
    with pytest.raises(DataError, match="category must be whole numbers"):
        BENCHMARKS["pascal-50s"].read(tmp_path)
    savemat(str(path), {"other": np.zeros(3)})
    with pytest.raises(DataError, match="it has no 'triplets', only other"):
        BENCHMARKS["pascal-50s"].read(tmp_path)
    path.write_bytes(b"not a MATLAB file at all, but text of some length" * 9)
    with pytest.raises(DataError, match="not a MATLAB file"):
        BENCHMARKS["pascal-50s"].read(tmp_path)


def test_abstract_50s(tmp_path):
    pairs = [(f"first {n}", f"second {n}", REFERENCES[n % 2 :: 2], 20) for n in range(201)]
    write_triplets(tmp_path / "consensus_abstract.mat", pairs)
    samples = BENCHMARKS["abstract-50s"].read(tmp_path)
    assert len(samples) == DRAWS * 2 * 201
    kinds = Counter(kind for sample in samples for kind, _ in sample.preferred)
    assert kinds == {"HC": DRAWS * 400, "HI": DRAWS * 2}
    assert len({sample.group for sample in samples}) == 2  # images are known by their references
    with pytest.raises(ConfigError, match="no image files"):
        BENCHMARKS["abstract-50s"].read(tmp_path, images=tmp_path)


@pytest.mark.realdata
def test_real_pascal_50s(shared):
    samples = BENCHMARKS["pascal-50s"].read(shared / "data" / "benchmarks" / "pascal-50s")
    kinds = Counter(kind for sample in samples for kind, _ in sample.preferred)
    assert kinds == {"HC": 2000, "HI": 2000, "HM": 2000, "MM": 2000}
    assert {len(sample.references) for sample in samples} == {5}
    assert len({sample.group for sample in samples}) <= 1000

"""suisei-mini, the model in the package."""

import json

import numpy as np
import pytest

import suisei
from suisei.metrics.suisei import MINI

MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def mini():
    return suisei.load(device="cpu")


def test_it_is_small_and_says_what_it_is():
    assert sum(path.stat().st_size for path in MINI.rglob("*") if path.is_file()) <= 25 * MEGABYTE
    card = (MINI / "README.md").read_text(encoding="utf-8")
    for word in ("Shichimi", "Flickr8k-Expert", "JSTS", "Limits", "terms", "configs/mini.yaml"):
        assert word in card, word


@pytest.mark.parametrize(
    ("references", "good", "worse"),
    [
        (
            ["a brown dog runs across the grass", "a dog is running in a field"],
            "a dog runs through the grass",
            ["a man rides a bicycle", "dog dog dog dog dog dog", "a", ".", "grass the through runs dog a"],
        ),
        (
            ["女性が傘をさして歩いている", "傘を持った女性が道を歩いています"],
            "傘をさした女性が歩いている",
            ["犬がソファーの上で寝ている", "傘傘傘傘傘傘傘傘", "。", "あ"],
        ),
    ],
)
def test_good_captions_beat_bad_ones(mini, references, good, worse):
    best, *others = mini.score([good, *worse], references=[references] * (1 + len(worse)))
    assert 0.4 < best <= 1
    assert max(others) < best - 0.1


def test_every_input_may_be_missing(mini, pictures):
    scores = mini.score(
        ["a dog runs"] * 4,
        references=[["a dog"], ["a dog"], [], []],
        images=[str(pictures[0]), None, str(pictures[0]), None],
    )
    assert np.isfinite(scores).all()
    assert len(set(np.round(scores, 6))) == 4


def test_score_without_a_model_takes_it(tmp_path, capsys):
    from suisei.commands.score import main

    source = tmp_path / "in.jsonl"
    row = {"candidate": "a dog runs", "references": ["a dog is running"]}
    source.write_text(json.dumps(row) + "\n", encoding="utf-8")
    assert main(["--input", str(source), "--output", str(tmp_path / "out.jsonl")]) == 0
    [line] = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    expected = suisei.load(device="cpu").score(["a dog runs"], references=[["a dog is running"]])[0]
    assert json.loads(line)["suisei"] == pytest.approx(expected, abs=1e-5)

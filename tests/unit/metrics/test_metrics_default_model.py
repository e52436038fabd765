"""The model in the package: whatever takes no name takes it, and it is what it says it is."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

import suisei
from suisei.__main__ import main
from suisei.data.sample import CaptionSample
from suisei.errors import ModelError, UnavailableError
from suisei.metrics import default_model as shipped

MEGABYTE = 1_000_000
ROW = {"candidate": "a dog runs", "references": ["a dog is running"]}


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "in.jsonl"
    rated = [{**ROW, "rating": 0.8, "group": "1"}, {**ROW, "candidate": "a cat", "rating": 0.1, "group": "2"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rated), encoding="utf-8")
    return str(path)


@pytest.fixture
def tiny_default(model_folder, monkeypatch):
    """A tiny model in the place of the one in the package."""
    monkeypatch.setattr(shipped, "_FOLDER", model_folder)
    return suisei.load(model_folder, device="cpu")


@pytest.fixture(scope="module")
def metric():
    """The model in the package."""
    reason = shipped.default_model_reason()
    if reason:
        pytest.skip(f"it {reason}")
    return suisei.load(device="cpu")


def test_score_evaluate_and_load_take_it_without_a_name(tiny_default, rows, tmp_path, capsys):
    expected = tiny_default.score([ROW["candidate"], "a cat"], references=[ROW["references"]] * 2)
    np.testing.assert_array_equal(
        suisei.load(device="cpu").score(["a dog runs", "a cat"], references=[ROW["references"]] * 2), expected
    )
    out, scores = tmp_path / "out.jsonl", tmp_path / "scores.jsonl"
    assert main(["score", "--input", rows, "--output", str(out)]) == 0
    assert main(["evaluate", "--data", rows, "--bootstrap", "0", "--save-scores", str(scores)]) == 0
    for path in (out, scores):
        found = [json.loads(line)["suisei"] for line in path.read_text(encoding="utf-8").splitlines()]
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert tiny_default.signature in capsys.readouterr().err


def test_an_empty_name_is_no_wish_for_it(tiny_default, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="not a model folder"):
        suisei.load("")


def test_its_name_instead_of_a_folder_s_is_answered_by_how_to_have_it(model_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="to use the model in the package, which has that name, name none"):
        suisei.load("suisei-small", device="cpu")
    shutil.copytree(model_folder, "suisei-small")
    assert suisei.load("suisei-small", device="cpu").score(["a cat"], [["a dog"]]).shape == (1,)


def test_probe_takes_it_without_a_name(tiny_default, tmp_path, capsys):
    report = tmp_path / "probe.json"
    arguments = ["--limit", "5", "--degradations", "half", "--bootstrap", "0", "--json", str(report)]
    assert main(["probe", *arguments]) == 0
    assert json.loads(report.read_text(encoding="utf-8"))["metrics"] == {"suisei": tiny_default.signature}


def test_an_installation_without_it_says_so(monkeypatch, tmp_path, rows, capsys):
    monkeypatch.setattr(shipped, "_FOLDER", tmp_path / "nothing")
    with pytest.raises(UnavailableError, match=r"needs suisei-small.*name a model"):
        suisei.load()
    assert main(["score", "--input", rows]) == 2
    error = capsys.readouterr().err
    assert error.startswith("suisei: metric 'suisei' needs suisei-small")
    assert error.count("\n") == 1
    assert main(["metrics", "--json"]) == 0
    [row] = [row for row in json.loads(capsys.readouterr().out) if row["name"] == "suisei"]
    assert row["available"] is False


def test_it_is_small_and_says_what_it_is(metric):
    folder = shipped.default_model()
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= 60 * MEGABYTE
    card = (folder / "README.md").read_text(encoding="utf-8")
    words = ("multilingual-e5-small", "MIT", "Wang", "Storage", "Limits", "research use", "CC BY-SA")
    for word in words:
        assert word in card, word
    assert f"signed `{metric.signature}`" in card
    assert "/work" not in (folder / "config.json").read_text(encoding="utf-8")
    assert metric.settings()["text"] == "multilingual-e5-small"


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
def test_good_captions_beat_bad_ones(metric, references, good, worse):
    best, *others = metric.score([good, *worse], references=[references] * (1 + len(worse)))
    assert 0.4 < best <= 1
    assert max(others) < best - 0.1


def test_references_or_the_image_may_be_missing_but_not_both(metric):
    picture = Image.new("RGB", (64, 48), "green")
    scores = metric.score(["a dog runs"] * 3, references=[["a dog"], [], []], images=[None, picture, None])
    assert np.isfinite(scores).tolist() == [True, True, False]
    assert scores[0] != scores[1]
    assert metric.missing([CaptionSample("a dog runs")]) == {0: "no references and no image"}


def test_nothing_becomes_unknown(metric):
    text = metric.regressor.text
    [ids] = text.tokenize(["Ünïted 犬🐕 xylophone 麒麟 ﾊﾝｶｸ"])
    assert ids.count(text.tokenizer.unk_token_id) <= 1  # the picture of a dog, at most


@pytest.mark.parametrize(
    "captions",
    [
        [
            "2人の女性が傘をさす",
            "二人の女性が傘をさす",
            "ふたりの女性が傘をさす",
            "「２人の女性が傘をさす。」",
        ],
        [
            "Two dogs run.",
            "\uff34\uff57\uff4f\u3000\uff44\uff4f\uff47\uff53\u3000\uff52\uff55\uff4e\uff0e",
            "1. **Two dogs run.**",
        ],
    ],
)
def test_ways_of_writing_move_no_score(metric, captions):
    for references in ([captions[0]], captions[1:], ["傘をさした女性がいる", "dogs are running"]):
        scores = metric.score(captions, references=[references] * len(captions))
        assert set(scores) == {scores[0]}

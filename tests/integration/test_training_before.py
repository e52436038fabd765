"""Trainings over the text encoder of a trained model, which has learned from ratings before."""

import json

import pytest

NAME = "The text encoder had learned from ratings of rated.jsonl, and data of that name are tested here"


@pytest.fixture
def again(train, finished):
    """Train over the encoder of a finished run; returns the report and the texts that others read."""

    def run(*options):
        folder = train(
            f"--model.text.name={finished / 'model'}", "--model.image=null", "--baselines=[]", *options
        )
        texts = [(folder / name).read_text(encoding="utf-8") for name in ("report.md", "model/README.md")]
        return json.loads((folder / "report.json").read_text(encoding="utf-8")), texts

    return run


def test_other_parts_of_the_same_ratings_are_tested(again, caplog, capsys):
    report, texts = again("--data.split_seed=1", "--trainer.max_epochs=1")
    assert report["data"]["tested_before"] == report["data"]["learned_before"] == ["rated.jsonl"]
    assert caplog.text.count(NAME) == 1  # before the training
    assert NAME in " ".join(capsys.readouterr().out.split())
    assert report["cautions"][0].startswith(NAME)
    for text in texts:
        assert NAME in text
        assert "Its text encoder had learned from ratings of `rated.jsonl`. The test split" in text


def test_the_same_split_tests_what_the_encoder_has_not_seen(again, caplog, finished):
    report, texts = again("--trainer.max_epochs=1")
    assert list(report["training"]["encoders"]) == [str(finished / "model")]
    assert report["data"]["learned_before"] == ["rated.jsonl"]
    assert report["data"]["tested_before"] == []
    assert NAME not in " ".join((caplog.text, *texts))
    assert all("Its text encoder had learned from ratings of `rated.jsonl`." in text for text in texts)


def test_a_model_of_its_own_encoder_says_nothing(finished):
    card = (finished / "model" / "README.md").read_text(encoding="utf-8")
    assert "had learned" not in card

"""suisei compact: a folder like any other, the same bytes every time, and an honest verdict."""

import json
import re

import numpy as np
import pytest

from suisei.__main__ import main
from suisei.commands import compact
from suisei.metrics.loading import load
from suisei.models.folder import save_model

ROWS = [
    ("a red ball lies on the table", "A red ball lies on the table."),
    ("two dogs run in the park", "two dogs run"),
    ("the cat sat on a mat", "two dogs run in the park"),
    ("犬が公園を走っている。", "犬が走る"),
    ("赤いボールが机の上にある", "部屋に小さな星が三つあります。"),
    ("猫", "犬が公園を走っている。"),
]


@pytest.fixture
def data(tmp_path):
    rows = [{"candidate": one, "references": [other]} for one, other in ROWS]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("\n".join(text for row in ROWS for text in row), encoding="utf-8")
    return path


@pytest.fixture
def run(tuned_model, data, words):
    def small(output, *options):
        kept = [] if "--whole-vocabulary" in options else ["--keep-text", str(words)]
        shared = ["--data", str(data), *kept, *options]
        return main(["compact", str(tuned_model[0]), "--output", str(output), *shared])

    return small


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_small_model_scores_as_the_whole_one_and_is_the_same_every_time(run, tuned_model, tmp_path, capsys):
    options = [
        "--base",
        str(tuned_model[1]),
        "--name",
        "suisei-tiny",
        "--encoder",
        "me/multilingual-e5-small",
    ]
    report = tmp_path / "report.json"
    assert run(tmp_path / "one", *options, "--json", str(report)) == 0
    shown = capsys.readouterr().out
    assert "fine: rank agreement" in shown
    assert run(tmp_path / "two", *options) == 0
    assert files(tmp_path / "one") == files(tmp_path / "two")
    content = json.loads(report.read_text(encoding="utf-8"))
    assert content["fine"] is True
    assert content["bytes"]["after"] < content["bytes"]["before"]
    labels = [row["label"] for row in content["table"]["sections"][0]["rows"]]
    assert labels == ["vocabulary cut", "and rounded"]
    assert [own["title"] for own in content["table"]["sections"]] == ["all", "Japanese", "English"]
    candidates, references = [one for one, _ in ROWS], [[other] for _, other in ROWS]
    whole, small = (load(f, device="cpu", precision="fp32") for f in (tuned_model[0], tmp_path / "one"))
    difference = whole.score(candidates, references) - small.score(candidates, references)
    assert np.abs(difference).max() < 0.01
    assert small.settings()["text"] == "multilingual-e5-small"
    card = (tmp_path / "one" / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# suisei-tiny\n")
    assert '"name": "me/multilingual-e5-small"' in card
    storage = card.partition("## Storage\n")[2].partition("\n## ")[0]
    found = r"- Of its scores that changes: rank agreement [\d.]{7}, largest difference [\d.]{7}, on "
    assert re.search(found + r"\d+ captions of [\w.]+\.\n", storage)
    assert f"- Scores of this folder are signed `{content['signature']}`." in storage
    assert "- signature: `suisei|" not in card
    for part in ("licence MIT", "Liang Wang", "in 4 bits with a scale per row", "CC BY-SA 4.0"):
        assert part in card


def test_a_folder_is_there_once_its_card_is_measured(run, tmp_path, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(compact, "_table", stopped)
    assert run(tmp_path / "new" / "small") == 130
    assert list((tmp_path / "new").iterdir()) == []


def test_a_full_disk_is_said_of_the_output(run, tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device", "a file that was copied")

    monkeypatch.setattr(compact, "_table", full)
    assert run(tmp_path / "small") == 2
    said = f"suisei: --output {tmp_path / 'small'}: cannot be written: No space left on device\n"
    assert capsys.readouterr().err.endswith(said)


def test_a_model_that_lost_too_much_is_not_called_fine(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(compact, "LARGEST_DIFFERENCE", 1e-6)  # hardly anything moves random weights' scores
    assert run(tmp_path / "small", "--whole-vocabulary", "--bits", "4") == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "NOT fine, do not ship it" in shown
    assert "--bits 8" in shown
    assert "--keep-text" not in shown  # which a whole vocabulary refuses
    assert 0 < load(tmp_path / "small", device="cpu").score(["a dog"], references=[["a dog"]])[0] < 1


@pytest.mark.parametrize(
    ("chosen", "advice"),
    [
        (["--whole-vocabulary", "--bits", "8"], "try --base"),
        (["--bits", "8"], "try --base or more --keep-text"),
        (["--base", "BASE", "--whole-vocabulary"], "try --bits 8 or --change-bits 8"),
        (
            ["--base", "BASE", "--whole-vocabulary", "--bits", "8", "--change-bits", "8"],
            "keep the model as it is",
        ),
    ],
)
def test_what_was_done_already_is_not_advised(
    run, tuned_model, tmp_path, capsys, monkeypatch, chosen, advice
):
    monkeypatch.setattr(compact, "LARGEST_DIFFERENCE", -1.0)  # nothing is fine
    options = [str(tuned_model[1]) if word == "BASE" else word for word in chosen]
    assert run(tmp_path / "small", *options) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.partition("at most -1.0); ")[2].partition(" · data:")[0] == advice


def test_figures_become_a_table_of_the_card(run, tmp_path):
    rows = [
        {"label": "suisei", "cells": {"pearson": 0.7, "spearman": 0.65, "tau-c": 0.56}},
        {
            "label": "chrf",
            "cells": {"pearson": 0.4, "spearman": 0.3, "tau-c": 0.351},
            "less": {"value": 0.21, "low": 0.19, "high": 0.23, "holm": 0.0004},
        },
    ]
    figures = {
        "how": "How.",
        "sets": [{"data": "flickr8k", "samples": 5664, "correlation": "tau-c", "rows": rows}],
    }
    path = tmp_path / "figures.json"
    path.write_text(json.dumps(figures), encoding="utf-8")
    run(tmp_path / "small", "--whole-vocabulary", "--bits", "8", "--card-figures", str(path))
    card = (tmp_path / "small" / "README.md").read_text(encoding="utf-8")
    assert "| flickr8k, 5,664 samples | **suisei** | 0.700 | 0.650 | 0.560 (tau-c) |  |" in card
    assert "|  | chrf | 0.400 | 0.300 | 0.351 (tau-c) | +0.210 [+0.190, +0.230], <.001 |" in card


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--base", "nowhere"], "--base nowhere: no folder with a model.safetensors"),
        (["--card-figures", "nowhere"], "nowhere: no such file"),
        (["--whole-vocabulary", "--keep-text", "words.txt"], "leave out --whole-vocabulary"),
        (["--bits", "5"], "argument --bits: invalid choice"),
    ],
)
def test_what_cannot_be_is_refused_before_any_work(run, tmp_path, capsys, options, message):
    assert run(tmp_path / "small", *options) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "small").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "not valid JSON"), ('{"sets": []}', "the figures are not those of zero_shot.py")],
)
def test_figures_of_another_form_are_refused_before_any_work(run, tmp_path, capsys, content, message):
    path = tmp_path / "figures.json"
    path.write_text(content, encoding="utf-8")
    assert run(tmp_path / "small", "--card-figures", str(path)) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "figures.json: " in error
    assert "scoring" not in error
    assert not (tmp_path / "small").exists()


def test_no_folder_is_written_over(run, tmp_path, capsys):
    (tmp_path / "small").mkdir()
    assert run(tmp_path / "small") == 2
    assert "exists; name a new folder" in capsys.readouterr().err


def test_a_small_model_can_be_cut_again(run, data, tmp_path, capsys):
    assert run(tmp_path / "once", "--whole-vocabulary", "--bits", "8") in (0, 1)
    few = tmp_path / "few.txt"
    few.write_text("a ball\n", encoding="utf-8")
    options = ["--output", str(tmp_path / "twice"), "--data", str(data), "--keep-text", str(few)]
    assert main(["compact", str(tmp_path / "once"), *options]) in (0, 1)
    once, twice = (load(tmp_path / name, device="cpu", precision="fp32") for name in ("once", "twice"))
    assert len(twice.regressor.text.tokenizer) < len(once.regressor.text.tokenizer)
    np.testing.assert_allclose(
        twice.score(["a ball"], [["the ball"]]), once.score(["a ball"], [["the ball"]]), atol=0.01
    )


def test_samples_that_the_model_does_not_score_are_left_out(build_regressor, data, tmp_path, capsys):
    """Not one that starts from the cosine, of a caption beside which there is nothing."""
    reader = build_regressor(
        text={"layers": "last"}, head={"start": "cosine"}, image=False, poolings=["mean"], blocks=[],
        similarity=True,
    )  # fmt: skip
    save_model(tmp_path / "reader", reader)
    with data.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"candidate": "a dog", "references": []}) + "\n")
    options = ["--data", str(data), "--whole-vocabulary", "--bits", "8"]
    assert main(["compact", str(tmp_path / "reader"), "--output", str(tmp_path / "small"), *options]) in (
        0,
        1,
    )
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{len(ROWS)} of {len(ROWS)} samples" in shown
    assert "1 sample left out: no references" in shown

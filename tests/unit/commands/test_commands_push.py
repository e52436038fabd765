"""The command that pushes a model."""

import json
import shutil

import huggingface_hub
import pytest

from suisei.commands.push import main
from suisei.errors import ConfigError, ModelError
from suisei.metrics.extras import check_names
from suisei.models.folder import load_model, save_pair
from suisei.models.second import Second, Weighing


@pytest.fixture
def pushed(monkeypatch):
    """What would have gone to the hub: (folder, name, card, settings) of every push."""
    calls = []

    def push(folder, name, card, **settings):
        calls.append((folder, name, card, settings))
        return "https://hub/commit"

    monkeypatch.setattr("suisei.models.hub_folder.push_model", push)
    return calls


def test_a_dry_run_says_all_and_contacts_nobody(model_folder, pushed, capsys, monkeypatch):
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda **_: pytest.fail("the hub was asked"))
    assert main([str(model_folder), "me/metric", "--license", "mit", "--language", "ja,en", "--dry-run"]) == 0
    text = capsys.readouterr().out
    for part in (
        "would be pushed to me/metric",
        "model.safetensors",
        "tokenizer/",
        "README.md",
        "license: mit",
        "- ja",
    ):
        assert part in text
    assert pushed == []


def test_options_reach_the_hub(model_folder, pushed, capsys):
    assert (
        main([str(model_folder), "me/metric", "--license=mit", "--language=en", "--private", "--revision=v2"])
        == 0
    )
    [(folder, name, card, settings)] = pushed
    assert (folder, name, settings) == (model_folder, "me/metric", {"private": True, "revision": "v2"})
    assert card.startswith("---\n")
    assert card.endswith("# A model\n")
    assert 'suisei.load("me/metric") fetches it' in capsys.readouterr().out


def test_what_is_missing_is_said_before_anything_is_pushed(model_folder, pushed, tmp_path):
    with pytest.raises(ConfigError, match="names no licence: give one by --license"):
        main([str(model_folder), "me/metric"])
    with pytest.raises(ConfigError, match="give --language ja,en"):
        main([str(model_folder), "me/metric", "--license", "mit"])
    for name in ("metric", "https://hub/me/metric", "../x/y", "me/"):
        with pytest.raises(ConfigError, match="no name on the hub"):
            main([str(model_folder), name, "--license", "mit"])
    broken = tmp_path / "model"
    shutil.copytree(model_folder, broken)
    (broken / "idf.json").write_text("{}")
    with pytest.raises(ModelError, match=r"idf\.json was altered"):
        main([str(broken), "me/metric", "--license", "mit", "--language", "en"])
    assert pushed == []


def test_a_second_model_that_does_not_load_is_not_pushed(model_folder, pushed, tmp_path, resign):
    own = load_model(model_folder, check_names)
    save_pair(tmp_path / "both", own, Second(Weighing(("en",), 0.5), model_folder, None, own.checksum))
    options = [str(tmp_path / "both"), "me/metric", "--license", "mit", "--language", "en"]
    assert main(options) == 0
    assert len(pushed) == 1
    resign(tmp_path / "both" / "second", lambda config: config["settings"].update(more=1))
    resign(tmp_path / "both")
    with pytest.raises(ModelError, match="more"):
        main(options)
    assert len(pushed) == 1


def test_figures_of_another_model_are_left_out(model_folder, pushed, tmp_path, capsys):
    def pushed_card(checksum):
        row = {"label": "suisei", "cells": {"tau-c": {"value": 0.5}}}
        row |= {"signature": f"suisei|model:{checksum[:12]}|suisei:0.1.0"} if checksum else {}
        report = {"data": {"sources": ["scenes"]}, "results": {"sections": [{"rows": [row]}]}}
        (tmp_path / "report.json").write_text(json.dumps(report))
        main([str(tmp_path / "small"), "me/metric", "--license", "mit", "--language", "en"])
        return pushed.pop()[2]

    shutil.copytree(model_folder, tmp_path / "small")  # beside the run's own model
    own = json.loads((model_folder / "config.json").read_text())["sha256"]["config.json"]
    assert "value: 0.5" in pushed_card(own)
    assert "value: 0.5" in pushed_card("")  # a report that does not say which model it measured
    assert "another model" not in capsys.readouterr().err
    assert "value: 0.5" not in pushed_card("0" * 64)
    assert "report.json has figures of another model" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["captioner", "recap-latent"])
@pytest.mark.parametrize("report", [None, {"steps": 6}])
def test_models_of_other_kinds_are_named_and_not_called_damaged(tmp_path, pushed, kind, report):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps({"kind": kind, "format": 1, "sha256": {}}))
    if report is not None:
        (tmp_path / "report.json").write_text(json.dumps(report))
    for folder in (tmp_path, tmp_path / "model"):
        with pytest.raises(ModelError) as caught:
            main([str(folder), "me/metric", "--license", "mit", "--language", "en"])
        told = f"{tmp_path / 'model'} holds a model of the kind '{kind}'; a SuiSei model of ratings is needed"
        assert str(caught.value) == told
    assert pushed == []

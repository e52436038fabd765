"""Model cards as the hub reads them."""

import json
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from suisei.adapters.hub_card import RunFacts, find_model, hub_card, read_run
from suisei.errors import DataError, ModelError

CARD = """# A SuiSei model

metric = suisei.load("PATH OF THIS FOLDER")

/home/me/ratings.jsonl: 70 training samples. Learned from besides: /home/me/pairs.jsonl.

{"text": {"name": "/home/me/encoders/e5"}, "inputs": ["pac-s:/home/me/tower", "ridge"], "image": "org/tower"}
"""


@pytest.fixture
def run(tmp_path):
    """The records of a run that trained on a file of its author's and on the bundled sample."""
    cells = {
        "pearson": {"value": 0.61234, "low": 0.5, "high": 0.7},
        "tau-b": {"value": None, "reason": "ties"},
    }
    rows = [{"label": "human", "cells": {}}, {"label": "suisei", "cells": cells}]
    report = {
        "data": {"sources": ["/home/me/ratings.jsonl", "scenes"], "support": ["/home/me/pairs.jsonl"]},
        "results": {"sections": [{"title": "overall", "rows": rows}, {"title": "ja", "rows": []}]},
    }
    (tmp_path / "report.json").write_text(json.dumps(report))
    lines = [{"candidate": "犬"}, {"candidate": "a dog", "language": "en"}, {"candidate": "猫"}]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def test_the_hub_reads_what_the_run_found(run):
    card = ModelCard(hub_card("org/metric", CARD, read_run(run), license="cc-by-4.0", language=None))
    data = card.data
    assert (data.license, data.language, data.library_name) == ("cc-by-4.0", ["ja", "en"], "suisei")
    assert data.pipeline_tag == "image-to-text"
    assert {"evaluation", "image-captioning"} <= set(data.tags)
    [result] = data.eval_results
    assert (result.metric_type, result.metric_value, result.dataset_split) == ("pearson", 0.6123, "test")
    assert result.dataset_name == "ratings, scenes (simulated ratings)"
    assert data.model_name == "org/metric"


def test_figures_are_those_of_a_test_file_that_was_given(run):
    report = json.loads((run / "report.json").read_text())
    report["data"]["given"] = {"validation": "/home/me/val.csv", "test": "/home/me/theirs.jsonl"}
    (run / "report.json").write_text(json.dumps(report))
    card = CARD + "3 validation samples of /home/me/val.csv, 4 test samples of /home/me/theirs.jsonl.\n"
    text = hub_card("org/metric", card, read_run(run), license="mit")
    assert "3 validation samples of val.csv, 4 test samples of theirs.jsonl." in text
    [result] = ModelCard(text).data.eval_results
    assert (result.dataset_name, result.dataset_type) == ("theirs", "theirs")
    report["data"]["given"] = {"test": "scenes"}
    (run / "report.json").write_text(json.dumps(report))
    [result] = ModelCard(hub_card("org/metric", CARD, read_run(run), license="mit")).data.eval_results
    assert result.dataset_name == "scenes (simulated ratings)"


def test_the_cards_text_names_the_model_and_no_place_on_the_authors_machine(run):
    text = hub_card("org/metric", CARD, read_run(run), license="mit")
    assert 'suisei.load("org/metric")' in text
    assert "ratings.jsonl: 70 training samples" in text
    assert "besides: pairs.jsonl." in text
    assert '{"text": {"name": "e5"}, "inputs": ["pac-s:tower", "ridge"], "image": "org/tower"}' in text
    assert "/home/me" not in text


def test_metadata_of_the_author_is_kept_and_options_come_first(run):
    written = "---\nlicense: mit\nbase_model: xlm-roberta-base\nlanguage: [ja]\n---\n" + CARD
    data = ModelCard(hub_card("org/metric", written, read_run(run), license=None, language=["en"])).data
    assert (data.license, data.language, data.base_model) == ("mit", ["en"], "xlm-roberta-base")
    assert hub_card("org/metric", written, read_run(run)).count("---\n") == 2


def test_a_model_without_a_run_claims_no_figures(tmp_path):
    assert read_run(tmp_path) == RunFacts()
    data = ModelCard(hub_card("org/metric", CARD, RunFacts(), license="mit")).data
    assert (data.eval_results, data.language) == (None, None)


def test_the_run_is_found_from_within_the_model_folder(run, monkeypatch):
    (run / "model").mkdir()
    (run / "model" / "config.json").write_text("{}")
    monkeypatch.chdir(run / "model")
    model, found = find_model(Path())
    assert model == Path()
    assert read_run(found).sources == ["/home/me/ratings.jsonl", "scenes"]


def test_run_and_model_folders_are_told_apart(tmp_path):
    (tmp_path / "model").mkdir()
    with pytest.raises(ModelError, match="no model at"):
        find_model(tmp_path)
    (tmp_path / "model" / "config.json").write_text("{}")
    assert find_model(tmp_path) == find_model(tmp_path / "model") == (tmp_path / "model", tmp_path)


@pytest.mark.parametrize("content", ["[]", "{", '{"results": {"sections": []}}', '{"results": 3}'])
def test_a_report_of_something_else_is_named(tmp_path, content):
    (tmp_path / "report.json").write_text(content)
    with pytest.raises(DataError, match=r"report\.json: not the report of a run"):
        read_run(tmp_path)

"""Which tested ratings the text encoder of a run may have learned from."""

import json
from types import SimpleNamespace

import pytest

from suisei.data.sample import CaptionSample
from suisei.training import learned_before
from suisei.training.learned_before import facts_before

TESTED = {"a.jsonl": ["g1", "g2"], "c.jsonl": ["h1"]}


@pytest.fixture
def before(tmp_path, monkeypatch):
    """Say what is tested before, of an encoder that learned from some data and held g1 to g3 out."""

    def said(learned, sources, report=None, name="model", test=None):
        monkeypatch.setattr(learned_before, "encoder_learned", lambda *_: tuple(learned))
        groups = {"train": ["g7"], "validation": [], "test": ["g1", "g2", "g3"]}
        (tmp_path / "splits.json").write_text(json.dumps({"groups": groups}), encoding="utf-8")
        if report is not None:
            (tmp_path / "report.json").write_text(json.dumps(report), encoding="utf-8")

        def tested(names):
            return [CaptionSample("a", group=group) for source in names for group in TESTED[source]]

        text = SimpleNamespace(name=str(tmp_path / name), layers="last")
        facts = facts_before(text, SimpleNamespace(sources=sources, test=test, tested=tested))
        assert facts["learned_before"] == learned
        return facts["tested_before"]

    return said


def test_what_the_encoder_s_training_held_out_is_not_counted(before):
    own = {"data": {}}
    assert before(["a.jsonl"], ["a.jsonl"], own) == []
    assert before(["a.jsonl"], ["a.jsonl", "c.jsonl"], own) == []  # of which the encoder knows nothing
    assert before(["a.jsonl", "c.jsonl"], ["a.jsonl", "c.jsonl"], own) == ["a.jsonl", "c.jsonl"]
    assert before(["c.jsonl"], ["a.jsonl"], own) == []
    assert before(["c.jsonl"], ["a.jsonl"], own, test="c.jsonl") == ["c.jsonl"]


def test_a_split_beside_a_folder_that_its_run_did_not_write_excuses_nothing(before):
    assert before(["a.jsonl"], ["a.jsonl"], {"data": {}}, name="both") == ["a.jsonl"]


@pytest.mark.parametrize("report", [{"data": {"tested_before": ["a.jsonl"]}}, None, {"data": None}, []])
def test_what_an_earlier_encoder_of_the_chain_had_seen_stays_counted(before, report):
    assert before(["a.jsonl"], ["a.jsonl"], report) == ["a.jsonl"]

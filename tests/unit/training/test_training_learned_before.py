"""Which tested ratings the text encoder of a run may have learned from."""

import json
from types import SimpleNamespace

import pytest

from suisei.data.sample import CaptionSample
from suisei.training import learned_before
from suisei.training.datamodule import CaptionDataModule
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

        def samples_of(names):
            return [CaptionSample("a", group=group) for source in names for group in TESTED[source]]

        text = SimpleNamespace(name=str(tmp_path / name), layers="last")
        facts = facts_before(text, SimpleNamespace(sources=sources, test=test, tested=samples_of))
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
    assert before(["c.jsonl"], ["a.jsonl"], {"data": {}}, name="both") == []  # which are not tested


@pytest.mark.parametrize("report", [{"data": {"tested_before": ["a.jsonl"]}}, None, {"data": None}, []])
def test_what_an_earlier_encoder_of_the_chain_had_seen_stays_counted(before, report):
    assert before(["a.jsonl"], ["a.jsonl"], report) == ["a.jsonl"]


def test_the_test_samples_of_some_sources_are_told_apart(tmp_path):
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "held.jsonl"]
    for path in paths:
        rows = [
            {"candidate": f"{path.stem} {n}", "group": f"{path.stem}{n}", "rating": [0.5]} for n in range(10)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    first, second, held = map(str, paths)
    split = CaptionDataModule([first, second], fractions=(0.6, 0.2, 0.2))
    split.load()
    own = [[sample.candidate[0] for sample in split.tested(names)] for names in ([first], [second], [])]
    assert own == [["a", "a"], ["b", "b"], []]
    assert len(split.tested([first, second])) == len(split.part("test")) == 4
    given = CaptionDataModule([first, second], test=held, fractions=(0.8, 0.2, 0.0))
    given.load()
    assert {sample.candidate[:4] for sample in given.tested([held])} == {"held"}

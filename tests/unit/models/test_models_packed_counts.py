"""Counts of texts as a model folder holds them."""

import json
import pickle

import numpy as np
import pytest

from suisei.errors import ConfigError, ModelError
from suisei.metrics.cider import Cider
from suisei.models.extras_folder import MANY, SavedInput, read_extras, write_extras
from suisei.models.packed_counts import PackedCounts

RECORD = {"x": {"options": {}, "settings": {}}}


def test_a_packed_table_is_the_table():
    packed = PackedCounts("a\n\nb c", np.array([3, 1, 2]))
    assert packed == {"a": 3, "": 1, "b c": 2}
    assert (packed["b c"], packed.get("a"), packed.get("z"), packed.get("z", 7)) == (2, 3, None, 7)
    assert list(packed) == ["a", "", "b c"]
    assert len(packed) == 3
    assert type(packed["a"]) is int
    assert pickle.loads(pickle.dumps(packed)) == packed
    assert PackedCounts("", np.array([], np.int64)) == {}
    assert PackedCounts("", np.array([5])) == {"": 5}


@pytest.mark.parametrize(("lines", "numbers"), [("a\nb", [1]), ("a", [1, 2]), ("a", []), ("", [1, 2])])
def test_as_many_texts_as_counts_are_needed(lines, numbers):
    with pytest.raises(ValueError, match=r"texts for \d counts"):
        PackedCounts(lines, np.array(numbers, np.int64))


def test_nothing_is_cut_apart_before_it_is_asked_for(tmp_path):
    table = {f"word {number}": number % 5 + 1 for number in range(MANY)}
    terms = [f"term {number}" for number in range(MANY)]
    write_extras(tmp_path, ["x"], {"x": SavedInput({"before": terms, "table": table, "after": terms})})
    state = read_extras(tmp_path, ["x"], RECORD, "1")["x"].state
    assert isinstance(state["table"], PackedCounts)
    assert state["table"]._table is None
    assert state == {"before": terms, "table": table, "after": terms}
    write_extras(tmp_path, ["x"], {"x": SavedInput(state)})
    assert read_extras(tmp_path, ["x"], RECORD, "1")["x"].state == state


def test_a_table_with_fewer_texts_than_counts_is_refused_at_once(tmp_path):
    table = {f"word {number}": 1 for number in range(MANY)}
    write_extras(tmp_path, ["x"], {"x": SavedInput({"table": table})})
    content = json.loads((tmp_path / "extras.json").read_text())
    content["x"]["table"]["$keys"]["$lines"] = [0, MANY - 1]
    (tmp_path / "extras.json").write_text(json.dumps(content))
    with pytest.raises(ModelError, match=r"extras\.json: damaged.*63 texts for 64 counts"):
        read_extras(tmp_path, ["x"], RECORD, "1")


@pytest.mark.parametrize("wrong", [0, -1, 11])
def test_cider_refuses_impossible_counts_before_it_scores(wrong):
    numbers = np.array([1, wrong, 10])
    metric = Cider("ptb")
    state = {"tokenizer": metric.tokenizer.signature, "documents": 10}
    with pytest.raises(ConfigError, match="this is not a saved CIDEr state: 10 documents"):
        metric.load_state({**state, "document_frequency": PackedCounts("a\nb\nc", numbers)})


def test_cider_scores_by_a_packed_table_as_by_a_plain_one():
    from suisei.data.sample import CaptionSample

    samples = [
        CaptionSample("a dog runs", ("a dog is running", "the dog runs fast")),
        CaptionSample("a red ball", ("the ball is red", "a ball")),
        CaptionSample("two cats", ("cats sleep", "two cats on a bed")),
    ]
    fitted = Cider("ptb")
    fitted.fit(samples)
    state = fitted.state()
    table = state["document_frequency"]
    for kind in (np.int64, np.float64):
        packed = PackedCounts("\n".join(table), np.array(list(table.values()), kind))
        restored = Cider("ptb")
        restored.load_state({**state, "document_frequency": packed})
        assert restored.score(samples).tolist() == fitted.score(samples).tolist()
        assert restored.state() == state

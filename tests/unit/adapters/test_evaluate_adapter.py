"""The module for Hugging Face evaluate, loaded from its file without a network."""

import re

import numpy as np
import pandas as pd
import pytest

import suisei.adapters
from suisei.adapters.rows import make_row
from suisei.errors import DataError

evaluate = pytest.importorskip("evaluate", reason="needs evaluate, an extra of development")


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Load the module with all caches in a folder of the test, and no connection allowed."""
    import socket

    def refuse(*_):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    modules = tmp_path / "modules"
    monkeypatch.setattr(evaluate.config, "HF_MODULES_CACHE", str(modules))
    monkeypatch.setattr("evaluate.utils.file_utils.config.HF_MODULES_CACHE", str(modules))
    monkeypatch.syspath_prepend(str(modules))
    return lambda *name: evaluate.load(suisei.adapters.EVALUATE, *name, cache_dir=str(tmp_path / "data"))


def test_scores_equal_the_commands(load, given, command_scores, model_folder):
    spec = f"suisei:{model_folder}"
    module = load(spec)
    found = module.compute(predictions=given.captions, references=given.references, images=given.images)
    expected = command_scores(spec)
    assert found["scores"] == pytest.approx(expected, abs=1e-9)
    assert found["suisei"] == pytest.approx(np.mean(expected), abs=1e-9)
    assert found["signature"].startswith("suisei|model:")


def test_cider_is_fitted_on_what_is_scored_each_time(load, given, command_scores):
    module = load("cider")
    module.compute(predictions=["a dog", "a cat"], references=[["a dog", "dogs"], ["one cat"]])
    found = module.compute(predictions=given.captions, references=given.references)
    assert found["scores"] == pytest.approx(command_scores("cider"), abs=1e-9)


def test_the_default_is_the_model_of_the_package_and_needs_no_references(load, pictures, packaged):
    from PIL import Image

    found = load().compute(predictions=["a red picture", "a dog"], images=[Image.open(pictures[0]), None])
    assert found["scores"] == pytest.approx(
        suisei.load().score(["a red picture", "a dog"], images=[pictures[0], None]).tolist(), abs=1e-9
    )


def test_batches_one_reference_each_and_rows_without_any(load):
    module = load("bleu-1")
    module.add_batch(predictions=["a dog"], references=["a dog"])
    module.add(prediction="a cat", reference="two cats")
    assert module.compute()["scores"] == pytest.approx([1, 0], abs=1e-6)
    found = module.compute(predictions=["a dog", "a cat"], references=[["a dog"], []])
    assert found["scores"] == [pytest.approx(1), None]
    with pytest.raises(DataError, match="bleu-1 has no score for any of 1 sample"):
        module.compute(predictions=["a dog"])


def test_what_is_no_caption_is_refused_with_its_row(load):
    """evaluate checks the first row alone, and has scored the repr of what is below."""
    module = load("rouge-l")
    for bad in (None, 3, b"a cat", {"a": 1}, ["a cat"], "\ud800", " "):
        with pytest.raises(DataError, match="sample 1: candidate"):
            module.compute(predictions=["a dog", bad], references=[["a dog"], ["a cat"]])
        with pytest.raises(DataError, match="sample 1: reference"):
            module.add_batch(predictions=["a dog", "a cat"], references=["a dog", [bad]])
    with pytest.raises(DataError, match="sample 1: candidate must be text, got NoneType"):
        module.compute(predictions=pd.Series(["a dog", np.nan]), references=["a dog", "a cat"])
    assert module.compute(predictions=["a dog"], references=["a dog"])["scores"] == [pytest.approx(1)]


@pytest.mark.parametrize(
    ("references", "scores"),
    [
        (["a dog", ["a cat", "cats"]], [1, 1]),
        ([["a dog"], "a cat"], [1, 1]),
        ([None, "a cat"], [None, 1]),
        (pd.Series(["a dog", np.nan], index=[3, 4]), [1, None]),
        (np.array(["a dog", "a cat"]), [1, 1]),
        ((own for own in ["a dog", ("a cat",)]), [1, 1]),
    ],
)
def test_references_are_lists_single_captions_or_none_row_by_row(load, references, scores):
    found = load("rouge-l").compute(predictions=iter(["a dog", "a cat"]), references=references)
    assert found["scores"] == [score if score is None else pytest.approx(score) for score in scores]


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    ("text", "how"),
    [
        ('["a dog", "dogs"]', ", as json.loads makes it"),
        ("['a dog']", ""),
        ("['a dog' 'dogs']", ""),
        ("array(['a dog'], dtype=object)", ""),
        ("{'caption': 'a dog'}", ""),
    ],
)
def test_a_list_as_text_is_no_reference(load, text, how, wrapped):
    message = f" a list or a dict as text, got {text!r}; give a list, each caption apart{how}"
    given = [text] if wrapped else text
    start = "sample 1: reference 1 is" if wrapped else "sample 1: references are"
    with pytest.raises(DataError, match=f"^{re.escape(start + message)}$"):
        load("rouge-l").compute(predictions=["a dog", "a dog"], references=["a dog", given])
    with pytest.raises(DataError, match=f"{re.escape(message)}$"):
        make_row("a dog", given)


def test_batches_need_no_references_and_a_refused_one_leaves_nothing(load):
    module = load("rouge-l")
    module.add_batch(predictions=["a dog"])
    module.add(prediction="a dog")
    module.add_batch(predictions=["a dog", "a cat"], references=["a dog", ["a cat"]])
    assert module.compute()["scores"] == [None, None, pytest.approx(1), pytest.approx(1)]
    with pytest.raises(DataError, match="references has 1 entries"):
        module.compute(predictions=["a dog", "a cat"], references=["a dog"])
    with pytest.raises(DataError, match="predictions must be a list"):
        module.compute(references=["a dog"])
    with pytest.raises(DataError, match="rouge-l has no score for any of 0 samples"):
        module.compute(predictions=[], references=[])
    found = module.compute(predictions=["a dog", "a cat"], references=[["a dog"], ["a cat"]])
    assert found["scores"] == pytest.approx([1, 1])

"""The module for Hugging Face evaluate, loaded from its file without a network."""

import numpy as np
import pytest

import suisei.adapters
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
    with pytest.raises(DataError, match="bleu-1 has no score for any of the 1 samples"):
        module.compute(predictions=["a dog"])

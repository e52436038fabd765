"""The scorer for llm-jp-eval-mm: against its base class, or one of the same shape without it."""

import importlib
import importlib.util
import math
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

import pytest

from suisei.errors import DataError, UnavailableError


@dataclass
class AggregateOutput:
    overall_score: float
    details: dict


class Scorer(ABC):
    def __init__(self, config):
        self.config = config

    @abstractmethod
    def score(self, refs, preds): ...

    @abstractmethod
    def aggregate(self, scores): ...


@pytest.fixture
def eval_mm(monkeypatch):
    """The adapter, imported anew; beside the real package, or a stand-in with the same names."""
    if importlib.util.find_spec("eval_mm") is None:
        parts = {name: ModuleType(name) for name in ("eval_mm", "eval_mm.metrics", "eval_mm.metrics.scorer")}
        parts["eval_mm.metrics.scorer"].__dict__.update(AggregateOutput=AggregateOutput, Scorer=Scorer)
        registry = parts["eval_mm.metrics.scorer_registry"] = ModuleType("eval_mm.metrics.scorer_registry")
        registry.ScorerRegistry = type("ScorerRegistry", (), {"_scorers": {}})
        for name, module in parts.items():
            monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "suisei.adapters.eval_mm", raising=False)
    yield importlib.import_module("suisei.adapters.eval_mm")
    sys.modules.pop("suisei.adapters.eval_mm", None)


def test_scores_equal_the_commands(eval_mm, given, command_scores, model_folder, monkeypatch):
    monkeypatch.setattr(eval_mm, "WINDOW", 2)

    class Ours(eval_mm.SuiSeiScorer):
        metric = f"suisei:{model_folder}"

    docs = [{"image": image} for image in given.images]
    scorer = Ours(SimpleNamespace(docs=docs))
    scores = scorer.score(given.references, given.captions)
    expected = command_scores(Ours.metric, window=2)
    assert scores == pytest.approx(expected, abs=1e-9)
    found = scorer.aggregate(scores)
    mean = pytest.approx(sum(expected) / len(expected), abs=1e-9)
    assert (found.overall_score, found.details) == (mean, {"suisei": mean})


def test_a_reference_may_be_a_text_and_an_empty_caption_counts(eval_mm):
    class Overlap(eval_mm.SuiSeiScorer):
        metric = "rouge-l"

    scorer = Overlap(SimpleNamespace(docs=None))
    scores = scorer.score(["犬が走る", "犬が走る", []], ["犬が走る", "", "犬"])
    assert scores[:2] == [pytest.approx(1), 0]
    assert math.isnan(scores[2])
    assert scorer.aggregate(scores).overall_score == pytest.approx(0.5)
    with pytest.raises(DataError, match="1 references and 2 predictions"):
        scorer.score(["a"], ["a", "b"])
    with pytest.raises(DataError, match="document 1: reference 1 is empty"):
        scorer.score(["a", " "], ["a", "b"])


@pytest.mark.parametrize("number", [0, 1, 3])
def test_documents_that_are_not_those_of_the_captions_are_refused(eval_mm, number):
    """Captions without a document would have been scored without their image, or not at all."""
    scorer = eval_mm.SuiSeiScorer(SimpleNamespace(docs=[{"image": None}] * number))
    with pytest.raises(DataError, match=f"there are {number} documents and 2 predictions"):
        scorer.score(["a dog", "a cat"], ["a dog", "a cat"])


def test_an_image_that_cannot_be_read_is_named_by_its_document(eval_mm, model_folder, monkeypatch):
    monkeypatch.setattr(eval_mm, "WINDOW", 2)

    class Ours(eval_mm.SuiSeiScorer):
        metric = f"suisei:{model_folder}"

    scorer = Ours(SimpleNamespace(docs=[{"image": name} for name in (None, None, None, "gone.png")]))
    with pytest.raises(DataError, match=r"document 3: gone\.png"):
        scorer.score(["a dog"] * 4, ["a dog", "a dog", "", "a dog"])


def test_it_is_registered(eval_mm):
    registry = importlib.import_module("eval_mm.metrics.scorer_registry").ScorerRegistry
    eval_mm.register("captions")
    assert registry._scorers["captions"] is eval_mm.SuiSeiScorer


@pytest.mark.skipif(importlib.util.find_spec("eval_mm") is not None, reason="it is installed")
def test_without_the_package_one_line_says_what_to_install():
    sys.modules.pop("suisei.adapters.eval_mm", None)
    with pytest.raises(UnavailableError, match="install it from its repository"):
        importlib.import_module("suisei.adapters.eval_mm")

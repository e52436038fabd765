"""What every metric inherits: input forms, order, gaps, corpus score and signature; and the registry."""

import numpy as np
import pytest

from suisei.data.image_bytes import ImageBytes
from suisei.data.images import load_image
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, DataError
from suisei.metrics.base import Metric
from suisei.metrics.loading import load
from suisei.metrics.registry import REGISTRY, Entry, canonical, get_entry, get_metric
from suisei.scoring.plan import plan_metrics


class Longest(Metric):
    """Length of the candidate, of those that have a reference."""

    name = "longest"
    needs = frozenset({"references"})

    def __init__(self, cut=None):
        self.cut = cut

    def _score(self, samples, *, batch_size, progress):
        return np.array([len(sample.candidate) for sample in samples][: self.cut])


def test_order_is_kept_around_samples_without_a_score():
    samples = [CaptionSample("abc", ("x",)), CaptionSample("a"), CaptionSample("ab", ("x", "y"))]
    scores = Longest().score(samples)
    assert scores.dtype == np.float64
    np.testing.assert_array_equal(scores, [3, np.nan, 2])
    assert Longest().missing(samples) == {1: "no references"}
    assert Longest().corpus_score(samples, scores) == 2.5


def test_text_and_samples_are_the_same():
    np.testing.assert_array_equal(Longest().score(["abc", "a"], [["x"], ["y"]]), [3, 1])
    assert Longest().score([]).shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a", "b"], [["x"]]), "references has 1 entries"),
        (("a dog",), "wrap it"),
        (([CaptionSample("a", ("x",))], [["y"]]), "inside the samples already"),
        ((["a", " "], [["x"], ["y"]]), "sample 1: candidate is empty"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(DataError, match=message):
        Longest().score(*arguments)


def test_a_broken_image_in_memory_costs_no_other_of_its_name(pictures):
    class Side(Longest):
        needs = frozenset({"image"})

        def _score(self, samples, *, batch_size, progress):
            return np.array([float(load_image(sample.image).width) for sample in samples])

    content = pictures[0].read_bytes()
    images = [ImageBytes("a", part) for part in (content, content[:60], content)]
    scores, refused = Side().score_each([CaptionSample("x", (), image) for image in images])
    assert list(refused) == [1]
    assert scores[0] == scores[2] > 0


def test_a_batch_size_below_one_is_refused():
    with pytest.raises(ConfigError, match="batch_size"):
        Longest().score(["a"], [["x"]], batch_size=0)
    with pytest.raises(ConfigError, match="batch_size"):
        Longest().score_each([], batch_size=0)
    with pytest.raises(ConfigError, match="batch_size"):
        Longest().explain("a dog", ["x"], batch_size=0)


@pytest.mark.parametrize("name", [None, 3, b"bleu-4"])
def test_a_name_that_is_no_text_is_refused(name):
    with pytest.raises(ConfigError, match="name must be text"):
        get_metric(name)


@pytest.mark.parametrize("path", [3, b"/tmp"])
def test_a_path_that_is_none_is_refused(path):
    with pytest.raises(ConfigError, match="path must be a folder's name"):
        load(path)


@pytest.mark.parametrize("score", [lambda m, s: m.score(s), lambda m, s: m.score_each(s)])
def test_what_is_not_fitted_says_so_of_no_sample_too(score):
    metric = get_metric("cider")
    with pytest.raises(ConfigError, match="fit") as one:
        score(metric, [CaptionSample("a dog", ("a cat",))])
    with pytest.raises(ConfigError) as none:
        score(metric, [])
    assert str(none.value) == str(one.value)


def test_a_metric_that_loses_scores_is_a_defect_and_not_cut_short():
    with pytest.raises(RuntimeError, match=r"shape \(1,\) for 2 samples"):
        Longest(cut=1).score(["a", "b"], [["x"], ["y"]])


def test_no_score_at_all_has_no_corpus_score():
    with pytest.raises(DataError, match="no score for any of 2"):
        Longest().corpus_score(["a", "b"], np.array([np.nan, np.nan]))


@pytest.mark.parametrize(
    ("spec", "name"), [("CIDEr", "cider"), ("Bleu_4", "bleu-4"), ("ROUGE-L", "rouge-l"), (" chrF", "chrf")]
)
def test_case_does_not_matter_in_names(spec, name):
    assert get_metric(spec).signature == get_metric(name).signature
    assert [plan.spec for plan in plan_metrics([spec])] == [name]
    with pytest.raises(ConfigError, match=f"'{name}' is given twice"):
        plan_metrics([spec, name])
    with pytest.raises(ConfigError, match="has no option 'x'"):
        plan_metrics([name], options=[f"{spec}.x=1"])


def test_an_argument_keeps_its_case():
    assert canonical("Clip-S:ViT-B-32@OpenAI") == "clip-s:ViT-B-32@OpenAI"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("bleu-5", "no metric 'bleu-5'; did you mean 'bleu-"),
        ("qqqq", "no metric 'qqqq'; registered: suisei, bleu-1"),
        ("bleu-4:x", "takes no argument"),
        ("BLEU", "of that family there are bleu-4, bleu-1, bleu-2, bleu-3, sacrebleu .did you mean 'bleu-4'"),
        ("CLIPScore", "of that family there are clip-s, ref-clip-s"),
        ("RefCLIPScore", "did you mean 'ref-clip-s'"),
        ("CIDEr-D", "did you mean 'cider'"),
        ("METEORR", "did you mean 'meteor'"),
        ("ROUGE", "did you mean 'rouge-l'"),
        ("bleu4", "did you mean 'bleu-4'"),
        ("ridge", "no metric 'ridge'"),  # trained on ratings, so never a baseline by name
    ],
)
def test_unknown_names_are_refused(spec, message):
    with pytest.raises(ConfigError, match=message):
        get_metric(spec)


def test_unknown_options_and_factories_of_something_else_are_refused(monkeypatch):
    with pytest.raises(ConfigError, match=r"metric 'bleu-4'.*colour"):
        get_metric("bleu-4", colour="red")
    monkeypatch.setitem(REGISTRY, "no-metric", Entry("builtins:dict", (), "not a metric"))
    with pytest.raises(ConfigError, match="did not make a Metric"):
        get_metric("no-metric")


class Fragile(Longest):
    """Fails where it is made."""

    def __init__(self, size=1):
        self.size = size + None


def test_a_mistake_within_a_metric_is_not_called_one_of_its_options(monkeypatch):
    monkeypatch.setitem(REGISTRY, "fragile", Entry(f"{__name__}:Fragile", (), "fails"))
    with pytest.raises(TypeError, match="unsupported operand"):
        get_metric("fragile", size=2)
    with pytest.raises(ConfigError, match=r"metric 'fragile'.*colour"):
        get_metric("fragile", colour="red")


def test_an_entry_that_its_class_does_not_agree_with_is_refused(monkeypatch):
    target = f"{__name__}:Longest"
    monkeypatch.setitem(REGISTRY, "longest", Entry(target, ("references",), "agrees"))
    get_metric("longest")
    monkeypatch.setitem(REGISTRY, "longest", Entry(target, (), "other needs"))
    with pytest.raises(ConfigError, match=r"'longest': needs is \[\] .* \['references'\] in Longest"):
        get_metric("longest")
    for needs in (("refs",), ("references"), ["image"]):  # the second lacks its comma
        with pytest.raises(ConfigError, match="expected a tuple of references, image, video"):
            Entry(target, needs, "no such word")


@pytest.mark.parametrize("name", [name for name, entry in REGISTRY.items() if not entry.requires])
def test_the_listing_agrees_with_the_metric(name):
    entry = get_entry(name)
    if entry.modules:
        pytest.importorskip(entry.modules[0])
    if name in ("spice", "meteor"):
        pytest.skip("needs Java")
    metric = get_metric(name)
    assert metric.name == name
    assert metric.needs == set(entry.needs)
    assert metric.signature.startswith(name + "|")


def test_an_empty_list_that_a_metric_refuses_ends_in_its_error():
    class Refusing(Metric):
        name = "refusing"
        needs_fit = True

        def _score(self, samples, *, batch_size, progress):
            raise DataError("nothing was fitted")

    with pytest.raises(DataError, match="nothing was fitted"):
        Refusing().score_each([])

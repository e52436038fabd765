"""Explanations: every number in one is a score that can be had by scoring the changed sample itself."""

import json
import logging
import re
from dataclasses import replace

import numpy as np
import pytest

from suisei.data.sample import CaptionSample
from suisei.encoders.tokenizer import FolderTokenizer
from suisei.errors import ConfigError, DataError
from suisei.explain import leave_out
from suisei.explain.interfaces import COSINES
from suisei.explain.leave_out import without_word, word_spans
from suisei.explain.wording import parts_of, sentences
from suisei.metrics.base import Metric
from suisei.metrics.extras import ExtraInputs
from suisei.metrics.loading import load
from suisei.metrics.registry import get_metric
from suisei.metrics.tokenizers import caption_words
from suisei.models import regressor as regressor_module
from suisei.models.folder import save_model

MEASURED = ["unigram-f1", "length"]


@pytest.fixture(scope="module", params=[None, "cosine"])
def metric(build_regressor, tmp_path_factory, request):
    """A model that reads numbers of every kind, and starts from nothing or from the cosine."""
    folder = tmp_path_factory.mktemp("explained") / "model"
    model = build_regressor(
        similarity=True,
        image_similarity=True,
        alignment=True,
        extra_inputs=MEASURED,
        text={"frozen": True},
        head={"extra_hidden": 6, "start": request.param},
    )
    model.extra_mean[:] = 0.3
    if model.start is not None:
        model.start.references.slope.data.fill_(2.0)
    save_model(folder, model, extras=ExtraInputs(MEASURED).state())
    return load(folder, device="cpu", precision="fp32", cache="off")


@pytest.fixture(scope="module")
def sample(captions, pictures):
    return CaptionSample("two black dogs run, fast", (captions[0], captions[2], captions[4]), pictures[0])


@pytest.fixture(scope="module")
def explanation(metric, sample):
    return metric.explain(sample)


def test_with_and_without_each_part(metric, sample, explanation):
    own = metric.score(
        [sample.candidate] * 4,
        references=[sample.references, sample.references, (), ()],
        images=[sample.image, None, sample.image, None],
    )
    said = [explanation.score, explanation.without_image]
    said += [explanation.without_references]
    np.testing.assert_allclose(said, own[:3], atol=1e-6)
    if metric.regressor.start is None:
        assert explanation.candidate_alone == pytest.approx(own[3], abs=1e-6)
    else:  # which says nothing of a candidate that it compares with nothing
        assert explanation.candidate_alone is None
        assert np.isnan(own[3])
    assert len(set(own.round(6))) == 4
    assert explanation.signature == metric.signature


def test_each_reference_alone_and_left_out_the_nearest_first(metric, sample, explanation):
    assert sorted(effect.position for effect in explanation.references) == [0, 1, 2]
    for effect in explanation.references:
        place = effect.position
        others = sample.references[:place] + sample.references[place + 1 :]
        own = metric.score([sample.candidate] * 2, [[effect.text], others], [sample.image] * 2)
        np.testing.assert_allclose([effect.alone, effect.without], own, atol=1e-6)
        assert effect.moved == pytest.approx(explanation.score - effect.without)
    cosines = [effect.cosine for effect in explanation.references]
    assert cosines == sorted(cosines, reverse=True)
    assert len(set(cosines)) == 3


def test_a_reference_that_is_not_read_is_not_called_the_nearest(explanation):
    first, second, third = explanation.references
    unread = replace(explanation, references=(replace(first, moved=0.0), second, third))
    assert f"The nearest reference is “{first.text}”" in " ".join(sentences(explanation))
    said = " ".join(sentences(unread))
    assert f"The nearest reference of those that move the score is “{second.text}”" in said
    none = replace(explanation, references=tuple(replace(one, moved=0.0) for one in explanation.references))
    assert f"The nearest reference is “{first.text}”" in " ".join(sentences(none))


def test_each_word_left_out(metric, sample, explanation):
    left = ["black dogs run, fast", "two dogs run, fast", "two black run, fast"]
    left += ["two black dogs, fast", "two black dogs run,"]
    own = metric.score(left, [sample.references] * 5, [sample.image] * 5)
    assert [word.text for word in explanation.words] == ["two", "black", "dogs", "run", "fast"]
    np.testing.assert_allclose([word.without for word in explanation.words], own, atol=1e-6)
    for word in explanation.words:
        assert sample.candidate[word.start : word.end] == word.text
        assert word.moved == pytest.approx(explanation.score - word.without)


def test_japanese_is_cut_by_mecab_and_stays_japanese(metric, captions):
    found = metric.explain("犬が dog と走る。", captions[:2])
    assert [word.text for word in found.words] == ["犬", "が", "dog", "と", "走る"]
    assert found.language == "ja"
    bleu = get_metric("bleu-1")
    words = {w.text: w.without for w in bleu.explain("犬 gonna", ["犬 gonna"]).words}
    # without its only kanji the caption would be taken for English, which is cut otherwise
    rest = CaptionSample("gonna", ("犬 gonna",))
    as_japanese, as_english = bleu.score([replace(rest, language="ja"), rest])
    assert words["犬"] == as_japanese != as_english


def test_all_is_asked_at_once(metric, sample, monkeypatch):
    calls = []
    real = metric.score_replaced
    monkeypatch.setattr(metric, "score_replaced", lambda *a, **k: calls.append(1) or real(*a, **k))
    monkeypatch.setattr(metric, "_score", lambda *a, **k: pytest.fail("scored apart"))
    metric.explain(sample)
    assert calls == [1]


def test_steps_say_the_same_as_all_at_once(metric, sample, explanation):
    with pytest.raises(ConfigError, match="step must be a whole number of at least 1, got 0"):
        next(metric.explain_in_steps(sample, step=0))
    *steps, last = metric.explain_in_steps(sample, step=7)
    assert len(steps) > 2
    assert steps == [None] * len(steps)
    assert last.words != ()
    for name in ("words", "references", "inputs", "groups"):
        one, other = (getattr(each, name) for each in (last, explanation))
        assert [effect.moved for effect in one] == pytest.approx([effect.moved for effect in other], abs=1e-6)
    assert last.score == pytest.approx(explanation.score, abs=1e-6)


def test_a_measured_number_is_put_at_its_typical_value(metric, sample, explanation, monkeypatch):
    effect = next(effect for effect in explanation.inputs if effect.name == "unigram-f1")
    assert effect.value == pytest.approx(get_metric("unigram-f1").score([sample])[0], abs=1e-6)
    assert effect.typical == pytest.approx(0.3)

    def computed(samples, **_):
        return np.array([[0.3, get_metric("length").score([s])[0]] for s in samples], np.float32)

    monkeypatch.setattr(metric.extras, "compute", computed)
    assert effect.replaced == pytest.approx(metric.score([sample])[0], abs=1e-6)
    assert effect.moved == pytest.approx(explanation.score - effect.replaced)
    assert abs(effect.moved) > 1e-5
    moved = [abs(each.moved) for each in explanation.inputs]
    assert moved == sorted(moved, reverse=True)
    assert moved[0] > moved[-1]


def test_cosines_are_put_there_too_alone_and_all_together(metric, sample, explanation, monkeypatch):
    real = regressor_module.similarities
    singles = {effect.name: effect for effect in explanation.inputs}
    group = next(e for e in explanation.groups if e.kind == COSINES)
    assert group.members == sum(e.kind == COSINES for e in explanation.inputs)

    def one_at_rest(*arguments):
        values = real(*arguments)
        values[:, 0] = 0.3
        return values

    monkeypatch.setattr(regressor_module, "similarities", one_at_rest)
    first = metric.regressor.columns.similar[0]
    assert singles[first].replaced == pytest.approx(metric.score([sample])[0], abs=1e-6)
    monkeypatch.setattr(regressor_module, "similarities", lambda *a: real(*a).fill_(0.3))
    assert group.replaced == pytest.approx(metric.score([sample])[0], abs=1e-6)


def test_numbers_that_cannot_be_known_are_not_replaced(metric, pictures):
    found = metric.explain("two dogs", image=pictures[1])
    known = {effect.name for effect in found.inputs if effect.value is not None}
    assert "length" in known
    assert "unigram-f1" not in known
    for effect in found.inputs:
        assert (effect.value is None) == (effect.moved is None) == (effect.replaced is None)
    assert not any(group.kind == COSINES for group in found.groups)
    assert found.references == ()
    assert found.without_references is None
    assert found.candidate_alone is None


def test_what_is_explained_is_not_counted_as_blind(metric, caplog):
    with caplog.at_level(logging.WARNING):
        metric.explain("two dogs", ["dogs"])
    assert not caplog.text


def test_any_metric_can_be_explained(sample):
    found = get_metric("bleu-1").explain(sample)
    assert found.without_references is None  # it has no score then
    assert found.inputs == ()
    best = max(effect.alone for effect in found.references)
    assert found.references[0].alone == best
    json.dumps(found.as_dict(), allow_nan=False)


def test_what_a_metric_does_not_read_is_not_left_out(sample):
    cider = get_metric("cider")
    cider.fit([sample, CaptionSample("a", ("a red bus",)), CaptionSample("b", ("two boats",))])
    for metric in (cider, get_metric("bleu-1")):
        found = metric.explain(sample)
        assert (found.without_image, found.candidate_alone) == (None, None)
        assert [name for name, _ in parts_of(found)] == ["with all"]
        assert "image" not in " ".join(sentences(found))
        assert {effect.text for effect in found.references} == set(sample.references)
    candidate_alone = ("length", "distinct-2", "japanese", "repetition-1", "incomplete-ending")
    for name in candidate_alone:
        found = get_metric(name).explain(sample)
        assert [part for part, _ in parts_of(found)] == ["with all"]
        assert found.references == ()
        assert not re.search("image|reference", " ".join(sentences(found)))


def test_of_a_metric_that_needs_nothing_and_says_no_more_all_is_left_out(sample):
    class Counting(Metric):
        name = "counting"

        def _score(self, samples, *, batch_size, progress):
            return np.array([len(s.references) + 10 * (s.image is not None) for s in samples])

    found = Counting().explain(sample)
    assert (found.score, found.without_image, found.without_references) == (13, 3, 10)
    assert len(found.references) == 3


def test_what_lowers_a_distance_helps():
    references = ("a brown dog plays with a horse", "a car on a road")
    found = get_metric("hallucinated-nouns").explain("a dog and a horse and a spoon", references)
    assert not found.higher_is_better
    assert found.references[0].text == references[0]
    said = " ".join(sentences(found))
    assert "costs most is “spoon”" in said
    assert re.search("helps most is “(dog|horse)”", said)
    colours = {word.text: found.helps(word.moved) for word in found.words}
    assert (colours["dog"], colours["spoon"]) == (True, False)
    assert get_metric("bleu-1").explain("a dog", references).higher_is_better


def test_one_word_cannot_be_left_out():
    found = get_metric("length").explain("dogs!")
    assert [word.without for word in found.words] == [get_metric("length").score(["!"])[0]]
    assert [word.without for word in get_metric("length").explain("dogs").words] == [None]


def test_a_long_caption_says_how_many_words_were_left_out(monkeypatch):
    monkeypatch.setattr(leave_out, "MAX_WORDS", 3)
    found = get_metric("length").explain("one two three four five")
    assert [word.text for word in found.words] == ["one", "two", "three"]
    assert found.notes == ("the first 3 of 5 words were left out",)


def test_what_is_not_read_is_said_and_not_left_out(metric, caplog, monkeypatch):
    text = metric.regressor.text
    monkeypatch.setattr(text, "_said", False)
    words = [f"dog{'s' * (n % 2)}" for n in range(text.max_tokens)]
    with caplog.at_level(logging.WARNING, logger="suisei.encoders.text"):
        found = metric.explain(" ".join(words), ["two dogs", "cat " * text.max_tokens])
    (warned,) = caplog.records
    assert f"2 captions reach the {text.max_tokens} tokens" in warned.message
    count = len(found.words)
    assert 20 < count < len(words)
    assert text.tokenize([" ".join(words[:count])]) == text.tokenize([found.candidate])
    assert len(text.tokenize([" ".join(words[: count - 1])])[0]) < text.max_tokens
    read, references = found.notes
    quoted = " ".join(words[:count])[-30:]
    assert read == f"the text encoder read the caption up to “…{quoted}”; later words were not left out"
    assert references == "the text encoder read 1 of 2 references not to the end"
    assert metric.explain(" ".join(words[: count - 2]), ["two dogs"]).notes == ()


def test_of_an_encoder_that_reads_ends_the_beginning_is_not_left_out(metric, tmp_path, monkeypatch):
    text = metric.regressor.text
    text.tokenizer.save_pretrained(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"truncation_side": "left"}))
    monkeypatch.setattr(text, "tokenizer", FolderTokenizer(tmp_path))
    words = [f"cat{'s' * (n % 2)}" for n in range(text.max_tokens)]
    found = metric.explain(" ".join(words), ["two cats", "a dog " * text.max_tokens])
    count = len(found.words)
    assert 20 < count < len(words)
    assert found.words[-1].end == len(found.candidate)
    assert text.tokenize([" ".join(words[-count:])]) == text.tokenize([found.candidate])
    assert len(text.tokenize([" ".join(words[1 - count :])])[0]) < text.max_tokens
    quoted = " ".join(words[-count:])[:30]
    assert found.notes == (
        f"the text encoder read the caption from “{quoted}…” on; earlier words were not left out",
        "the text encoder read 1 of 2 references not from the beginning",
    )


@pytest.mark.parametrize(
    ("metric_name", "arguments", "error", "message"),
    [
        ("bleu-1", ("a dog",), DataError, "bleu-1 has no score for this caption: no references"),
        ("bleu-1", ("",), DataError, "candidate is empty"),
        ("cider", ("a dog", ["a dog"]), ConfigError, "fit"),
    ],
)
def test_refuses(metric_name, arguments, error, message):
    with pytest.raises(error, match=message):
        get_metric(metric_name).explain(*arguments)


@pytest.mark.parametrize(
    ("caption", "word", "left"),
    [
        ("a dog, and a cat", "dog", "a, and a cat"),
        ("A dog runs.", "A", "dog runs."),
        ("a dog runs.", "runs", "a dog."),
        ("a man , a dog", "man", "a , a dog"),
        ("犬が走る。", "が", "犬走る。"),
    ],
)
def test_a_word_is_left_out_with_its_space(caption, word, left):
    start = caption.index(word)
    assert without_word(caption, (start, start + len(word))) == left


def test_words_are_found_where_they_stand():
    assert word_spans("a dog sees a dog", ["a", "dog", "sees", "a", "dog"]) == [
        (0, 1), (2, 5), (6, 10), (11, 12), (13, 16),
    ]  # fmt: skip
    assert word_spans("a dog", ["cat", "dog"]) == [(2, 5)]
    assert caption_words("The dog's well-known ball, 3 of them!", "en") == [
        "The", "dog's", "well-known", "ball", "3", "of", "them",
    ]  # fmt: skip

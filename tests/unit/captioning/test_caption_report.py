"""The comparison of start and tuned model, where one of them says nothing."""

import numpy as np
import pytest

from suisei.captioning.caption_report import compare_captions
from suisei.captioning.caption_sources import CaptionedImage
from suisei.metaeval.settings import Resampling

METRICS = ["bleu-1", "repetition-1", "hallucinated-nouns", "incomplete-ending", "length"]


def test_silence_has_the_worst_score_of_every_metric(tmp_path):
    captions = ("a dog runs", "the dog runs fast")
    pairs = [CaptionedImage(tmp_path / f"{n}.png", captions, ("en", "en"), f"{n}") for n in range(4)]
    texts = {"start": ["", " ", "a dog runs", "."], "tuned": ["a dog"] * 4}
    found = compare_captions(texts, pairs, METRICS, language="en", settings=Resampling(n_resamples=20))
    scores = {outcome.label: outcome.scores["start"] for outcome in found.outcomes}
    for name in METRICS:
        shares = name not in ("bleu-1", "length")
        np.testing.assert_array_equal(scores[name][[0, 1, 3]], 1.0 if shares else 0.0)
        assert (scores[name][2] < 1) if shares else (scores[name][2] > 0)
    assert any("start: 3 captions without a word, with the worst score" in n for n in found.notes)


def test_silence_is_part_of_every_systems_score(tmp_path):
    """The score of a system is that of its captions, and what stands for silence is none of them."""
    captions = ("a dog and a cat run", "a dog and a cat run")
    pairs = [CaptionedImage(tmp_path / f"{n}.png", captions, ("en", "en"), f"{n}") for n in range(4)]
    texts = {"silent": ["", " ", "a dog and a cat run", "a"], "spoken": ["a dog and a cat", "the dog"] * 2}
    metrics = ["rouge-l", "cider", "incomplete-ending", "repetition-1", "bleu-1"]
    found = compare_captions(texts, pairs, metrics, language="en", settings=Resampling(n_resamples=200))
    outcomes = {outcome.label: outcome for outcome in found.outcomes}
    for name in ("rouge-l", "cider", "incomplete-ending"):
        for system, own in outcomes[name].systems.items():
            assert own.value == pytest.approx(outcomes[name].scores[system].mean()), name
    assert outcomes["incomplete-ending"].systems["silent"].value == 0.75
    assert outcomes["incomplete-ending"].pairs[0].better == "spoken"
    # Of six and one tokens one comes again; either silence counts as one more that does.
    assert outcomes["repetition-1"].systems["silent"].value == pytest.approx(3 / 9)
    whole = np.exp(1 - 24 / 7)  # of four times six tokens seven were said, all of them right
    assert outcomes["bleu-1"].systems["silent"].value == pytest.approx(whole)


def test_a_system_that_says_nothing_is_the_worst_by_every_metric(tmp_path):
    captions = ("a dog runs.", "the dog runs fast.")
    pairs = [CaptionedImage(tmp_path / f"{n}.png", captions, ("en", "en"), f"{n}") for n in range(4)]
    texts = {"silent": [""] * 4, "spoken": ["a dog", "a cat runs and", "the dog runs", "a dog dog dog"]}
    found = compare_captions(texts, pairs, METRICS, language="en", settings=Resampling(n_resamples=20))
    assert [outcome.pairs[0].worse for outcome in found.outcomes] == ["silent"] * len(METRICS)


def test_metrics_are_called_by_their_names_where_no_two_have_the_same(tmp_path):
    pairs = [CaptionedImage(tmp_path / f"{n}.png", ("a dog runs",), ("en",), f"{n}") for n in range(4)]
    texts = {"start": ["a dog"] * 4, "tuned": ["a cat"] * 4}
    model, others = f"suisei:{tmp_path}/absent", [f"bertscore:{tmp_path}/{name}" for name in "ab"]
    found = compare_captions(texts, pairs, ["bleu-1", model, *others], settings=Resampling(n_resamples=20))
    assert [outcome.label for outcome in found.outcomes] == ["bleu-1", "suisei", *others]
    assert [row["metric"] for row in found.as_dict()["metrics"]] == ["bleu-1", "suisei", *others]


@pytest.mark.parametrize("named", ["bleu-1", "BLEU-1", "Bleu_1"])
def test_options_of_the_reward_hold_for_its_metrics_as_they_are_called(tmp_path, named):
    """Those of a metric that is not compared by are passed over."""
    pairs = [CaptionedImage(tmp_path / f"{n}.png", ("a dog runs",), ("en",), f"{n}") for n in range(4)]
    texts = {"start": ["a dog"] * 4, "tuned": ["a cat"] * 4}
    options = [f"{named}.tokenizer=whitespace", "rouge-l.tokenizer=whitespace"]
    found = compare_captions(texts, pairs, ["bleu-1"], options=options, settings=Resampling(n_resamples=20))
    assert "tok:whitespace" in next(note for note in found.notes if note.startswith("bleu-1: "))

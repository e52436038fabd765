"""The comparison of start and tuned model, where one of them says nothing."""

import numpy as np

from suisei.captioning.caption_report import compare_captions
from suisei.captioning.caption_sources import CaptionedImage
from suisei.metaeval.systems import Resampling

METRICS = ["bleu-1", "repetition-1", "hallucinated-nouns", "incomplete-ending", "length"]


def test_silence_has_the_worst_score_of_every_metric(tmp_path):
    captions = ("a dog runs", "the dog runs fast")
    pairs = [CaptionedImage(tmp_path / f"{n}.png", captions, ("en", "en"), f"{n}") for n in range(4)]
    texts = {"start": ["", " ", "a dog runs", "."], "tuned": ["a dog"] * 4}
    found = compare_captions(texts, pairs, METRICS, language="en", settings=Resampling(n_resamples=20))
    scores = {outcome.label: outcome.scores["start"] for outcome in found.outcomes}
    for name in METRICS:
        shares = name not in ("bleu-1", "length")
        np.testing.assert_array_equal(scores[name][:2], 1.0 if shares else 0.0)
        assert (scores[name][2] < 1) if shares else (scores[name][2] > 0)
    assert any("start: 2 captions without a word, which have the worst score" in n for n in found.notes)

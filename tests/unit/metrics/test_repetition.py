"""Repeated n-grams: by hand, and in both languages."""

import numpy as np
import pytest

from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError
from suisei.metrics.registry import get_metric
from suisei.metrics.repetition import Repetition, corpus_distinct


@pytest.mark.parametrize(
    ("caption", "n", "expected"),
    [
        ("a dog and a dog and a dog", 1, 5 / 8),
        ("a dog and a dog and a dog", 2, 4 / 7),
        ("A dog and a DOG.", 1, 2 / 5),
        ("a b c d a b c d", 4, 1 / 5),
        ("a b c d a b c d", 3, 2 / 6),
        ("one two three", 4, 0.0),
        ("犬と犬と犬", 1, 3 / 5),
        ("赤い壁と赤い壁", 2, 1 / 4),
    ],
)
def test_shares_by_hand(caption, n, expected):
    metric = Repetition(n)
    assert metric.score([CaptionSample(caption)]).tolist() == [pytest.approx(expected)]


def test_the_corpus_score_is_the_share_in_all_captions():
    samples = [CaptionSample(text) for text in ("a a a a", "b c d", "e")]
    metric = get_metric("repetition-1")
    scores = metric.score(samples)
    assert scores.tolist() == [0.75, 0, 0]
    assert metric.corpus_score(samples, scores) == pytest.approx(3 / 8)
    assert metric.corpus_score(samples, np.array([np.nan, 0, 0])) == 0
    assert metric.sample_statistics([]).shape == (0, 2)
    assert not metric.higher_is_better
    assert metric.signature.startswith("repetition-1|tok:")


def test_five_words_are_no_order():
    with pytest.raises(ConfigError, match="1 to 4 tokens, got 5"):
        Repetition(5)


def test_distinct_ngrams_of_a_corpus():
    assert corpus_distinct([["a", "b"], ["a", "b"]], 1) == 0.5
    assert corpus_distinct([["a", "b"], ["a", "c"]], 2) == 1
    assert corpus_distinct([["a"]], 2) == 0

"""A third language, once one is listed: English to what counts words, unknown to what knows a grammar."""

import numpy as np
import pytest

from suisei.data import sample as sample_module
from suisei.data.sample import CaptionSample, Rating
from suisei.metrics.tokenizers import get_tokenizer
from suisei.probes.degrade import CHANGES, degrade
from suisei.probes.outcomes import Scored
from suisei.probes.sample_tables import language_table

COUNTING = (
    *("bleu-1", "bleu-4", "rouge-l", "cider", "sacrebleu", "chrf", "unigram-f1", "length", "length-ratio"),
    *("japanese", "distinct-2", "repetition-1", "incomplete-ending", "hallucinated-nouns"),
)
TEXTS = [
    ("two dogs and a dog run in the", ["a dog runs in the park", "dogs run"]),
    ("a man on a bike", ["a red ball"]),
]


@pytest.fixture
def german(monkeypatch):
    monkeypatch.setitem(sample_module.LANGUAGE_NAMES, "de", "German")
    monkeypatch.setattr(sample_module, "LANGUAGES", ("ja", "en", "de"))


def samples(language):
    return [CaptionSample(text, references, language=language) for text, references in TEXTS]


@pytest.mark.parametrize("name", COUNTING)
def test_it_is_english_to_what_counts_words(german, make_metric, name):
    metric = make_metric(name)
    np.testing.assert_array_equal(metric.score(samples("de")), metric.score(samples("en")))


def test_it_is_cut_as_english(german):
    assert get_tokenizer("ptb+character")("ein Hund, läuft", "de") == ["ein", "hund", "läuft"]


@pytest.mark.parametrize("name", [name for name in CHANGES if name != "other-image"])
def test_no_change_is_made_by_the_grammar_of_another_language(german, name):
    assert CHANGES[name].languages in (("ja", "en"), ("ja",), ("en",))
    assert degrade("two dogs run in the park", name, language="de", references=["a cat sits"]) is None


def test_its_captions_are_no_side_of_japanese_against_english(german):
    def rated(text, language, number):
        return CaptionSample(text, rating=Rating((0.5,)), language=language, group=str(number % 4))

    both = [rated("犬が走る" if n < 4 else "a dog runs", "ja" if n < 4 else "en", n) for n in range(8)]
    more = [*both, *(rated("ein Hund", "de", n) for n in range(4))]
    score = Scored("length", lambda given: np.array([float(len(one.candidate)) for one in given]))
    tables = [language_table([score], given, n_resamples=0) for given in (both, more)]
    assert tables[0].as_dict() == tables[1].as_dict()

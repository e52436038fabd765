"""The simplest baselines: shared words and caption length. A metric worth its cost beats them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from suisei.data.sample import CaptionSample, language_of
from suisei.metrics.base import Metric
from suisei.metrics.ngrams import TokenMetric
from suisei.metrics.tokenizers import Tokenizer, Tokens, get_tokenizer

TYPICAL_LENGTH = {"en": 10.0, "ja": 20.0}
"""The length that counts as 1: characters for Japanese, words for English and any other language. Captions
that people write are about this long; the constants only make languages comparable and move no ranking."""


class UnigramF1(TokenMetric):
    """F1 of the tokens shared with a reference, the best over the references; 0 to 1.

    Tokens are counted with their multiplicity. Without MeCab the Japanese tokens are characters.
    """

    name = "unigram-f1"

    def settings(self) -> dict[str, str]:
        """Return tokenizer and how references are combined."""
        return {**super().settings(), "refs": "max"}

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        tokenized = self.tokenize(samples)
        captions = {tokens for sample in tokenized for tokens in (sample.candidate, *sample.references)}
        counts = {tokens: Counter(tokens) for tokens in captions}
        return np.array(
            [
                max(_f1(counts, sample.candidate, reference) for reference in sample.references)
                for sample in tokenized
            ]
        )


def _f1(counts: dict[Tokens, Counter[str]], candidate: Tokens, reference: Tokens) -> float:
    """Return 2 * shared / (all tokens of both), 0 where neither has a token."""
    ours, theirs = counts[candidate], counts[reference]
    shared = sum(min(count, theirs[token]) for token, count in ours.items() if token in theirs)
    total = len(candidate) + len(reference)
    return 2 * shared / total if total else 0.0


class Length(Metric):
    """How long the candidate is: its words / 10 in English, its characters / 20 in Japanese.

    Words are those of the "ptb" tokenizer, characters those that are neither space nor punctuation.
    Not bounded: a caption of twice the typical length scores 2.
    """

    name = "length"
    reads = frozenset()

    def settings(self) -> dict[str, str]:
        """Return the units and what counts as 1."""
        words, characters = (f"{TYPICAL_LENGTH[language]:g}" for language in ("en", "ja"))
        return {"unit": f"en-words/{words},ja-characters/{characters}", "tok": _measure().signature}

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        return np.array([_length(sample, sample.candidate) for sample in samples])


class LengthRatio(Metric):
    """How close the candidate's length is to a reference's: shorter / longer, the best; 0 to 1."""

    name = "length-ratio"
    needs = frozenset({"references"})

    def settings(self) -> dict[str, str]:
        """Return the units and how references are combined."""
        return {"unit": "en-words,ja-characters", "tok": _measure().signature, "refs": "max"}

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        scores = []
        for sample in samples:
            candidate = _count(sample, sample.candidate)
            lengths = [_count(sample, reference) for reference in sample.references]
            scores.append(max(_ratio(candidate, length) for length in lengths))
        return np.array(scores)


class Distinct2(Metric):
    """Share of the candidate's bigrams that are distinct (Li et al., 2016); 1 says nothing twice.

    Bigrams of words in English, of characters in Japanese. A caption of one token scores 1. Low for the
    repetition that captioning models fall into, which overlap with references does not punish.
    """

    name = "distinct-2"
    reads = frozenset()

    def settings(self) -> dict[str, str]:
        """Return the units."""
        return {"unit": "en-words,ja-characters", "tok": _measure().signature}

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        return np.array([_distinct(sample) for sample in samples])


class Japanese(Metric):
    """1 for a Japanese caption, 0 for another: no measure of quality but an input of bilingual models.

    What overlap is worth, and how strict raters were, differs between languages and data sets.
    """

    name = "japanese"
    reads = frozenset()

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        languages = [language_of(sample) for sample in samples]
        return np.array([float(language == "ja") for language in languages])


def _distinct(sample: CaptionSample) -> float:
    tokens = _measure()(sample.candidate, language_of(sample))
    bigrams = list(pairwise(tokens))
    return len(set(bigrams)) / len(bigrams) if bigrams else 1.0


def _ratio(one: int, other: int) -> float:
    longer = max(one, other)
    return min(one, other) / longer if longer else 0.0


def _measure() -> Tokenizer:
    return get_tokenizer("ptb+character")


def _length(sample: CaptionSample, text: str) -> float:
    return _count(sample, text) / TYPICAL_LENGTH["ja" if language_of(sample) == "ja" else "en"]


def _count(sample: CaptionSample, text: str) -> int:
    return len(_measure()(text, language_of(sample)))

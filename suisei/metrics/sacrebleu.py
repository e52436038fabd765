"""sacreBLEU and chrF by the sacrebleu library, with its own conventions and its scale of 0 to 100."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from suisei.data.sample import CaptionSample, language_of
from suisei.metrics.base import Metric
from suisei.metrics.tokenizers import get_tokenizer


class _LibraryMetric(Metric):
    """What both share: sentence scores one by one, and the library's own corpus score."""

    needs = frozenset({"references"})

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        beside: dict[tuple[str, ...], list[tuple[int, str]]] = {}
        for place, sample in enumerate(samples):
            candidate, references = self._prepare(sample)
            beside.setdefault(tuple(references), []).append((place, candidate))
        scores = np.empty(len(samples))
        for same, candidates in beside.items():  # references that are looked at once
            for place, score in self._sentence_scores(same, candidates):
                scores[place] = score
        return scores

    def _sentence_scores(
        self, references: Sequence[str], candidates: Sequence[tuple[int, str]]
    ) -> Iterator[tuple[int, float]]:
        """Yield the library's sentence score of candidates with the same references, each with its number."""
        scorer = self._sentence_scorer
        (found,) = scorer._cache_references([[text] for text in references])
        for number, candidate in candidates:
            counts = scorer._compute_segment_statistics(scorer._preprocess_segment(candidate), found)
            yield number, scorer._aggregate_and_compute([counts]).score

    def sample_statistics(self, samples: Sequence[CaptionSample]) -> np.ndarray:
        """Return the library's counts of each sample, int64 [N, K]."""
        prepared = [self._prepare(sample) for sample in samples]
        most = max(len(references) for _, references in prepared)
        streams = [
            [references[number] if number < len(references) else None for _, references in prepared]
            for number in range(most)
        ]
        counts = self._corpus_scorer._extract_corpus_statistics([text for text, _ in prepared], streams)
        return np.array(counts)

    def corpus_from_statistics(self, totals: np.ndarray) -> np.ndarray:
        """Return the library's corpus score of each row of summed counts."""
        compute = self._corpus_scorer._compute_score_from_stats
        return np.array([compute(total).score for total in np.rint(totals).astype(np.int64).tolist()])

    def settings(self) -> dict[str, str]:
        """Return the library's own signature, its separators replaced by ours."""
        # the library writes its signature only after a score, since it counts the references
        sentence, corpus = self._sentence_scorer, self._corpus_scorer
        sentence.sentence_score("a", ["a"])
        corpus.corpus_score(["a"], [["a"]])
        both = zip(_fields(sentence), _fields(corpus), strict=True)
        return {"sacrebleu": ",".join(_said(own, other) for own, other in both)}

    @property
    @abstractmethod
    def _sentence_scorer(self) -> Any:
        """The library's scorer for one sentence."""

    @property
    @abstractmethod
    def _corpus_scorer(self) -> Any:
        """The library's scorer for a corpus."""

    @abstractmethod
    def _prepare(self, sample: CaptionSample) -> tuple[str, list[str]]:
        """Return candidate and references as the library shall read them."""


def _fields(scorer: Any) -> list[str]:
    """Return the fields of a scorer's signature, without how many references there are."""
    fields = str(scorer.get_signature()).split("|")
    return [field.replace(":", "=") for field in fields if not field.startswith("nrefs")]


def _said(sentence: str, corpus: str) -> str:
    """Return one field of both, which says where they differ."""
    if sentence == corpus:
        return sentence
    return f"{sentence}-sentence/{corpus.partition('=')[2]}-corpus"


class SacreBleu(_LibraryMetric):
    """BLEU by sacrebleu (Post, 2018), exponentially smoothed; 0 to 100.

    A sentence uses only the orders it is long enough for (the library's effective order), a corpus
    all four, as the library's own functions do. English captions are cut by the library's "13a"
    tokenizer. For Japanese the library needs a second MeCab binding, so captions are cut by this
    package's tokenizer and the library is told not to cut again.

    Args:
        tokenizer: for the Japanese captions; see :func:`suisei.metrics.tokenizers.get_tokenizer`.
    """

    name = "sacrebleu"

    def __init__(self, tokenizer: str = "auto") -> None:
        from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

        self.tokenizer = get_tokenizer(tokenizer)
        self._english = Tokenizer13a()

    def settings(self) -> dict[str, str]:
        """Return the tokenizers and the library's signature."""
        parts = self.tokenizer.signature.split("+")
        return {"tok": f"en-13a+{parts[-1]}", **super().settings()}

    @cached_property
    def _sentence_scorer(self) -> Any:
        from sacrebleu.metrics.bleu import BLEU

        return BLEU(tokenize="none", effective_order=True, force=True)

    @cached_property
    def _corpus_scorer(self) -> Any:
        from sacrebleu.metrics.bleu import BLEU

        return BLEU(tokenize="none", force=True)

    def _prepare(self, sample: CaptionSample) -> tuple[str, list[str]]:
        if language_of(sample) != "ja":
            return self._english(sample.candidate), [self._english(text) for text in sample.references]
        texts = (sample.candidate, *sample.references)
        cut = self.tokenizer.many([(text, "ja") for text in texts])
        candidate, *references = (" ".join(tokens) for tokens in cut)
        return candidate, references


class ChrF(_LibraryMetric):
    """chrF (Popović, 2015) by sacrebleu: character 6-gram F2-score, space ignored; 0 to 100.

    Reads captions as they are, so it needs no tokenizer in either language.
    """

    name = "chrf"

    @cached_property
    def _sentence_scorer(self) -> Any:
        from sacrebleu.metrics.chrf import CHRF

        return CHRF()

    @property
    def _corpus_scorer(self) -> Any:
        return self._sentence_scorer

    def _prepare(self, sample: CaptionSample) -> tuple[str, list[str]]:
        return sample.candidate, list(sample.references)

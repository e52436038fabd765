"""BLEU-1 to BLEU-4 as the COCO caption evaluation computes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError
from suisei.metrics.ngrams import MAX_ORDER, LastCorpus, Ngram, TokenMetric, ngram_counts
from suisei.metrics.tokenizers import TokenizedSample, Tokens

_COUNT_FLOOR = 1e-15
_TOTAL_FLOOR = 1e-9

_last_statistics: LastCorpus[np.ndarray] = LastCorpus()


class Bleu(TokenMetric):
    """BLEU (Papineni et al., 2002), the geometric mean of clipped n-gram precisions, in [0, 1].

    Counts are clipped to their maximum over the references; the brevity penalty exp(1 - r/c) takes
    the reference length closest to the candidate's (the shorter of two equally close). A sentence
    score has no smoothing but 1e-15 on matches and 1e-9 on totals, so a candidate without a single
    4-gram match has a BLEU-4 of about 1e-4. The corpus score is computed from summed counts.

    Args:
        n: the longest n-gram, 1 to 4.
        tokenizer: see :func:`suisei.metrics.tokenizers.get_tokenizer`.

    Raises:
        ConfigError: ``n`` is out of range.
    """

    def __init__(self, n: int = MAX_ORDER, tokenizer: str = "auto") -> None:
        if not 1 <= n <= MAX_ORDER:
            raise ConfigError(f"BLEU's n must be from 1 to {MAX_ORDER}, got {n}")
        super().__init__(tokenizer)
        self.n = n
        self.name = f"bleu-{n}"

    def settings(self) -> dict[str, str]:
        """Return tokenizer and the conventions that BLEU figures differ in."""
        return {**super().settings(), "len": "closest", "smooth": "none"}

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        return bleu_from_statistics(self.sample_statistics(samples), self.n)

    def corpus_from_statistics(self, totals: np.ndarray) -> np.ndarray:
        """Return the corpus score of each row of summed counts."""
        return bleu_from_statistics(totals, self.n)

    def sample_statistics(self, samples: Sequence[CaptionSample]) -> np.ndarray:
        """Return the counts of each sample, int64 [N, 10]; their sums give a corpus score."""
        return _last_statistics.get(self.corpus_key(samples), lambda: bleu_statistics(self.tokenize(samples)))


def bleu_statistics(samples: Sequence[TokenizedSample]) -> np.ndarray:
    """Count what BLEU needs.

    Returns:
        int64 of shape [N, 10]: candidate length, closest reference length, the clipped matches of
        each order from 1 to 4, and the candidate's number of n-grams of each order.
    """
    candidates: dict[Tokens, list[dict[Ngram, int]]] = {}
    maxima: dict[tuple[Tokens, ...], list[dict[Ngram, int]]] = {}
    rows = []
    for sample in samples:
        tokens, references = sample.candidate, sample.references
        if tokens not in candidates:
            candidates[tokens] = ngram_counts(tokens)
        if references not in maxima:
            maxima[references] = _maximum_counts(references)
        matches = [
            sum(min(counts[ngram], most[ngram]) for ngram in counts.keys() & most.keys())
            for counts, most in zip(candidates[tokens], maxima[references], strict=True)
        ]
        length = len(tokens)
        closest = min((abs(len(reference) - length), len(reference)) for reference in references)[1]
        totals = [max(0, length - order) for order in range(MAX_ORDER)]
        rows.append([length, closest, *matches, *totals])
    return np.array(rows, dtype=np.int64).reshape(len(rows), 2 + 2 * MAX_ORDER)


def _maximum_counts(references: tuple[Tokens, ...]) -> list[dict[Ngram, int]]:
    """Return, per order, the largest count of each n-gram in any one reference."""
    maxima: list[dict[Ngram, int]] = [{} for _ in range(MAX_ORDER)]
    for reference in references:
        for most, counts in zip(maxima, ngram_counts(reference), strict=True):
            for ngram, count in counts.items():
                if count > most.get(ngram, 0):
                    most[ngram] = count
    return maxima


def bleu_from_statistics(statistics: np.ndarray, n: int) -> np.ndarray:
    """Return BLEU-n of each row of :func:`bleu_statistics` (or of a sum of rows).

    Args:
        statistics: [N, 10] integers.
        n: the longest n-gram.

    Returns:
        float64 of shape [N].
    """
    length, closest = statistics[:, 0].astype(np.float64), statistics[:, 1].astype(np.float64)
    matches = statistics[:, 2 : 2 + n].astype(np.float64)
    totals = statistics[:, 2 + MAX_ORDER : 2 + MAX_ORDER + n].astype(np.float64)
    precisions = (matches + _COUNT_FLOOR) / (totals + _TOTAL_FLOOR)
    ratio = (length + _COUNT_FLOOR) / (closest + _TOTAL_FLOOR)
    brevity = np.exp(1 - 1 / np.minimum(ratio, 1.0))
    return precisions.prod(axis=1) ** (1 / n) * brevity

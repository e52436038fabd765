"""How often a caption says something again, which overlap with references hardly punishes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError
from suisei.metrics.ngrams import MAX_ORDER, TokenMetric, ngrams


class Repetition(TokenMetric):
    """Share of the candidate's n-grams that it has said before; 0 says nothing twice.

    (n-grams - distinct n-grams) / n-grams; a caption of fewer than n tokens scores 0. The corpus score is the
    same share of the n-grams of all captions, each caption counted by itself. What a captioner falls into
    that is rewarded by image-text similarity alone (Sarto et al., 2024, section 5.7).

    Args:
        n: length of the n-grams, 1 to 4.
        tokenizer: a name that :func:`suisei.metrics.tokenizers.get_tokenizer` knows.
    """

    needs = frozenset()
    higher_is_better = False

    def __init__(self, n: int = 4, tokenizer: str = "auto") -> None:
        if n not in range(1, MAX_ORDER + 1):
            raise ConfigError(f"repetition is counted for n-grams of 1 to {MAX_ORDER} tokens, got {n}")
        super().__init__(tokenizer)
        self.n = n
        self.name = f"repetition-{n}"

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        return share(self.sample_statistics(samples))

    def corpus_score(self, samples: Sequence[CaptionSample], scores: np.ndarray) -> float:
        """Return the share of repeated n-grams in all captions that have a score."""
        scored = [sample for sample, score in zip(samples, scores, strict=True) if not np.isnan(score)]
        counts = self.sample_statistics(scored).sum(axis=0, keepdims=True)
        return float(self.corpus_from_statistics(counts)[0])

    def sample_statistics(self, samples: Sequence[CaptionSample]) -> np.ndarray:
        """Return the numbers of repeated n-grams and of n-grams of each sample, int64 [N, 2]."""
        rows = []
        for sample in self.tokenize(samples):
            found = list(ngrams(sample.candidate, self.n))
            rows.append([len(found) - len(set(found)), len(found)])
        return np.array(rows, dtype=np.int64).reshape(len(rows), 2)

    def corpus_from_statistics(self, totals: np.ndarray) -> np.ndarray:
        """Return the share of each row of summed counts, float64 [B]."""
        return share(totals)


def share(counts: np.ndarray) -> np.ndarray:
    """Return part / whole of counts [N, 2], 0 where the whole is 0.

    >>> share(np.array([[1, 4], [0, 0]])).tolist()
    [0.25, 0.0]
    """
    part, whole = counts[:, 0].astype(np.float64), counts[:, 1].astype(np.float64)
    return np.divide(part, whole, out=np.zeros(len(counts)), where=whole > 0)


def corpus_distinct(captions: Sequence[Sequence[str]], n: int) -> float:
    """Return the share of distinct n-grams among those of all captions (Li et al., 2016); 0 without any.

    Low where captions are alike. It falls with the number of captions: compare only as many.

    Args:
        captions: the tokens of each caption.
        n: length of the n-grams.
    """
    found = [ngram for tokens in captions for ngram in ngrams(tuple(tokens), n)]
    return len(set(found)) / len(found) if found else 0.0

"""How often a caption says something again, which overlap with references hardly punishes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError
from suisei.metrics.ngrams import MAX_ORDER, TokenMetric, ngrams
from suisei.metrics.share import ShareMetric


class Repetition(ShareMetric, TokenMetric):
    """Share of the candidate's n-grams that it has said before; 0 says nothing twice.

    (n-grams - distinct n-grams) / n-grams; a caption of fewer than n tokens scores 0. The corpus score is the
    same share of the n-grams of all captions, each caption counted by itself. What a captioner falls into
    that is rewarded by image-text similarity alone (Sarto et al., 2024, section 5.7).

    Args:
        n: length of the n-grams, 1 to 4.
        tokenizer: a name that :func:`suisei.metrics.tokenizers.get_tokenizer` knows.
    """

    needs = reads = frozenset()
    higher_is_better = False
    largest = 1.0

    def __init__(self, n: int = 4, tokenizer: str = "auto") -> None:
        if n not in range(1, MAX_ORDER + 1):
            raise ConfigError(f"repetition is counted for n-grams of 1 to {MAX_ORDER} tokens, got {n}")
        super().__init__(tokenizer)
        self.n = n
        self.name = f"repetition-{n}"

    def counts(self, samples: Sequence[CaptionSample]) -> Iterator[tuple[int, int]]:
        """Return the numbers of repeated n-grams and of n-grams of each sample."""
        for sample in self.tokenize(samples):
            found = list(ngrams(sample.candidate, self.n))
            yield len(found) - len(set(found)), len(found)


def corpus_distinct(captions: Sequence[Sequence[str]], n: int) -> float:
    """Return the share of distinct n-grams among those of all captions (Li et al., 2016); 0 without any.

    Low where captions are alike. It falls with the number of captions: compare only as many.

    Args:
        captions: the tokens of each caption.
        n: length of the n-grams.
    """
    found = [ngram for tokens in captions for ngram in ngrams(tuple(tokens), n)]
    return len(set(found)) / len(found) if found else 0.0

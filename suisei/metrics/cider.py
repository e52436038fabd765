"""CIDEr-D as the COCO caption evaluation computes it, with its idf fitted apart from scoring."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from suisei.cli import counted
from suisei.data.given_samples import as_samples
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, DataError
from suisei.metrics.ngrams import MAX_ORDER, Ngram, TokenMetric, ngram_counts, ngrams
from suisei.metrics.tokenizers import TokenizedSample, Tokens, signature_now
from suisei.models.packed_counts import PackedCounts

SIGMA = 6.0
"""Width of the Gaussian penalty on the difference in length, in bigrams."""

_CHUNK = 4096  # samples tokenized together in fitting


@dataclass(frozen=True, slots=True)
class _Vector:
    """A caption's tf-idf weights per n-gram order, their Euclidean norms, and its bigram count."""

    weights: list[dict[Ngram, float]]
    norms: list[float]
    length: int


class Cider(TokenMetric):
    """CIDEr-D (Vedantam et al., 2015), ten times a mean tf-idf cosine; 0 to 10.

    For each order n from 1 to 4 the cosine of candidate and reference, the candidate's weights
    clipped to the reference's, times exp(-d^2 / (2 * 6^2)) with d the difference in the number of
    bigrams; then the mean over orders and references, times 10. No stemming. The weight of an
    n-gram is its count times ln(documents) - ln(max(1, document frequency)); a document is the
    reference set of one sample given to :meth:`fit`.

    The COCO code counts document frequencies on whatever it scores; call ``fit`` with the samples
    you are about to score for its figures. Candidates are never counted.
    """

    name = "cider"

    def __init__(self, tokenizer: str = "auto") -> None:
        super().__init__(tokenizer)
        self._documents = 0
        self._frequency: Mapping[str, int] = {}  # of n-grams joined by spaces, as in files
        self._idf: dict[Ngram, float] = {}  # of those that were asked for

    def fit(self, samples: Iterable[CaptionSample] | Any) -> None:
        """Count in how many samples' references each n-gram occurs.

        Args:
            samples: as :meth:`Metric.score` takes them.

        Raises:
            DataError: fewer than two samples have references, or all have the same ones, so that
                every idf, and with it every score, would be 0.
        """
        self.fit_stream(as_samples(samples))

    def fit_stream(self, samples: Iterable[CaptionSample]) -> None:
        """Count as :meth:`fit` does, holding a few thousand samples at a time.

        Raises:
            DataError: see :meth:`fit`.
        """
        usable = (sample for sample in samples if sample.references)
        documents = 0
        frequency: Counter[Ngram] = Counter()
        while chunk := list(islice(usable, _CHUNK)):
            documents += len(chunk)
            sets = Counter(sample.references for sample in self.tokenize(chunk))
            for references, times in sets.items():
                for ngram in _distinct_ngrams(references):
                    frequency[ngram] += times
        if documents < 2:
            raise DataError(
                "CIDEr weighs n-grams by how rare they are among images, and got "
                f"{counted(documents, 'sample')} with references to learn that from; fit it on a corpus of "
                "many images"
            )
        _require_contrast(frequency, documents)
        self._keep(documents, {" ".join(ngram): count for ngram, count in frequency.items()})

    @property
    def needs_fit(self) -> bool:
        """True until :meth:`fit` or :meth:`load_state` has given document frequencies."""
        return self._documents == 0

    def state(self) -> dict[str, Any]:
        """Return tokenizer, number of documents and document frequencies (n-gram joined by spaces)."""
        frequency = dict(sorted(self._frequency.items(), key=lambda item: item[0].split(" ")))
        return {
            "tokenizer": self.tokenizer.signature,
            "documents": self._documents,
            "document_frequency": frequency,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state` returned.

        Raises:
            ConfigError: the state was fitted with another tokenizer, or is malformed.
        """
        try:
            tokenizer, documents = state["tokenizer"], int(state["documents"])
            frequency, least, most = _frequency(state["document_frequency"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(f"this is not a saved CIDEr state: {type(error).__name__} {error}") from error
        if documents < 2 or not 0 < least <= most <= documents:
            raise ConfigError(
                f"this is not a saved CIDEr state: {documents} documents, which is too few or fewer than "
                "an n-gram occurs in"
            )
        if signature_now(str(tokenizer)) != self.tokenizer.signature:
            raise ConfigError(
                f"the CIDEr state was fitted with tokenizer {tokenizer}, this one uses "
                f"{self.tokenizer.signature}; fit again or choose the same tokenizer"
            )
        self._keep(documents, frequency)

    def _keep(self, documents: int, frequency: Mapping[str, int]) -> None:
        self._documents, self._frequency, self._idf = documents, frequency, {}

    def _weight(self, ngram: Ngram) -> float:
        """Return the idf of an n-gram; a large table is not turned around to score one row."""
        found = self._idf.get(ngram)
        if found is None:
            count = self._frequency.get(" ".join(ngram))
            if count is None:
                return math.log(self._documents)
            found = self._idf[ngram] = math.log(self._documents) - math.log(count)
        return found

    def settings(self) -> dict[str, str]:
        """Return tokenizer, variant and the size of the corpus that the idf comes from."""
        idf = "unfitted" if self.needs_fit else f"{self._documents}-documents"
        return {**super().settings(), "variant": "d", "sigma": f"{SIGMA:g}", "idf": idf}

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        if self.needs_fit:
            raise ConfigError(
                "CIDEr needs document frequencies: call fit(samples) on the evaluated corpus first, "
                "or load_state() with saved ones"
            )
        tokenized = self.tokenize(samples)
        captions = {caption for sample in tokenized for caption in (sample.candidate, *sample.references)}
        vectors = {caption: self._vector(caption) for caption in captions}
        return np.array([_score_one(sample, vectors) for sample in tokenized])

    def _vector(self, tokens: Tokens) -> _Vector:
        weights, norms = [], []
        for counts in ngram_counts(tokens):
            order = {ngram: count * self._weight(ngram) for ngram, count in counts.items()}
            weights.append(order)
            norms.append(math.sqrt(sum(weight * weight for weight in order.values())))
        return _Vector(weights, norms, max(0, len(tokens) - 1))


def _frequency(given: Any) -> tuple[Mapping[str, int], int, int]:
    """Return saved document frequencies, the least and the largest of them; packed ones stay packed."""
    if isinstance(given, PackedCounts) and given.numbers.dtype.kind == "i" and len(given.numbers):
        return given, int(given.numbers.min()), int(given.numbers.max())
    frequency = {ngram: int(count) for ngram, count in dict(given).items()}
    counts = frequency.values()
    return frequency, min(counts, default=1), max(counts, default=1)


def _distinct_ngrams(references: tuple[Tokens, ...]) -> set[Ngram]:
    orders = range(1, MAX_ORDER + 1)
    return {ngram for reference in references for order in orders for ngram in ngrams(reference, order)}


def _require_contrast(frequency: Counter[Ngram], documents: int) -> None:
    """Refuse frequencies that make every weight 0, rather than score everything 0."""
    if not frequency or min(frequency.values()) == documents:
        raise DataError(
            f"all {documents} samples have the same references, so every CIDEr weight is 0; "
            "fit it on a corpus of many images"
        )


def _score_one(sample: TokenizedSample, vectors: dict[Tokens, _Vector]) -> float:
    candidate = vectors[sample.candidate]
    total = sum(_similarity(candidate, vectors[reference]) for reference in sample.references)
    return 10.0 * total / MAX_ORDER / len(sample.references)


def _similarity(candidate: _Vector, reference: _Vector) -> float:
    """Return the sum over orders of the clipped cosines, times the length penalty."""
    total = 0.0
    for ours, theirs, our_norm, their_norm in zip(
        candidate.weights, reference.weights, candidate.norms, reference.norms, strict=True
    ):
        shared = [ngram for ngram in ours if ngram in theirs]  # in text order: sums repeat to the bit
        if shared and our_norm and their_norm:
            dot = sum(min(ours[ngram], theirs[ngram]) * theirs[ngram] for ngram in shared)
            total += dot / (our_norm * their_norm)
    difference = candidate.length - reference.length
    return total * math.exp(-(difference * difference) / (2 * SIGMA * SIGMA))

"""Coarse and fine matching of token and frame features: the arithmetic of EMScore.

Shape letters: L tokens of a caption, M tokens of another, F frames, d width of the shared space.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from suisei.data.idf import IdfTable
from suisei.data.writers import replacing
from suisei.errors import ModelError

MATCH_SCORES = ("full", "fine", "precision", "recall", "coarse")


@dataclass(frozen=True)
class Scores:
    """The parts of one match, each in [-1, 1], except that ``fine`` may leave it where P + R is near 0."""

    precision: float
    recall: float
    fine: float
    coarse: float

    @property
    def full(self) -> float:
        """The mean of the fine and the coarse score (Sarto et al., 2023, equation 7)."""
        return (self.fine + self.coarse) / 2

    def mean_with(self, other: Scores) -> Scores:
        """Return the mean of two matches, part by part."""
        return Scores(*((getattr(self, part) + getattr(other, part)) / 2 for part in _STORED))


_STORED = ("precision", "recall", "fine", "coarse")


@dataclass(frozen=True)
class Caption:
    """One caption's unit features.

    Attributes:
        tokens: float64 [L, d].
        whole: float64 [d], the caption as a whole.
        weights: float64 [L], the tokens' idf weights, none negative.
    """

    tokens: np.ndarray
    whole: np.ndarray
    weights: np.ndarray


def match_video(caption: Caption, frames: np.ndarray) -> Scores:
    """Match a caption with the unit features of frames, float64 [F, d] (2024, equations 7 and 9 to 12)."""
    mean = frames.mean(axis=0)
    length = np.linalg.norm(mean)
    of_tokens, of_frames = _matched(caption.tokens, frames)
    precision = _weighted_mean(of_tokens, caption.weights)
    recall = float(of_frames.mean())
    return Scores(precision, recall, _f1(precision, recall), float(caption.whole @ mean / (length or 1.0)))


def match_texts(candidate: Caption, reference: Caption) -> Scores:
    """Match a candidate with a reference; each side's maxima are weighted by its own idf."""
    of_candidate, of_reference = _matched(candidate.tokens, reference.tokens)
    precision = _weighted_mean(of_candidate, candidate.weights)
    recall = _weighted_mean(of_reference, reference.weights)
    return Scores(precision, recall, _f1(precision, recall), float(candidate.whole @ reference.whole))


def best_reference(matches: Sequence[Scores], *, separate: bool) -> Scores:
    """Return the match with the highest full score, or, if ``separate``, the highest of each part."""
    if separate:
        return Scores(*(max(getattr(match, part) for match in matches) for part in _STORED))
    return max(matches, key=lambda match: match.full)


def _matched(tokens: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    import torch

    from suisei.models.greedy_matching import greedy_match

    of_tokens, of_others = greedy_match(torch.from_numpy(tokens), torch.from_numpy(others))
    return of_tokens.numpy(), of_others.numpy()


def _weighted_mean(values: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted mean; the plain one where all weights are 0, as in a corpus of one caption."""
    total = weights.sum()
    return float(values @ weights / total) if total > 0 else float(values.mean())


def _f1(precision: float, recall: float) -> float:
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


@dataclass(frozen=True)
class TokenIdf:
    """Idf weights of tokens, ln((N + 1) / (df + 1)).

    Every caption holds the end of text, whose weight would be 0; as in EMScore's program it gets the
    mean weight of all tokens of the corpus instead, padding and its own 0 included.

    Attributes:
        table: the document frequencies.
        end: the id of the end of text.
        corpus: what it was fitted on, in a word.
    """

    table: IdfTable
    end: int
    corpus: str

    @cached_property
    def _weights(self) -> dict[int, float]:
        total = self.table.documents + 1
        weights = {id_: math.log(total / (count + 1)) for id_, count in self.table.frequencies.items()}
        weights[self.end] = sum(weights.values()) / max(len(weights), 1)
        return weights

    def weights(self, ids: np.ndarray) -> np.ndarray:
        """Return the weights of token ids int64 [L], float64 [L]; an unseen token weighs ln(N + 1)."""
        unseen = math.log(self.table.documents + 1)
        return np.array([self._weights.get(int(id_), unseen) for id_ in ids], dtype=np.float64)

    @property
    def label(self) -> str:
        """The corpus and its number of captions, for signatures."""
        return f"{self.corpus}-{self.table.documents}"

    def as_dict(self) -> dict[str, Any]:
        """Return values that JSON can hold."""
        frequencies = {str(id_): count for id_, count in self.table.frequencies.items()}
        return {
            "corpus": self.corpus,
            "end": self.end,
            "documents": self.table.documents,
            "frequencies": frequencies,
        }

    def save(self, path: Path) -> None:
        """Write the weights as JSON, which :func:`load_idf` reads."""
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(self.as_dict()), encoding="utf-8")

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> TokenIdf:
        """Restore what :meth:`as_dict` returned.

        Raises:
            ModelError: it is something else.
        """
        try:
            frequencies = {int(id_): int(count) for id_, count in content["frequencies"].items()}
            table = IdfTable(int(content["documents"]), frequencies)
            idf = cls(table, int(content["end"]), str(content["corpus"]))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ModelError(f"not idf weights of tokens ({type(error).__name__}: {error})") from None
        if table.documents < 1 or any(not 0 < count <= table.documents for count in frequencies.values()):
            raise ModelError(f"a token's count is not within 1 to documents={table.documents}")
        return idf


def load_idf(path: Path) -> TokenIdf:
    """Read idf weights that :meth:`TokenIdf.save` wrote.

    Raises:
        ModelError: the file is absent or something else.
    """
    try:
        return TokenIdf.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not a file of idf weights ({error})") from None

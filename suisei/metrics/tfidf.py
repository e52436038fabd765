"""Tf-idf of character n-grams with weights that were fitted before, without importing scikit-learn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

_SPACES = re.compile(r"\s\s+")


class CharTfidf:
    """What scikit-learn's ``TfidfVectorizer(analyzer="char", sublinear_tf=True)`` does once it is fitted.

    Args:
        terms: the n-grams, in the order of the columns.
        idf: their idf weights, float64 [terms].
        longest: longest n-gram, in characters.

    Attributes:
        vocabulary_: {n-gram: column}.
        idf_: float64 [terms].
    """

    def __init__(self, terms: Sequence[str], idf: np.ndarray, longest: int) -> None:
        self.vocabulary_ = dict(zip(terms, range(len(terms)), strict=True))
        self.idf_ = idf
        self.longest = longest

    def transform(self, texts: Sequence[str]) -> Any:
        """Return sparse rows of unit length, float64 [texts, terms]; n-grams outside do not count."""
        from scipy import sparse

        columns: list[int] = []
        counts: list[int] = []
        starts = [0]
        for text in texts:
            found = self._counts(text)
            columns += found.keys()
            counts += found.values()
            starts.append(len(columns))
        indices = np.array(columns, dtype=np.int32)
        values = (1.0 + np.log(np.array(counts, dtype=np.float64))) * self.idf_[indices]
        rows = np.repeat(np.arange(len(texts)), np.diff(starts))
        lengths = np.sqrt(np.bincount(rows, weights=values**2, minlength=len(texts)))
        values /= lengths[rows]
        shape = (len(texts), len(self.idf_))
        matrix = sparse.csr_matrix((values, indices, np.array(starts, dtype=np.int32)), shape=shape)
        matrix.sort_indices()
        return matrix

    def _counts(self, text: str) -> dict[int, int]:
        """Return {column: how often} of the known n-grams of a text."""
        folded = _SPACES.sub(" ", text.lower())
        column_of, found = self.vocabulary_.get, dict[int, int]()
        for length in range(1, self.longest + 1):
            for start in range(len(folded) - length + 1):
                column = column_of(folded[start : start + length])
                if column is not None:
                    found[column] = found.get(column, 0) + 1
        return found

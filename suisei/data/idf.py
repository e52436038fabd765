"""Inverse document frequencies of tokens, fitted once on training references and saved with the model."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from suisei.errors import DataError, ModelError


@dataclass(frozen=True, slots=True)
class IdfTable:
    """Document frequencies of token ids.

    The weight of a token is ``ln((N + 1) / (df + 1))`` (SuiSei, equation 2, smoothed as in the
    research code), so a token never seen in training weighs ``ln(N + 1)`` and one that is in every
    document weighs 0. Special tokens weigh 0. The table never changes after training: a score does
    not depend on what else is being scored.

    Attributes:
        documents: N, the number of reference captions that the table was fitted on.
        frequencies: {token id: number of documents that hold the token}.
    """

    documents: int
    frequencies: Mapping[int, int]

    @classmethod
    def fit(cls, documents: Iterable[Sequence[int]]) -> IdfTable:
        """Count in how many documents (token id sequences of training references) each token occurs.

        Raises:
            DataError: there is no document.
        """
        counts: Counter[int] = Counter()
        total = 0
        for total, document in enumerate(documents, start=1):  # noqa: B007 - total is the count
            counts.update({int(token) for token in document})
        if not total:
            raise DataError("idf needs at least one training reference; the training data has none")
        return cls(total, dict(sorted(counts.items())))

    def weights(self, vocabulary_size: int, special_ids: Iterable[int] = ()) -> np.ndarray:
        """Return float32 [vocabulary_size], the idf weight of every token id.

        Raises:
            ModelError: the table has a token beyond the vocabulary, so it belongs to another tokenizer.
        """
        largest = max(self.frequencies, default=0)
        if largest >= vocabulary_size:
            raise ModelError(f"the idf table has token {largest}, the vocabulary only {vocabulary_size}")
        weights = np.full(vocabulary_size, math.log(self.documents + 1), dtype=np.float64)
        for token, frequency in self.frequencies.items():
            weights[token] = math.log((self.documents + 1) / (frequency + 1))
        weights[list(special_ids)] = 0.0
        return weights.astype(np.float32)

    def save(self, path: Path) -> None:
        """Write the table as JSON."""
        content = {"documents": self.documents, "frequencies": self.frequencies}
        path.write_text(json.dumps(content), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> IdfTable:
        """Read a table written by :meth:`save`.

        Raises:
            ModelError: the file is not such a table.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            frequencies = {int(token): int(count) for token, count in content["frequencies"].items()}
            table = cls(int(content["documents"]), frequencies)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ModelError(f"{path}: not an idf table ({error}); restore the file or retrain") from None
        if any(token < 0 for token in frequencies):
            raise ModelError(f"{path}: a token id is negative; restore the file or retrain")
        if not 1 <= table.documents <= 2**53 or any(
            not 0 < n <= table.documents for n in frequencies.values()
        ):
            raise ModelError(f"{path}: a token's count is not within 1 to documents={table.documents}")
        return table

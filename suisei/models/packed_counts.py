"""A table of counts as a model folder holds it, which becomes a dictionary when it is first asked.

Of the model in the package it has 139,000 n-grams. To score one caption a few of them are asked for, and to
look at an image none; opening a model does not wait for what may not be needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np


class PackedCounts(Mapping[str, int]):
    """How often each of K texts occurs.

    Args:
        lines: the texts, a line each; of one that comes twice the last count holds.
        numbers: their counts, [K].

    Raises:
        ValueError: as many lines as numbers are needed.
    """

    def __init__(self, lines: str, numbers: np.ndarray) -> None:
        held = lines.count("\n") + 1 if len(numbers) or lines else 0
        if held != len(numbers):
            raise ValueError(f"{held:,} texts for {len(numbers):,} counts")
        self.numbers = numbers
        self._lines = lines
        self._table: dict[str, int] | None = None

    def _read(self) -> dict[str, int]:
        table = self._table  # threads that are first together make the same one
        if table is None:
            texts = self._lines.split("\n") if len(self.numbers) else []
            self._table = table = dict(zip(texts, self.numbers.tolist(), strict=True))
        return table

    def __getitem__(self, text: str) -> int:
        return self._read()[text]

    def get(self, text: str, default: Any = None) -> Any:
        """Return the count of a text, ``default`` where there is none."""
        return self._read().get(text, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

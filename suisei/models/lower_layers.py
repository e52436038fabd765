"""What the first layers of a text encoder say of captions, kept for a second model that reads with them.

Shape letters: T captions, L tokens (padded), d encoder width.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import compress

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


class LowerStates:
    """The states after so many layers, of captions that a second model will be asked of.

    Args:
        depth: how many layers.
        captions: the captions to keep; others pass by.
    """

    def __init__(self, depth: int, captions: Iterable[str]) -> None:
        self.depth = depth
        self._wanted = frozenset(captions)
        self._states: dict[str, Tensor] = {}

    def keep(self, captions: Sequence[str], states: Tensor, lengths: Sequence[int]) -> None:
        """Take the states [T, L, d] of captions of so many tokens each, special ones included."""
        # not slices of the padded states, which would keep all of them in memory
        wanted = [caption in self._wanted for caption in captions]
        counts = np.where(wanted, lengths, 0)
        places = torch.from_numpy(np.flatnonzero(np.arange(states.shape[1]) < counts[:, None]))
        own = states.flatten(0, 1).index_select(0, places.to(states.device)).split(counts.tolist())
        self._states |= dict(zip(compress(captions, wanted), compress(own, wanted), strict=True))

    def covers(self, captions: Collection[str]) -> bool:
        """Return whether there are states of all of these captions."""
        return all(caption in self._states for caption in captions)

    def padded(self, captions: Sequence[str]) -> Tensor:
        """Return the states of captions [T, L, d], 0 where there is no token."""
        return pad_sequence([self._states[caption] for caption in captions], batch_first=True)

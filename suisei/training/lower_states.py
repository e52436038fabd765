"""What the untrained lower layers of a text encoder say of every caption of a run, computed once.

Shape letters: T captions, L tokens (padded), d encoder width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from suisei.encoders.batch_sizes import tokens_per_batch
from suisei.encoders.text import TextEncoder
from suisei.models.features import token_batches


class LowerStates:
    """States below the trained layers, of all captions in one flat array of half precision.

    Args:
        text: the encoder, in evaluation mode.
        token_ids: token ids of every caption, T lists.
        trained: how many layers are trained.
        device: where the encoder is.
        advance: called with the number of captions of each batch.
    """

    def __init__(
        self,
        text: TextEncoder,
        token_ids: Sequence[Sequence[int]],
        trained: int,
        device: torch.device,
        advance: Callable[[int], Any],
    ) -> None:
        self._lengths = torch.tensor([len(ids) for ids in token_ids])
        self._starts = self._lengths.cumsum(0) - self._lengths
        self._states = torch.empty(int(self._lengths.sum()), text.width, dtype=torch.float16)
        lengths, budget = self._lengths.tolist(), tokens_per_batch(text.width, device.type)
        for rows in token_batches(lengths, budget):
            ids, mask = (part.to(device) for part in text.pad([token_ids[row] for row in rows]))
            with torch.inference_mode():
                said = text.below(ids, mask, trained).half().cpu()
            for place, row in enumerate(rows):
                start = int(self._starts[row])
                self._states[start : start + lengths[row]] = said[place, : lengths[row]]
            advance(len(rows))

    def of(self, rows: Tensor) -> Tensor:
        """Return the states of captions int64 [n], float32 [tokens, d] on the device of rows."""
        lengths, starts = self._lengths[rows.cpu()], self._starts[rows.cpu()]
        ends = lengths.cumsum(0)
        places = torch.arange(int(ends[-1])) + (starts - (ends - lengths)).repeat_interleave(lengths)
        return self._states.index_select(0, places).float().to(rows.device)

"""Greedy matching by cosine: every token with the most similar token of the other side.

The core of BERTScore (Zhang et al. 2020, equations 1 to 3), of EMScore, and of the alignment inputs.

Shape letters: L and M tokens of the two sides (padded), d width; leading dimensions are batches.
"""

from __future__ import annotations

import torch
from torch import Tensor

NOWHERE = -2.0
"""Cosine of a token with nothing: below every other."""


def greedy_match(
    tokens: Tensor, others: Tensor, present: Tensor | None = None, others_present: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the largest cosine of each token [..., L] and of each of the others [..., M].

    Args:
        tokens: vectors of unit length, [..., L, d].
        others: vectors of unit length, [..., M, d].
        present: bool [..., L], False for padding, which nothing is matched with; None: all are there.
        others_present: bool [..., M], likewise.
    """
    cosines = tokens @ others.transpose(-1, -2)
    of_tokens = (
        cosines if others_present is None else cosines.masked_fill(~others_present[..., None, :], NOWHERE)
    )
    of_others = cosines if present is None else cosines.masked_fill(~present[..., :, None], NOWHERE)
    return of_tokens.amax(dim=-1), of_others.amax(dim=-2)


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted mean over the last dimension; 0 where nothing weighs anything."""
    total = weights.sum(dim=-1)
    return (values * weights).sum(dim=-1) / torch.where(total > 0, total, 1.0)

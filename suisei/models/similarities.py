"""Cosines of a candidate and its references, as the regressor reads them.

Shape letters: B samples, R references (padded), P poolings, d text width.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from suisei.models.inputs import SIMILARITIES


def similarities(candidate: Tensor, references: Tensor, mask: Tensor) -> Tensor:
    """Return the largest, mean and smallest cosine over references, float32 [B, 3 * P].

    Args:
        candidate: [B, P, d].
        references: [B, R, P, d].
        mask: True where there is a reference, bool [B, R]; rows without one are NaN.
    """
    cosines = F.cosine_similarity(candidate[:, None].float(), references.float(), dim=-1)  # [B, R, P]
    outside, count = ~mask[..., None], mask.sum(dim=1).clamp(min=1)[:, None]
    if not mask.shape[1]:
        return cosines.new_full((len(mask), len(SIMILARITIES) * candidate.shape[1]), torch.nan)
    parts = [
        cosines.masked_fill(outside, -2.0).amax(dim=1),
        cosines.masked_fill(outside, 0.0).sum(dim=1) / count,
        cosines.masked_fill(outside, 2.0).amin(dim=1),
    ]
    return torch.cat(parts, dim=1).masked_fill(~mask.any(dim=1)[:, None], torch.nan)

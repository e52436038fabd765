"""The loss of RECAP's latent reconstruction (Chang et al., 2023, equation 1).

Shape letters: B captions, P positions, d width of the language model.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from suisei.models.latent import squared_distances


class LatentLoss(NamedTuple):
    """A loss and its parts, scalars.

    Attributes:
        total: what is minimised.
        mse: mean squared difference of guesses and targets.
        triplet: mean of max(0, margin + |target - guess| - |target - negative|); 0 without negatives.
    """

    total: Tensor
    mse: Tensor
    triplet: Tensor


def latent_loss(
    targets: Tensor,
    guesses: Tensor,
    negatives: Tensor,
    there: Tensor,
    *,
    mse_weight: float = 1.0,
    triplet_weight: float = 10.0,
    margin: float = 1.0,
) -> LatentLoss:
    """Return the loss of a batch: 1 x MSE + 10 x triplet in the paper.

    The paper states neither margin nor distance. Here they are PyTorch's defaults: 1, and the Euclidean
    distance, over all P d numbers of a caption together.

    Args:
        targets: mapped images, the anchors, float [B, P, d].
        guesses: of their captions, float [B, P, d].
        negatives: of captions made wrong, float [B, P, d].
        there: which captions have a negative, bool [B].
        mse_weight: weight of the first part.
        triplet_weight: weight of the second part.
        margin: by how much a negative is to be further away.
    """
    anchors, right, wrong = (part.flatten(1).float() for part in (targets, guesses, negatives))
    mse = squared_distances(right, anchors).mean()
    each = F.triplet_margin_loss(anchors, right, wrong, margin=margin, reduction="none")
    triplet = torch.where(there, each, torch.zeros_like(each)).sum() / there.sum().clamp(min=1)
    return LatentLoss(mse_weight * mse + triplet_weight * triplet, mse, triplet)

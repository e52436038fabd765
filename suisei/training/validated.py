"""What a validation counts, and what it finds."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from scipy.stats import kendalltau, pearsonr
from torch import Tensor

from suisei.models.batch import Batch
from suisei.models.regressor import Regressor


def scored(regressor: Regressor, batch: Batch, needs: Mapping[str, Collection[str]]) -> Tensor:
    """Return which samples the trained model will have a score of, bool [B].

    Args:
        regressor: the model.
        batch: the samples; nothing of theirs was dropped.
        needs: what each extra input needs, by name.
    """
    if regressor.start is None:  # which judges a candidate without anything to compare it with
        return torch.ones_like(batch.image_mask)
    there = batch.reference_mask.any(dim=1)
    if regressor.looks(compared=False):
        there = there | batch.image_mask
    looking = regressor.columns.needing("image", needs)
    return there | ~batch.extras[:, looking].isnan().all(dim=1) if looking else there


def correlations(scores: Tensor, target: Tensor) -> tuple[float, float]:
    """Return Pearson and Kendall's tau-b of scores and ratings [N]; NaN where one of them does not vary."""
    if len(scores) <= 2 or not float(scores.std()) > 0 or not float(target.std()) > 0:
        return float("nan"), float("nan")
    return float(pearsonr(scores, target).statistic), float(kendalltau(scores, target).statistic)

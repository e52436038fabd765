"""What is lowered in training on ratings: the squared error, and what goes beside it.

Shape letters: B samples, Q pairs of captions, P poolings, d text width.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from suisei.models.batch import Batch
from suisei.models.cosine_start import Line
from suisei.models.regressor import Outputs
from suisei.ranges import Range, Rule, check_settings

PAIR_MARGIN = 0.2
"""How far, as a logit, a degraded caption should be below the one it was made of."""
PAIR_STEEPNESS = 4.0
START_SHARE = 0.3
"""Weight of a pair's loss on what the cosine alone says, beside that on the score."""
RULES: dict[str, Rule] = dict.fromkeys(("cosine_weight", "pair_weight", "support_weight"), Range(0, 1000))


@dataclass
class LossConfig:
    """What is lowered beside the squared error of the score, and how much each counts.

    Attributes:
        cosine_weight: of the squared error of what the cosine alone says (``model.head.start``), so that the
            encoder learns, and not the network beside it alone.
        pair_weight: of ranking a caption of ``data.synthetic`` that was degraded below the one it was made
            of; both are in a batch where ``data.batching`` keeps images together.
        support_weight: of the squared error on rated pairs of captions of ``data.support``, through a line of
            their own, a few in every step of ``data.batching: balanced``.
    """

    cosine_weight: float = 0.0
    pair_weight: float = 0.0
    support_weight: float = 0.0

    def __post_init__(self) -> None:
        check_settings("model.loss", self, RULES)


class Objective(nn.Module):
    """The loss of a batch.

    Args:
        config: the settings.

    Attributes:
        support: the line through the cosine of pairs of captions.
    """

    def __init__(self, config: LossConfig) -> None:
        super().__init__()
        self.config = config
        self.support = Line() if config.support_weight else None

    def forward(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the loss, a scalar.

        Every member answers for its own error, so that members differ as much as they would alone. Where
        several data sets meet in a batch, each counts by its mean, so that a small one counts as much.
        """
        loss = _by_source((torch.sigmoid(outputs.logits) - batch.target).square(), batch.source)
        if self.config.cosine_weight and outputs.start is not None:
            errors = (torch.sigmoid(outputs.start) - batch.target).square()
            loss = loss + self.config.cosine_weight * _by_source(errors, batch.source)
        if self.config.pair_weight and batch.original is not None:
            loss = loss + self.config.pair_weight * _order(outputs, batch.original, batch.source)
        if self.support is not None and batch.pairs is not None and batch.pair_target is not None:
            rated = torch.sigmoid(self.support(pair_cosines(outputs.vectors, batch.pairs)))
            loss = loss + self.config.support_weight * F.mse_loss(rated, batch.pair_target)
        return loss


def pair_cosines(vectors: Tensor, pairs: Tensor) -> Tensor:
    """Return the cosine of each pair [Q], the mean over poolings.

    Args:
        vectors: of the batch's captions, [T, P, d].
        pairs: positions of two of them, int64 [Q, 2].
    """
    return F.cosine_similarity(vectors[pairs[:, 0]].float(), vectors[pairs[:, 1]].float(), dim=-1).mean(dim=1)


def _by_source(errors: Tensor, source: Tensor | None) -> Tensor:
    """Return the sum over data sets of the mean of errors [..., B]."""
    if source is None:
        return errors.mean()
    return torch.stack([errors[..., source == one].mean() for one in source.unique()]).sum()


def _order(outputs: Outputs, original: Tensor, source: Tensor | None) -> Tensor:
    """Return how far degraded samples are from being below what they were made of, a scalar."""
    degraded = (original >= 0).nonzero().squeeze(1)
    if not len(degraded):
        return outputs.logits.new_zeros(())
    of = None if source is None else source[degraded]
    total = outputs.logits.new_zeros(())
    for logits, weight in ((outputs.logits, 1.0), (outputs.start, START_SHARE)):
        if logits is not None:
            above = logits[..., degraded] - logits[..., original[degraded]] + PAIR_MARGIN
            total = total + weight * _by_source(F.softplus(PAIR_STEEPNESS * above) / PAIR_STEEPNESS, of)
    return total

"""What is lowered in training on ratings: the squared error, and what goes beside it.

Shape letters: B samples, Q pairs of captions, P poolings, d text width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from suisei.models.batch import Batch
from suisei.models.cosine_start import Line
from suisei.models.regressor import Outputs
from suisei.ranges import Range, Rule, check_settings
from suisei.training.processes import total

PAIR_MARGIN = 0.2
"""How far, as a logit, a degraded caption should be below the one it was made of."""
PAIR_STEEPNESS = 4.0
START_SHARE = 0.3
"""Weight of a pair's loss on what the cosine alone says, beside that on the score."""
MOST_SETS = 100
"""Data sets of one training, at most."""
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
        Of a batch that several processes share, this is the part of this one: the sum of all is the loss.
        """
        samples, degraded, pairs = (None, None, None) if batch.place is None else _counts(batch)
        means = Means(batch.source, samples, batch.counted)
        loss = means((torch.sigmoid(outputs.logits) - batch.target).square())
        if self.config.cosine_weight and outputs.start is not None:
            errors = (torch.sigmoid(outputs.start) - batch.target).square()
            loss = loss + self.config.cosine_weight * means(errors)
        if self.config.pair_weight and batch.original is not None:
            loss = loss + self.config.pair_weight * _order(outputs, batch, degraded)
        if self.support is not None and batch.pairs is not None and batch.pair_target is not None:
            rated = torch.sigmoid(self.support(pair_cosines(outputs.vectors, batch.pairs)))
            errors = F.mse_loss(rated, batch.pair_target, reduction="none")
            loss = loss + self.config.support_weight * Means(None, pairs)(errors)
        return loss


class Means:
    """Means of errors over samples, or this process's part of them.

    Args:
        source: the data set of every sample, int64 [B]; None where there is but one.
        counts: samples of every data set in the batches of all processes; None where there is one process.
        counted: 0 where none of the samples count.
    """

    def __init__(self, source: Tensor | None, counts: Sequence[int] | None = None, counted: int = 1) -> None:
        self.source, self.counts, self.counted = source, counts, counted

    def __call__(self, errors: Tensor) -> Tensor:
        """Return the sum over data sets of the mean of errors [..., B]."""
        if self.counts is None:
            return _by_source(errors, self.source)
        if not self.counted:
            return errors.sum() * 0
        rows = errors.shape[:-1].numel()
        if self.source is None:
            return errors.sum() / (rows * max(1, sum(self.counts)))
        sets = [(self.source == one, count) for one, count in enumerate(self.counts) if count]
        parts = [errors[..., own].sum() / (rows * count) for own, count in sets]
        return torch.stack(parts).sum() if parts else errors.sum()


def _counts(batch: Batch) -> list[list[int]]:
    """Return over all processes the samples of each data set, the degraded ones, and the rated pairs."""
    nothing = batch.candidate.new_zeros(0)
    own = nothing if not batch.counted else torch.zeros_like(batch.target).long()
    source = own if batch.source is None else batch.source[: len(own)]
    degraded = nothing if batch.original is None else source[batch.original[: len(own)] >= 0]
    pairs = nothing if batch.pairs is None else batch.pairs.new_zeros(len(batch.pairs))
    counts = [torch.bincount(part, minlength=MOST_SETS) for part in (source, degraded, pairs)]
    summed: list[list[int]] = total(torch.stack(counts)).tolist()
    return summed


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


def _order(outputs: Outputs, batch: Batch, counts: Sequence[int] | None) -> Tensor:
    """Return how far degraded samples are from being below what they were made of, a scalar.

    Args:
        outputs: of the batch.
        batch: the batch, some of whose samples are degraded.
        counts: degraded samples of every data set in the batches of all processes; None for this one alone.
    """
    original = batch.original
    assert original is not None
    degraded = (original >= 0).nonzero().squeeze(1)
    if not len(degraded):
        return outputs.logits.new_zeros(())
    means = Means(None if batch.source is None else batch.source[degraded], counts, batch.counted)
    result = outputs.logits.new_zeros(())
    for logits, weight in ((outputs.logits, 1.0), (outputs.start, START_SHARE)):
        if logits is not None:
            above = logits[..., degraded] - logits[..., original[degraded]] + PAIR_MARGIN
            result = result + weight * means(F.softplus(PAIR_STEEPNESS * above) / PAIR_STEEPNESS)
    return result

"""What is learned of a rating: the rating itself, or partly its rank among the training ratings.

Where most ratings crowd at one end of the scale, the squared error of the rating is decided by the few at
the other end. The rank spreads the crowd, and scores then order captions better; a strictly increasing map
back to the scale that people used keeps them readable. Shape letters: B samples, K knots.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from suisei.data.sample import CaptionSample

KNOTS = 64
"""Points of the map; scales with more levels are thinned out to as many."""


class RatingScale(nn.Module):
    """A strictly increasing, piecewise linear map of [0, 1] onto itself; the identity until it is fitted.

    Args:
        rank_share: share of the rank in what is learned, 0 to 1.
    """

    ratings: Tensor
    learned: Tensor

    def __init__(self, rank_share: float) -> None:
        super().__init__()
        self.rank_share = rank_share
        self.register_buffer("ratings", torch.linspace(0, 1, KNOTS, dtype=torch.float64))
        self.register_buffer("learned", torch.linspace(0, 1, KNOTS, dtype=torch.float64))

    def fit(self, samples: Sequence[CaptionSample]) -> None:
        """Take the ranks of training ratings, each rater's by itself.

        A level's rank is the share of ratings below it and half of those at it, stretched so that the scale's
        lowest end is 0 and its highest 1.

        Args:
            samples: the training samples; those without a rating do not count.
        """
        given = [sample.rating.scaled for sample in samples if sample.rating is not None]
        ordered = np.sort(np.concatenate([*given, np.zeros(0)]))
        levels = np.unique(ordered)
        if len(levels) > KNOTS - 2:
            levels = np.quantile(levels, np.linspace(0, 1, KNOTS - 2), method="nearest")
        levels = np.union1d(levels, [0.0, 1.0])
        rank = np.searchsorted(ordered, levels, "left") + np.searchsorted(ordered, levels, "right")
        if rank[-1] == rank[0]:
            return  # no ratings: nothing is known of ranks
        rank = (rank - rank[0]) / (rank[-1] - rank[0])
        learned = self.rank_share * rank + (1 - self.rank_share) * levels
        for knots, values in ((self.ratings, levels), (self.learned, learned)):
            knots.fill_(1.0)  # what is left over lies on the last one
            knots[: len(values)] = torch.from_numpy(values)

    def targets(self, samples: Sequence[CaptionSample]) -> np.ndarray:
        """Return what is learned of each sample, the mean over its raters, float32 [B]; NaN where unrated."""
        means = [
            np.nan if sample.rating is None else self.learn(np.asarray(sample.rating.scaled)).mean()
            for sample in samples
        ]
        return np.array(means, dtype=np.float32)

    def learn(self, ratings: np.ndarray) -> np.ndarray:
        """Return what is learned of single ratings, float64 [B] in [0, 1]: the inverse of :meth:`forward`."""
        return np.interp(ratings, self.ratings.cpu().numpy(), self.learned.cpu().numpy())

    def forward(self, scores: Tensor) -> Tensor:
        """Return scores on the scale of the ratings, float64 [B], of learned ones in [0, 1]."""
        scores = scores.double()
        after = torch.searchsorted(self.learned, scores.contiguous(), right=True).clamp(1, KNOTS - 1)
        start, end = self.learned[after - 1], self.learned[after]
        share = ((scores - start) / (end - start).clamp(min=1e-12)).clamp(0, 1)
        return self.ratings[after - 1] + share * (self.ratings[after] - self.ratings[after - 1])

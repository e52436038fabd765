"""A score that starts from the cosine between candidate and references, and learns to correct it.

Few ratings teach a network little of what an encoder trained on a billion sentences knows already: how near
two captions are. Here the logit is a line through that cosine, and what the network adds starts at zero.
Far from what it was trained on, where the network has nothing to say, the cosine is left; and so it is of a
caption without references, which is scored by the image alone. Where there are both, the image adds a line
through its own cosine, if the model was given one.

Shape letters: B samples, P poolings.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

SLOPE = 16.0
"""Of the line until it is fitted: what suits cosines of sentence encoders."""
SLOPE_RATE, OFFSET_RATE = 0.2, 0.02
"""Learning rates of slopes and offsets, which are tens and tenths: with a network's they would not move."""


class Line(nn.Module):
    """``slope * (x - centre) + offset``: the logit that an input alone gives."""

    centre: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(SLOPE))
        self.offset = nn.Parameter(torch.tensor(0.0))
        self.register_buffer("centre", torch.tensor(0.5))

    def forward(self, values: Tensor) -> Tensor:
        """Return logits of any shape; NaN where the value is NaN, without a gradient."""
        known = values.nan_to_num() - self.centre
        return (self.slope * known + self.offset).masked_fill(values.isnan(), torch.nan)


class CosineStart(nn.Module):
    """The logit of the cosines alone: with references, else with the image, else a learned constant.

    Args:
        both: whether the image counts beside references too.
    """

    def __init__(self, *, both: bool = False) -> None:
        super().__init__()
        self.references = Line()
        self.image = Line()
        self.beside = Line() if both else None
        self.nothing = nn.Parameter(torch.tensor(0.0))

    def forward(self, similar: Tensor, seen: Tensor | None) -> Tensor:
        """Return float32 [B].

        Args:
            similar: largest, mean and smallest cosine over references of every pooling, [B, 3 * P].
            seen: cosine with the image of every pooling, [B, P]; None for a model without image.
        """
        logits: Tensor = self.references(reference_cosine(similar))
        if seen is not None:
            shown = seen.float().mean(dim=1)
            if self.beside is not None:
                logits = logits + self.beside(shown).nan_to_num()
            logits = torch.where(logits.isnan(), self.image(shown), logits)
        return torch.where(logits.isnan(), self.nothing, logits)


def reference_cosine(similar: Tensor) -> Tensor:
    """Return the middle of the largest and the mean cosine over references [B], of [B, 3 * P]."""
    poolings = similar.shape[1] // 3
    return similar[:, : 2 * poolings].float().mean(dim=1)

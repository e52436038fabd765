"""A score that starts from the cosine between candidate and references, and learns to correct it.

Few ratings teach a network little of what an encoder trained on a billion sentences knows already: how near
two captions are. Here the logit is a line through that cosine, and what the network adds starts at zero.
Far from what it was trained on, where the network has nothing to say, the cosine is left; and so it is of a
caption without references, which is scored by the image alone. Where there are both, the image may be weighed
against all that is said without it.

Shape letters: B samples, P poolings, M members.
"""

from __future__ import annotations

from collections.abc import Sequence

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

    def put(self, slope: float, centre: float, offset: float) -> None:
        """Set the line."""
        with torch.no_grad():
            self.slope.fill_(float(slope))
            self.centre.fill_(float(centre))
            self.offset.fill_(float(offset))


class Beside(nn.Module):
    """``kept * logit + line(cosine with the image)``, where there are references and an image."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = nn.Parameter(torch.tensor(1.0))
        self.line = Line()

    def forward(self, logits: Tensor, seen: Tensor, compared: Tensor) -> Tensor:
        """Return float32 [M, B].

        Args:
            logits: without the image, [M, B].
            seen: cosine with the image of every pooling, [B, P]; NaN where there is none.
            compared: True where there are references, bool [B].
        """
        added: Tensor = self.line(seen.float().mean(dim=1))
        return torch.where(compared & ~added.isnan(), self.kept * logits + added, logits)


class CosineStart(nn.Module):
    """The logit of the cosines alone: with references, else with the image, else a learned constant.

    Args:
        both: whether the image counts beside references too, see :class:`Beside`.
        bridge: slope and offset of the line for cosines across languages, which are lower than those within
            one that mean the same; None where they are read alike.
    """

    def __init__(self, *, both: bool = False, bridge: Sequence[float] | None = None) -> None:
        super().__init__()
        self.bridge = bridge
        self.references = Line()
        self.image = Line()
        self.beside = Beside() if both else None
        self.nothing = nn.Parameter(torch.tensor(0.0))

    def forward(self, similar: Tensor, seen: Tensor | None, across: Tensor | None = None) -> Tensor:
        """Return float32 [B].

        Args:
            similar: largest, mean and smallest cosine over references of every pooling, [B, 3 * P].
            seen: cosine with the image of every pooling, [B, P]; None for a model without image.
            across: True where no reference is in the candidate's language, bool [B]; None for nowhere.
        """
        cosines = reference_cosine(similar)
        logits: Tensor = self.references(cosines)
        if self.bridge is not None and across is not None:
            slope, offset = self.bridge
            logits = torch.where(across, slope * cosines + offset, logits)
        if seen is not None:
            logits = torch.where(logits.isnan(), self.image(seen.float().mean(dim=1)), logits)
        return torch.where(logits.isnan(), self.nothing, logits)


def reference_cosine(similar: Tensor) -> Tensor:
    """Return the middle of the largest and the mean cosine over references [B], of [B, 3 * P]."""
    poolings = similar.shape[1] // 3
    return similar[:, : 2 * poolings].float().mean(dim=1)

"""The head of the regressor: a feed-forward network over fused features and extra inputs.

Shape letters: B samples, n fused features, E extra inputs.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from suisei.errors import ConfigError
from suisei.models.config import HeadConfig
from suisei.models.feedforward import FeedForward


class Head(nn.Module):
    """Turns fused features and extra inputs into a logit.

    Args:
        features: width n of the fused features.
        extras: number E of extra inputs.
        config: the settings.
    """

    def __init__(self, features: int, extras: int, config: HeadConfig) -> None:
        super().__init__()
        beside = bool(extras and config.extra_hidden)
        self.beside = (
            FeedForward(extras, [config.extra_hidden], config.activation, config.extra_dropout)
            if beside
            else None
        )
        width = features if beside else features + extras
        if not (width or extras or config.start):
            raise ConfigError("fusion.blocks is empty and there is no extra input: nothing to score by")
        self.fused = (
            FeedForward(
                width,
                config.hidden,
                config.activation,
                config.dropout,
                config.input_dropout,
            )
            if width
            else None
        )

    def start_at_zero(self) -> None:
        """Let the network say 0 of everything until it is trained."""
        for part in (self.beside, self.fused):
            if part is not None:
                nn.init.zeros_(part.layers[-1].weight)  # type: ignore[arg-type]
                nn.init.zeros_(part.layers[-1].bias)  # type: ignore[arg-type]

    def forward(self, fused: Tensor, extras: Tensor) -> Tensor:
        """Return logits [B] of fused features [B, n] and standardised extra inputs [B, E]."""
        if self.beside is None and self.fused is None:  # nothing corrects the line through the cosine
            return fused.new_zeros(len(fused))
        if self.beside is None:
            assert self.fused is not None
            logits: Tensor = self.fused(torch.cat([fused, extras.to(fused.dtype)], dim=-1))
        else:
            logits = self.beside(extras)
            if self.fused is not None:
                logits = logits + self.fused(fused)
        return logits

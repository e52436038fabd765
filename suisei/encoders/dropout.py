"""Dropout that does not hold a CPU up.

PyTorch draws one random number after the other for every unit; sixteen bits of a longer one are enough.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

STEPS = 2**16
"""A unit is dropped with a probability of so many steps."""
_PER_NUMBER = 4
"""How many units one random number of 64 bits decides."""


def dropout(units: Tensor, share: float) -> Tensor:
    """Return units [...] of which a share is 0 and the others are as much larger; the share is in [0, 1)."""
    if not share:
        return units
    if units.device.type != "cpu":
        return F.dropout(units, share)
    kept: Tensor = _Dropout.apply(units, min(round(share * STEPS), STEPS - 1))
    return kept


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, units: Tensor, steps: int) -> Tensor:
        count = units.numel()
        numbers = torch.empty(-(-count // _PER_NUMBER), dtype=torch.int64).random_(-(2**63), None)
        bits = numbers.view(torch.int16)[:count].view(units.shape)  # each in [-STEPS / 2, STEPS / 2)
        kept = bits >= steps - STEPS // 2
        ctx.save_for_backward(kept)
        ctx.scale = STEPS / (STEPS - steps)
        return torch.where(kept, units, 0).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return torch.where(kept, gradients[0], 0).mul_(ctx.scale), None

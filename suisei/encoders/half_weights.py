"""Weights that are learned in mixed precision on a GPU, converted all at once.

With the few tokens of captions a GPU computes a product sooner than it is asked for the next, so that what
counts is how often it is asked. Autocast converts every weight, and its gradient, by a call of its own: for
an encoder of twelve layers 290 of some 1,500 calls of a step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


def waits_for_calls(tensor: Tensor) -> bool:
    """Return whether a tensor is on a GPU, so that fewer calls are worth more than fewer numbers."""
    return tensor.is_cuda


@contextmanager
def converted_at_once(encoder: nn.Module, kind: str) -> Iterator[None]:
    """Have the linear layers of an encoder, inside this block, compute with converted weights.

    Only weights that are learned: through others nothing comes back, and so it stays.
    They are the numbers that autocast would make of them, and so are the gradients. Nothing happens where
    nothing is learned, or not in mixed precision. Layers must not be computed again on the way back: the
    weights are then themselves again.

    Args:
        encoder: whose weights; any kind of encoder.
        kind: of the device that they are on, as "cuda".
    """
    if not (torch.is_grad_enabled() and torch.is_autocast_enabled(kind)):
        yield
        return
    layers = [module for module in encoder.modules() if isinstance(module, nn.Linear)]
    held = [
        (layer._parameters, name, own)
        for layer in layers
        for name, own in layer._parameters.items()
        if own is not None and own.requires_grad and own.dtype == torch.float32
    ]
    weights = [own for _, _, own in held]
    halves = _Converted.apply(torch.get_autocast_dtype(kind), *weights) if weights else ()
    try:
        for (parameters, name, _), half in zip(held, halves, strict=True):
            parameters[name] = half
        yield
    finally:
        for parameters, name, own in held:
            parameters[name] = own


class _Converted(torch.autograd.Function):
    """Tensors in another format, in one call; their gradients come back in their own, in one call too."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        return tuple(_copies(weights, dtype))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        there = [place for place, own in enumerate(gradients) if own is not None]
        found: list[Tensor | None] = [None] * len(gradients)
        copies = _copies([own for own in gradients if own is not None], torch.float32)
        for place, own in zip(there, copies, strict=True):
            found[place] = own
        return None, *found


def _copies(tensors: Any, dtype: torch.dtype) -> list[Tensor]:
    made = [torch.empty_like(own, dtype=dtype) for own in tensors]
    if made:
        torch._foreach_copy_(made, list(tensors))
    return made

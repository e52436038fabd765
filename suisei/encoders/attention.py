"""Attention, and captions that attend to their own tokens: padded ones, and packed ones without padding.

Shape letters: T captions, L and M tokens (padded), N tokens of all captions together, d width, H heads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from suisei.encoders.dropout import dropout

Attend = Callable[[Tensor, Tensor, Tensor, int, float], Tensor]
"""Attends within captions: queries, keys and values, [T, L, d] or [N, d]; heads; share that is dropped."""
Span = tuple[int, int, int]
"""First row, row after the last, and width in tokens of captions that are padded to the same width."""


class Padded:
    """Attention of captions that are padded.

    Args:
        mask: 1 for tokens and 0 for padding, [T, L].
    """

    def __init__(self, mask: Tensor) -> None:
        # Without a mask attention is faster.
        self._mask = None if bool(mask.all()) else mask.bool()[:, None, None, :]

    def attend(self, query: Tensor, key: Tensor, value: Tensor, heads: int, dropped: float) -> Tensor:
        """Attend within captions, [T, L, d] each; what stands at padding means nothing."""
        shape = (*query.shape[:2], heads, -1)
        query, key, value = (part.view(shape).transpose(1, 2) for part in (query, key, value))
        return attention(query, key, value, self._mask, dropped=dropped).transpose(1, 2).flatten(2)


class Packing:
    """Tokens of captions one after the other, without padding: attention alone tells captions apart.

    Args:
        mask: 1 for tokens and 0 for padding, on the right, int64 [T, L].
        spans: parts of the captions, in order, each with the tokens of its longest or more; in attention
            captions are padded to the width of their span.
    """

    def __init__(self, mask: Tensor, spans: Sequence[Span]) -> None:
        self._place = mask.flatten().nonzero()[:, 0]
        self._parts = [_Part(mask[start:end, :width]) for start, end, width in spans]
        self._sizes = [len(part.tokens) for part in self._parts]

    def pack(self, padded: Tensor) -> Tensor:
        """Return [N, ...] of [T, L, ...]."""
        return padded.flatten(0, 1).index_select(0, self._place)

    def pad(self, packed: Tensor) -> list[Tensor]:
        """Return of each span [captions, width, d]; what stands at padding means nothing."""
        return [part.pad(own) for part, own in zip(self._parts, packed.split(self._sizes), strict=True)]

    def attend(self, query: Tensor, key: Tensor, value: Tensor, heads: int, dropped: float) -> Tensor:
        """Attend within captions, [N, d] each."""
        parts = zip(self._parts, *(whole.split(self._sizes) for whole in (query, key, value)), strict=True)
        return torch.cat([part.attend(q, k, v, heads, dropped) for part, q, k, v in parts])


class _Part:
    """One span of packed captions: where its n tokens stand when they are padded to [T, L]."""

    def __init__(self, mask: Tensor) -> None:
        there = mask.flatten().bool()
        self._padded = Padded(mask)
        self.tokens = there.nonzero()[:, 0]
        self._shape = mask.shape
        self._slots = (there.cumsum(0) - 1).clamp(min=0)  # padding takes the token before it
        self._padding = None if bool(there.all()) else ~there[:, None]

    def pad(self, packed: Tensor) -> Tensor:
        padded: Tensor = packed
        if self._padding is not None:
            padded = _Pad.apply(packed, self._slots, self.tokens)
        return padded.view(*self._shape, -1)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, heads: int, dropped: float) -> Tensor:
        query, key, value = (self.pad(part) for part in (query, key, value))
        return self._unpad(self._padded.attend(query, key, value, heads, dropped))

    def _unpad(self, padded: Tensor) -> Tensor:
        flat = padded.flatten(0, 1)
        if self._padding is None:
            return flat
        packed: Tensor = _Unpad.apply(flat, self._slots, self.tokens, self._padding)
        return packed


class _Pad(torch.autograd.Function):
    """Rows [n, d] in their places among [T x L, d]; nothing may depend on what stands at padding."""

    @staticmethod
    def forward(ctx: Any, packed: Tensor, slots: Tensor, tokens: Tensor) -> Tensor:
        ctx.save_for_backward(tokens)
        return packed.index_select(0, slots)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (tokens,) = ctx.saved_tensors
        return gradients[0].index_select(0, tokens), None, None


class _Unpad(torch.autograd.Function):
    """The rows of tokens [n, d] among [T x L, d]; padding has no gradient."""

    @staticmethod
    def forward(ctx: Any, padded: Tensor, slots: Tensor, tokens: Tensor, padding: Tensor) -> Tensor:
        ctx.save_for_backward(slots, padding)
        return padded.index_select(0, tokens)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        slots, padding = ctx.saved_tensors
        return gradients[0].index_select(0, slots).masked_fill_(padding, 0.0), None, None, None


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    dropped: float = 0.0,
) -> Tensor:
    """Return softmax(query key / sqrt(width)) value, [T, H, L, width].

    Args:
        query: [T, H, L, width].
        key: [T, H, M, width].
        value: of the same shape.
        mask: True for what is attended to, bool [T, 1, 1, M]; None for all.
        causal: whether a place attends to itself and those before it alone, in place of a mask.
        dropped: share of the attention that is dropped.
    """
    if query.device.type != "cpu" or not query.requires_grad:
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropped, is_causal=causal
        )
    # What PyTorch has for CPUs takes several times as long on its way back, with the few tokens of captions.
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(value.dtype)
    return dropout(weights, dropped) @ value

"""How much to encode at once: on a CPU, what one layer computes should stay in the cache."""

from __future__ import annotations

from torch import nn

NUMBERS_IN_CACHE = 786_432
"""Tokens times width of a batch on a CPU. XLM-R base reaches 0.72 to 0.80 of one core's matrix-product peak
with 1,024 tokens at once, and 0.51 with 4,096."""
TOKENS = 4096
"""Tokens per batch of a narrow encoder, where the cost of a call matters more."""
TOKENS_CUDA = 65_536
IMAGES = 32
IMAGES_CUDA = 256


def tokens_per_batch(width: int, device: str) -> int:
    """Return how many tokens of an encoder ``width`` numbers wide to encode at once."""
    if device == "cuda":
        return TOKENS_CUDA
    return max(256, min(TOKENS, NUMBERS_IN_CACHE // width))


def images_per_batch(tower: nn.Module, device: str) -> int:
    """Return how many images to encode at once; a vision transformer is known by its patches."""
    if device == "cuda":
        return IMAGES_CUDA
    positions = getattr(tower, "positional_embedding", None)  # [patches + 1, width]
    if positions is None or positions.ndim != 2:
        return IMAGES
    return max(1, min(IMAGES, NUMBERS_IN_CACHE // positions.numel()))

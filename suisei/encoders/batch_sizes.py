"""How much to encode or draw at once: on a CPU, what one layer computes should stay in the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import nn

from suisei.errors import UnavailableError

NUMBERS_IN_CACHE = 786_432
"""Tokens times width of a batch on a CPU. XLM-R base reaches 0.72 to 0.80 of one core's matrix-product peak
with 1,024 tokens at once, and 0.51 with 4,096."""
TOKENS = 4096
"""Tokens per batch of a narrow encoder, where the cost of a call matters more."""
TOKENS_CUDA = 65_536
SAMPLES = 64
SAMPLES_CUDA = 1024
"""Samples whose tokens are matched at once, where they are short: a GPU waits for calls, not for numbers."""
TOKENS_MATCHED_CUDA = 131_072
"""Padded tokens of references that more samples than on a CPU may have at once."""
IMAGES = 32
IMAGES_CUDA = 256
DRAWINGS = 4
"""Images that a text-to-image model draws at once on a CPU, where one more costs as much as the first."""
DRAWINGS_CUDA = 8

Item = TypeVar("Item")
Result = TypeVar("Result")


def tokens_per_batch(width: int, device: str) -> int:
    """Return how many tokens of an encoder ``width`` numbers wide to encode at once."""
    if torch.device(device).type == "cuda":
        return TOKENS_CUDA
    return max(256, min(TOKENS, NUMBERS_IN_CACHE // width))


def samples_per_batch(tokens: int, device: str) -> int:
    """Return how many samples, each of at most so many tokens of references, to match at once."""
    if torch.device(device).type == "cuda":
        return max(SAMPLES, min(SAMPLES_CUDA, TOKENS_MATCHED_CUDA // tokens))
    return SAMPLES


def images_per_batch(tower: nn.Module, device: str) -> int:
    """Return how many images to encode at once; a vision transformer is known by its patches."""
    if torch.device(device).type == "cuda":
        return IMAGES_CUDA
    positions = getattr(tower, "positional_embedding", None)  # [patches + 1, width]
    if positions is None or positions.ndim != 2:
        return IMAGES
    return max(1, min(IMAGES, NUMBERS_IN_CACHE // positions.numel()))


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory is short, on the machine or on its GPU."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and any(sign in str(error).lower() for sign in ("out of memory", "can't allocate memory"))
    )


def in_batches(
    items: Sequence[Item], size: int, work: Callable[[Sequence[Item]], Result]
) -> Iterator[tuple[Sequence[Item], Result]]:
    """Yield every batch with what ``work`` made of it; a batch that memory is too short for is halved.

    Args:
        items: all of them.
        size: how many at once at first; after a failure, half as many from there on.
        work: makes something of some of them.

    Raises:
        UnavailableError: memory is too short for a single item.
    """
    start = 0
    while start < len(items):
        batch = items[start : start + size]
        try:
            made = work(batch)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            if len(batch) == 1:
                raise UnavailableError(
                    f"out of memory with one item at a time ({str(error)[:120]}); use a smaller image size"
                ) from error
            size = len(batch) // 2
            continue
        yield batch, made
        start += len(batch)

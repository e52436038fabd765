"""Decoding images in threads, ahead of the encoder that reads them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from suisei.cli import usable_cores
from suisei.data.images import read_image

THREADS, THREADS_CUDA = 4, 16
"""At most: beside an encoder on the same cores, and beside one on a GPU, which is soon done with a batch."""
BATCHES_AHEAD = 2


def decoding_threads(device: torch.device | str = "cpu") -> int:
    """Return how many threads decode images for an encoder on a device."""
    most = THREADS_CUDA if torch.device(device).type == "cuda" else THREADS
    return min(most, usable_cores())


def decoded_batches(
    sources: Sequence[Any],
    preprocess: Callable[[Any], Tensor],
    batch_size: int,
    device: torch.device | str = "cpu",
) -> Iterator[Tensor]:
    """Yield preprocessed images in order, on the CPU, float32 [at most ``batch_size``, 3, s, s].

    While the caller works on one batch, the next BATCHES_AHEAD are decoded: Pillow releases the
    interpreter lock. No more than these are in memory.

    Args:
        sources: paths or PIL images.
        preprocess: turns a PIL image into float32 [3, s, s].
        batch_size: images per batch.
        device: where they are encoded, which decides how many threads decode.

    Raises:
        DataError: an image cannot be read.
    """

    def decode(source: Any) -> Tensor:
        return read_image(source, preprocess)

    pool = ThreadPoolExecutor(decoding_threads(device))
    ahead: deque[list[Future[Tensor]]] = deque()
    try:
        for start in range(0, len(sources), batch_size):
            ahead.append([pool.submit(decode, source) for source in sources[start : start + batch_size]])
            if len(ahead) > BATCHES_AHEAD:
                yield torch.stack([image.result() for image in ahead.popleft()])
        while ahead:
            yield torch.stack([image.result() for image in ahead.popleft()])
    finally:
        pool.shutdown(cancel_futures=True)

"""Decoding images in threads, ahead of the encoder that reads them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suisei.data.decodable import DECODING_THREADS
from suisei.data.images import read_image

BATCHES_AHEAD = 2


def decoded_batches(
    sources: Sequence[Any], preprocess: Callable[[Any], Tensor], batch_size: int
) -> Iterator[Tensor]:
    """Yield preprocessed images in order, float32 [at most ``batch_size``, 3, s, s].

    While the caller works on one batch, the next BATCHES_AHEAD are decoded: Pillow releases the
    interpreter lock. No more than these are in memory.

    Args:
        sources: paths or PIL images.
        preprocess: turns a PIL image into float32 [3, s, s].
        batch_size: images per batch.

    Raises:
        DataError: an image cannot be read.
    """

    def decode(source: Any) -> Tensor:
        return read_image(source, preprocess)

    pool = ThreadPoolExecutor(DECODING_THREADS)
    ahead: deque[list[Future[Tensor]]] = deque()
    try:
        for start in range(0, len(sources), batch_size):
            ahead.append([pool.submit(decode, source) for source in sources[start : start + batch_size]])
            if len(ahead) > BATCHES_AHEAD:
                yield _stacked([image.result() for image in ahead.popleft()])
        while ahead:
            yield _stacked([image.result() for image in ahead.popleft()])
    finally:
        pool.shutdown(cancel_futures=True)


def _stacked(images: list[Tensor]) -> Tensor:
    """Return images as a batch; torch's threads would wait for one another beside those that decode."""
    batch = torch.empty(len(images), *images[0].shape, dtype=images[0].dtype, device="cpu")
    np.stack([image.numpy() for image in images], out=batch.numpy())
    return batch

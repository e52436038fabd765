"""What an image tower says of images, each different one looked at once, kept in memory and on disk.

Shape letters: N images, I different ones, d width of the features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from suisei.data.images import check_unchanged, content_keys
from suisei.encoders.batch_sizes import images_per_batch
from suisei.encoders.decoding import decoded_batches
from suisei.encoders.feature_cache import FeatureCache
from suisei.encoders.feature_file import DiskCache, DiskFeatures
from suisei.encoders.image import ImageEncoder
from suisei.encoders.memory import MEMORY_BYTES
from suisei.encoders.precision import matrix_products


class TowerFeatures:
    """The features of an image tower whose weights no longer change.

    Args:
        image: the tower, in evaluation mode, on its device and in its precision.
        disk: where features are kept between runs; None for nowhere.
        precision: what the tower computes in, which decides its features.
    """

    def __init__(self, image: ImageEncoder, disk: DiskCache | None, precision: str) -> None:
        self._image = image
        self._precision = precision
        self._memory = FeatureCache(MEMORY_BYTES)
        self._disk = DiskFeatures()
        if disk is not None:
            self._disk = disk.features_of(image.tower, "images", precision, image.architecture())

    def of(
        self, sources: Sequence[Any], advance: Callable[[int], Any] = lambda _: None
    ) -> tuple[Tensor, Tensor]:
        """Return the row of each image, int64 [N], and the features of different ones, float32 [I, d].

        Args:
            sources: N paths or PIL images, at least one.
            advance: called with the number of images of each batch that is encoded.

        Raises:
            DataError: an image cannot be read.
        """
        keys = content_keys(sources)
        items = dict(zip(keys, sources, strict=True))
        rows = {key: row for row, key in enumerate(items)}

        def encode(some: list[tuple[str, Any]]) -> Tensor:
            return self._encode(some, advance)

        def from_disk(some: list[tuple[str, Any]]) -> Tensor:
            return self._disk.look_up([key for key, _ in some], some, encode)

        features = self._memory.look_up(list(items), list(items.items()), from_disk)
        return torch.tensor([rows[key] for key in keys]), features

    def _encode(self, items: Sequence[tuple[str, Any]], advance: Callable[[int], Any]) -> Tensor:
        sources = [source for _, source in items]
        device = next(self._image.parameters()).device
        size = images_per_batch(self._image.tower, device.type)
        batches = []
        for pixels in decoded_batches(sources, self._image.preprocess, size):
            with torch.inference_mode(), matrix_products(self._precision):
                batches.append(self._image(pixels.to(device)).float().cpu())
            advance(len(pixels))
        check_unchanged([key for key, _ in items], sources)
        return torch.cat(batches).clone()

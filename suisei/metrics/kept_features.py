"""What a model's encoders say of the captions and images of samples, kept between calls.

Shape letters: T captions, I images, P poolings, d text width, d_img image width.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from suisei.encoders.feature_cache import FeatureCache
from suisei.encoders.feature_file import DiskCache
from suisei.models.features import ModelFeatures
from suisei.models.regressor import Regressor
from suisei.models.table import SampleTable

CACHE_BYTES = 128 * 1024**2
"""Features of captions, and of images, are kept between calls up to this size each."""


class KeptFeatures:
    """The features of samples' captions and images; threads may share them.

    Args:
        model: the regressor.
        disk: where features are kept between runs too, None for nowhere.
        precision: what the encoders compute in.
    """

    def __init__(self, model: Regressor, disk: DiskCache | None, precision: str) -> None:
        self.computed = ModelFeatures(model, disk, mixed=True, precision=precision)
        self.forget()

    def forget(self) -> None:
        """Forget what is kept in memory."""
        self._captions = FeatureCache(CACHE_BYTES)
        self._images = FeatureCache(CACHE_BYTES)

    def of_copy(self, model: Regressor) -> KeptFeatures:
        """Return the same of a copy of the model."""
        other = copy.copy(self)
        other.computed = copy.copy(self.computed)
        other.computed.model = model
        return other

    def of_captions(
        self, table: SampleTable, pooled: dict[int, Tensor], advance: Callable[[int], Any]
    ) -> Tensor:
        """Return the vectors [T, P, d] of a table's captions.

        Args:
            table: the samples.
            pooled: what is known already, [P, d] by row.
            advance: called with the number of captions of each batch.
        """
        if len(pooled) == len(table.captions):
            return torch.stack([pooled[row] for row in range(len(pooled))])
        known = {table.captions[row]: vector for row, vector in pooled.items()}

        def encode(captions: list[str]) -> Tensor:
            rest = [caption for caption in captions if caption not in known]
            if rest:
                known.update(zip(rest, self.computed.of_captions(rest, advance), strict=True))
            return torch.stack([known[caption] for caption in captions])

        return self._captions.look_up(table.captions, table.captions, encode)

    def of_images(self, table: SampleTable, advance: Callable[[int], Any]) -> Tensor | None:
        """Return the features [I, d_img] of a table's images; None where none is looked at."""
        if self.computed.model.image is None or not table.images:
            return None

        def encode(images: list[tuple[str, Any]]) -> Tensor:
            return self.computed.of_images(images, advance)

        pairs = list(zip(table.image_keys, table.images, strict=True))
        return self._images.look_up(table.image_keys, pairs, encode)

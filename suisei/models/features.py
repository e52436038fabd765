"""Encoding many captions or images at once, longest first, in batches of even cost.

Shape letters: T captions, I images, S encoder states, P poolings, d text width, d_img image width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from suisei.data.images import check_unchanged
from suisei.encoders.batch_sizes import images_per_batch, tokens_per_batch
from suisei.encoders.decoding import decoded_batches
from suisei.encoders.feature_file import DiskCache, DiskFeatures
from suisei.models.regressor import Regressor


def ignore_progress(_: int) -> None:
    """Report nothing."""


def token_batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield positions in batches of at most ``budget`` padded tokens, longest captions first.

    Captions of one length stand together, so little is padding, and a lack of memory shows on the
    first batch.
    """
    order = sorted(range(len(lengths)), key=lambda position: -lengths[position])
    batch: list[int] = []
    for position in order:
        if batch and (len(batch) + 1) * lengths[batch[0]] > budget:
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch


def encode_captions(
    model: Regressor,
    token_ids: Sequence[Sequence[int]],
    *,
    budget: int | None = None,
    mixed: bool = False,
    advance: Callable[[int], Any] = ignore_progress,
) -> Tensor:
    """Return the pooled states of every caption, float32 [T, S, P, d] on the CPU, in input order.

    Args:
        model: the regressor.
        token_ids: T lists of token ids.
        budget: padded tokens per batch; None for what suits the device.
        mixed: whether layers are mixed at once, which leaves [T, P, d]: enough unless the mix is trained.
        advance: called with the number of captions of each batch.
    """
    device = model.idf_weights.device
    if budget is None:
        budget = tokens_per_batch(model.text.width, device.type)
    shape = (model.text.states, len(model.config.fusion.poolings), model.text.width)
    features = torch.empty(len(token_ids), *(shape[1:] if mixed else shape))
    was_training = model.training
    model.eval()
    for positions in token_batches([len(ids) for ids in token_ids], budget):
        ids, mask = model.text.pad([token_ids[position] for position in positions])
        with torch.inference_mode():
            encoded = model.encode_text(ids.to(device), mask.to(device))
            if mixed:
                encoded = model.mix_layers(encoded)
            encoded = encoded.float().cpu()
        features[positions] = encoded  # outside: training must be able to look rows up
        advance(len(positions))
    model.train(was_training)
    return features


def encode_images(
    model: Regressor,
    sources: Sequence[Any],
    *,
    batch_size: int | None = None,
    advance: Callable[[int], Any] = ignore_progress,
) -> Tensor:
    """Return the features of images, float32 [I, d_img] on the CPU, decoding ahead in threads.

    Args:
        model: the regressor; it has an image encoder.
        sources: I paths or PIL images.
        batch_size: images per batch; None for what suits the device.
        advance: called with the number of images of each batch.

    Raises:
        DataError: an image cannot be read.
    """
    assert model.image is not None
    device = model.idf_weights.device
    if batch_size is None:
        batch_size = images_per_batch(model.image.tower, device.type)
    features = torch.empty(len(sources), model.image.width)
    was_training = model.training
    model.eval()
    start = 0
    for pixels in decoded_batches(sources, model.image.preprocess, batch_size):
        with torch.inference_mode():
            encoded = model.encode_image(pixels.to(device)).float().cpu()
        features[start : start + len(encoded)] = encoded
        start += len(encoded)
        advance(len(encoded))
    model.train(was_training)
    return features


class ModelFeatures:
    """What the encoders of a regressor say of captions and images, computed once and kept on disk.

    A caption is known by its token ids. The idf table is part of its key only where captions are pooled
    by idf, and the layer mix only where layers are mixed: models that differ in nothing else share
    their features.

    Args:
        model: the regressor; its weights must not change while this is in use.
        disk: where features are kept between runs, None for nowhere.
        mixed: whether layers are mixed at once: enough unless the mix is trained.
        precision: what the encoders compute in.
    """

    def __init__(
        self, model: Regressor, disk: DiskCache | None, *, mixed: bool, precision: str = "fp32"
    ) -> None:
        self.model = model
        self.mixed = mixed
        self._disk = disk
        self._precision = precision

    @cached_property
    def _captions(self) -> DiskFeatures:
        if self._disk is None:
            return DiskFeatures()
        model, fusion = self.model, self.model.config.fusion
        idf = model.idf_weights.tolist() if set(fusion.poolings) != {"mean"} else None
        mix = list(model.mix.parameters()) if self.mixed and model.mix is not None else []
        settings = (self._precision, model.text.layers, tuple(fusion.poolings), fusion.layer_norm, idf)
        layers = (self.mixed, [weights.tolist() for weights in mix])
        return self._disk.features_of(model.text.backbone, "captions", settings, layers)

    @cached_property
    def _images(self) -> DiskFeatures:
        if self._disk is None or self.model.image is None:
            return DiskFeatures()
        image = self.model.image
        return self._disk.features_of(image.tower, "images", self._precision, image.architecture())

    def of_captions(self, captions: Sequence[str], advance: Callable[[int], Any] = ignore_progress) -> Tensor:
        """Return float32 [T, S, P, d] of captions, or [T, P, d] where layers are mixed."""
        ids = self.model.text.tokenize(captions)

        def encode(some: list[list[int]]) -> Tensor:
            return encode_captions(self.model, some, mixed=self.mixed, advance=advance)

        return self._captions.look_up([" ".join(map(str, own)) for own in ids], ids, encode)

    def of_images(
        self,
        images: Sequence[tuple[str, Any]],
        advance: Callable[[int], Any] = ignore_progress,
    ) -> Tensor:
        """Return float32 [I, d_img] of images, each given as a hash of its content and its source."""

        def encode(some: list[tuple[str, Any]]) -> Tensor:
            sources = [source for _, source in some]
            features = encode_images(self.model, sources, advance=advance)
            check_unchanged([key for key, _ in some], sources)
            return features

        return self._images.look_up([key for key, _ in images], images, encode)

"""Batches of image-caption pairs for contrastive training.

Shape letters: B images of a batch, K captions of each, s side in pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from suisei.data.formats import OnError
from suisei.data.leaks import warn_unless_apart
from suisei.data.pairs import ImageCaptions, hold_out_captions, load_different_pairs
from suisei.errors import ConfigError, DataError
from suisei.models.pixel_store import PixelStore
from suisei.ranges import NAME, Rule, Word, at_least, check_settings
from suisei.training.batching import FullBatches, ResumableDataLoader
from suisei.training.data_digest import captioned_digests
from suisei.training.resumable_data import ResumableData, TensorBatch, in_order, require_full_batch

RULES: dict[str, Rule] = {
    "train": NAME,
    "validation": NAME,
    "batch_size": at_least(2, 100_000),
    "captions_per_image": at_least(1, 1000),
    "hold_out": at_least(0, 1000),
    "on_error": Word(get_args(OnError)),
}


@dataclass
class PairBatch(TensorBatch):
    """B different images with captions; rows point into the module's captions and images.

    Attributes:
        texts: rows of the captions, int64 [B K]: K of the first image, K of the next, ...
        images: rows of the images, int64 [B].
        pixels: float32 [B, 3, s, s], or None where image states are looked up.
        generated_texts: rows of generated captions, int64 [B], or None.
        generated_images: rows of generated images, int64 [B], or None: of each image one that was made
            from the first of its captions here, or any where none is known to be.
        generated_pixels: float32 [B, 3, s, s], or None.
    """

    texts: Tensor
    images: Tensor
    pixels: Tensor | None = None
    generated_texts: Tensor | None = None
    generated_images: Tensor | None = None
    generated_pixels: Tensor | None = None

    def __len__(self) -> int:
        return len(self.images)


class PairDataModule(ResumableData):
    """Pairs for training and validation; every epoch draws captions of each image anew.

    An image is in a batch once, so that no caption of its own is among its negatives. What a batch holds
    depends on the seed, the epoch and its number alone: several processes together see the batches that one
    with as many times the batch size would, and a resumed run those of an uninterrupted one.

    Args:
        train: training pairs, see :func:`suisei.data.pairs.load_different_pairs`.
        validation: validation pairs.
        root: the folder of Flickr8k, or of a file's images.
        batch_size: images per batch and process.
        captions_per_image: how many captions of each image are its positives in a batch; an image with
            fewer gives some of them twice.
        hold_out: how many captions of each image stand in for generated ones.
        on_error: "raise" to stop at a bad row or a damaged image, "skip" to leave them out; all images are
            decoded once then, before anything is made of them.
    """

    def __init__(
        self,
        train: str = "flickr8k-train",
        validation: str = "flickr8k-dev",
        root: str | None = None,
        batch_size: int = 256,
        captions_per_image: int = 1,
        hold_out: int = 0,
        on_error: OnError = "raise",
    ) -> None:
        super().__init__()
        check_settings("data", locals(), RULES)
        self.sources = {"train": train, "validation": validation}
        self.root = Path(root) if root is not None else None
        self.batch_size = batch_size
        self.captions_per_image = captions_per_image
        self.hold_out = hold_out
        self.on_error = on_error
        self.seed = 0
        self.pairs: list[ImageCaptions] = []
        self.pixels: PixelStore | None = None
        self.uses_generated = (False, False)

    def load(self, processes: int = 1, *, told: bool = True) -> None:
        """Read the pairs; afterwards ``captions`` and ``images`` list each of them once.

        Args:
            processes: how many processes share a batch.
            told: whether to say how far the decoding is, where bad rows are left out.

        Raises:
            ConfigError: fewer training images than a batch of all processes.
            DataError: bad data, or a single validation image.
        """
        parts = {}
        for part, source in self.sources.items():
            found = load_different_pairs(
                source, part, root=self.root, on_error=self.on_error, skipped=self.skipped, told=told
            )
            pairs = hold_out_captions(found, self.hold_out)
            parts[part] = range(len(self.pairs), len(self.pairs) + len(pairs))
            self.pairs += pairs
        self.tell_of_skipped()
        self.train_part, self.validation_part = parts["train"], parts["validation"]
        training, validation = (self.pairs[part.start : part.stop] for part in parts.values())
        self.digests = captioned_digests(train=training, validation=validation)
        warn_unless_apart(training, validation)
        require_full_batch(len(self.train_part), "images", self.batch_size, processes)
        if len(self.validation_part) < 2:
            raise DataError(
                f"{self.sources['validation']}: a single validation image, which nothing is told apart from: "
                "its loss is 0 whatever is learned; give more (data.validation)"
            )
        texts = (text for pair in self.pairs for text in (*pair.captions, *pair.generated_captions))
        files = (file for pair in self.pairs for file in (pair.image, *pair.generated_images))
        self.captions = list(dict.fromkeys(texts))
        self.images = list(dict.fromkeys(files))
        self._text_rows = {text: row for row, text in enumerate(self.captions)}
        self._image_rows = {file: row for row, file in enumerate(self.images)}

    def draw_generated(self, *, texts: bool, images: bool) -> None:
        """Say which positives batches hold; after :meth:`load`, before anything is made of the data.

        Args:
            texts: whether a generated caption is drawn for every pair.
            images: whether a generated image is drawn for every pair.

        Raises:
            ConfigError: some images lack what is to be drawn.
        """
        instead = ", let held-out captions stand in (data.hold_out)"
        for wanted, kind, weight, more in (
            (texts, "captions", "lambda_t", instead),
            (images, "images", "lambda_v", ""),
        ):
            lacking = self._lacking(f"generated_{kind}") if wanted else ""
            if lacking:
                raise ConfigError(
                    f"{lacking} have no generated_{kind}: add them (suisei positives {kind}), leave out the "
                    f"rows of which its model made nothing{more}, or set model.{weight} to 0"
                )
        self.uses_generated = (texts, images)

    def attach(self, pixels: PixelStore | None, seed: int = 0) -> None:
        """Say what batches hold beside rows of captions and images.

        Args:
            pixels: the preprocessed images, or None where image states are looked up.
            seed: decides the order of the images and which captions are drawn.
        """
        self.pixels, self.seed = pixels, seed

    def _lacking(self, field: str) -> str:
        """Return how many images of which part lack a field, and the first; "" where all have it."""
        said = []
        for name, part in (("train", self.train_part), ("validation", self.validation_part)):
            bare = [pair.image for pair in self.pairs[part.start : part.stop] if not getattr(pair, field)]
            if bare:
                source = f"{self.sources[name]}; the first: {bare[0]}"
                said.append(f"{len(bare)} of {len(part)} images of data.{name} ({source})")
        return " and ".join(said)

    def caption_rows(self, part: Sequence[int]) -> list[list[int]]:
        """Return the rows of all real captions of each image of a part."""
        return [[self._text_rows[text] for text in self.pairs[position].captions] for position in part]

    def image_rows(self, part: Sequence[int]) -> list[int]:
        """Return the row of each real image of a part."""
        return [self._image_rows[self.pairs[position].image] for position in part]

    def train_dataloader(self) -> ResumableDataLoader:
        """Return shuffled full batches, a different share of each to every process."""
        batches = FullBatches(self.train_part, self.batch_size, self.seed, *self.processes)
        return self.resumable(batches, self._collate_random)

    def val_dataloader(self) -> DataLoader[Any]:
        """Return the whole validation part in order, the same to every process."""
        return in_order(list(self.validation_part), self.batch_size, self._collate_first)

    def _collate_random(self, positions: Sequence[int]) -> PairBatch:
        epoch = self.epoch
        rngs = {position: np.random.default_rng((self.seed, epoch, position)) for position in positions}
        return self._collate(
            positions,
            self.captions_per_image,
            lambda position, items: rngs[position].permutation(items).tolist(),
        )

    def _collate_first(self, positions: Sequence[int]) -> PairBatch:
        return self._collate(positions, 1, lambda _, items: items)

    def _collate(
        self,
        positions: Sequence[int],
        captions: int,
        order: Callable[[int, Sequence[int]], Sequence[int]],
    ) -> PairBatch:
        """Make a batch of the images at positions, with the first captions in an order of their own."""
        each = [(position, self.pairs[position]) for position in positions]

        def rows(position: int, table: dict[Any, int], items: Sequence[Any], count: int = 1) -> list[int]:
            own = order(position, [table[item] for item in items])
            return [own[number % len(own)] for number in range(count)]

        texts = [rows(position, self._text_rows, pair.captions, captions) for position, pair in each]
        batch = PairBatch(
            texts=torch.tensor(texts).flatten(),
            images=torch.tensor([self._image_rows[pair.image] for _, pair in each]),
        )
        if self.uses_generated[0]:
            made = [rows(position, self._text_rows, pair.generated_captions) for position, pair in each]
            batch.generated_texts = torch.tensor(made).flatten()
        if self.uses_generated[1]:
            drawn = [
                rows(position, self._image_rows, pair.images_for(self.captions[first]))
                for (position, pair), (first, *_) in zip(each, texts, strict=True)
            ]
            batch.generated_images = torch.tensor(drawn).flatten()
        if self.pixels is not None:
            batch.pixels = self.pixels[batch.images]
            if batch.generated_images is not None:
                batch.generated_pixels = self.pixels[batch.generated_images]
        return batch

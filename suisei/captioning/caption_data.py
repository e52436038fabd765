"""Batches of images with their captions, for a captioner that learns from them.

Shape letters: B images of a batch, K captions of each, L tokens, P places, c width of the grid, s side in
pixels.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from suisei.captioning.caption_search import MAX_LENGTH
from suisei.captioning.caption_sources import CaptionedImage, check_spoken, load_captioned
from suisei.captioning.captioner import Captioner
from suisei.captioning.grid_store import GridStore
from suisei.cli import counted
from suisei.data.copies import copies_among
from suisei.data.formats import OnError
from suisei.data.leaks import check_apart
from suisei.data.paths import full_path
from suisei.data.sample import LANGUAGES
from suisei.errors import DataError
from suisei.models.pixel_store import PixelStore
from suisei.ranges import NAME, Range, Rule, Word, at_least, check_settings
from suisei.training.batching import EpochBatches, ResumableDataLoader
from suisei.training.cut_captions import tell_of_cut
from suisei.training.data_digest import captioned_digests
from suisei.training.resumable_data import ResumableData, TensorBatch, in_order
from suisei.training.shares import RankBatches, Share

RULES: dict[str, Rule] = {
    "train": NAME,
    "validation_share": Range(0, 1, above=True, below=True),
    "language": Word(LANGUAGES, null=True),
    "batch_size": at_least(1, 100_000),
    "captions_per_image": at_least(1, 1000),
    "on_error": Word(get_args(OnError)),
    "max_length": at_least(2, MAX_LENGTH),  # test captions are written so long at the end
}


@dataclass
class CaptionBatch(TensorBatch):
    """B images with K captions each; an image with fewer has rows of padding.

    Attributes:
        images: rows of the images, int64 [B]; of mirrored grids, as many higher as there are images.
        starts: the token each caption starts from, int64 [B, K, 1].
        tokens: the captions, end in and padded, int64 [B, K, L].
        pixels: float32 [B, 3, s, s], where the tower learns.
        grids: float32 [B, P, c], where it is frozen.
    """

    images: Tensor
    starts: Tensor
    tokens: Tensor
    pixels: Tensor | None = None
    grids: Tensor | None = None

    def __len__(self) -> int:
        return len(self.images)


class CaptionedImages(ResumableData):
    """Images with captions for training and validation; every epoch draws captions of each image anew.

    What a batch holds depends on the seed, the epoch and its number alone: several processes together see the
    batches that one with as many times the batch size would, and a resumed run those of an unbroken one.

    Args:
        train: training images, see :func:`suisei.captioning.caption_sources.load_captioned`.
        validation: validation images; null for a share of the training images.
        test: images that are captioned once after training, to report on; null for none.
        root: the folder of Flickr8k or of a benchmark.
        images: where relative image paths start.
        validation_share: share of the training images that validates where no validation images are named.
        language: learn captions of this language alone; null for all.
        batch_size: images per batch and process.
        captions_per_image: captions of each image in a batch, drawn anew each epoch.
        max_length: captions are cut to so many tokens.
        on_error: "raise" to stop at a bad row or a damaged image, "skip" to leave them out; all images are
            decoded once then, before anything is made of them.
    """

    def __init__(
        self,
        train: str = "scenes",
        validation: str | None = None,
        test: str | None = None,
        root: str | None = None,
        images: str | None = None,
        validation_share: float = 0.1,
        language: str | None = None,
        batch_size: int = 32,
        captions_per_image: int = 5,
        max_length: int = 30,
        on_error: OnError = "raise",
    ) -> None:
        super().__init__()
        check_settings("data", locals(), RULES)
        self.sources = {"train": train, "validation": validation, "test": test}
        self.root, self.image_folder = root, images
        self.validation_share = validation_share
        self.language = language
        self.batch_size = batch_size
        self.captions_per_image = captions_per_image
        self.max_length = max_length
        self.on_error = on_error
        self.seed = 0
        self.train_part: list[CaptionedImage] = []
        self.validation_part: list[CaptionedImage] = []
        self.test_part: list[CaptionedImage] = []
        self.pixels: PixelStore | None = None
        self.grids: GridStore | None = None
        self._tokens: list[list[Tensor]] = []
        self._starts: list[Tensor] = []
        self._pad_id = 0
        self._told = True

    def load(self, seed: int, *, told: bool = True) -> None:
        """Read the images' names and captions.

        Args:
            seed: decides which images validate where none are named, the order, and which captions are drawn.
            told: whether to say how far the decoding is, where bad rows are left out.

        Raises:
            DataError: bad data, images that are in training and validation or test, or validation captions in
                a language that no training caption is in.
        """
        self.seed, self._told = seed, told
        self.train_part = self._read("train")
        if self.sources["validation"] is None:
            self._split(seed)
        else:
            self.validation_part = self._read("validation")
        if self.sources["test"] is not None:
            self.test_part = self._read("test")
        self.tell_of_skipped()
        self.digests = captioned_digests(
            train=self.train_part, validation=self.validation_part, test=self.test_part
        )
        check_apart(self.train_part, validation=self.validation_part, test=self.test_part)
        source = self.sources["validation"] or self.sources["train"]
        check_spoken(self.train_part, self.validation_part, str(source))

    def _read(self, part: str) -> list[CaptionedImage]:
        name = self.sources[part]
        assert name is not None
        return load_captioned(
            name,
            root=self.root,
            images=self.image_folder,
            language=self.language,
            on_error=self.on_error,
            skipped=self.skipped,
            told=self._told,
        )

    def _split(self, seed: int) -> None:
        """Take validation images out of the training images, all that one image is called by together."""
        found = sorted(self.train_part, key=lambda image: full_path(image.image))
        random.Random(seed).shuffle(found)
        count = max(1, round(self.validation_share * len(found)))
        held, rest = found[:count], found[count:]
        files = {image.image.resolve() for image in held}
        copies = copies_among([image.image for image in rest], [image.image for image in held])
        twins = [image.image.resolve() in files or str(image.image) in copies for image in rest]
        self.validation_part = held + [image for image, twin in zip(rest, twins, strict=True) if twin]
        self.train_part = [image for image, twin in zip(rest, twins, strict=True) if not twin]
        if not self.train_part:
            raise DataError(
                f"{self.sources['train']}: of {counted(len(found), 'image')} none is left to train on: "
                f"{counted(len(self.validation_part), 'image')} validate"
                f"{'s' if len(self.validation_part) == 1 else ''}; name more, or others to validate on "
                "(data.validation)"
            )

    @property
    def captions(self) -> list[str]:
        """All captions of the training images."""
        return [caption for image in self.train_part for caption in image.captions]

    @property
    def languages(self) -> list[str]:
        """The languages of the training captions, the most frequent first."""
        spoken = [language for image in self.train_part for language in image.languages]
        return sorted(set(spoken), key=lambda language: (-spoken.count(language), language))

    @property
    def files(self) -> list[Any]:
        """The files of training and validation images, in the order of their rows."""
        return [image.image for image in (*self.train_part, *self.validation_part)]

    def attach(self, model: Captioner, pixels: PixelStore | None, grids: GridStore | None) -> None:
        """Turn captions into tokens, and say what images are looked up in."""
        self.pixels, self.grids, self._pad_id = pixels, grids, model.pad_id
        self._tokens, self._starts = [], []
        cut = []
        for image in (*self.train_part, *self.validation_part):
            tokens = model.tokens_of(image.captions, self.max_length)
            self._tokens.append([own[own != model.pad_id] for own in tokens])
            self._starts.append(model.starts(image.languages))
            ends = (own[-1] == model.end_id for own in self._tokens[-1])
            cut += [caption for caption, whole in zip(image.captions, ends, strict=True) if not whole]
        tell_of_cut(cut, sum(map(len, self._tokens)), f"the captioner (data.max_length {self.max_length})")

    def train_dataloader(self) -> ResumableDataLoader:
        """Return shuffled batches, a different share of each to every process.

        A process that has nothing of the last batch, which may be small, has an image without captions of it.
        """
        rank, world = self.processes
        images = len(self.train_part)
        batches = EpochBatches(range(images), self.batch_size * world, self.seed)
        return self.resumable(RankBatches(batches, rank, world, images), self._drawn)

    def val_dataloader(self) -> DataLoader[Any]:
        """Return the validation images in order, with all of their captions, the same to every process."""
        return in_order(range(len(self.train_part), len(self._tokens)), self.batch_size, self._all)

    def _drawn(self, rows: Sequence[int]) -> CaptionBatch:
        chosen, mirrored = [], []
        for row in rows:
            rng = np.random.default_rng((self.seed, self.epoch, row))
            chosen.append(rng.permutation(len(self._tokens[row]))[: self.captions_per_image].tolist())
            mirrored.append(self.grids is not None and self.grids.views > 1 and rng.random() < 0.5)
        batch = self._collated(rows, chosen)
        if isinstance(rows, Share) and rows.places == [-1]:
            batch.tokens.fill_(self._pad_id)
        if self.grids is not None:
            batch.images = batch.images + torch.tensor(mirrored) * self.grids.images
            batch.grids = self.grids[batch.images]
        return batch

    def _all(self, rows: Sequence[int]) -> CaptionBatch:
        batch = self._collated(rows, [list(range(len(self._tokens[row]))) for row in rows])
        if self.grids is not None:
            batch.grids = self.grids[batch.images]
        return batch

    def _collated(self, rows: Sequence[int], chosen: Sequence[Sequence[int]]) -> CaptionBatch:
        count = max(map(len, chosen))
        longest = max(
            len(self._tokens[row][own]) for row, some in zip(rows, chosen, strict=True) for own in some
        )
        tokens = torch.full((len(rows), count, longest), self._pad_id)
        starts = torch.zeros(len(rows), count, 1, dtype=torch.long)
        for place, (row, some) in enumerate(zip(rows, chosen, strict=True)):
            for number, own in enumerate(some):
                ids = self._tokens[row][own]
                tokens[place, number, : len(ids)] = ids
                starts[place, number] = self._starts[row][own]
        images = torch.tensor(list(rows))
        return CaptionBatch(images, starts, tokens, None if self.pixels is None else self.pixels[images])

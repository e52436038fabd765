"""Images with references for training by rewards, and which of them meet in a step.

Shape letters: B images of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from suisei.captioning.caption_sources import CaptionedImage, load_captioned
from suisei.data.formats import OnError
from suisei.data.leaks import check_apart
from suisei.ranges import NAME, Of, Rule, Word, at_least, check_settings
from suisei.training.batching import FullBatches, ResumableDataLoader
from suisei.training.data_digest import captioned_digests
from suisei.training.resumable_data import ResumableData, in_order, require_full_batch

RULES: dict[str, Rule] = {
    "train": NAME,
    "validation": NAME,
    "test": Of(str, null=True),
    "root": Of(str, null=True),
    "images": Of(str, null=True),
    "batch_size": at_least(1, 100_000),
    "train_images": at_least(1, 10**9, null=True),
    "validation_images": at_least(1, 10**9, null=True),
    "test_images": at_least(1, 10**9, null=True),
    "on_error": Word(get_args(OnError)),
}


class RewardedImages(ResumableData):
    """Images with references, for training, validation and the final report.

    What a batch holds depends on the seed, the epoch and its number alone: several processes together see the
    batches that one with as many times the batch size would, and a resumed run those of an unbroken one.

    Args:
        train: training images, see :func:`suisei.captioning.caption_sources.load_captioned`.
        validation: validation images, by which the kept weights are chosen.
        test: images that the start and the tuned model are compared on at the end; null for none.
        root: the folder of Flickr8k or of a benchmark.
        images: where relative image paths start.
        batch_size: images per batch and process.
        train_images: train on so many, drawn at random; null for all. CIDEr's idf is of all in either case.
        validation_images: validate on the first so many; null for all.
        test_images: compare on the first so many; null for all.
        on_error: "raise" to stop at a bad row or a damaged image, "skip" to leave them out; all images are
            decoded once then, before anything is made of them.
    """

    def __init__(
        self,
        train: str = "flickr8k-train",
        validation: str = "flickr8k-dev",
        test: str | None = None,
        root: str | None = None,
        images: str | None = None,
        batch_size: int = 16,
        train_images: int | None = None,
        validation_images: int | None = 200,
        test_images: int | None = None,
        on_error: OnError = "raise",
    ) -> None:
        super().__init__()
        check_settings("data", locals(), RULES)
        self.sources = {"train": train, "validation": validation, "test": test}
        self.root, self.image_folder = root, images
        self.batch_size = batch_size
        self.on_error = on_error
        self.limits = {"train": train_images, "validation": validation_images, "test": test_images}
        self.seed = 0
        self.pairs: list[CaptionedImage] = []
        self.parts: dict[str, range] = {}
        self.documents: list[CaptionedImage] = []
        self.test_part: list[CaptionedImage] = []
        self._told = True

    def load(
        self, seed: int = 0, language: str | None = None, processes: int = 1, *, told: bool = True
    ) -> None:
        """Read the images' captions; afterwards ``pairs`` has training and validation, by ``parts``.

        Args:
            seed: decides which training images are drawn, and the order of the batches.
            language: of the captions that are kept; None for all.
            processes: how many processes share a batch.
            told: whether to say how far the decoding is, where bad rows are left out.

        Raises:
            ConfigError: fewer training images than a batch of all processes.
            DataError: bad data, or images that are in training and in validation or test.
        """
        self.seed, self._told = seed, told
        training = self.documents = self._read("train", language)
        wanted = self.limits["train"]
        if wanted is not None and wanted < len(training):
            drawn = np.random.default_rng(seed).permutation(len(training))[:wanted]
            training = [training[row] for row in sorted(drawn.tolist())]
        validation = self._read("validation", language)[: self.limits["validation"]]
        if self.sources["test"] is not None:
            self.test_part = self._read("test", language)[: self.limits["test"]]
        self.tell_of_skipped()
        self.digests = captioned_digests(train=self.documents, validation=validation, test=self.test_part)
        check_apart(self.documents, validation=validation, test=self.test_part)
        self.pairs = [*training, *validation]
        first = len(training)
        self.parts = {"train": range(first), "validation": range(first, len(self.pairs))}
        require_full_batch(first, "images", self.batch_size, processes)

    def _read(self, part: str, language: str | None) -> list[CaptionedImage]:
        name = self.sources[part]
        assert name is not None
        return load_captioned(
            name,
            root=self.root,
            images=self.image_folder,
            language=language,
            on_error=self.on_error,
            skipped=self.skipped,
            told=self._told,
        )

    def train_dataloader(self) -> ResumableDataLoader:
        """Return shuffled full batches of positions, int64 [B], another share of each to every process."""
        batches = FullBatches(self.parts["train"], self.batch_size, self.seed, *self.processes)
        return self.resumable(batches, _positions)

    def val_dataloader(self) -> DataLoader[Any]:
        """Return the validation part in order, the same to every process."""
        return in_order(self.parts["validation"], 2 * self.batch_size, _positions)


def _positions(positions: Sequence[int]) -> Tensor:
    return torch.tensor(list(positions), dtype=torch.int64)

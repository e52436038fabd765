"""Batches of captions with their images' features, and with captions made wrong.

Shape letters: B captions of a batch, T tokens (padded), f width of the image features, I images.
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
from suisei.data.pairs import load_different_pairs
from suisei.models.latent import padded
from suisei.ranges import NAME, Rule, Word, at_least, check_settings
from suisei.recap.negatives import KINDS, Kind, other_caption, shuffled_caption
from suisei.training.batching import FullBatches, ResumableDataLoader, batch_loader
from suisei.training.data_digest import captioned_digests
from suisei.training.resumable_data import ResumableData, TensorBatch, cut, require_full_batch

RULES: dict[str, Rule] = {
    "train": NAME,
    "validation": NAME,
    "batch_size": at_least(2, 100_000),
    "on_error": Word(get_args(OnError)),
}
PARTS = ("train", "validation")


@dataclass
class LatentBatch(TensorBatch):
    """B captions.

    Attributes:
        features: of their images, float32 [B, f].
        ids: token ids, int64 [B, T].
        mask: which of them are a caption's, bool [B, T].
        kind: of all negatives of the batch; None where there are none.
        negative_ids: of the captions made wrong, int64 [B, T].
        negative_mask: bool [B, T].
        there: which captions have a negative, bool [B].
    """

    features: Tensor
    ids: Tensor
    mask: Tensor
    kind: Kind | None = None
    negative_ids: Tensor | None = None
    negative_mask: Tensor | None = None
    there: Tensor | None = None

    def __len__(self) -> int:
        return len(self.ids)


class LatentData(ResumableData):
    """Captions for training and validation; an epoch is every caption of every training image once.

    What a batch holds depends on the seed, the epoch and its captions alone, so that a resumed run goes on
    with the batches of an uninterrupted one. Validation takes each image's first caption, with negatives of
    both kinds, batch by batch, always the same.

    Args:
        train: training pairs, see :func:`suisei.data.pairs.load_different_pairs`.
        validation: validation pairs.
        root: the folder of Flickr8k, or of a file's images.
        batch_size: captions per batch.
        on_error: "raise" to stop at a bad row or a damaged image, "skip" to leave them out; all images are
            decoded once then, before anything is made of them.
    """

    def __init__(
        self,
        train: str = "flickr8k-train",
        validation: str = "flickr8k-dev",
        root: str | None = None,
        batch_size: int = 128,
        on_error: OnError = "raise",
    ) -> None:
        super().__init__()
        check_settings("data", locals(), RULES)
        self.sources = {"train": train, "validation": validation}
        self.root = Path(root) if root is not None else None
        self.batch_size = batch_size
        self.on_error = on_error
        self.images: list[Path] = []
        self.captions: dict[str, list[str]] = {}
        self.owners: dict[str, list[int]] = {}
        self.firsts: list[int] = []
        self._features = torch.empty(0)
        self._tokenize: Callable[[Sequence[str]], list[list[int]]] | None = None
        self._contrasted, self._seed = False, 0

    def load(self) -> None:
        """Read the pairs; afterwards ``images`` are those of both parts, one after the other.

        Raises:
            ConfigError: fewer training captions than a batch.
            DataError: bad data.
        """
        found = {
            part: load_different_pairs(
                self.sources[part], part, root=self.root, on_error=self.on_error, skipped=self.skipped
            )
            for part in PARTS
        }
        self.tell_of_skipped()
        self.digests = captioned_digests(**found)
        warn_unless_apart(found["train"], found["validation"])
        for part, pairs in found.items():
            start = len(self.images)
            self.images += [pair.image for pair in pairs]
            self.captions[part] = [text for pair in pairs for text in pair.captions]
            self.owners[part] = [start + n for n, pair in enumerate(pairs) for _ in pair.captions]
        own = self.owners["validation"]
        self.firsts = [n for n, image in enumerate(own) if not n or own[n - 1] != image]
        require_full_batch(len(self.captions["train"]), "captions", self.batch_size)

    def attach(
        self,
        features: Tensor,
        tokenize: Callable[[Sequence[str]], list[list[int]]],
        *,
        contrasted: bool,
        seed: int,
    ) -> None:
        """Say what batches are made of.

        Args:
            features: of all images, float32 [I, f].
            tokenize: captions to token ids.
            contrasted: whether a batch holds captions made wrong.
            seed: decides the order, and what is drawn.
        """
        self._features, self._tokenize = features, tokenize
        self._contrasted, self._seed = contrasted, seed

    def train_dataloader(self) -> ResumableDataLoader:
        """Return shuffled batches; what does not fill one is left for another epoch's order."""
        captions = range(len(self.captions["train"]))
        batches = FullBatches(captions, self.batch_size, self._seed, rank=0, world=1)
        return self.resumable(batches, self._training_batch)

    def val_dataloader(self) -> DataLoader[Any]:
        """Return the validation part in order; with negatives, once for each kind."""
        chunks = cut(self.firsts, self.batch_size)
        kinds = range(len(KINDS) if self._contrasted else 1)
        loader: DataLoader[Any] = batch_loader(
            [[kind, *chunk] for kind in kinds for chunk in chunks], self._validation_batch
        )
        return loader

    def _training_batch(self, positions: Sequence[int]) -> LatentBatch:
        rng = np.random.default_rng((self._seed, self.epoch, *positions[:2]))
        kind = KINDS[int(rng.integers(len(KINDS)))]
        return self._batch("train", positions, kind, rng)

    def _validation_batch(self, given: Sequence[int]) -> LatentBatch:
        number, *positions = given
        return self._batch("validation", positions, KINDS[number], np.random.default_rng((0, *positions[:2])))

    def _batch(
        self, part: str, positions: Sequence[int], kind: Kind, rng: np.random.Generator
    ) -> LatentBatch:
        assert self._tokenize is not None
        captions, owners = self.captions[part], self.owners[part]
        own = [captions[position] for position in positions]
        rows = torch.tensor([owners[position] for position in positions])
        batch = LatentBatch(self._features[rows], *padded(self._tokenize(own)))
        if not self._contrasted:
            return batch
        if kind == "other":
            wrong = [other_caption(position, captions, owners, rng) for position in positions]
        else:
            wrong = [shuffled_caption(text, int(rng.integers(2**31))) for text in own]
        batch.kind = kind
        batch.there = torch.tensor([text is not None for text in wrong])
        made = [text if text is not None else right for text, right in zip(wrong, own, strict=True)]
        batch.negative_ids, batch.negative_mask = padded(self._tokenize(made))
        return batch

"""SampleTable: samples as integer arrays over their unique captions and images, and batches of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suisei.data.images import content_key
from suisei.data.sample import CaptionSample, mean_ratings
from suisei.errors import DataError
from suisei.models.batch import Batch, Span, length_spans
from suisei.models.pixel_store import PixelStore


class SampleTable:
    """N samples that point into unique captions and images, so that each is encoded once.

    Args:
        samples: the samples.
        extras: raw extra inputs, [N, E]; none by default.
        with_images: of which samples the image is read; False for a model that reads none. Files of
            others are not opened.
        pairs: (caption, caption, similarity in [0, 1]) of captions that are compared by themselves.
        across: of which samples no reference is in the candidate's language; None for what is not told apart.

    Attributes:
        captions: the unique captions, in order of appearance.
        images: one source for every image with its own content, in order of appearance.
        image_keys: the hash of every image's content, in the same order.
        candidate: row of each sample's candidate, int64 [N].
        references: rows of each sample's references, N arrays of int64.
        image: row of each sample's image, int64 [N]; -1 where there is none.
        target: mean human rating in [0, 1], float32 [N]; NaN where unrated.
        extras: raw extra inputs, float32 [N, E].
        source: the data set of every sample, by number, int64 [N]; None where there is but one.
        original: row of the sample that a degraded one was made of, int64 [N]; -1 for none, None where there
            is none at all.
        pairs: rows of the captions of each pair, int64 [Q, 2].
        pair_target: similarity of each pair, float32 [Q].
    """

    def __init__(
        self,
        samples: Sequence[CaptionSample],
        extras: np.ndarray | None = None,
        *,
        with_images: bool | Sequence[bool] = True,
        pairs: Sequence[tuple[str, str, float]] = (),
        across: Sequence[bool] | None = None,
    ) -> None:
        caption_rows: dict[str, int] = {}
        self.candidate = np.array([_row(caption_rows, s.candidate) for s in samples], dtype=np.int64)
        self.references = [
            np.array([_row(caption_rows, reference) for reference in s.references], dtype=np.int64)
            for s in samples
        ]
        rows = [(_row(caption_rows, one), _row(caption_rows, other)) for one, other, _ in pairs]
        self.pairs = np.array(rows, dtype=np.int64).reshape(-1, 2)
        self.pair_target = np.array([similarity for *_, similarity in pairs], dtype=np.float32)
        self.across = None if across is None else np.array(across, dtype=bool)
        self.source: np.ndarray | None = None
        self.original: np.ndarray | None = None
        self.captions = list(caption_rows)
        # A model that reads no image must not fail on one either.
        wanted = [with_images] * len(samples) if isinstance(with_images, bool) else with_images
        used = [own and s.image is not None for own, s in zip(wanted, samples, strict=True)]
        self.image, self.images, self.image_keys = _image_rows(samples, used)
        self.target = mean_ratings(samples).astype(np.float32)
        self.extras = np.zeros((len(samples), 0), np.float32) if extras is None else extras.astype(np.float32)
        if len(self.extras) != len(samples):
            raise DataError(f"extras has {len(self.extras)} rows for {len(samples)} samples")

    def __len__(self) -> int:
        return len(self.candidate)

    def separate_captions(self, rows: Iterable[int]) -> range:
        """Give some samples captions that no other sample points to, and return where these stand.

        Args:
            rows: the samples; among themselves they go on sharing captions.
        """
        first = len(self.captions)
        moved: dict[int, int] = {}  # old row: new row
        for row in rows:
            for own in (self.candidate[row : row + 1], self.references[row]):
                own[:] = [moved.setdefault(int(caption), first + len(moved)) for caption in own]
        self.captions += [self.captions[caption] for caption in moved]
        return range(first, len(self.captions))


def _row(rows: dict[str, int], caption: str) -> int:
    return rows.setdefault(caption, len(rows))


def _image_rows(
    samples: Sequence[CaptionSample], used: Sequence[bool]
) -> tuple[np.ndarray, list[Any], list[str]]:
    """Number the images that are used by content; a path is read once however often it occurs."""
    keys: dict[str, int] = {}
    by_path: dict[str, str] = {}
    sources: list[Any] = []
    rows = np.full(len(samples), -1, dtype=np.int64)
    for position, sample in enumerate(samples):
        if not used[position]:
            continue
        path = str(sample.image) if isinstance(sample.image, str | Path) else None
        key = by_path.get(path) if path is not None else None
        if key is None:
            assert sample.image is not None
            key = content_key(sample.image)
            if path is not None:
                by_path[path] = key
        if key not in keys:
            keys[key] = len(sources)
            sources.append(sample.image)
        rows[position] = keys[key]
    return rows, sources, list(keys)


class Collator:
    """Makes batches of a table's samples.

    Args:
        table: the samples.
        token_ids: token ids of every caption of the table, or None where features are looked up.
        pad: turns ragged token ids into ids and mask, [T, L].
        pixels: the preprocessed images, or None where there are none or features are looked up.
        overhead: what one more call of the encoder costs, in tokens; captions of a batch are encoded in
            parts of similar length where that saves more padding. None encodes them all at once.

    Attributes:
        lengths: tokens of the longest caption of every sample, int64 [N]; None without ``token_ids``.
    """

    def __init__(
        self,
        table: SampleTable,
        token_ids: Sequence[Sequence[int]] | None = None,
        pad: Callable[[Sequence[Sequence[int]]], tuple[Tensor, Tensor]] | None = None,
        pixels: PixelStore | None = None,
        overhead: float | None = None,
    ) -> None:
        self.table = table
        self.token_ids = token_ids
        self.pad = pad
        self.pixels = pixels
        self.overhead = overhead
        self._counts = np.array([len(rows) for rows in table.references], dtype=np.int64)
        self._starts = np.cumsum(self._counts) - self._counts
        self._references = np.concatenate([*table.references, np.zeros(1, np.int64)])
        self._tokens = None if token_ids is None else np.array([len(ids) for ids in token_ids], np.int64)
        self.lengths = None if self._tokens is None else self._longest(self._tokens)

    def _longest(self, tokens: np.ndarray) -> np.ndarray:
        longest = tokens[self.table.candidate].copy()
        owners = np.repeat(np.arange(len(self.table)), self._counts)
        np.maximum.at(longest, owners, tokens[self._references[:-1]])
        return longest

    def __call__(self, positions: Sequence[int]) -> Batch:
        """Collate the samples at ``positions``; every caption and image of the batch is in it once.

        A position beyond the last sample is that of a pair of captions.
        """
        rows = np.asarray(positions, dtype=np.int64)
        table = self.table
        rows, pairs = rows[rows < len(table)], rows[rows >= len(table)] - len(table)
        references, reference_mask = self._pad_references(rows)
        compared = table.pairs[pairs].ravel()
        occurring = np.concatenate([table.candidate[rows], references[reference_mask], compared])
        captions, local = np.unique(occurring, return_inverse=True)
        ids = mask = pixels = None
        spans: tuple[Span, ...] = ()
        if self.token_ids is not None and self._tokens is not None and self.pad is not None:
            if self.overhead is not None:
                order = np.argsort(-self._tokens[captions], kind="stable")
                captions, local = captions[order], np.argsort(order)[local]
                spans = length_spans(self._tokens[captions], self.overhead)
            ids, mask = self.pad([self.token_ids[row] for row in captions])
        local_references = np.zeros_like(references)
        local_references[reference_mask] = local[len(rows) : len(local) - len(compared)]
        images = table.image[rows]
        image_mask = images >= 0
        image_rows, local_images = np.unique(images[image_mask], return_inverse=True)
        local_image = np.zeros(len(rows), dtype=np.int64)
        local_image[image_mask] = local_images
        rows_of_images = torch.from_numpy(image_rows)
        if self.pixels is not None and len(image_rows):
            pixels = self.pixels[rows_of_images]
        return Batch(
            caption_rows=torch.from_numpy(captions),
            ids=ids,
            mask=mask,
            candidate=torch.from_numpy(local[: len(rows)]),
            references=torch.from_numpy(local_references),
            reference_mask=torch.from_numpy(reference_mask),
            image_rows=rows_of_images,
            pixels=pixels,
            image=torch.from_numpy(local_image),
            image_mask=torch.from_numpy(image_mask),
            extras=torch.from_numpy(table.extras[rows]),
            target=torch.from_numpy(table.target[rows]),
            source=None if table.source is None else torch.from_numpy(table.source[rows]),
            original=self._originals(rows),
            across=None if table.across is None else torch.from_numpy(table.across[rows]),
            pairs=torch.from_numpy(local[len(local) - len(compared) :].reshape(-1, 2))
            if len(pairs)
            else None,
            pair_target=torch.from_numpy(table.pair_target[pairs]) if len(pairs) else None,
            spans=spans,
        )

    def _originals(self, rows: np.ndarray) -> Tensor | None:
        """Return where in the batch stands what each sample was made of, int64 [B]; -1 for nowhere."""
        if self.table.original is None:
            return None
        places = {int(row): place for place, row in enumerate(rows)}
        found = [places.get(int(original), -1) for original in self.table.original[rows]]
        return torch.tensor(found, dtype=torch.long)

    def _pad_references(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return caption rows [B, R] and mask [B, R]; R is the largest number of references in the batch."""
        counts = self._counts[rows]
        places = np.arange(counts.max(initial=0))
        mask = places < counts[:, None]
        flat = np.where(mask, self._starts[rows, None] + places, -1)  # -1 is the zero at the end
        return self._references[flat], mask

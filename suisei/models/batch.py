"""Batch: what the regressor reads, with every caption and image of the batch in it once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from suisei.encoders.attention import Span


@dataclass
class Batch:
    """Samples that point into the captions and images of the batch.

    Shape letters: B samples, T captions, L tokens, R references (padded), I images, s side in
    pixels, E extra inputs, Q pairs of captions.

    Attributes:
        caption_rows: which captions of the data set these are, int64 [T].
        ids: token ids, int64 [T, L]; None where features of a frozen encoder are looked up.
        mask: 1 for tokens and 0 for padding, int64 [T, L]; None together with ids.
        candidate: position of the candidate among the captions, int64 [B].
        references: positions of the references, int64 [B, R]; any valid position where masked.
        reference_mask: True where there is a reference, bool [B, R].
        image_rows: which images of the data set these are, int64 [I].
        pixels: preprocessed images, float32 [I, 3, s, s]; None without image encoder or where
            features of a frozen encoder are looked up.
        image: position of the image among the images, int64 [B]; 0 where masked.
        image_mask: True where there is an image, bool [B].
        extras: raw extra inputs, float32 [B, E], NaN where a metric has no score.
        target: human rating in [0, 1], float32 [B].
        source: the data set of every sample, by number, int64 [B]; None where there is but one.
        original: position in the batch of the sample that a degraded one was made of, int64 [B]; -1 for
            none, None where there is none at all.
        pairs: positions of the captions of rated pairs, int64 [Q, 2]; None without any.
        pair_target: their similarity in [0, 1], float32 [Q].
        across: True where no reference is in the candidate's language, bool [B]; None where languages are not
            told apart.
        spans: parts of ``ids``, in order, that are each without the columns that are padding in all of its
            rows; empty where all rows are one.
        replaced: what stands in the place of extra inputs that are known, float32 [B, all E of the model];
            NaN, or None for all, leaves them as they are.
        place: where in the batch of all processes the samples stand, int64 [B]; [-1] for a single sample that
            does not count; None where this is the whole batch.
        whole: samples in the batch of all processes; 0 where this is it.
    """

    caption_rows: Tensor
    ids: Tensor | None
    mask: Tensor | None
    candidate: Tensor
    references: Tensor
    reference_mask: Tensor
    image_rows: Tensor
    pixels: Tensor | None
    image: Tensor
    image_mask: Tensor
    extras: Tensor
    target: Tensor
    source: Tensor | None = None
    original: Tensor | None = None
    pairs: Tensor | None = None
    pair_target: Tensor | None = None
    across: Tensor | None = None
    spans: tuple[Span, ...] = ()
    replaced: Tensor | None = None
    place: Tensor | None = None
    whole: int = 0

    @property
    def counted(self) -> int:
        """How many of the samples count: all of them, or none."""
        return 0 if self.place is not None and int(self.place[0]) < 0 else len(self)

    def __len__(self) -> int:
        return len(self.candidate)


def length_spans(lengths: np.ndarray, overhead: float) -> tuple[Span, ...]:
    """Cut captions that are sorted by length, longest first, where that saves more padding than it costs.

    Minimises the sum over parts of (captions x longest caption + overhead), by dynamic programming over
    the distinct lengths.

    Args:
        lengths: tokens of every caption, int [T], in descending order.
        overhead: what one more call of the encoder costs, in tokens.
    """
    widths, starts = np.unique(-lengths, return_index=True)
    bounds = [*starts.tolist(), len(lengths)]
    best: list[tuple[float, int]] = [(0.0, 0)]  # cost of all before a bound, and where its part begins
    for end in range(1, len(bounds)):
        rows = bounds[end]
        costs = [
            (best[begin][0] + (rows - bounds[begin]) * -int(widths[begin]) + overhead, begin)
            for begin in range(end)
        ]
        best.append(min(costs))
    spans: list[Span] = []
    end = len(bounds) - 1
    while end:
        begin = best[end][1]
        spans.append((bounds[begin], bounds[end], -int(widths[begin])))
        end = begin
    return tuple(reversed(spans))

"""Samples taken through a regressor: features of captions and images, fusion, head.

Shape letters: N samples, E extra inputs, B batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suisei.data.sample import CaptionSample
from suisei.encoders.precision import matrix_products
from suisei.metrics.kept_features import KeptFeatures
from suisei.models.alignment import alignment_inputs
from suisei.models.batch import Batch
from suisei.models.cosine_start import reference_cosine
from suisei.models.features import ignore_progress
from suisei.models.lower_layers import LowerStates
from suisei.models.regressor import Regressor
from suisei.models.similarities import similarities
from suisei.models.table import Collator, SampleTable
from suisei.progress import in_parts, progress_bar

READ = ("candidate", "references", "reference_mask", "image", "image_mask", "extras")
"""What of a batch the regressor reads beside features."""

COMPARED = 4096
"""Samples whose cosines are computed at once."""

FUSED_AT_ONCE, FUSED_NUMBERS = 1024, 2**25
"""Samples that a GPU fuses at once, for fewer keep it waiting; and numbers of their references, at most."""


@dataclass(frozen=True)
class Forward:
    """Computes a regressor's scores of samples; threads may share it.

    Attributes:
        features: of the regressor's encoders, kept between calls.
        device: where samples are fused.
        precision: what the encoders compute in.
    """

    features: KeptFeatures
    device: torch.device
    precision: str

    @property
    def regressor(self) -> Regressor:
        """The model."""
        return self.features.computed.model

    def of_copy(self, regressor: Regressor) -> Forward:
        """Return the same of a copy of the model."""
        return replace(self, features=self.features.of_copy(regressor))

    def compute(
        self,
        samples: Sequence[CaptionSample],
        extras: np.ndarray,
        across: Sequence[bool] | None,
        *,
        batch_size: int,
        replaced: Tensor | None = None,
        advance: Callable[[int], Any] = ignore_progress,
        lower: Sequence[LowerStates] = (),
        known: LowerStates | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores [N] and, where some inputs are replaced, all as they were [N, E].

        Args:
            samples: as the model is to read them.
            extras: raw extra inputs of metrics, one row a sample.
            across: which samples have no reference in their own language; None where languages are not told.
            batch_size: samples at once.
            replaced: extra inputs to read instead, [N, E], NaN where one stays.
            advance: called with the number of samples that were done.
            lower: takes what the lower layers say of the captions, for second models.
            known: what these layers say, where another model has computed it.
        """
        table = SampleTable(
            samples,
            extras,
            with_images=[self.regressor.looks(compared=bool(sample.references)) for sample in samples],
            across=across,
        )
        parts, pooled = len(table.captions) + len(table.images), dict[int, Tensor]()
        step = in_parts(advance, len(table), parts)
        with torch.inference_mode(), matrix_products(self.precision):
            if self.regressor.columns.aligned:
                matched = alignment_inputs(
                    self.regressor, table, step, pooled=pooled, lower=lower, known=known
                )
                table.extras = self.regressor.columns.with_aligned(table.extras, matched)
            captions = self.features.of_captions(table, pooled, step)
            images = self.features.of_images(table, step)
            scores, inputs = self._fuse(table, captions, images, replaced, batch_size)
        step(parts)  # those that were known took no time
        return scores, inputs

    def reference_cosines(self, samples: Sequence[CaptionSample]) -> np.ndarray:
        """Return the middle of the largest and the mean cosine over references, float64 [N]; NaN without."""
        table = SampleTable(samples, with_images=False)
        collate, found = Collator(table), np.full(len(table), np.nan)
        with torch.inference_mode(), matrix_products(self.precision):
            with progress_bar("encoding captions", len(table.captions)) as advance:
                vectors = self.features.of_captions(table, {}, advance)
            for start in range(0, len(table), COMPARED):
                rows = range(start, min(start + COMPARED, len(table)))
                batch = collate(rows)
                captions = vectors[batch.caption_rows]
                references = captions[batch.references]
                similar = similarities(captions[batch.candidate], references, batch.reference_mask)
                found[rows.start : rows.stop] = reference_cosine(similar).numpy()
        return found

    def _fuse(
        self,
        table: SampleTable,
        captions: Tensor,
        images: Tensor | None,
        replaced: Tensor | None,
        batch_size: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        collate = Collator(table)
        batch_size = fused_at_once(batch_size, table, captions[0].numel(), self.device)
        scores, inputs = (
            np.empty(len(table)),
            np.empty((len(table), 0 if replaced is None else len(self.regressor.columns.names))),
        )
        for start in range(0, len(table), batch_size):
            batch = collate(range(start, min(start + batch_size, len(table))))
            features = captions[batch.caption_rows].to(self.device)
            looks = None if images is None else images[batch.image_rows].to(self.device)
            for name in READ:
                setattr(batch, name, getattr(batch, name).to(self.device))
            if batch.across is not None:
                batch.across = batch.across.to(self.device)
            if replaced is not None:
                inputs[start : start + batch_size] = self._inputs(batch, features, looks)
                batch.replaced = replaced[start : start + batch_size].to(self.device)
            values = self.regressor(batch, features, looks)
            scores[start : start + batch_size] = values.double().cpu().numpy()
        return scores, inputs

    def _inputs(self, batch: Batch, captions: Tensor, images: Tensor | None) -> np.ndarray:
        """Return the extra inputs as they are, float64 [B, E]."""
        extras: np.ndarray = self.regressor.outputs(batch, captions, images).extras.double().cpu().numpy()
        return extras


def fused_at_once(batch_size: int, table: SampleTable, numbers: int, device: torch.device) -> int:
    """Return how many samples to fuse at once: on a GPU more than is asked for, if they are small.

    Args:
        batch_size: what is asked for.
        table: the samples.
        numbers: that describe a caption.
        device: where they are fused.
    """
    if device.type != "cuda":
        return batch_size
    most = max((len(own) for own in table.references), default=1)
    return max(batch_size, min(FUSED_AT_ONCE, FUSED_NUMBERS // max(1, most * numbers)))

"""Which extra input of the regressor stands in which column: the one owner of their order.

measured    scores of other metrics, as ``fusion.extra_inputs`` names them
aligned     how the words of candidate and references match, see :mod:`suisei.models.alignment`
similar     cosines between the vectors of candidate and references
seen        cosines between the vectors of candidate and image

The first two are given: computed beside the model, they come with a batch. The others the model computes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from suisei.models.config import FusionConfig

ALIGNMENTS = (
    *("precision-max", "precision-mean", "idf-precision-max", "idf-precision-mean"),
    *("least-precision-max", "least-precision-mean", "recall-max", "recall-mean"),
    *("idf-recall-max", "idf-recall-mean", "least-recall-max", "least-recall-mean"),
    *("precision-anywhere", "idf-precision-anywhere", "least-precision-anywhere", "reference-agreement"),
)
"""What :mod:`suisei.models.alignment` measures: per reference, then the best and the mean over references."""
Numbers = TypeVar("Numbers", np.ndarray, Tensor)
SIMILARITIES = ("largest", "mean", "smallest")
"""Cosines over references, each of all poolings."""


@dataclass(frozen=True)
class InputColumns:
    """Names and places of a model's extra inputs.

    Shape letters: B samples, G given columns, M metrics, A numbers of the alignment, E columns.

    Attributes:
        measured: names of the metrics.
        aligned: names of the alignment's numbers; empty for a model without.
        similar: names of the cosines with references; empty for a model without.
        seen: names of the cosines with the image; empty for a model without.
    """

    measured: tuple[str, ...] = ()
    aligned: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()
    seen: tuple[str, ...] = ()

    @classmethod
    def of(cls, fusion: FusionConfig, *, reads_images: bool) -> InputColumns:
        """Return the columns of a model with these settings.

        Args:
            fusion: the settings.
            reads_images: whether it has an image encoder.
        """
        similar = [f"similarity-{kind}-{pooling}" for kind in SIMILARITIES for pooling in fusion.poolings]
        seen = [f"image-similarity-{pooling}" for pooling in fusion.poolings]
        return cls(
            tuple(fusion.extra_inputs),
            ALIGNMENTS if fusion.alignment else (),
            tuple(similar) if fusion.similarity else (),
            tuple(seen) if fusion.image_similarity and reads_images else (),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all E columns, in order."""
        return (*self.measured, *self.aligned, *self.similar, *self.seen)

    @property
    def given(self) -> slice:
        """The columns that come with a batch."""
        return slice(0, len(self.measured) + len(self.aligned))

    @property
    def computed(self) -> slice:
        """The columns that the model computes: cosines."""
        return slice(self.given.stop, len(self.names))

    def scores(self, by_metric: Mapping[str, np.ndarray], count: int) -> np.ndarray:
        """Return the measured columns, float32 [B, M].

        Args:
            by_metric: scores of each metric by name, [B].
            count: B, which no score tells where there is no metric.
        """
        columns = [by_metric[name] for name in self.measured]
        return np.stack(columns, axis=1).astype(np.float32) if columns else np.zeros((count, 0), np.float32)

    def with_aligned(self, measured: Numbers, aligned: Numbers) -> Numbers:
        """Return the given columns [B, G]: the measured ones [B, M], then the alignment's numbers [B, A]."""
        if isinstance(measured, np.ndarray):
            return np.concatenate([measured, aligned], axis=1)
        return torch.cat([measured, aligned], dim=1)

    def complete(self, given: Tensor, similar: Tensor | None, seen: Tensor | None) -> Tensor:
        """Return all columns [B, E] of the given ones [B, G] and what the model computed of the others."""
        parts = [given, *(part for part in (similar, seen) if part is not None)]
        return torch.cat(parts, dim=1) if len(parts) > 1 else given

    def cosines(
        self, columns: Tensor, similar: Tensor | None, seen: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the cosines with references and with the image as they stand in all columns [B, E].

        Args:
            columns: what :meth:`complete` returned, with some of it replaced.
            similar: what is returned where the columns have none.
            seen: likewise.
        """
        first = self.given.stop
        middle = first + len(self.similar)
        return (
            columns[:, first:middle] if self.similar else similar,
            columns[:, middle:] if self.seen else seen,
        )

    def needing(self, what: str, needs: Mapping[str, Collection[str]]) -> list[int]:
        """Return the given columns of which nothing is known without "references", or without "image".

        Args:
            what: the one or the other.
            needs: what each metric needs, by name.
        """
        columns = [column for column, name in enumerate(self.measured) if what in needs.get(name, ())]
        return columns + list(range(len(self.measured), self.given.stop)) * (what == "references")


def blank(given: Tensor, rows: Tensor, columns: Sequence[int]) -> None:
    """Take from the rows what cannot be known without the input that was dropped.

    Args:
        given: the given columns, float [B, G], or those of them that are known yet; changed in place, to NaN.
        rows: the samples, bool [B].
        columns: what :meth:`InputColumns.needing` said.
    """
    for column in columns:
        if column < given.shape[1]:
            given[rows, column] = torch.nan

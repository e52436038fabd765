"""What an explanation asks of a metric: its scores, and of some metrics what decides them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from suisei.data.sample import CaptionSample

COSINES, METRICS = "cosines with references", "metrics"
"""Kinds of numbers that have a role of their own in an explanation."""


@dataclass(frozen=True, slots=True)
class InputColumn:
    """A number that a model reads beside captions and image.

    Attributes:
        name: of the number.
        kind: which numbers it belongs to, as :class:`suisei.explain.explanation.InputEffect` has them.
        typical: what the model counts it from: its mean over the training data, or a constant.
    """

    name: str
    kind: str
    typical: float


class Scorer(Protocol):
    """A metric, as far as it is asked here."""

    name: str
    higher_is_better: ClassVar[bool]

    @property
    def reads(self) -> frozenset[str]:
        """What may decide the score beside the candidate: any of "references" and "image"."""

    @property
    def signature(self) -> str:
        """One line that says what decides the score."""

    def score(self, samples: Any, *, batch_size: int = 64) -> np.ndarray:
        """Return the scores, float64 [N], NaN where a sample lacks what the metric needs."""

    def missing(self, samples: Sequence[CaptionSample]) -> dict[int, str]:
        """Return {position: reason} of the samples that lack it."""


@runtime_checkable
class ReadsInputs(Protocol):
    """A metric whose score comes from numbers that can be seen and replaced."""

    def input_columns(self) -> Sequence[InputColumn]:
        """Return what the numbers are, E of them."""

    def score_replaced(
        self, samples: Sequence[CaptionSample], replaced: np.ndarray, *, batch_size: int = 64
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return scores [N], and the numbers as they were, [N, E], NaN where one is not known.

        Args:
            samples: the samples.
            replaced: what to put in the place of a number, [N, E]; NaN leaves it as it is, and a number
                that is not known stays unknown.
            batch_size: how many samples are scored at once; never changes a score.
        """


@runtime_checkable
class ReadsTokens(Protocol):
    """A metric whose text encoder reads so many tokens of a caption and no more."""

    @property
    def reads_ends(self) -> bool:
        """Whether it reads the last tokens of what is too long, and not the first."""

    def tokens_left(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens it would read after each text: -1 where not all of it is read."""


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """What two models say of a sample, of which the second is weighed beside the first.

    Attributes:
        first: the first model's score.
        second: the second's.
        share: of the second's logit, 0 to 1.
    """

    first: float
    second: float
    share: float


@runtime_checkable
class AsksSecond(Protocol):
    """A metric that may ask a second model."""

    def second_opinion(self, sample: CaptionSample) -> SecondOpinion | None:
        """Return what both models say of a sample, None where no second is asked of it."""

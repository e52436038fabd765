"""Explanation: one caption's score, and what it would be without each thing that it was made of."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ReferenceEffect:
    """What one reference does.

    Attributes:
        text: the reference.
        position: which of the sample's references it is, from 0.
        alone: the score with this reference alone and no other; None if there is none.
        without: the score with all references but this one; None if there is none.
        cosine: the largest cosine between this reference and the candidate, of the model's poolings; None
            for a metric that computes none.
        moved: by how much this reference raises the score (``score - without``); None if there is none.
    """

    text: str
    position: int
    alone: float | None
    without: float | None
    cosine: float | None
    moved: float | None


@dataclass(frozen=True, slots=True)
class WordEffect:
    """What one word of the candidate does.

    Attributes:
        text: the word as it stands in the candidate.
        start: where it begins in the candidate, in characters.
        end: where it ends.
        without: the score of the candidate without this word; None if nothing is left, or no score.
        moved: by how much the word raises the score (``score - without``); None if there is none.
    """

    text: str
    start: int
    end: int
    without: float | None
    moved: float | None


@dataclass(frozen=True, slots=True)
class InputEffect:
    """What one number that a model reads beside captions and image does, or a group of them together.

    Attributes:
        name: such as "cider" or "similarity-largest-mean"; of a group, what it is.
        kind: "metrics", "alignment", "cosines with references" or "cosines with the image".
        value: the number; None for a group, or where it could not be known.
        typical: what it is replaced by: its mean over the training data; for a cosine what the model counts
            it from, a constant or, where the model starts from the cosine, a mean before training. None for a
            group.
        replaced: the score with the number at ``typical``, all others as they are; of a group, with all its
            numbers there. None where the number is not known.
        moved: by how much the number, being what it is, raises the score (``score - replaced``).
        members: how many numbers these are; 1 for a single one.
    """

    name: str
    kind: str
    value: float | None
    typical: float | None
    replaced: float | None
    moved: float | None
    members: int = 1


@dataclass(frozen=True, slots=True)
class SecondEffect:
    """What the second model of a folder does, which is weighed beside the first by their logits.

    Attributes:
        says: its own score.
        share: of its logit, 0 to 1.
        without: the score of the first model alone.
        moved: by how much the second raises the score (``score - without``).
    """

    says: float
    share: float
    without: float
    moved: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a caption has its score: scores of the same metric, each of the sample changed in one way.

    Attributes:
        metric: the metric's name.
        signature: the metric's signature.
        candidate: the caption.
        language: "ja" or "en".
        image: the image's file, "in memory" for one without, or None.
        score: with all that there is.
        without_image: without the image; None where there is none, or no score without.
        without_references: without any reference; likewise.
        candidate_alone: without both; None unless there are both, or no score without.
        references: what each does, nearest first.
        words: what each word of the candidate does, in their order.
        inputs: what each number does that the model reads beside captions and image, largest effect first.
        groups: the same for all numbers of a kind together, where a kind has several: numbers that say the
            same hide each other when one is replaced alone.
        notes: what else must be known.
        higher_is_better: False for a distance, which a word that helps lowers.
        second: what the second model does; None where none is asked of this caption.
    """

    metric: str
    signature: str
    candidate: str
    language: str
    image: str | None
    score: float
    without_image: float | None = None
    without_references: float | None = None
    candidate_alone: float | None = None
    references: tuple[ReferenceEffect, ...] = ()
    words: tuple[WordEffect, ...] = ()
    inputs: tuple[InputEffect, ...] = ()
    groups: tuple[InputEffect, ...] = ()
    notes: tuple[str, ...] = ()
    higher_is_better: bool = True
    second: SecondEffect | None = None

    def helps(self, moved: float | None) -> bool:
        """Return whether what moves the score by so much makes it better."""
        return (moved or 0.0) * (1 if self.higher_is_better else -1) > 0

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation as values that JSON can hold."""
        return asdict(self)

"""CaptionSample: one candidate caption with all that is known about it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from suisei.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

LANGUAGE_NAMES = {"ja": "Japanese", "en": "English"}
LANGUAGES = tuple(LANGUAGE_NAMES)
MAX_CAPTION_CHARACTERS = 10_000
"""Longest caption accepted, in characters. A longer one is a broken file, not a caption."""


@dataclass(frozen=True, slots=True)
class Rating:
    """What one or several people gave a caption, on the scale they used.

    Attributes:
        values: one finite number per rater, in the units of the scale.
        low: the worst rating that the scale allows.
        high: the best rating that the scale allows.

    Raises:
        DataError: no value, a value that is NaN or outside [low, high], or an empty scale.
    """

    values: tuple[float, ...]
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(float(value) for value in self.values))
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise DataError(f"rating scale must be low < high and finite, got {self.low:g} to {self.high:g}")
        if not self.values:
            raise DataError("rating has no value; leave it out for an unrated sample")
        for value in self.values:
            if not self.low <= value <= self.high:  # NaN fails this as well
                raise DataError(
                    f"rating {value:g} is outside the scale {self.low:g} to {self.high:g}; "
                    "fix the value or pass the right rating scale"
                )

    @property
    def scaled(self) -> np.ndarray:
        """The values mapped linearly to [0, 1], float64 of shape [raters]."""
        return (np.asarray(self.values, dtype=np.float64) - self.low) / (self.high - self.low)

    @property
    def mean(self) -> float:
        """The mean over raters, mapped to [0, 1]."""
        return float(self.scaled.mean())


@dataclass(frozen=True, slots=True)
class CaptionSample:
    """A candidate caption, what it is compared with, and what people said of it.

    Validated once, when it is made; everything downstream may rely on it.

    Attributes:
        candidate: the caption to be scored; not blank.
        references: captions written by people for the same image, in any order; may be empty.
        image: path of the image file, or a PIL image, or None where there is no image.
        rating: human ratings; a bare number is taken as a single rating in [0, 1].
        language: "ja", "en" or None (unknown: detected from the candidate where it matters).
        system: the captioning system that produced the candidate, for system-level figures.
        group: what must not be split between training and test, usually the image.
        id: the caller's name for the sample, carried through to every output.

    Raises:
        DataError: a blank candidate or reference, a caption of over 10,000 characters, an
            unknown language, or a rating out of its scale.
    """

    candidate: str
    references: tuple[str, ...] = ()
    image: str | Path | Image | None = None
    rating: Rating | None = None
    language: str | None = None
    system: str | None = None
    group: str | None = None
    id: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.references, str):
            raise DataError("references must be a list of captions, got a single string; wrap it: [caption]")
        object.__setattr__(self, "references", tuple(self.references))
        _check_caption("candidate", self.candidate)
        for number, reference in enumerate(self.references, start=1):
            _check_caption(f"reference {number}", reference)
        if self.language is not None and self.language not in LANGUAGES:
            raise DataError(f"language is {self.language!r}; expected one of {', '.join(LANGUAGES)}, or none")
        if isinstance(self.rating, int | float):
            object.__setattr__(self, "rating", Rating((self.rating,)))


def _check_caption(field: str, caption: Any) -> None:
    if not isinstance(caption, str):
        raise DataError(f"{field} must be text, got {type(caption).__name__} {caption!r:.60}")
    if not caption.strip():
        raise DataError(f"{field} is empty; every caption needs at least one visible character")
    if len(caption) > MAX_CAPTION_CHARACTERS:
        raise DataError(
            f"{field} has {len(caption):,} characters, more than {MAX_CAPTION_CHARACTERS:,}; "
            f"it begins {caption[:40]!r} and is probably a broken row"
        )


def detect_language(text: str) -> str:
    """Return "ja" if ``text`` holds any kana or CJK character, else "en".

    Kana and kanji do not occur in English captions, so one character decides; the metric supports
    no third language.
    """
    return "ja" if any(_is_japanese(character) for character in text) else "en"


def language_of(sample: CaptionSample) -> str:
    """Return the sample's language: as stated, else as the candidate's characters show it."""
    return sample.language or detect_language(sample.candidate)


def _is_japanese(character: str) -> bool:
    code = ord(character)
    return (
        0x3005 <= code <= 0x3007  # 々〆〇
        or 0x3040 <= code <= 0x30FF  # hiragana, katakana
        or 0x3400 <= code <= 0x9FFF  # CJK ideographs
        or 0xF900 <= code <= 0xFAFF  # compatibility ideographs
        or 0xFF66 <= code <= 0xFF9F  # half-width katakana
    )


def make_samples(
    candidates: Sequence[str],
    references: Sequence[Sequence[str]] | None = None,
    images: Sequence[str | Path | Image | None] | None = None,
) -> list[CaptionSample]:
    """Zip parallel lists into samples.

    Args:
        candidates: N captions.
        references: N lists of captions, or None.
        images: N images or paths (None where one is missing), or None.

    Raises:
        DataError: the lists differ in length, or a sample is invalid; the position is named.
    """
    if isinstance(candidates, str):
        raise DataError("candidates must be a list of captions, got a single string; wrap it: [caption]")
    for name, column in (("references", references), ("images", images)):
        if column is not None and len(column) != len(candidates):
            raise DataError(
                f"{name} has {len(column)} entries, candidates has {len(candidates)}; they must match"
            )
    samples = []
    for position, candidate in enumerate(candidates):
        refs = () if references is None else references[position]
        image = None if images is None else images[position]
        try:
            samples.append(CaptionSample(candidate, refs, image))  # type: ignore[arg-type]
        except DataError as error:
            raise DataError(f"sample {position}: {error}") from None
    return samples

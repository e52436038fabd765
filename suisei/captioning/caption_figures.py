"""How good captions are: what a captioner said of images, held against what people said."""

from __future__ import annotations

import math
from collections.abc import Sequence

from suisei.captioning.caption_sources import CaptionedImage
from suisei.cli import counted
from suisei.data.sample import CaptionSample
from suisei.errors import DataError
from suisei.metrics.registry import get_metric

REPORTED = ("cider", "bleu-4", "rouge-l")
"""What a finished run reports of its captions."""
SILENCE = "."
"""Stands for a caption that decoded to nothing: a metric takes no empty one, and this matches no word."""


class Figures:
    """Captions of images as they come in, and their CIDEr in the end.

    Args:
        images: rows of images, with their captions.
        first: the row of the first.
    """

    def __init__(self, images: Sequence[CaptionedImage], first: int) -> None:
        self._images = {first + place: image for place, image in enumerate(images)}
        self._said: dict[tuple[int, str], str] = {}
        spoken = [language for image in images for language in image.languages]
        self._languages = sorted(set(spoken))

    def languages(self, rows: Sequence[int]) -> list[str]:
        """Return the languages that any of some images has captions in."""
        own = {language for row in rows for language in self._images[row].languages}
        return [language for language in self._languages if language in own]

    def add(self, rows: Sequence[int], language: str, captions: Sequence[str]) -> None:
        """Note what was said of images in a language; of those that have captions in it."""
        for row, caption in zip(rows, captions, strict=True):
            if language in self._images[row].languages:
                self._said[row, language] = caption

    def samples(self) -> list[CaptionSample]:
        """Return what was said as samples, and forget it."""
        found = [
            as_sample(self._images[row], language, caption)
            for (row, language), caption in sorted(self._said.items())
        ]
        self._said.clear()
        return found

    def cider(self) -> float:
        """Return the mean CIDEr of what was said since the last time, in [0, 10]."""
        return float(measured(self.samples(), ("cider",))["cider"])


def as_sample(image: CaptionedImage, language: str, caption: str) -> CaptionSample:
    """Return what was said of an image beside what people said in the same language."""
    return CaptionSample(
        caption.strip() or SILENCE,
        references=image.in_language(language),
        image=image.image,
        language=language,
        id=image.id,
    )


def check_cider(images: Sequence[CaptionedImage]) -> None:
    """Refuse images by whose captions no CIDEr can be told, before weights are chosen by it.

    Args:
        images: the validation images.

    Raises:
        DataError: there is but one, or all have the same captions: every idf would be 0.
    """
    samples = [as_sample(image, own, SILENCE) for image in images for own in dict.fromkeys(image.languages)]
    try:
        get_metric("cider").fit(samples)
    except DataError:
        raise DataError(
            f"the captions of {counted(len(images), 'validation image')} give no CIDEr, by which weights are "
            "chosen: that takes images whose captions differ; name more (data.validation, "
            "data.validation_share), or choose by the loss (--monitor val_loss)"
        ) from None


def measured(samples: Sequence[CaptionSample], names: Sequence[str] = REPORTED) -> dict[str, float]:
    """Return corpus scores of captions by metric; idf is learned from their own references."""
    return {name: _measured(samples, name) for name in names}


def _measured(samples: Sequence[CaptionSample], name: str) -> float:
    metric = get_metric(name)
    try:
        metric.fit(samples)
        scores = metric.score(samples, batch_size=256)
    except DataError:  # one image, or references that are all the same: there is no idf
        return math.nan
    return float(metric.corpus_score(samples, scores))

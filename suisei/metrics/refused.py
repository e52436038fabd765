"""Samples that a metric refuses, such as those of a broken image: which they are, and why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.errors import DataError


class Scoring(Protocol):
    """What is needed of a metric."""

    def score(
        self, samples: Sequence[CaptionSample], *, batch_size: int = 64, progress: bool = False
    ) -> np.ndarray:
        """Return the scores, float64 [N]."""

    def opens_image(self, sample: CaptionSample) -> bool:
        """Return whether it reads the sample's image."""


def score_around(
    metric: Scoring, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool = False
) -> list[float | DataError]:
    """Score samples; those that the metric refuses get the reason in place of a score.

    The whole is tried first. If that is refused, the images are looked at, each once; where none is to
    blame, the samples are halved until those that are stand alone.

    Args:
        metric: scores the samples; may be called many times.
        samples: N samples.
        batch_size: handed to the metric.
        progress: handed to the metric.

    Returns:
        N scores or errors, in order.
    """
    try:
        return list(metric.score(samples, batch_size=batch_size, progress=progress).tolist())
    except DataError as error:
        if not samples:
            raise
        if len(samples) == 1:
            return [error]
    # Nearly always an image is to blame. Looking at each image once is far cheaper than halving.
    bad = unreadable_images(metric, samples)
    if not bad:
        middle = len(samples) // 2
        return [
            *score_around(metric, samples[:middle], batch_size=batch_size, progress=progress),
            *score_around(metric, samples[middle:], batch_size=batch_size, progress=progress),
        ]
    usable = [position for position in range(len(samples)) if position not in bad]
    outcomes: list[float | DataError] = [bad.get(position, DataError("")) for position in range(len(samples))]
    if usable:
        good = [samples[position] for position in usable]
        rest = score_around(metric, good, batch_size=batch_size, progress=progress)
        for position, outcome in zip(usable, rest, strict=True):
            outcomes[position] = outcome
    return outcomes


def unreadable_images(metric: Scoring, samples: Sequence[CaptionSample]) -> dict[int, DataError]:
    """Return {position: why} of the samples whose image the metric opens and cannot read.

    Each image is looked at once; nothing is scored.
    """
    from suisei.data.images import load_image  # imports Pillow

    problems: dict[str | int, DataError | None] = {}
    bad = {}
    for position, sample in enumerate(samples):
        if sample.image is None or not metric.opens_image(sample):
            continue
        # What is in memory is looked at by itself: others may have its name.
        key = str(sample.image) if isinstance(sample.image, str | Path) else id(sample.image)
        if key not in problems:
            try:
                load_image(sample.image)
                problems[key] = None
            except DataError as error:
                problems[key] = error
        problem = problems[key]
        if problem is not None:
            bad[position] = problem
    return bad

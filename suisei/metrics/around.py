"""Scoring around bad samples: what a metric refuses costs its own score and no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from suisei.data.images import load_image
from suisei.data.sample import CaptionSample
from suisei.errors import DataError

if TYPE_CHECKING:
    from suisei.metrics.base import Metric


def score_around(
    metric: Metric, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool = False
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
        if len(samples) == 1:
            return [error]
    # Nearly always an image is to blame. Looking at each image once is far cheaper than halving.
    bad = _unreadable_images(samples) if _reads_images(metric, samples) else {}
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


def _reads_images(metric: Metric, samples: Sequence[CaptionSample]) -> bool:
    sees = "image" in metric.needs or "references" not in metric.needs
    return sees and any(sample.image is not None for sample in samples)


def _unreadable_images(samples: Sequence[CaptionSample]) -> dict[int, DataError]:
    problems: dict[str, DataError | None] = {}
    bad = {}
    for position, sample in enumerate(samples):
        if sample.image is None:
            continue
        key = str(sample.image)
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

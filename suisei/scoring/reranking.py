"""Choosing one of several captions of an image: the one that the others agree with most, or that fits best.

The first is minimum Bayes risk decoding (Kumar and Byrne, 2004), known for captions as consensus (Devlin et
al., 2015): what a captioner says again and again is likely right. The expected score of a caption is the mean
of its scores beside each of the others alone, in the place of references; one that was drawn several times
counts as often.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from suisei.data.paths import full_path
from suisei.data.sample import CaptionSample, language_of
from suisei.data.splits import group_of
from suisei.data.video import VideoSample
from suisei.errors import ConfigError, DataError
from suisei.metrics.base import Metric
from suisei.progress import progress_bar
from suisei.scoring.columns import KeepsScores, named_failures
from suisei.scoring.fitting import fit_unrated

BY = ("others", "itself")
"""What a caption is chosen by: the others of its image, or its own image."""
_BLOCK = 8192
"""Samples that are scored together."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The caption that was chosen for an image.

    Attributes:
        sample: the caption, as it was given.
        score: its expected score, or its own; NaN where it was the only one, or none has a score.
        mean: of the scores of all captions of the image; NaN likewise.
        captions: how many there were.
        ids: of all of them.
    """

    sample: CaptionSample
    score: float
    mean: float
    captions: int
    ids: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Reranked:
    """What was chosen.

    Attributes:
        choices: in the order in which their images first occur.
        images: how many images they are of; less than the choices where one has captions in both languages.
        fitted: what the metric's signature says of its fit.
        lacking: {why: how many scores there are not}.
    """

    choices: list[Choice]
    images: int
    fitted: str
    lacking: Mapping[str, int]


def rerank(
    metric: Metric,
    samples: Sequence[CaptionSample],
    *,
    by: str = "others",
    batch_size: int = 64,
    progress: bool = False,
    keep: KeepsScores | None = None,
) -> Reranked:
    """Choose a caption for every image, and for each language that its captions are in.

    Captions are of one image if their image is one file, or their video, and the same segment of it; where
    they name none, if they are of one group, or of the same references.

    Args:
        metric: fitted here on the captions, as references of their images, where it must be.
        samples: captions; their own references and ratings play no part.
        by: "others" for the expected score beside the others, which takes a metric that reads references;
            "itself" for the caption's own score, on its image if the metric looks at images.
        batch_size: handed to the metric.
        progress: whether to tell how far it is.
        keep: where scores are kept as they come, and read from if they are there.

    Returns:
        The choices: of captions that score the same the first, of those without a score likewise. Expected
        scores are means of the scores that there are.

    Raises:
        ConfigError: the metric reads no references, and ``by`` is "others".
        DataError: no image has several captions, or none of these gets a score.
        KeptError: scores cannot be kept.
    """
    if by == "others" and "references" not in metric.reads:
        raise ConfigError(
            f"{metric.name} reads no references, in whose place the other captions of an image stand; choose "
            "captions by themselves (--by itself)"
        )
    by_image = _by_image(samples)
    images = list(by_image.values())
    if all(len(own) == 1 for own in images):
        raise DataError(
            "no image has several captions to choose among; rows of one image name one file, or one group"
        )
    fitted = _fit(metric, images) if metric.needs_fit else ""

    lacking = Counter[str]()

    def score(asked: Sequence[CaptionSample]) -> np.ndarray:
        with named_failures(metric.name):
            if keep is None:
                scores, refused = metric.score_each(asked, batch_size=batch_size)
            else:
                signature = metric.signature + fitted
                scores, refused, _ = keep.score(
                    metric, metric.name, signature, asked, batch_size=batch_size, progress=False
                )
        lacking.update([*metric.missing(asked).values(), *map(str, refused.values())])
        return scores

    sign = 1.0 if metric.higher_is_better else -1.0
    choices = []
    with progress_bar("choosing captions", len(images), shown=progress, unit="images") as advance:
        for block in _blocks(images, by):
            scores = _scores(score, block, by)
            choices += [_chosen(own, found, sign) for own, found in zip(block, scores, strict=True)]
            advance(len(block))
    if all(math.isnan(choice.score) for choice in choices):
        raise DataError(f"{metric.name} gave no caption a score: {next(iter(lacking), 'none is a number')}")
    return Reranked(choices, len({key[:2] for key in by_image}), fitted, lacking)


def _by_image(samples: Sequence[CaptionSample]) -> dict[tuple[str, object, str], list[CaptionSample]]:
    found: dict[tuple[str, object, str], list[CaptionSample]] = {}
    for sample in samples:
        found.setdefault((*_shown(sample), language_of(sample)), []).append(sample)
    return found


def _shown(sample: CaptionSample) -> tuple[str, object]:
    """Return what a caption is of: its image, or its video and the segment of it, or else its group."""
    if isinstance(sample.image, str | Path):
        return full_path(sample.image), None
    if isinstance(sample, VideoSample) and sample.video is not None:
        return full_path(sample.video), sample.segment
    return group_of(sample), None


def _fit(metric: Metric, images: Sequence[Sequence[CaptionSample]]) -> str:
    """Fit a metric on all captions, as references of their images."""
    captions = [
        replace(own[0], references=tuple(sample.candidate for sample in own), group=str(number))
        for number, own in enumerate(images)
    ]
    return fit_unrated(metric, captions)


def _blocks(images: Sequence[Sequence[CaptionSample]], by: str) -> Iterator[list[Sequence[CaptionSample]]]:
    """Yield images that are scored together."""
    block: list[Sequence[CaptionSample]] = []
    size = 0
    for own in images:
        size += len(own) ** 2 if by == "others" else len(own)
        block.append(own)
        if size >= _BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block


def _scores(
    score: Callable[[Sequence[CaptionSample]], np.ndarray], images: Sequence[Sequence[CaptionSample]], by: str
) -> list[dict[str, float]]:
    """Return {text: score} of the captions of each image, by which one is chosen; NaN of an only one."""
    asked: list[CaptionSample] = []
    # of each that is asked: the sums that its score goes into, the text there, and how often it counts
    shares: list[tuple[dict[str, list[float]], str, int]] = []
    sums = [{sample.candidate: [0.0, 0.0] for sample in own} for own in images]
    for own, found in zip(images, sums, strict=True):
        for sample, weight in _questions(own, by):
            asked.append(sample)
            shares.append((found, sample.candidate, weight))
    for (found, text, weight), one in zip(shares, score(asked).tolist(), strict=True):
        if not math.isnan(one):
            found[text][0] += weight * one
            found[text][1] += weight
    return [
        {text: total / count if count else math.nan for text, (total, count) in found.items()}
        for found in sums
    ]


def _questions(own: Sequence[CaptionSample], by: str) -> Iterator[tuple[CaptionSample, int]]:
    """Yield what is to be scored for the captions of an image, and how often it counts."""
    if len(own) == 1:
        return
    counts = Counter(sample.candidate for sample in own)
    different = {sample.candidate: sample for sample in own}
    for text, sample in different.items():
        if by == "itself":
            yield replace(sample, references=(), rating=None), 1
            continue
        for other, count in counts.items():
            if times := count - (other == text):
                yield replace(sample, references=(other,), rating=None), times


def _chosen(own: Sequence[CaptionSample], found: Mapping[str, float], sign: float) -> Choice:
    scores = np.array([found[sample.candidate] for sample in own])
    known = not np.isnan(scores).all()
    place = int(np.nanargmax(sign * scores)) if known else 0
    mean = float(np.nanmean(scores)) if known else math.nan
    ids = tuple(sample.id for sample in own)
    return Choice(own[place], float(scores[place]), mean, len(own), ids)

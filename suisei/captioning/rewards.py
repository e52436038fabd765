"""Rewards of captions: a weighted sum of metrics, in one call for all captions of a batch of images.

An image, and a reference, is encoded once, however many captions of the image are scored; the same caption
of an image is scored once. A caption's reward depends on itself, its image and its references alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from suisei.captioning.caption_sources import CaptionedImage
from suisei.captioning.reward_terms import Term, parse_reward
from suisei.data.images import content_keys
from suisei.data.sample import CaptionSample, is_wordless
from suisei.encoders.dual import DualEncoder
from suisei.encoders.sharing import shared_encoders
from suisei.errors import ConfigError, DataError, one_line
from suisei.metrics.base import Metric
from suisei.metrics.clipscore import ContrastiveScore
from suisei.metrics.dual_metric import EncoderMetric
from suisei.scoring.columns import make_metric, named_failures
from suisei.scoring.plan import plan_metrics, short_labels
from suisei.training.processes import gather_rows, gather_texts, process_number, total, world_size

LOWEST = 0.0
"""What a caption without a word gets of a metric, and the least that any caption gets of it: the metrics
of this package that grow with quality begin there, or below it where they say nothing."""
LOOK_AHEAD = 400_000
"""Most images that are looked at before the training: a gigabyte of memory, at 512 numbers of each."""
_IMAGES_AT_ONCE = 512


@dataclass(frozen=True)
class Rewards:
    """What captions of B images, at most K of each, are worth.

    Attributes:
        total: the weighted sum, float64 [B, K]; NaN where a metric has no score, or an image fewer captions.
        parts: {metric: its score, the sign turned for a distance, before weighting, float64 [B, K]}.
        empty: captions without a word, bool [B, K].
        problems: {why there is no score: how many captions}.
    """

    total: np.ndarray
    parts: Mapping[str, np.ndarray]
    empty: np.ndarray
    problems: Mapping[str, int] = field(default_factory=dict)

    @property
    def skipped(self) -> int:
        """How many captions have no reward, places of images with fewer captions included."""
        return int(np.isnan(self.total).sum())


class CaptionReward:
    """A reward that is asked for captions of images.

    Args:
        reward: a sum of metrics, see :func:`suisei.captioning.reward_terms.parse_reward`.
        options: of the metrics, ``NAME.KEY=VALUE``, such as ``pac-s.precision=fp32``.
        lowest: what a caption without a word gets of every metric, and the least of any caption; None for 0,
            and the negative of a distance's largest (-1 of a share); distances without one need it.
        device: where the metrics' encoders run, "auto" for a GPU where there is one.
        batch_size: samples that a metric takes at once; changes no reward.

    Raises:
        ConfigError: an unknown metric or option, or a distance that needs ``lowest``.
        UnavailableError: a metric that cannot run on this machine.
    """

    def __init__(
        self,
        reward: str,
        *,
        options: Sequence[str] = (),
        lowest: float | None = None,
        device: str = "auto",
        batch_size: int = 256,
    ) -> None:
        self.terms: tuple[Term, ...] = parse_reward(reward)
        plans = plan_metrics([term.spec for term in self.terms], options=options, common={"device": device})
        with shared_encoders(within=True):
            self._metrics = [make_metric(plan) for plan in plans]
            for metric in self._metrics:
                if isinstance(metric, EncoderMetric) and metric.uses_encoder:
                    metric.encoder  # noqa: B018 - loaded now, shared by those that score with the same one
        self.labels = short_labels(plans)
        self._lowest = [_lowest(metric) if lowest is None else lowest for metric in self._metrics]
        self._batch_size = batch_size

    @property
    def needs(self) -> frozenset[str]:
        """What the captions' images must have: any of "references" and "image"."""
        return frozenset().union(*(metric.needs for metric in self._metrics))

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics by label."""
        return dict(zip(self.labels, self._metrics, strict=True))

    def fit(self, images: Sequence[CaptionedImage], language: str | None = None) -> None:
        """Let metrics with corpus statistics (CIDEr's idf) count them, on the references of images.

        Args:
            images: those of training; an image is a document.
            language: of the captions.
        """
        corpus = [CaptionSample(image.captions[0], image.captions, language=language) for image in images]
        for metric in self._metrics:
            if metric.needs_fit:
                metric.fit(corpus)

    def looked_at_ahead(self, images: Sequence[Any]) -> Sequence[Any]:
        """Return what :meth:`look_at` would look at of images: all of them, or none."""
        contrastive = any(isinstance(metric, ContrastiveScore) for metric in self._metrics)
        return images if contrastive and len(images) <= LOOK_AHEAD else ()

    def look_at(
        self,
        images: Sequence[Any],
        advance: Callable[[int], Any] = lambda _: None,
        device: torch.device = torch.device("cpu"),  # noqa: B008 - a constant
    ) -> None:
        """Let CLIP-S and its like look at images, and keep what they say, before there are captions of them.

        Of several processes each looks at its share, and tells the others what it saw.

        Args:
            images: the images, the same ones in every process.
            advance: called with the number of images that are done.
            device: that of the training, on which its processes speak to each other.

        Raises:
            DataError: an image that cannot be read; all processes stop together.
        """
        used = [metric.encoder for metric in self._metrics if isinstance(metric, ContrastiveScore)]
        encoders = {id(encoder): encoder for encoder in used}.values()
        for encoder in encoders:
            assert encoder.memory is not None  # as loaded encoders have
            encoder.memory.make_room("images", len(images))
        step = _IMAGES_AT_ONCE * world_size()
        for start in range(0, len(images), step):
            some = images[start : start + step]
            for encoder in encoders:
                _look_together(encoder, some, device)
            advance(len(some))

    @property
    def signatures(self) -> dict[str, str]:
        """{metric: its signature, with its weight}."""
        return {
            label: f"{term.weight:g}*{metric.signature}"
            for label, term, metric in zip(self.labels, self.terms, self._metrics, strict=True)
        }

    def __call__(
        self,
        captions: Sequence[Sequence[str]],
        images: Sequence[Any],
        references: Sequence[Sequence[str]],
        language: str | None = None,
    ) -> Rewards:
        """Return what captions are worth.

        Args:
            captions: texts of each of the B images, at most K.
            images: the B images.
            references: captions that people wrote of each image.
            language: of the captions; detected where None.

        Raises:
            ConfigError: a metric was not fitted.
        """
        if not len(captions) == len(images) == len(references):
            raise DataError(
                f"{len(images)} images, captions of {len(captions)} and references of {len(references)}"
            )
        shape = (len(captions), max((len(own) for own in captions), default=0))
        rows, samples, problems = _unique_samples(captions, images, references, language)
        times = Counter(rows.get((image, text)) for image, own in enumerate(captions) for text in own)
        parts = {}
        for label, metric, lowest in zip(self.labels, self._metrics, self._lowest, strict=True):
            with named_failures(label):
                scores, refused = metric.score_each(samples, batch_size=self._batch_size)
            for row, error in refused.items():
                reason = f"{label}: {one_line(error, 200)}"
                problems[reason] = problems.get(reason, 0) + times[row]
            scores = scores if metric.higher_is_better else -scores
            scores = np.maximum(scores, lowest)  # NaN stays NaN
            parts[label] = _spread(scores, rows, captions, lowest)
        total = np.zeros(shape)
        for term, values in zip(self.terms, parts.values(), strict=True):
            total = total + term.weight * values
        empty = np.zeros(shape, bool)
        for image, own in enumerate(captions):
            empty[image, : len(own)] = [is_wordless(text) for text in own]
        return Rewards(total, parts, empty, problems)


def _look_together(encoder: DualEncoder, images: Sequence[Any], device: torch.device) -> None:
    """Have an encoder know images, a share of which is encoded in each process.

    Raises:
        DataError: one of them cannot be read here, or elsewhere.
    """
    processes = world_size()
    if processes == 1:
        encoder.encode_images(images)
        return
    own = images[process_number() :: processes]
    keys, features, problem = list[str](), np.zeros((0, 0), np.float32), None
    try:
        keys, features = content_keys(own), encoder.encode_images(own)
    except DataError as error:
        problem = error
    if int(total(torch.tensor(int(problem is not None), device=device))):
        raise problem or DataError("an image cannot be read in another process, which says which and why")
    everyones = gather_texts(keys, device)
    unique = dict(zip(everyones, range(len(everyones)), strict=True))
    # Where there are fewer images than processes some have seen none, and do not know the width.
    width = max(gather_rows(torch.tensor([features.shape[1]], device=device)).tolist())
    seen = torch.from_numpy(features.reshape(len(own), width)).to(device)
    rows = gather_rows(seen).cpu()[list(unique.values())]
    assert encoder.memory is not None
    encoder.memory.keep("images", list(unique), rows)


def _lowest(metric: Metric) -> float:
    """Return the least reward by a metric.

    Raises:
        ConfigError: it is a distance that has no limit.
    """
    if metric.higher_is_better:
        return LOWEST
    if metric.largest is not None:
        return -metric.largest
    raise ConfigError(
        f"{metric.name} is a distance, whose negative is the reward; say with model.lowest what a caption "
        "without a word gets, below all that captions get"
    )


def _spread(
    scores: np.ndarray,
    rows: Mapping[tuple[int, str], int],
    captions: Sequence[Sequence[str]],
    lowest: float,
) -> np.ndarray:
    """Return the score of every caption [B, K]: of its sample, the lowest where it has no word."""
    values = np.full((len(captions), max((len(own) for own in captions), default=0)), math.nan)
    for image, own in enumerate(captions):
        for place, text in enumerate(own):
            row = rows.get((image, text))
            if is_wordless(text):
                values[image, place] = lowest
            elif row is not None and math.isfinite(scores[row]):
                values[image, place] = scores[row]
    return values


def _unique_samples(
    captions: Sequence[Sequence[str]],
    images: Sequence[Any],
    references: Sequence[Sequence[str]],
    language: str | None,
) -> tuple[dict[tuple[int, str], int], list[CaptionSample], dict[str, int]]:
    """Return {(image, text): row}, the samples of the rows, and why others are none (such as too long)."""
    rows: dict[tuple[int, str], int] = {}
    samples: list[CaptionSample] = []
    problems: dict[str, int] = {}
    for image, own in enumerate(captions):
        for text in own:
            if is_wordless(text) or (image, text) in rows:
                continue
            try:
                sample = CaptionSample(text, tuple(references[image]), images[image], language=language)
            except DataError as error:
                problems[str(error)] = problems.get(str(error), 0) + 1
                continue
            rows[image, text] = len(samples)
            samples.append(sample)
    return rows, samples, problems


def folders_of(reward: str) -> list[str]:
    """Return the files and folders that a reward names."""
    named = [term.spec.partition(":")[2] for term in parse_reward(reward)]
    return [name for name in named if name and Path(name).exists()]

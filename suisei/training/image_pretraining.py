"""Pre-training of a small image encoder against the captions of its images, before any rating is seen.

The text side stays as it is: an image, projected to the width of the text, is drawn to the pooled vectors
of all its captions and away from those of other images (contrastive, with several positives). It gives
an encoder that starts from random weights what CLIP brings along: features that captions can be
compared with.

Shape letters: I images of a batch, T captions of a batch, d text width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from suisei.data.sample import CaptionSample, language_of
from suisei.encoders.cache_place import disk_cache
from suisei.errors import DataError
from suisei.models.features import ModelFeatures
from suisei.models.regressor import Regressor
from suisei.models.table import PixelStore, SampleTable
from suisei.training.augment import random_crops
from suisei.training.contrastive import MAX_SCALE, symmetric_info_nce
from suisei.training.cosine_fit import fit_line
from suisei.training.pretraining import TEMPERATURE, PretrainingConfig
from suisei.training.pretraining_loop import Passes, run_passes

Progress = Callable[[str, int], Callable[[int], Any]]

LEARNING_RATE = 2e-3
"""Highest rate of the one-cycle schedule, for a small tower from random weights."""
WEIGHT_DECAY = 0.05
"""Decoupled weight decay of the tower and its projection."""
WARMUP = 0.15
"""Share of the steps in which the rate rises."""
MEAN_OF = 500
"""Captions, about, that the mean vector of a language is taken of."""
SMALLEST_CROP = 0.4
"""Least share of an image's area that a random crop keeps."""


def pretrain_images(
    model: Regressor,
    pairs: Sequence[tuple[Path, Sequence[str]]],
    config: PretrainingConfig,
    *,
    seed: int,
    progress: Progress,
    centred: bool = False,
) -> list[float]:
    """Pre-train the image encoder of a regressor, and its projection to the text, in place.

    Args:
        model: the regressor; its text encoder is as it will stay.
        pairs: images with their captions.
        config: the settings.
        seed: decides order, crops and mirroring.
        progress: reports long work.
        centred: whether what all captions have in common is taken from their vectors: of a sentence encoder
            most of it, so that next to nothing would be left to tell images apart by.

    Returns:
        The mean loss of every epoch.

    Raises:
        DataError: fewer than two images, or an image that cannot be read.
    """
    assert model.image is not None
    assert model.fusion.project is not None
    if len(pairs) < 2:
        raise DataError(
            f"pre-training of the image encoder needs images with captions; the training data has "
            f"{len(pairs)}; add them with data.support, or set model.pretraining.image_epochs to 0"
        )
    texts, rows = _caption_vectors(model, [captions for _, captions in pairs], progress)
    if centred:
        texts -= texts.mean(dim=0)
    advance = progress("reading images", len(pairs))
    pixels = PixelStore([image for image, _ in pairs], model.image.preprocess, progress=advance)
    passes = Passes(
        "pre-training on images",
        config.image_epochs,
        config.batch_size,
        LEARNING_RATE,
        WEIGHT_DECAY,
        WARMUP,
        "suisei.training.image_pretraining.LEARNING_RATE",
        seed,
    )
    advance = progress("pre-training on images", config.image_epochs)
    trained = [*model.image.parameters(), *model.fusion.project.parameters()]
    with _trainable(trained):
        return _run(model, pixels, (texts, rows), passes, advance)


def leave_languages_out(model: Regressor, samples: Sequence[CaptionSample]) -> None:
    """Keep from projected images what all captions of a language have in common, in place.

    An image that was taught by centred English vectors then has the same cosine with a Japanese caption as
    with an English one that says as much.

    Args:
        model: the regressor.
        samples: the training samples, of whose references some of each language are read.
    """
    spoken: dict[str, dict[str, None]] = {}
    for sample in samples:
        spoken.setdefault(language_of(sample), {}).update(dict.fromkeys(sample.references))
    features = ModelFeatures(model, disk_cache(), mixed=True)
    some = [list(captions)[:: max(1, len(captions) // MEAN_OF)] for captions in spoken.values() if captions]
    means = torch.stack([features.of_captions(captions)[:, 0].mean(dim=0) for captions in some])
    common, _ = torch.linalg.qr(means.T)  # [d, languages]
    project = model.fusion.project
    assert project is not None
    with torch.no_grad():
        for part in (project.weight, project.bias):
            part -= common @ (common.T @ part)


def fit_image_line(model: Regressor, samples: Sequence[CaptionSample], progress: Progress) -> None:
    """Fit what the cosine with the image says of the rating, with encoders as they will stay.

    Args:
        model: the regressor, which starts from the cosine.
        samples: the training samples; those with a rating and an image are used.
        progress: reports long work.

    Raises:
        DataError: there is none.
    """
    assert model.start is not None
    assert model.fusion.project is not None
    rated = [s for s in samples if s.rating is not None and s.image is not None]
    if not rated:
        raise DataError(
            "no training sample has a rating and an image, so that nothing is known of what the image says "
            "of a rating; train with such data too, or set model.image to null"
        )
    table = SampleTable([replace(sample, references=()) for sample in rated])
    features = ModelFeatures(model, disk_cache(), mixed=True)
    texts = features.of_captions(table.captions, progress("encoding captions", len(table.captions)))
    sources = list(zip(table.image_keys, table.images, strict=True))
    images = features.of_images(sources, progress("encoding images", len(sources)))
    with torch.no_grad():
        shown = torch.from_numpy(table.image)
        seen = model.image_similarities(texts[table.candidate], images[shown], shown >= 0)
    fit_line(model.start.image, seen.mean(dim=1), table.target, np.ones(len(table)))


def _run(
    model: Regressor,
    pixels: PixelStore,
    captions: tuple[Tensor, Sequence[np.ndarray]],
    passes: Passes,
    advance: Callable[[int], Any],
) -> list[float]:
    """Draw images to their captions, (vectors [T, d], each image's rows of them)."""
    tower, project = model.image, model.fusion.project
    assert tower is not None
    assert project is not None
    texts, rows = captions
    scale = nn.Parameter(torch.tensor(-math.log(TEMPERATURE)))

    def batch_loss(batch: np.ndarray, _: np.random.Generator) -> Tensor:
        own = np.concatenate([rows[image] for image in batch])
        owners = np.repeat(np.arange(len(batch)), [len(rows[image]) for image in batch])
        features = tower(random_crops(pixels[torch.from_numpy(batch)], SMALLEST_CROP))
        loss = symmetric_info_nce(
            project(features), texts[torch.from_numpy(own)], scale.exp(), torch.from_numpy(owners)
        )
        return loss / 2

    def keep_scale_in_bounds() -> None:
        with torch.no_grad():
            scale.clamp_(max=MAX_SCALE)

    return run_passes(
        batch_loss,
        tower,
        len(rows),
        passes,
        parameters=[*tower.parameters(), *project.parameters()],
        unclipped=[scale],
        after_step=keep_scale_in_bounds,
        advance=advance,
    )


@contextmanager
def _trainable(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Have frozen parameters trained for a while."""
    flags = [parameter.requires_grad for parameter in parameters]
    for parameter in parameters:
        parameter.requires_grad_(True)
    try:
        yield
    finally:
        for parameter, flag in zip(parameters, flags, strict=True):
            parameter.requires_grad_(flag)


def _caption_vectors(
    model: Regressor, captions: Sequence[Sequence[str]], progress: Progress
) -> tuple[Tensor, list[np.ndarray]]:
    """Return pooled vectors of the unique captions, [T, d], and each image's rows of them."""
    numbers: dict[str, int] = {}
    rows = [np.array([numbers.setdefault(text, len(numbers)) for text in own]) for own in captions]
    advance = progress("encoding captions", len(numbers))
    states = ModelFeatures(model, disk_cache(), mixed=True).of_captions(list(numbers), advance)
    return states[:, 0].clone(), rows

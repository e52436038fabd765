"""Pre-training of a small image encoder against the captions of its images, before any rating is seen.

The text side stays as it is: an image, projected to the width of the text, is drawn to the pooled vectors
of all its captions and away from those of other images (contrastive, with several positives). It gives
an encoder that starts from random weights what CLIP brings along: features that captions can be
compared with.

Shape letters: I images of a batch, T captions of a batch, d text width.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from suisei.encoders.cache_place import disk_cache
from suisei.errors import DataError
from suisei.models.features import ModelFeatures
from suisei.models.pixel_store import PixelStore
from suisei.models.regressor import Regressor
from suisei.training.augment import random_crops
from suisei.training.contrastive import MAX_SCALE, symmetric_info_nce
from suisei.training.pass_states import PassStates
from suisei.training.pretraining import TEMPERATURE, PretrainingConfig
from suisei.training.pretraining_loop import Passes, Progress, run_passes

LEARNING_RATE = 2e-3
"""Highest rate of the one-cycle schedule, for a small tower from random weights."""
WEIGHT_DECAY = 0.05
"""Decoupled weight decay of the tower and its projection."""
WARMUP = 0.15
"""Share of the steps in which the rate rises."""
SMALLEST_CROP = 0.4
"""Least share of an image's area that a random crop keeps."""


def pretrain_images(
    model: Regressor,
    pairs: Sequence[tuple[Path, Sequence[str]]],
    config: PretrainingConfig,
    *,
    seed: int,
    progress: Progress,
    states: PassStates | None = None,
) -> list[float]:
    """Pre-train the image encoder of a regressor, and its projection to the text, in place.

    Args:
        model: the regressor; its text encoder is as it will stay.
        pairs: images with their captions.
        config: the settings.
        seed: decides order, crops and mirroring.
        progress: reports long work.
        states: keeps the state to go on from, and gives it; None where nobody goes on.

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
    texts, rows = caption_vectors(model, [captions for _, captions in pairs], progress)
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
    tower, project = model.image, model.fusion.project
    trained = [*tower.parameters(), *project.parameters()]

    @functools.cache  # read where there is a step to take: nothing is left of a pre-training that was over
    def pixels() -> PixelStore:
        read = progress("reading images", len(pairs))
        return PixelStore([image for image, _ in pairs], tower.preprocess, progress=read)

    def projected(batch: np.ndarray) -> Tensor:
        seen: Tensor = project(tower(random_crops(pixels()[torch.from_numpy(batch)], SMALLEST_CROP)))
        return seen

    advance = progress("pre-training on images", config.image_epochs)
    with _trainable(trained):
        return draw_to_captions(projected, (texts, rows), tower, trained, passes, advance, states)


def draw_to_captions(
    projected: Callable[[np.ndarray], Tensor],
    captions: tuple[Tensor, Sequence[np.ndarray]],
    module: nn.Module,
    parameters: Iterable[nn.Parameter],
    passes: Passes,
    advance: Callable[[int], Any],
    states: PassStates | None = None,
) -> list[float]:
    """Draw images to their captions and away from those of other images, in place.

    Args:
        projected: gives what is learned of some images, by row, float [n, d].
        captions: vectors [T, d], and each image's rows of them.
        module: what is trained, which is set to training.
        parameters: what is trained.
        passes: the settings.
        advance: called with 1 after every epoch, and at once with those that were over before.
        states: keeps the state to go on from, and gives it; None where nobody goes on.

    Returns:
        The mean loss of every epoch.
    """
    texts, rows = captions
    scale = nn.Parameter(torch.tensor(-math.log(TEMPERATURE)))

    def batch_loss(batch: np.ndarray, _: np.random.Generator) -> Tensor:
        own = np.concatenate([rows[image] for image in batch])
        owners = np.repeat(np.arange(len(batch)), [len(rows[image]) for image in batch])
        drawn = texts[torch.from_numpy(own)]
        return symmetric_info_nce(projected(batch), drawn, scale.exp(), torch.from_numpy(owners)) / 2

    def keep_scale_in_bounds() -> None:
        with torch.no_grad():
            scale.clamp_(max=MAX_SCALE)

    return run_passes(
        batch_loss,
        module,
        len(rows),
        passes,
        parameters=parameters,
        unclipped=[scale],
        after_step=keep_scale_in_bounds,
        advance=advance,
        states=states,
    )


def caption_vectors(
    model: Regressor, captions: Sequence[Sequence[str]], progress: Progress
) -> tuple[Tensor, list[np.ndarray]]:
    """Return pooled vectors of the unique captions, float32 [T, d], and each image's rows of them."""
    numbers: dict[str, int] = {}
    rows = [np.array([numbers.setdefault(text, len(numbers)) for text in own]) for own in captions]
    advance = progress("encoding captions", len(numbers))
    states = ModelFeatures(model, disk_cache(), mixed=True).of_captions(list(numbers), advance)
    return states[:, 0].clone(), rows


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

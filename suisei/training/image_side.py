"""An image side for a trained model that reads captions: a pretrained tower, and what it adds to a score.

The model's captions stay as they are, and so do its scores without an image. The tower stays as it is too:
one matrix is learned, that projects what the tower says of an image to the vectors of the image's captions
(contrastive, with several positives), and a line: what the image says of the rating where there are no
references. Where ratings are given that the model did not learn from, it is also weighed beside references.

Shape letters: I images, T captions, d text width, d_img width of the tower's features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from suisei.data.images import content_keys
from suisei.data.sample import CaptionSample, language_of
from suisei.encoders.cache_place import disk_cache
from suisei.encoders.image import ImageEncoder, ImageEncoderConfig
from suisei.encoders.seeded import seeded
from suisei.errors import ConfigError, DataError
from suisei.models.blocks import BLOCKS, PAPER
from suisei.models.compaction import IMAGE_SIDE
from suisei.models.features import ModelFeatures
from suisei.models.regressor import Regressor
from suisei.models.table import SampleTable
from suisei.training.cosine_fit import fit_line
from suisei.training.image_pretraining import caption_vectors, draw_to_captions
from suisei.training.pretraining_loop import Passes, Progress
from suisei.training.weighing import Seen, fit_beside

Pairs = Sequence[tuple[Path, Sequence[str]]]
"""Images with their captions."""

FEATURE_DROPOUT = 0.5
"""Of the tower's features: without it the matrix learns six thousand images by heart."""
BATCH = 128
"""Images per step."""
LEARNING_RATE = 2e-3
"""Highest rate of the one-cycle schedule."""
WEIGHT_DECAY = 0.05
WARMUP = 0.15
"""Share of the steps in which the rate rises."""
LEAST_SPREAD = 0.1
"""Smallest standard deviation of a feature, as a share of all features' median: one that hardly ever differs
here must not decide everything where it does."""
MEAN_OF = 500
"""Captions, about, that the mean vector of a language is taken of."""


@dataclass(frozen=True)
class Weighed:
    """What an image is weighed by where there are references.

    Attributes:
        unseen: samples with image, references and rating that the model did not learn from, on any scale.
        scores: what the model says of the rated samples without their image, in (0, 1), float64 [N].
        unseen_scores: what it says of the unseen ones.
    """

    unseen: Sequence[CaptionSample]
    scores: np.ndarray
    unseen_scores: np.ndarray


@dataclass(frozen=True)
class ImageSideData:
    """What an image side is learned from.

    Attributes:
        pairs: images with their captions.
        rated: samples with image, references and rating, on the scale of the model's scores.
        captions: samples of whose references some of each language are read.
        weighed: what weighs the image beside references; None for an image that does not count there.
    """

    pairs: Pairs
    rated: Sequence[CaptionSample]
    captions: Sequence[CaptionSample]
    weighed: Weighed | None = None


def with_images(
    model: Regressor,
    tower: ImageEncoderConfig,
    data: ImageSideData,
    *,
    epochs: int,
    seed: int,
    progress: Progress,
) -> Regressor:
    """Return a model that scores as this one does, and looks at images too.

    Args:
        model: a trained model that starts from the cosine; an image side that it has is replaced.
        tower: a pretrained image encoder.
        data: what is learned from.
        epochs: passes over the images.
        seed: decides where the matrix starts, order and dropout.
        progress: reports long work.

    Raises:
        ConfigError: a model to which no image can be added, or a tower without weights.
        DataError: fewer than two images, or an image that cannot be read.
    """
    new = _with_tower(model, tower, seed, "cosine" if data.weighed is None else "cosines")
    teach_projection(new, data.pairs, epochs=epochs, seed=seed, progress=progress)
    leave_languages_out(new, data.captions)
    fit_image_lines(new, data, progress)
    return new.eval().requires_grad_(False)


def _with_tower(model: Regressor, tower: ImageEncoderConfig, seed: int, start: str) -> Regressor:
    fusion = model.config.fusion
    chosen = PAPER if fusion.blocks is None else fusion.blocks
    if (
        model.start is None
        or fusion.image_similarity
        or any(BLOCKS[name].reads == "image" for name in chosen)
    ):
        raise ConfigError(
            "an image can be added to a model that starts from the cosine (model.head.start: cosine) and "
            "whose network reads no image; train another with its image"
        )
    if tower.name == "tiny" or tower.pretrained is None:
        raise ConfigError("the tower must be pretrained: timm:ARCHITECTURE and a file, or one of open_clip")
    head = replace(model.config.head, start=start)
    named = Path(tower.pretrained).name  # a folder of this machine is no part of a model
    config = replace(model.config, image=replace(tower, frozen=True, pretrained=named), head=head)
    with seeded(seed):
        new = Regressor(config, model.text, ImageEncoder.create(tower), model.idf)
    own = {name: weight for name, weight in model.state_dict().items() if not name.startswith(IMAGE_SIDE)}
    _, unexpected = new.load_state_dict(own, strict=False)
    assert not unexpected
    return new.eval()


def teach_projection(model: Regressor, pairs: Pairs, *, epochs: int, seed: int, progress: Progress) -> None:
    """Learn to project images to the vectors of their captions, in place; the encoders stay as they are.

    What all captions have in common is taken from their vectors: of a sentence encoder most of it, so that
    next to nothing would be left to tell images apart by.

    Args:
        model: the model.
        pairs: images with their captions.
        epochs: passes over the images.
        seed: decides order and dropout.
        progress: reports long work.

    Raises:
        DataError: fewer than two images, or one that cannot be read.
    """
    if len(pairs) < 2:
        raise DataError(f"an image side is learned from images with captions; there are {len(pairs)}")
    project = model.fusion.project
    assert project is not None
    texts, rows = caption_vectors(model, [captions for _, captions in pairs], progress)
    texts -= texts.mean(dim=0)
    images = _image_features(model, [image for image, _ in pairs], progress)
    mean, deviation = images.mean(dim=0), images.std(dim=0)
    deviation = deviation.clamp(min=max(LEAST_SPREAD * float(deviation.median()), 1e-6))
    images = (images - mean) / deviation

    def projected(batch: np.ndarray) -> Tensor:
        seen: Tensor = project(F.dropout(images[torch.from_numpy(batch)], FEATURE_DROPOUT))
        return seen

    passes = Passes(
        "learning to project images",
        epochs,
        BATCH,
        LEARNING_RATE,
        WEIGHT_DECAY,
        WARMUP,
        "suisei.training.image_side.LEARNING_RATE",
        seed,
    )
    project.requires_grad_(True)
    advance = progress("learning to project images", epochs)
    draw_to_captions(projected, (texts, rows), project, project.parameters(), passes, advance)
    with torch.no_grad():  # of features as they are, not standardised
        project.weight /= deviation
        project.bias.sub_(project.weight @ mean)


def leave_languages_out(model: Regressor, samples: Sequence[CaptionSample]) -> None:
    """Keep from projected images what all captions of a language have in common, in place.

    An image that was taught by centred English vectors then has the same cosine with a Japanese caption as
    with an English one that says as much.

    Args:
        model: the model.
        samples: some of each language, of whose references some are read.
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


def fit_image_lines(model: Regressor, data: ImageSideData, progress: Progress) -> None:
    """Fit what the cosine with the image says of the rating, alone and beside references, in place.

    Args:
        model: the model, with encoders as they will stay.
        data: its rated and unseen samples.
        progress: reports long work.
    """
    start, weighed = model.start, data.weighed
    assert start is not None
    cosines, ratings = _seen(model, data.rated, progress)
    fit_line(start.image, torch.from_numpy(cosines), ratings, np.ones(len(ratings)))
    if weighed is None:
        return
    assert start.beside is not None
    unseen, unseen_ratings = _seen(model, weighed.unseen, progress)
    scores, unseen_scores = weighed.scores, weighed.unseen_scores
    if model.scale is not None:  # the lines lie before the map to the scale of ratings, the scores after it
        scores, unseen_scores = model.scale.learn(scores), model.scale.learn(unseen_scores)
    fit_beside(start.beside, Seen(cosines, scores, ratings), Seen(unseen, unseen_scores, unseen_ratings))


def _seen(
    model: Regressor, samples: Sequence[CaptionSample], progress: Progress
) -> tuple[np.ndarray, np.ndarray]:
    """Return each candidate's cosine with its image and what is learned of its rating, float64 [N] both."""
    table = SampleTable([replace(sample, references=()) for sample in samples])
    features = ModelFeatures(model, disk_cache(), mixed=True)
    texts = features.of_captions(table.captions, progress("encoding captions", len(table.captions)))
    sources = list(zip(table.image_keys, table.images, strict=True))
    images = features.of_images(sources, progress("encoding images", len(sources)))
    with torch.no_grad():
        shown = torch.from_numpy(table.image)
        seen = model.image_similarities(texts[table.candidate], images[shown], shown >= 0)
    return seen.mean(dim=1).double().numpy(), model.targets(samples).astype(np.float64)


def _image_features(model: Regressor, images: Sequence[Path], progress: Progress) -> Tensor:
    """Return what the tower says of images, float32 [I, d_img]."""
    sources = list(zip(content_keys(images), images, strict=True))
    advance = progress("encoding images", len(sources))
    return ModelFeatures(model, disk_cache(), mixed=True).of_images(sources, advance).clone()

"""What a training learned from, as digests: a run that goes on must find the same data and encoders."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.data.sample import CaptionSample
from suisei.data.splits import PARTS
from suisei.encoders.weights import file_hash
from suisei.errors import ModelError
from suisei.metrics.bertscore import model_label
from suisei.models.folder_checks import checksums
from suisei.scoring.digest import value_digest

if TYPE_CHECKING:
    from suisei.models.config import RegressorConfig
    from suisei.training.datamodule import CaptionDataModule
    from suisei.training.support import Support

logger = logging.getLogger(__name__)

NAMES = {"train": "training", "validation": "validation", "support": "support"}
"""The parts that decide the weights, as messages call them."""
MODELS = {"reward": "models of the reward", "tower": "an image tower"}
"""The models that decide the weights and are not in a checkpoint, as messages call them."""

RATED = "rated"
"""The digest that the folds of a cross-validation have in common."""


def data_digests(data: CaptionDataModule) -> dict[str, str]:
    """Return a digest of each part of the rated data, of the support, and of all rated data in any split.

    Captions, references, ratings, groups, languages and the order count; of an image its name and size count,
    not its folder, so that data may be moved.

    Args:
        data: loaded, before anything is added to it.
    """
    digests = {part: value_digest([_content(sample) for sample in data.part(part)]) for part in PARTS}
    rated = (replace(sample, references=tuple(sorted(sample.references))) for sample in data.samples)
    digests[RATED] = value_digest([_content(sample) for sample in rated])  # a split puts them in an order
    return {**digests, "support": value_digest(_support(data.support_data))}


def captioned_digests(**parts: Iterable[Any]) -> dict[str, str]:
    """Return a digest of each part of images with captions, of which the same counts as of rated samples.

    Args:
        parts: the images of each part, by its name: dataclasses of paths and texts.
    """
    return {part: value_digest([_described(image) for image in images]) for part, images in parts.items()}


def model_digest(names: Iterable[str]) -> str:
    """Return a digest of models by what is in their folders and files, wherever these are.

    Args:
        names: as settings have them; one that is no folder or file of this machine counts by itself.
    """
    return value_digest([_model(Path(name)) for name in names])


def check_same_data(noted: Mapping[str, str], digests: Mapping[str, str]) -> None:
    """Refuse to go on with other data, or models beside the checkpoint, than a run began with.

    Other test data, which decide no weight, are only said.

    Args:
        noted: what the checkpoint says; empty for one of an earlier version, which says nothing.
        digests: of the data and models of now.

    Raises:
        ModelError: data or models that decide the weights have changed.
    """
    other = {part for part, digest in digests.items() if noted.get(part, digest) != digest}
    changed = [name for part, name in NAMES.items() if part in other]
    if changed:
        raise ModelError(
            f"the run was started with other {' and '.join(changed)} data: captions, references, ratings, "
            "groups or images have changed since; go on with the data as they were, or train anew in another "
            "--output"
        )
    models = [name for part, name in MODELS.items() if part in other]
    if models:
        raise ModelError(
            f"the run was started with other files of {' and of '.join(models)}; go on with them as they "
            "were, or train anew in another --output"
        )
    if "test" in other:
        logger.warning(
            "the test data are not those that the run was started with; its report is of the new ones"
        )


def encoder_digests(config: RegressorConfig) -> dict[str, str]:
    """Return {name: digest} of the folders and files of encoders that a training starts from.

    Encoders of the hub are left out, and those of extra inputs are not.
    """
    names = [config.text.name, config.image.pretrained if config.image is not None else None]
    names += [spec.partition(":")[2] for spec in config.fusion.extra_inputs]
    found = {}
    for name in filter(None, names):
        if Path(name).is_dir():
            found[name] = model_label(name).rpartition("-")[2]
        elif Path(name).is_file():
            found[name] = file_hash(name)
    return found


def check_same_as_folds(whole: Path, digests: Mapping[str, str], encoders: Mapping[str, str]) -> None:
    """Refuse a fold of other data or encoders than those that are finished.

    Args:
        whole: the folder of the cross-validation.
        digests: of the fold's data.
        encoders: from :func:`encoder_digests`.

    Raises:
        ModelError: the data or an encoder have changed since a fold was trained.
    """
    for path in sorted(whole.glob("fold-*/report.json")):
        training = json.loads(path.read_text(encoding="utf-8"))["training"]
        for name, digest in training.get("encoders", {}).items():
            if encoders.get(name, digest) != digest:
                raise ModelError(
                    f"{path.parent} was trained over another encoder: {name} has changed since; go on with "
                    "it as it was, or train anew in another --output"
                )
        noted = training.get("data_digests", {})
        if noted.get(RATED, digests[RATED]) != digests[RATED]:
            raise ModelError(
                f"{path.parent} was trained on other data: captions, references, ratings, groups or images "
                "have changed since; go on with the data as they were, or train anew in another --output"
            )


def _content(sample: CaptionSample) -> list[Any]:
    rating = sample.rating
    judged = None if rating is None else [list(rating.values), rating.low, rating.high]
    return [
        sample.candidate, list(sample.references), sample.language, sample.group, sample.system, judged,
        _image(sample.image),
    ]  # fmt: skip


def _described(image: Any) -> list[Any]:
    """Return what counts of an image with captions; what a row calls it may say where its file is."""
    return [_plain(getattr(image, field.name)) for field in fields(image) if field.name != "id"]


def _plain(value: Any) -> Any:
    """Return a value in lists, with the name and size of every file that it names."""
    if isinstance(value, tuple | list):
        return [_plain(own) for own in value]
    return _image(value) if isinstance(value, Path) else value


def _model(path: Path) -> Any:
    if path.is_dir():
        return sorted(item for item in checksums(path).items() if "/." not in f"/{item[0]}")  # nothing hidden
    return file_hash(path) if path.is_file() else str(path)


def _support(support: Support) -> list[Any]:
    rated = [_content(sample) for sample in support.rated]
    images = [[_image(path), list(captions)] for path, captions in support.images]
    return [[list(group) for group in support.groups], rated, images]


def _image(image: Any) -> list[Any] | None:
    if not isinstance(image, str | Path):
        return None
    path = Path(image)
    try:
        return [path.name, path.stat().st_size]
    except OSError:
        return [path.name]

"""The folder of a mapper that was trained here, and mappers from it or from the authors' checkpoints.

mapper.safetensors   in ClipCap's published layout (clip_project.*)
mapper.json          which image tower it reads, and its heads
language_model/      the language model that it was trained with, as transformers writes it
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from suisei.encoders.hub_errors import no_bars
from suisei.encoders.pretrained import read_settings
from suisei.encoders.rules import check_folder
from suisei.encoders.weights import save_weights
from suisei.errors import ConfigError, ModelError
from suisei.models.prefix_mapper import OWNER, PrefixMapper, read_mapper
from suisei.ranges import Entries, Rule, at_least
from suisei.recap.image_towers import RULES as TOWER_RULES
from suisei.recap.image_towers import TowerConfig, tower_difference
from suisei.recap.prefix_training import PrefixTraining

WEIGHTS, SETTINGS, LANGUAGE_MODEL = "mapper.safetensors", "mapper.json", "language_model"
_RULES: dict[str, Rule] = {"image": Entries(TOWER_RULES), "heads": at_least(1, 1024)}


@dataclass(frozen=True)
class MapperSource:
    """A mapper, and what it goes with.

    Attributes:
        mapper: frozen.
        image: the image tower whose features it reads.
        language_model: a folder, or a name on the hub.
    """

    mapper: PrefixMapper
    image: TowerConfig
    language_model: str


def save_mapper(model: PrefixTraining, folder: Path) -> None:
    """Write a trained mapper; the folder is made."""
    language = folder / LANGUAGE_MODEL
    language.mkdir(parents=True)
    tensors = {f"{OWNER}{name}": tensor for name, tensor in model.mapper.state_dict().items()}
    save_weights(tensors, folder / WEIGHTS)
    with no_bars():
        model.captioner.save_pretrained(language)
    (model.tokenizer or model.plain).save_pretrained(language)
    settings = {"image": asdict(model.image), "heads": model.sizes["heads"]}
    (folder / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")


def find_mapper(
    path: Path, *, heads: int, image: TowerConfig | None, language_model: str | None
) -> MapperSource:
    """Return the mapper in a folder of :func:`save_mapper`, or in a checkpoint of ClipCap's layout.

    Args:
        path: a folder or a file.
        heads: attention heads of a checkpoint's mapper.
        image: the image tower; None for that of the folder, or for a checkpoint ViT-L/14.
        language_model: None for that of the folder, or for a checkpoint GPT-2.

    Raises:
        ConfigError: there is none, or the folder's was trained on another image tower.
        ModelError: it is unsafe, damaged or of another layout.
    """
    if not path.exists():
        raise ConfigError(
            f"model.mapper: nothing at {path}; give a mapper's folder or a checkpoint of ClipCap"
        )
    if not path.is_dir():
        mapper = read_mapper(path, heads)
        return MapperSource(mapper, image or TowerConfig(), language_model or "gpt2")
    place = path / SETTINGS
    if not (place.is_file() and (path / WEIGHTS).is_file()):
        raise ModelError(f"{path} is no mapper's folder: {SETTINGS} or {WEIGHTS} is missing")
    found = check_folder(read_settings(place), _RULES, str(place), required=tuple(_RULES))
    mapper = read_mapper(path / WEIGHTS, found["heads"])
    tower = TowerConfig(**found["image"])
    other = tower_difference(image, tower)
    if other:
        raise ConfigError(
            f"{other} ({place}): leave model.image out, or give the mapper's own; if its tower has moved, "
            "say so in that file"
        )
    return MapperSource(mapper, tower, language_model or str(path / LANGUAGE_MODEL))

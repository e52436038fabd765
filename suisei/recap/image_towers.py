"""Image towers by any name: open_clip's, a local checkpoint, a folder, the model in the package."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suisei.encoders.descriptions import DESCRIPTION
from suisei.encoders.image import ImageEncoder, ImageEncoderConfig
from suisei.errors import ConfigError
from suisei.ranges import NAME, SWITCH, Rule, check_settings

SMALL = "small"
"""Names the tower of the model in the package."""
RULES: dict[str, Rule] = {"name": NAME, "pretrained": NAME, "normalise": SWITCH}


@dataclass
class TowerConfig:
    """Which image tower, and how its features are used.

    Attributes:
        name: an open_clip model; a folder of a dual encoder or of a SuiSei model, whose image tower is taken;
            or "small", that of the model in the package.
        pretrained: of an open_clip model, its pretraining tag or the path of a local checkpoint.
        normalise: whether features are scaled to unit length before the mapper; ClipCap has it as an option.
    """

    name: str = "ViT-L-14"
    pretrained: str = "openai"
    normalise: bool = False

    def __post_init__(self) -> None:
        check_settings("model.image", self, RULES)


def image_tower(config: TowerConfig) -> ImageEncoder:
    """Return the tower that a config names, frozen, in evaluation mode, on the CPU.

    Raises:
        ConfigError: there is no such model, or the folder holds no image tower.
        ModelError: a folder or checkpoint that is unsafe or damaged.
        UnavailableError: weights that are neither here nor to be had.
    """
    folder = Path(config.name)
    if config.name == SMALL or (folder / "idf.json").is_file():
        found = _of_model(config.name)
    elif (folder / DESCRIPTION).is_file():
        found = _of_dual_encoder(config.name)
    elif folder.is_dir():
        raise ConfigError(
            f"model.image.name: {folder} holds neither a SuiSei model nor a dual encoder ({DESCRIPTION})"
        )
    else:
        found = ImageEncoder.create(ImageEncoderConfig(config.name, config.pretrained))
    return found.eval().requires_grad_(False)


def _of_model(name: str) -> ImageEncoder:
    from suisei.metrics.default_model import default_model
    from suisei.metrics.extras import check_names
    from suisei.models.folder import load_model

    image = load_model(default_model() if name == SMALL else name, check_names).regressor.image
    if image is None:
        raise ConfigError(f"model.image.name: the model in {name} looks at no image")
    return image


def _of_dual_encoder(name: str) -> ImageEncoder:
    from suisei.encoders.dual_loading import load_dual_encoder

    encoder = load_dual_encoder(name, precision="fp32", device="cpu")
    described = encoder.architecture or {}
    settings = {
        "embed_dim": described["embed_dim"],
        "quick_gelu": bool(described.get("quick_gelu", False)),
        "vision_cfg": dict(described["vision_cfg"]),
        "preprocess": dict(encoder.model.visual.preprocess_cfg),
        "normalise": False,
    }
    return ImageEncoder(encoder.model.visual, settings)


def tower_features(image: ImageEncoder, sources: list[Any], advance: Any) -> Any:
    """Return the features of images as scoring will compute them, float32 [N, f].

    Args:
        image: a frozen tower; it is left as it is.
        sources: N paths.
        advance: called with the number of images of each batch.

    Raises:
        DataError: an image cannot be read.
    """
    from suisei.encoders.cache_place import disk_cache
    from suisei.encoders.precision import choose_device, choose_precision, to_precision
    from suisei.encoders.tower_features import TowerFeatures

    device = choose_device("auto")
    precision = choose_precision("auto", device)
    rounded = deepcopy(image)  # weights of the folder stay whole
    to_precision(rounded.tower, precision)
    rows, found = TowerFeatures(rounded.to(device), disk_cache(), precision).of(sources, advance)
    return found[rows]

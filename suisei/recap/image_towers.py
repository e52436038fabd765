"""The image tower of a reconstruction, and what it says of images."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from suisei.encoders.image import ImageEncoder, ImageEncoderConfig
from suisei.metrics.default_model import NAME as PACKAGE
from suisei.ranges import NAME, SWITCH, Rule, check_settings
from suisei.training.folder_towers import names_folder, tower_of_folder

OLD_PACKAGE = "small"
"""What runs and mappers of before call the tower of the model in the package."""
RULES: dict[str, Rule] = {"name": NAME, "pretrained": NAME, "normalise": SWITCH}


@dataclass
class TowerConfig:
    """Which image tower, and how its features are used.

    Attributes:
        name: an open_clip model; a folder of a dual encoder or of a SuiSei model, whose image tower is taken;
            or "suisei-small", that of the model in the package.
        pretrained: of an open_clip model, its pretraining tag or the path of a local checkpoint.
        normalise: whether features are scaled to unit length before the mapper; ClipCap has it as an option.
    """

    name: str = "ViT-L-14"
    pretrained: str = "openai"
    normalise: bool = False

    def __post_init__(self) -> None:
        check_settings("model.image", self, RULES)
        self.name = PACKAGE if self.name == OLD_PACKAGE else self.name

    @property
    def files(self) -> list[str]:
        """The folder or checkpoint of this machine that the tower comes from, if any."""
        named = [self.name] if names_folder(self.name) else [self.pretrained]
        return [name for name in named if Path(name).exists()]

    def described(self) -> dict[str, Any]:
        """Return what reports say of the tower: its pretraining too, unless it comes from a folder."""
        said = asdict(self)
        if names_folder(self.name):
            del said["pretrained"]
        return said


def tower_difference(asked: TowerConfig | None, own: TowerConfig) -> str:
    """Return what differs between the tower that is asked for and a mapper's, "" where nothing does.

    Features of another tower may be as wide, and mean nothing to the mapper.

    Args:
        asked: None for the mapper's own; folders and files are compared by where they lead.
        own: that of the mapper.
    """
    for name, value in asdict(own).items():
        given = value if asked is None else getattr(asked, name)
        if given == value or (isinstance(value, str) and Path(given).resolve() == Path(value).resolve()):
            continue
        return f"model.image.{name} is {given!r} and the mapper's {value!r}"
    return ""


def image_tower(config: TowerConfig) -> ImageEncoder:
    """Return the tower that a config names, frozen, in evaluation mode, on the CPU.

    Raises:
        ConfigError: there is no such model, or the folder holds no image tower.
        ModelError: a folder or checkpoint that is unsafe or damaged.
        UnavailableError: weights that are neither here nor to be had.
    """
    if names_folder(config.name):
        found = tower_of_folder(config.name, "model.image.name")
    else:
        found = ImageEncoder.create(ImageEncoderConfig(config.name, config.pretrained))
    return found.eval().requires_grad_(False)


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

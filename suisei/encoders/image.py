"""The image encoder: the visual tower of any open_clip model.

Shape letters: I images, s side in pixels, d width of the features.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from suisei.encoders.descriptions import check_image_encoder
from suisei.encoders.efficientnet_lite import FEATURES, LITE, EfficientNetLite, is_lite
from suisei.encoders.hub_errors import explain_hub_error, hub_guard, no_hub
from suisei.encoders.pixels import model_transform
from suisei.encoders.resnet import ClipResNet, is_resnet
from suisei.encoders.rules import BUILD_ERRORS
from suisei.encoders.timm_tower import (
    RANDOM_WEIGHTS,
    fill_timm_tower,
    is_timm,
    is_untrained,
    timm_architecture,
)
from suisei.encoders.tiny import TinyImageConfig, image_architecture
from suisei.encoders.tower_libraries import tower_library
from suisei.errors import ConfigError, ModelError, one_line
from suisei.ranges import NAME, SWITCH, Of, Rule, check_settings

MINIMAL_TEXT_TOWER = {"context_length": 4, "vocab_size": 8, "width": 8, "heads": 1, "layers": 1}
"""open_clip builds a pair; the text half is thrown away, so it is made as small as it can be."""

logger = logging.getLogger(__name__)

RULES: dict[str, Rule] = {
    "name": NAME,
    "pretrained": Of(str, null=True),
    "frozen": SWITCH,
    "normalise": SWITCH,
}


@dataclass
class ImageEncoderConfig:
    """Which image encoder, and how it is used.

    Attributes:
        name: an open_clip model name, "tiny" for a small one built from ``tiny``, or "timm:ARCHITECTURE".
        pretrained: an open_clip pretraining tag, or the path of a local checkpoint; of timm's architectures
            the file of their weights, or null for random ones to train from. A tag decides between GELU and
            QuickGELU; beside a file the name does, and that of weights like OpenAI's ends in ``-quickgelu``.
        frozen: whether the encoder keeps its weights; its features are then computed once.
        normalise: whether features are scaled to unit length (the paper does not).
        tiny: size of the encoder when the name is "tiny".
    """

    name: str = "ViT-B-16"
    pretrained: str | None = "openai"
    frozen: bool = True
    normalise: bool = False
    tiny: TinyImageConfig = field(default_factory=TinyImageConfig)

    def __post_init__(self) -> None:
        check_settings("model.image", self, RULES)

    @property
    def starts_from_random_weights(self) -> bool:
        """Whether it has to learn before it says anything."""
        return is_untrained(self.name, self.pretrained)


class ImageEncoder(nn.Module):
    """A visual tower with its preprocessing.

    Attributes:
        width: width d of the features.
    """

    def __init__(self, tower: nn.Module, settings: dict[str, Any]) -> None:
        super().__init__()
        self.tower = tower
        self.settings = settings
        self.width: int = settings["embed_dim"]
        self._transform: Callable[[Any], Tensor] | None = None

    @classmethod
    def create(cls, config: ImageEncoderConfig, *, trained_first: bool = False) -> ImageEncoder:
        """Build the encoder that a config names.

        Args:
            config: which encoder.
            trained_first: whether it is pre-trained before it is used, so that it may start from random
                weights and then be frozen.

        Raises:
            ConfigError: open_clip has no model of that name, or random weights would stay as they are.
            UnavailableError: the weights are not on disk and the hub cannot be reached.
        """
        if config.starts_from_random_weights and config.frozen and not trained_first:
            raise ConfigError(
                f"the {config.name} image encoder starts from random weights: set image.frozen to false, or "
                "pre-train it (model.pretraining.image_epochs)"
            )
        if config.name == "tiny":
            architecture = {**image_architecture(config.tiny), "normalise": config.normalise}
            return cls(_open_clip_tower(architecture), architecture)
        if is_timm(config.name):
            architecture = {**timm_architecture(config.name), "normalise": config.normalise}
            encoder = cls.from_architecture(architecture)
            fill_timm_tower(encoder.tower, config.name, config.pretrained)
            return encoder
        if config.pretrained is None:
            raise ConfigError(f"model.image.pretrained is null; {RANDOM_WEIGHTS}")
        model = _pretrained_model(config.name, config.pretrained)
        architecture = {
            "embed_dim": int(model.visual.output_dim),
            "quick_gelu": _uses_quick_gelu(model.visual),
            "vision_cfg": _vision_config(config.name),
            "preprocess": dict(model.visual.preprocess_cfg),
            "normalise": config.normalise,
        }
        _check_storable(config.name, architecture)
        return cls(model.visual, architecture)

    @classmethod
    def from_architecture(cls, settings: Any) -> ImageEncoder:
        """Build an encoder, without its weights, from :meth:`architecture`.

        CLIP's ResNet and EfficientNet-Lite0 are built without open_clip.

        Raises:
            ModelError: a setting that cannot be, or is not for a model folder to decide.
        """
        found = check_image_encoder(settings, "image_architecture")
        try:
            if is_resnet(found["vision_cfg"]):
                return cls(ClipResNet(found["vision_cfg"], found["embed_dim"]), found)
            if is_lite(found["vision_cfg"]):
                if found["embed_dim"] != FEATURES:
                    raise ModelError(f"{LITE} has {FEATURES} features, embed_dim says {found['embed_dim']}")
                return cls(EfficientNetLite(), found)
            with no_hub():
                return cls(_open_clip_tower(found), found)
        except BUILD_ERRORS as error:
            raise ModelError(f"cannot rebuild the image encoder: {one_line(error)}") from None

    def architecture(self) -> dict[str, Any]:
        """Return what :meth:`from_architecture` needs, as values that JSON can hold."""
        return self.settings

    @property
    def side(self) -> int:
        """Of the square that :meth:`preprocess` makes, in pixels; the longer one of another shape."""
        size = _size(self.settings)
        return size if isinstance(size, int) else max(size)

    def preprocess(self, image: Any) -> Tensor:
        """Turn a PIL image into float32 [3, s, s]: resized, cropped at the centre, normalised."""
        if self._transform is None:
            given = self.settings.get("preprocess", {})
            self._transform = model_transform({**given, "size": _size(self.settings)})
        return self._transform(image)

    def forward(self, pixels: Tensor) -> Tensor:
        """Encode float [I, 3, s, s] to float32 [I, d]."""
        weights = next(self.tower.parameters())
        features = self.tower(pixels.to(weights.dtype)).float()
        if self.settings.get("normalise"):
            features = nn.functional.normalize(features, dim=-1)
        return features


def _check_storable(name: str, architecture: dict[str, Any]) -> None:
    """Refuse, before anything is trained, an encoder that a model folder could not hold."""
    try:
        check_image_encoder(architecture, "vision")
    except ModelError as error:
        raise ConfigError(f"image.name: a model with {name} could not be loaded again: {error}") from None


def _open_clip_tower(settings: dict[str, Any]) -> nn.Module:
    tower: nn.Module = (
        tower_library("open_clip")
        .CLIP(
            embed_dim=settings["embed_dim"],
            vision_cfg=settings["vision_cfg"],
            text_cfg=MINIMAL_TEXT_TOWER,
            quick_gelu=settings["quick_gelu"],
        )
        .visual
    )
    return tower


def _size(settings: dict[str, Any]) -> Any:
    return settings.get("preprocess", {}).get("size") or settings["vision_cfg"]["image_size"]


def _pretrained_model(name: str, pretrained: str) -> Any:
    import open_clip

    if name not in open_clip.list_models():
        raise ConfigError(
            f"open_clip has no model {name!r}; `python -c 'import open_clip; "
            "print(open_clip.list_models())'` lists them, and 'tiny' is built in"
        )
    local = Path(pretrained)
    if local.suffix and not local.is_file() and ("/" in pretrained or local.suffix in CHECKPOINTS):
        raise ConfigError(f"image.pretrained: no checkpoint file at {local}")
    if local.is_file():
        return _from_checkpoint(name, local)
    tag = open_clip.get_pretrained_cfg(name, pretrained)
    if not tag:
        tags = open_clip.list_pretrained_tags_by_model(name)
        raise ConfigError(
            f"image.pretrained is {pretrained!r}: not a checkpoint file, and the tags of "
            f"{name} are: {', '.join(tags) or 'none'}"
        )
    wanted = f"{name} ({pretrained})"
    try:
        with hub_guard(wanted):
            # open_clip takes the name's activation and only warns where the weights learned with the other.
            quick = bool(tag.get("quick_gelu"))
            return open_clip.create_model(name, pretrained=pretrained, force_quick_gelu=quick)
    except (OSError, ValueError) as error:
        raise explain_hub_error(wanted, error) from error


def _from_checkpoint(name: str, path: Path) -> Any:
    import open_clip

    try:
        model = open_clip.create_model(name, pretrained=str(path))
    except pickle.UnpicklingError:
        raise ModelError(f"{path}: {NOT_WEIGHTS}") from None
    except (OSError, RuntimeError, ValueError, AssertionError, KeyError, EOFError) as error:
        if "TorchScript" in str(error):  # which holds code, as OpenAI's own files do
            raise ModelError(f"{path}: {NOT_WEIGHTS}") from None
        raise ModelError(f"{path}: does not fit open_clip model {name!r}: {one_line(error)}") from None
    quick = f"{name}-quickgelu"
    if quick in open_clip.list_models() and any(type(part) is nn.GELU for part in model.visual.modules()):
        logger.warning(
            "%s: a file does not say which activation its weights learned with, and %s computes with GELU; "
            "OpenAI's weights, and those trained from them, need %s",
            *(path, name, quick),
        )
    return model


NOT_WEIGHTS = "not a file of weights alone, the only kind that is read; save its state dict with safetensors"
CHECKPOINTS = (".pt", ".pth", ".bin", ".safetensors")


def _uses_quick_gelu(tower: nn.Module) -> bool:
    return any(type(module).__name__ == "QuickGELU" for module in tower.modules())


def _vision_config(name: str) -> dict[str, Any]:
    import open_clip

    config = open_clip.get_model_config(name)
    return dict(config["vision_cfg"])

"""The eyes of a captioner: a visual tower that says something of every place of an image.

Shape letters: B images, s side in pixels, P places, c width of what is said of a place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from suisei.encoders.efficientnet_lite import EfficientNetLite
from suisei.encoders.image import ImageEncoder, ImageEncoderConfig
from suisei.encoders.resnet import ClipResNet
from suisei.encoders.timm_tower import (
    RANDOM_WEIGHTS,
    fill_timm_tower,
    is_timm,
    is_untrained,
    timm_architecture,
)
from suisei.encoders.tiny import TinyImageConfig, image_architecture
from suisei.errors import ConfigError, ModelError
from suisei.ranges import NAME, SWITCH, Of, Rule, at_least, check_settings, or_null
from suisei.training.folder_towers import names_folder, tower_of_folder

TOWER: dict[str, Rule] = {
    "name": NAME,
    "pretrained": Of(str, null=True),
    "train": SWITCH,
    "mirror": SWITCH,
    "whole": SWITCH,
    "last_norm": SWITCH,
    "image_size": or_null(at_least(32, 2048)),
}


@dataclass
class TowerConfig:
    """Which visual tower, and how it is used.

    Attributes:
        name: an open_clip model name; "timm:ARCHITECTURE"; "tiny" for a small one built from ``tiny``;
            "suisei-small" for the tower of the model in the package; or the folder of a suisei model or of a
            dual encoder, whose tower it is.
        pretrained: an open_clip pretraining tag, or a file of weights; null for random weights of timm's
            architectures.
        train: whether the tower learns, from training images cropped and mirrored at random. A frozen one
            sees each image once, and what it says is kept.
        mirror: whether a frozen tower sees training images mirrored too.
        whole: whether an image is squeezed to a square, so that nothing of its longer side is cut off.
        last_norm: whether the grid of one of open_clip's vision transformers, such as CLIP's, is what stands
            after their last layer normalisation; PAC-S++ (eq. 15) takes what stands before it.
        image_size: side of the input in pixels of timm's convolutional architectures; null for their own.
        tiny: size of the tower when the name is "tiny".
    """

    name: str = "ViT-L-14"
    pretrained: str | None = "openai"
    train: bool = False
    mirror: bool = False
    whole: bool = False
    last_norm: bool = False
    image_size: int | None = None
    tiny: TinyImageConfig = field(default_factory=TinyImageConfig)

    def __post_init__(self) -> None:
        check_settings("model.tower", self, TOWER)
        if self.image_size is not None and not is_timm(self.name):
            raise ConfigError("model.tower.image_size is for timm's architectures; others have their own")

    @property
    def starts_from_random_weights(self) -> bool:
        """Whether it has to learn before it says anything."""
        return is_untrained(self.name, self.pretrained)


def create_image_encoder(config: TowerConfig) -> ImageEncoder:
    """Return the image encoder that a config names.

    Raises:
        ConfigError: a name that nothing has.
        ModelError: weights that do not fit.
        UnavailableError: weights that are not on disk while the hub cannot be reached.
    """
    encoder = _named(config)
    if config.whole:
        encoder.settings = {
            **encoder.settings,
            "preprocess": {**encoder.settings.get("preprocess", {}), "resize_mode": "squash"},
        }
    return encoder


def _named(config: TowerConfig) -> ImageEncoder:
    if config.name == "tiny":
        return ImageEncoder.from_architecture(image_architecture(config.tiny))
    if is_timm(config.name):
        encoder = ImageEncoder.from_architecture(timm_architecture(config.name, config.image_size))
        fill_timm_tower(encoder.tower, config.name, config.pretrained)
        return encoder
    if names_folder(config.name):
        return tower_of_folder(config.name, "model.tower.name")
    if config.pretrained is None:
        raise ConfigError(f"model.tower.pretrained is null; {RANDOM_WEIGHTS}")
    return ImageEncoder.create(ImageEncoderConfig(name=config.name, pretrained=config.pretrained))


class GridTower(nn.Module):
    """What the tower of an image encoder says of every place, before it is pooled.

    Args:
        image: the encoder.
        last_norm: whether what stands after the last layer normalisation of a vision transformer of
            open_clip's is shown, and not what stands before it; other towers have one grid.

    Attributes:
        last_norm: as given.
        places: P.
        width: c.
        side: side of the input in pixels.

    Raises:
        ModelError: a tower that gives no grid.
    """

    def __init__(self, image: ImageEncoder, last_norm: bool = False) -> None:
        super().__init__()
        self.image, self.last_norm = image, last_norm
        image.tower.to(memory_format=torch.channels_last)  # CPUs convolve up to twice as fast that way
        size = image.settings.get("preprocess", {}).get("size") or image.settings["vision_cfg"]["image_size"]
        self.side = size if isinstance(size, int) else size[-1]
        was_training = self.training
        self.eval()
        with torch.no_grad():
            grid = self(torch.zeros(1, 3, self.side, self.side))
        self.train(was_training)
        self.places, self.width = grid.shape[1:]

    @property
    def before_norm(self) -> bool:
        """Whether the tower's last layer normalisation is left out of the grid."""
        return not self.last_norm and hasattr(self.image.tower, "ln_post")

    def requires_grad_(self, requires_grad: bool = True) -> GridTower:
        """Let the tower learn, or freeze it; what the grid does not use, such as a pooling, stays frozen."""
        super().requires_grad_(requires_grad)
        if requires_grad:
            for weights in self._unused():  # processes that learn together wait for every gradient
                weights.requires_grad_(False)
        return self

    def _unused(self) -> list[nn.Parameter]:
        """Return the weights that learn and that the grid does not depend on."""
        pixels = torch.zeros(1, 3, self.side, self.side, device=next(self.parameters()).device)
        was_training = self.training
        self.eval()
        with torch.enable_grad(), saved_tensors_hooks(lambda _: None, lambda _: pixels):  # nothing is held
            used = _weights_behind(self(pixels))
        self.train(was_training)
        return [weights for weights in self.parameters() if id(weights) not in used]

    def forward(self, pixels: Tensor) -> Tensor:
        """Return [B, P, c] of pixels [B, 3, s, s]."""
        tower: Any = self.image.tower
        if isinstance(tower, ClipResNet | EfficientNetLite):
            return _places(tower.grid(pixels))
        if hasattr(tower, "trunk"):
            return _places(tower.trunk.forward_features(pixels), tower.trunk)
        if hasattr(tower, "forward_intermediates"):
            options = {"normalize_intermediates": self.last_norm, "intermediates_only": True}
            return _places(tower.forward_intermediates(pixels, 1, **options)["image_intermediates"][-1])
        raise ModelError(f"a tower of the kind {type(tower).__name__} gives no grid; choose another")


def _weights_behind(result: Tensor) -> set[int]:
    """Return the ids of the weights that a result has a gradient for."""
    waiting: list[Any] = [result.grad_fn]
    seen: set[Any] = set()
    found = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.add(id(node.variable))
        waiting += [before for before, _ in node.next_functions]
    return found


def _places(states: Tensor, trunk: Any = None) -> Tensor:
    """Return [B, P, c] of a map [B, c, h, w], or [B, h, w, c] where timm says so, or of tokens [B, P, c]."""
    if states.ndim == 3:
        return states
    if states.ndim != 4:
        raise ModelError("the tower gives neither a map of places nor tokens; choose another")
    if str(getattr(trunk, "output_fmt", "NCHW")).endswith("NHWC"):
        return states.flatten(1, 2)
    return states.flatten(2).transpose(1, 2)

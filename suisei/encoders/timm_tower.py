"""Image towers of timm's architectures, with weights from a local file.

A model is named ``timm:ARCHITECTURE``. Nothing is downloaded: open_clip builds the architecture, and the
weights are those of a file, or random ones to train from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from suisei.encoders.weights import check_fit, read_weights
from suisei.errors import ConfigError

PREFIX = "timm:"
"""Begins the name of an image tower that is one of timm's architectures."""
RANDOM_WEIGHTS = "random weights are for tiny and for timm's architectures"
"""Why a tower without weights is refused."""
_CLASSIFIER = ("classifier.", "fc.", "head.", "head_dist.")


def is_timm(name: str) -> bool:
    """Return whether a name is one of timm's architectures, to be had without any hub."""
    return name.startswith(PREFIX)


def is_untrained(name: str, pretrained: str | None) -> bool:
    """Return whether an image tower starts from random weights, and has to learn before it says anything."""
    return name == "tiny" or (is_timm(name) and pretrained is None)


def timm_architecture(name: str, image_size: int | None = None) -> dict[str, Any]:
    """Return what :meth:`ImageEncoder.from_architecture` builds a timm tower of, pooled by the mean.

    Args:
        name: ``timm:ARCHITECTURE``.
        image_size: side of the square input in pixels; None for the architecture's own.

    Raises:
        ConfigError: timm has no such architecture.
    """
    import timm

    architecture = name.removeprefix(PREFIX)
    if not timm.is_model(architecture):
        near = ", ".join(timm.list_models(f"*{architecture.split('.')[0][:8]}*")[:5])
        raise ConfigError(f"timm has no architecture {architecture!r}" + (f"; near: {near}" if near else ""))
    found = timm.get_pretrained_cfg(architecture)
    described = found.to_dict() if found is not None else {}
    if described.get("fixed_input_size") and image_size not in (None, described["input_size"][-1]):
        raise ConfigError(f"{name} takes images of {described['input_size'][-1]} pixels alone")
    trunk: Any = timm.create_model(architecture, pretrained=False, num_classes=0)
    side = image_size or described.get("input_size", (3, 224, 224))[-1]
    return {
        "embed_dim": trunk_width(trunk),
        "quick_gelu": False,
        "vision_cfg": {
            "timm_model_name": architecture,
            "timm_model_pretrained": False,
            "timm_pool": "avg",
            "timm_proj": "none",
            "image_size": int(side),
        },
        "preprocess": {
            "size": int(side),
            "mode": "RGB",
            "mean": list(described.get("mean", (0.485, 0.456, 0.406))),
            "std": list(described.get("std", (0.229, 0.224, 0.225))),
            "interpolation": "bicubic",
        },
    }


def trunk_width(trunk: Any) -> int:
    """Return how many features a timm model without its classifier gives.

    Some, such as MobileNetV3 and VGG, pool first and widen after: these are more than ``num_features``.
    """
    return int(getattr(trunk, "head_hidden_size", trunk.num_features))


def check_head(tower: Any, architecture: str) -> None:
    """Refuse a tower whose head open_clip made for fewer features than its timm model gives.

    Args:
        tower: open_clip's, around a timm model.
        architecture: timm's name of that.

    Raises:
        ConfigError: such a tower.
    """
    width, read = trunk_width(tower.trunk), int(tower.trunk.num_features)
    if len(tower.head) and width != read:
        raise ConfigError(
            f"vision_cfg: {architecture} gives {width} features, and open_clip pools or projects {read}; "
            f"set timm_pool to avg, timm_proj to none and embed_dim to {width}, or take another"
        )


def fill_timm_tower(tower: nn.Module, name: str, pretrained: str | None) -> None:
    """Fill open_clip's tower around a timm model with the weights that a setting names.

    Args:
        tower: open_clip's, whose ``trunk`` is timm's.
        name: ``timm:ARCHITECTURE``, for messages.
        pretrained: timm's own file; None leaves the random weights.

    Raises:
        ConfigError: there is no such file.
        ModelError: one of another architecture.
    """
    if pretrained is None:
        return
    if not Path(pretrained).is_file():
        raise ConfigError(
            f"pretrained is {pretrained!r}, which is no file: {name} takes its weights from timm's file of "
            "them, or has random ones to train from (null)"
        )
    read_timm_weights(tower, Path(pretrained))


def read_timm_weights(tower: nn.Module, path: Path) -> None:
    """Fill open_clip's tower around a timm model with the weights of timm's own file.

    The classifier, of which a tower has none, is left out.

    Args:
        tower: open_clip's, whose ``trunk`` is timm's.
        path: safetensors, or what ``torch.save`` wrote of a state dict, as timm publishes them.

    Raises:
        ModelError: no such file, or one of another architecture.
    """
    trunk: Any = tower.trunk
    own = trunk.state_dict()
    tensors = {
        key: value
        for key, value in read_weights(path).items()
        if key in own or not key.startswith(_CLASSIFIER)
    }
    check_fit(trunk, {key: tuple(value.shape) for key, value in tensors.items()}, str(path))
    trunk.load_state_dict(tensors)

"""Image towers that captioners and reconstructions take over: of a folder, or of the model in the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from suisei.encoders.descriptions import DESCRIPTION
from suisei.encoders.image import ImageEncoder
from suisei.errors import ConfigError, ModelError
from suisei.metrics.default_model import NAME as PACKAGE


def names_folder(name: str) -> bool:
    """Return whether a tower's name is that of a folder, or of the model in the package ("suisei-small")."""
    return name == PACKAGE or Path(name).is_dir()


def tower_of_folder(name: str, setting: str) -> ImageEncoder:
    """Return the image encoder of a suisei model, or of a dual encoder.

    Args:
        name: the folder, or "suisei-small" for the model in the package.
        setting: what named it, for messages.

    Raises:
        ConfigError: the folder is neither.
        ModelError: the model looks at no image, or the folder is unsafe or damaged.
        UnavailableError: this installation has no model in the package.
    """
    folder = Path(name)
    if name == PACKAGE or (folder / "idf.json").is_file():
        return _of_model(name, setting)
    if (folder / DESCRIPTION).is_file():
        return _of_dual_encoder(name)
    raise ConfigError(f"{setting}: {folder} holds neither a SuiSei model nor a dual encoder ({DESCRIPTION})")


def _of_model(name: str, setting: str) -> ImageEncoder:
    from suisei.metrics.default_model import default_model
    from suisei.metrics.extras import check_names
    from suisei.models.folder import load_model

    image = load_model(default_model() if name == PACKAGE else name, check_names).regressor.image
    if image is None:
        raise ModelError(f"{setting}: the model in {name} looks at no image; name another, or a tower")
    return image


def _of_dual_encoder(name: str) -> ImageEncoder:
    from suisei.encoders.dual_loading import load_dual_encoder

    encoder = load_dual_encoder(name, precision="fp32", device="cpu")
    described: dict[str, Any] = dict(encoder.architecture or {})
    settings = {
        "embed_dim": int(described["embed_dim"]),
        "quick_gelu": bool(described.get("quick_gelu", False)),
        "vision_cfg": dict(described["vision_cfg"]),
        "preprocess": dict(encoder.model.visual.preprocess_cfg),
        "normalise": False,
    }
    return ImageEncoder(encoder.model.visual, settings)

"""New dual encoders from a description, and dual encoders as folders that load without any hub.

A folder holds ``open_clip_config.json`` and ``open_clip_model.safetensors``, which open_clip itself
reads, and, where the text tower is a Hugging Face encoder, that encoder's config and tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from suisei.encoders.descriptions import DESCRIPTION, OWN_FOLDER, check_model
from suisei.encoders.dual import DualEncoder
from suisei.encoders.dual_loading import image_transform
from suisei.encoders.dual_weights import WEIGHT_FILES
from suisei.encoders.hub_errors import hub_guard, quiet_transformers
from suisei.encoders.pretrained import text_config
from suisei.encoders.seeded import seeded
from suisei.encoders.text_parts import check_vocabulary
from suisei.encoders.timm_tower import PREFIX, check_head, read_timm_weights, timm_architecture
from suisei.encoders.weights import save_weights
from suisei.errors import ConfigError, ModelError


def new_dual_encoder(
    architecture: dict[str, Any],
    *,
    text_encoder: str | None = None,
    image_weights: str | None = None,
    seed: int = 0,
) -> DualEncoder:
    """Build a dual encoder with random weights.

    Args:
        architecture: open_clip's description: ``embed_dim``, ``vision_cfg`` and, without a text
            encoder, ``text_cfg``.
        text_encoder: a Hugging Face encoder or folder that becomes the text tower with its own weights,
            mean pooling and a new projection.
        image_weights: timm's own file of weights for the image tower, one of timm's architectures, which then
            gets pixels as that expects them.
        seed: of the random weights; the state of the global generator is left as it is.

    Raises:
        ConfigError: a description that open_clip refuses, or of which it builds what cannot compute; weights
            for a tower that is not timm's.
        ModelError: weights of another architecture.
        UnavailableError: the text encoder cannot be had.
    """
    import open_clip
    from open_clip.model import set_model_preprocess_cfg
    from open_clip.transform import PreprocessCfg

    described = dict(architecture)
    if text_encoder is not None:
        described["text_cfg"] = _with_text_encoder(described.get("text_cfg", {}), text_encoder)
    kind = open_clip.CLIP if text_encoder is None else open_clip.CustomTextCLIP
    try:
        with seeded(seed), quiet_transformers(), hub_guard(text_encoder or "new"):
            model = kind(**described)
    except (TypeError, KeyError, ValueError, AssertionError) as error:
        raise ConfigError(f"open_clip cannot build a model from {described}: {error}") from error
    if described["vision_cfg"].get("timm_model_name") is not None:
        check_head(model.visual, described["vision_cfg"]["timm_model_name"])
    pixels = {"size": described["vision_cfg"].get("image_size", 224)}
    if image_weights is not None:
        pixels |= _with_image_weights(model.visual, described["vision_cfg"], Path(image_weights))
    set_model_preprocess_cfg(model, {**vars(PreprocessCfg()), **pixels})
    encoder = DualEncoder(
        model,
        _new_tokenizer(described["text_cfg"], text_encoder),
        image_transform(model),
        name="new",
        weights=f"seed-{seed}",
        device="cpu",
        architecture=described,
    )
    check_savable(encoder)
    return encoder


def _with_image_weights(tower: nn.Module, settings: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Fill timm's tower with weights; returns mean and deviation of the pixels that they expect."""
    architecture = settings.get("timm_model_name")
    if architecture is None:
        raise ConfigError("image weights are for timm's towers: the architecture names no timm_model_name")
    read_timm_weights(tower, path)
    expected = timm_architecture(PREFIX + architecture)["preprocess"]
    return {name: tuple(expected[name]) for name in ("mean", "std")}


def _with_text_encoder(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return open_clip's description of a text tower that is a Hugging Face encoder.

    Raises:
        UnavailableError: it cannot be had, or wants to run code of its own.
    """
    _check_text_encoder(name)
    usual = {"context_length": 64, "hf_pooler_type": "mean_pooler", "hf_proj_type": "linear"}
    return {**usual, **given, "hf_model_name": name, "hf_tokenizer_name": name}


def _new_tokenizer(settings: Mapping[str, Any], text_encoder: str | None) -> Any:
    from open_clip.tokenizer import HFTokenizer, SimpleTokenizer

    length = int(settings.get("context_length", 77))
    if text_encoder is None:
        return SimpleTokenizer(context_length=length)
    made = HFTokenizer(text_encoder, context_length=length, trust_remote_code=False)
    check_vocabulary(made.tokenizer, text_encoder)
    return made


def _check_text_encoder(name: str) -> None:
    """Refuse a text encoder that wants to run code of its own, about which open_clip would ask.

    Raises:
        UnavailableError: it does, or it cannot be had.
    """
    from transformers import AutoConfig

    with hub_guard(name):
        AutoConfig.from_pretrained(name, trust_remote_code=False)


def check_savable(encoder: DualEncoder) -> dict[str, Any]:
    """Return the description of an encoder as its folder will hold it.

    Raises:
        ConfigError: the folder could not be loaded again.
    """
    if encoder.architecture is None:
        raise ConfigError("this dual encoder does not know its architecture and cannot be saved")
    from open_clip.tokenizer import HFTokenizer, SimpleTokenizer

    described = json.loads(json.dumps(encoder.architecture))
    text = described["text_cfg"]
    if not isinstance(encoder.tokenizer, HFTokenizer | SimpleTokenizer):
        raise ConfigError(f"{encoder.name}: a tokenizer of its own kind cannot be kept in a folder")
    for name in ("hf_model_name", "hf_tokenizer_name"):
        if text.get(name):
            text[name] = OWN_FOLDER
    try:
        if text.get("hf_model_name"):
            text_config(encoder.model.text.config.to_dict(), "text encoder")
        return check_model(described, encoder.name)
    except ModelError as error:
        raise ConfigError(f"a folder cannot hold this dual encoder: {error}") from None


def save_dual_encoder(encoder: DualEncoder, folder: str | Path) -> None:
    """Write a dual encoder as a folder that :func:`suisei.encoders.dual_loading.load_dual_encoder` reads.

    Args:
        encoder: one that was loaded or built by this package, so that it knows its architecture.
        folder: made where it is absent.

    Raises:
        ConfigError: the architecture is not known.
    """
    from open_clip.tokenizer import HFTokenizer

    architecture = check_savable(encoder)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(encoder.tokenizer, HFTokenizer):
        encoder.tokenizer.tokenizer.save_pretrained(folder)
    if architecture["text_cfg"].get("hf_model_name"):
        encoder.model.text.config.save_pretrained(folder)
    preprocess = {
        key: value
        for key, value in encoder.model.visual.preprocess_cfg.items()
        if key not in ("size", "mode")
    }
    content = {"model_cfg": architecture, "preprocess_cfg": preprocess}
    (folder / DESCRIPTION).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    save_weights(encoder.model.state_dict(), folder / WEIGHT_FILES[0])

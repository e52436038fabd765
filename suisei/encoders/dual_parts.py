"""What a folder of a dual encoder holds, checked: its model, with random weights, and its tokenizer."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from suisei.encoders.descriptions import DESCRIPTION, read_description
from suisei.encoders.dual_weights import find_weights
from suisei.encoders.hub_errors import no_hub
from suisei.encoders.pretrained import check_tokenizer_file, read_settings, text_config
from suisei.encoders.rules import BUILD_ERRORS
from suisei.encoders.text_parts import check_vocabulary
from suisei.encoders.tower_libraries import tower_library
from suisei.encoders.weights import check_size
from suisei.errors import ModelError, one_line


def check_dual_folder(folder: Path, *, weighed: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """Check a folder before memory is spent on it.

    Args:
        folder: the folder.
        weighed: whether its own weights will be read, so that they must be there.

    Returns:
        Description and preprocessing, as :func:`suisei.encoders.descriptions.read_description`.

    Raises:
        ModelError: a setting that cannot be, or that leads out of the folder, or a model too large for its
            weights.
        ConfigError: no weights.
    """
    described, preprocess = read_description(folder)
    if described["text_cfg"].get("hf_tokenizer_name"):
        check_tokenizer_file(folder)
    path = find_weights(folder) if weighed else None
    with torch.device("meta"), no_hub():
        model = model_of_folder(folder, described, preprocess)
    if path is not None:
        check_size(model, path)
    return described, preprocess


def model_of_folder(folder: Path, described: Mapping[str, Any], preprocess: Mapping[str, Any]) -> nn.Module:
    """Build what a checked description says, with random weights.

    Raises:
        ModelError: its parts do not go together.
    """
    open_clip = tower_library("open_clip")
    from open_clip.model import set_model_preprocess_cfg
    from open_clip.transform import PreprocessCfg, merge_preprocess_dict

    settings = {key: value for key, value in described.items() if key != "custom_text"}
    text = dict(settings["text_cfg"])
    hugging_face = bool(text.get("hf_model_name"))
    kind: Any = open_clip.CustomTextCLIP if hugging_face or described.get("custom_text") else open_clip.CLIP
    try:
        with tempfile.TemporaryDirectory(prefix="suisei-text-") as checked:
            if hugging_face:  # open_clip reads a folder: it gets one with what was checked
                own = read_settings(folder / "config.json")
                text_config(own, f"{folder}/config.json").save_pretrained(checked)
                text |= {"hf_model_name": checked, "hf_model_pretrained": False}
            model: nn.Module = kind(**{**settings, "text_cfg": text})
    except ModelError:
        raise
    except BUILD_ERRORS as error:
        raise ModelError(
            f"{folder}: open_clip cannot build what {DESCRIPTION} says: {one_line(error)}"
        ) from None
    size = getattr(model.visual, "image_size", 224)
    merged = merge_preprocess_dict(vars(PreprocessCfg()), dict(preprocess))
    set_model_preprocess_cfg(model, {**merged, "size": size})
    return model


def tokenizer_of_folder(folder: Path, settings: Mapping[str, Any]) -> Any:
    """Return the tokenizer of a checked folder: the one beside the description, or open_clip's own.

    Raises:
        ModelError: it cannot be read.
    """
    from open_clip.tokenizer import HFTokenizer, SimpleTokenizer

    length = settings.get("context_length", 77)
    options = settings.get("tokenizer_kwargs") or {}
    if not settings.get("hf_tokenizer_name"):
        return SimpleTokenizer(context_length=length, **options)
    try:
        made = HFTokenizer(
            str(folder),
            context_length=length,
            tokenizer_mode=settings.get("tokenizer_mode"),
            local_files_only=True,
            trust_remote_code=False,
            **options,
        )
    except BUILD_ERRORS as error:
        raise ModelError(f"{folder}: cannot read the tokenizer: {one_line(error)}") from None
    check_vocabulary(made.tokenizer, folder)
    return made

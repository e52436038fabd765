"""open_clip's descriptions of encoders, as far as a folder may give them: nothing that leaves the folder.

open_clip hands such a description on to timm and transformers, which know names of models to download
(``hf-hub:``), folders elsewhere (``local-dir:``) and code to run (``trust_remote_code``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from suisei.encoders.rules import (
    LARGEST_IMAGE,
    LARGEST_VOCABULARY,
    MOST_LAYERS,
    WIDEST,
    YES_NO,
    FolderRule,
    check_folder,
    either,
    entries,
    number,
    one_of,
    or_none,
    several,
    shown,
    whole,
)
from suisei.errors import ModelError

OWN_FOLDER = "."
"""As the name of a Hugging Face text encoder: its files are beside the description."""
DESCRIPTION = "open_clip_config.json"
_TIMM_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)?")

_HEADS = whole(1, 1024)
_WIDTH = whole(1, WIDEST)
_SHARE = number(0, 1)
_ATTENTION: dict[str, FolderRule] = {
    "mlp_ratio": number(0.01, 64),
    "ls_init_value": or_none(number(0, 100)),
    "final_ln_after_pool": YES_NO,
    "output_tokens": YES_NO,
    "act_kwargs": or_none(entries({"approximate": one_of("none", "tanh")})),
    "norm_kwargs": or_none(entries({"eps": number(0, 1)})),
    "block_type": or_none(one_of("default", "custom")),
    "qk_norm": YES_NO,
    "scaled_cosine_attn": YES_NO,
    "scale_heads": YES_NO,
    "scale_attn_inner": YES_NO,
    "scale_attn": YES_NO,
    "scale_fc": YES_NO,
}
_SIDES = either(whole(1, LARGEST_IMAGE), several(whole(1, LARGEST_IMAGE), 2, 2))
VISION: dict[str, FolderRule] = {
    **_ATTENTION,
    "layers": either(whole(1, MOST_LAYERS), several(whole(1, MOST_LAYERS), 4, 4)),
    "width": _WIDTH,
    "head_width": _WIDTH,
    "patch_size": or_none(either(whole(4, LARGEST_IMAGE), several(whole(4, LARGEST_IMAGE), 2, 2))),
    "image_size": _SIDES,
    "patch_dropout": _SHARE,
    "attentional_pool": one_of(False, True, "parallel", "cascade"),
    "attn_pooler_queries": whole(1, 4096),
    "attn_pooler_heads": _HEADS,
    "no_ln_pre": YES_NO,
    "pos_embed_type": one_of("learnable", "sin_cos_2d"),
    "pool_type": one_of("tok", "avg", "none"),
    "timm_model_name": FolderRule(
        "a name of one of timm's models, without hf-hub: or local-dir:",
        lambda value: value is None or (isinstance(value, str) and bool(_TIMM_NAME.fullmatch(value))),
    ),
    "timm_model_pretrained": YES_NO,
    "timm_pool": or_none(one_of("", "avg", "token", "map", "abs_attn", "rot_attn")),
    "timm_proj": or_none(one_of("", "linear", "mlp", "none")),
    "timm_proj_bias": YES_NO,
    "timm_drop": _SHARE,
    "timm_drop_path": or_none(_SHARE),
}
_IN_FOLDER = FolderRule(
    "'.': its files lie beside the description", lambda value: value in (OWN_FOLDER, None)
)
TEXT: dict[str, FolderRule] = {
    **_ATTENTION,
    "context_length": whole(1, WIDEST),
    "vocab_size": whole(1, LARGEST_VOCABULARY),
    "hf_tokenizer_name": _IN_FOLDER,
    "tokenizer_mode": or_none(one_of("", "clips")),
    "tokenizer_kwargs": or_none(
        entries({"clean": one_of("canonicalize", "lower", "whitespace"), "strip_sep_token": YES_NO})
    ),
    "width": _WIDTH,
    "heads": _HEADS,
    "layers": whole(1, MOST_LAYERS),
    "embed_cls": YES_NO,
    "pad_id": whole(0, LARGEST_VOCABULARY),
    "eos_id": whole(0, LARGEST_VOCABULARY),
    "no_causal_mask": YES_NO,
    "pool_type": one_of("argmax", "first", "last", "eos", "none"),
    "proj_bias": YES_NO,
    "proj_type": one_of("linear", "none"),
    "hf_model_name": _IN_FOLDER,
    "hf_model_pretrained": YES_NO,
    "hf_proj_type": or_none(one_of("linear", "mlp")),
    "hf_pooler_type": or_none(
        one_of("mean_pooler", "max_pooler", "cls_pooler", "cls_last_hidden_state_pooler")
    ),
}
_SETTINGS = FolderRule("settings by name", lambda value: isinstance(value, Mapping))
_MODEL: dict[str, FolderRule] = {
    "embed_dim": _WIDTH,
    "vision_cfg": _SETTINGS,
    "text_cfg": _SETTINGS,
    "quick_gelu": YES_NO,
    "custom_text": YES_NO,
    "init_logit_scale": number(-1000, 1000),
    "init_logit_bias": or_none(number(-1000, 1000)),
    "nonscalar_logit_scale": YES_NO,
}
PREPROCESS: dict[str, FolderRule] = {
    "size": _SIDES,
    "mode": one_of("RGB"),
    "mean": or_none(several(number(-10, 10), 3, 3)),
    "std": or_none(several(number(1e-6, 10), 3, 3)),
    "interpolation": or_none(one_of("bicubic", "bilinear", "nearest", "random")),
    "resize_mode": or_none(one_of("shortest", "longest", "squash")),
    "fill_color": either(whole(0, 255), several(whole(0, 255), 3, 3)),
}
_IMAGE: dict[str, FolderRule] = {
    "embed_dim": _WIDTH,
    "quick_gelu": YES_NO,
    "normalise": YES_NO,
    "vision_cfg": _SETTINGS,
    "preprocess": _SETTINGS,
}


def check_model(described: Any, place: str) -> dict[str, Any]:
    """Return a description of a dual encoder that open_clip may build from.

    Raises:
        ModelError: it names what is not in its folder, or has an unknown or impossible setting.
    """
    found = check_folder(described, _MODEL, place, required=("embed_dim", "vision_cfg", "text_cfg"))
    found["vision_cfg"] = _vision(found["vision_cfg"], f"{place}.vision_cfg")
    found["text_cfg"] = check_folder(found["text_cfg"], TEXT, f"{place}.text_cfg")
    return found


def check_image_encoder(described: Any, place: str) -> dict[str, Any]:
    """Return a description of an image encoder in a model folder, checked in the same way."""
    found = check_folder(described, _IMAGE, place, required=("embed_dim", "quick_gelu", "vision_cfg"))
    found["vision_cfg"] = _vision(found["vision_cfg"], f"{place}.vision_cfg")
    if "preprocess" in found:
        found["preprocess"] = check_folder(found["preprocess"], PREPROCESS, f"{place}.preprocess")
    return found


def _vision(settings: Any, place: str) -> dict[str, Any]:
    found = check_folder(settings, VISION, place)
    if found.get("timm_model_name") is None:
        return found
    import timm

    name = found["timm_model_name"]
    if not timm.is_model(name):
        raise ModelError(f"{place}.timm_model_name is {name!r}; this timm has no such model")
    return {**found, "timm_model_pretrained": False}


def read_description(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a folder says of its dual encoder: description and preprocessing.

    Raises:
        ModelError: there is none, or it may not be read.
    """
    path = folder / DESCRIPTION
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{folder}: not a folder with a valid {DESCRIPTION}: {error}") from None
    if not isinstance(content, Mapping) or not isinstance(content.get("model_cfg"), Mapping):
        raise ModelError(f"{path} lacks model_cfg; it holds {shown(content)}")
    described = check_model(content["model_cfg"], f"{path}: model_cfg")
    preprocess = content.get("preprocess_cfg") or {}
    return described, check_folder(preprocess, PREPROCESS, f"{path}: preprocess_cfg")

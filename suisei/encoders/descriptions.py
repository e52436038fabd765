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

from suisei.encoders.efficientnet_lite import is_lite
from suisei.encoders.rules import LARGEST_IMAGE, LARGEST_VOCABULARY, MOST_LAYERS, WIDEST, check_folder
from suisei.encoders.tower_libraries import tower_library
from suisei.errors import ModelError
from suisei.ranges import (
    SWITCH,
    Either,
    Entries,
    Of,
    Range,
    Rule,
    Several,
    Suits,
    Word,
    at_least,
    or_null,
    shown,
)

OWN_FOLDER = "."
"""As the name of a Hugging Face text encoder: its files are beside the description."""
DESCRIPTION = "open_clip_config.json"
_TIMM_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)?")

_HEADS = at_least(1, 1024)
_WIDTH = at_least(1, WIDEST)
_SHARE = Range(0, 1)
_ATTENTION: dict[str, Rule] = {
    "mlp_ratio": Range(0.01, 64),
    "ls_init_value": or_null(Range(0, 100)),
    "final_ln_after_pool": SWITCH,
    "output_tokens": SWITCH,
    "act_kwargs": or_null(Entries({"approximate": Word(("none", "tanh"))})),
    "norm_kwargs": or_null(Entries({"eps": Range(0, 1)})),
    "block_type": or_null(Word(("default", "custom"))),
    "qk_norm": SWITCH,
    "scaled_cosine_attn": SWITCH,
    "scale_heads": SWITCH,
    "scale_attn_inner": SWITCH,
    "scale_attn": SWITCH,
    "scale_fc": SWITCH,
}
_SIDES = Either(at_least(1, LARGEST_IMAGE), Several(at_least(1, LARGEST_IMAGE), 2, 2))
VISION: dict[str, Rule] = {
    **_ATTENTION,
    "layers": Either(at_least(1, MOST_LAYERS), Several(at_least(1, MOST_LAYERS), 4, 4)),
    "width": _WIDTH,
    "head_width": _WIDTH,
    "patch_size": or_null(Either(at_least(4, LARGEST_IMAGE), Several(at_least(4, LARGEST_IMAGE), 2, 2))),
    "image_size": _SIDES,
    "patch_dropout": _SHARE,
    "attentional_pool": Word((False, True, "parallel", "cascade")),
    "attn_pooler_queries": at_least(1, 4096),
    "attn_pooler_heads": _HEADS,
    "no_ln_pre": SWITCH,
    "pos_embed_type": Word(("learnable", "sin_cos_2d")),
    "pool_type": Word(("tok", "avg", "none")),
    "timm_model_name": Suits(
        "a name of one of timm's models, without hf-hub: or local-dir:",
        lambda value: isinstance(value, str) and bool(_TIMM_NAME.fullmatch(value)),
        null=True,
    ),
    "timm_model_pretrained": SWITCH,
    "timm_pool": or_null(Word(("", "avg", "token", "map", "abs_attn", "rot_attn"))),
    "timm_proj": or_null(Word(("", "linear", "mlp", "none"))),
    "timm_proj_bias": SWITCH,
    "timm_drop": _SHARE,
    "timm_drop_path": or_null(_SHARE),
}
_IN_FOLDER = Suits("'.': its files lie beside the description", lambda value: value == OWN_FOLDER, null=True)
TEXT: dict[str, Rule] = {
    **_ATTENTION,
    "context_length": at_least(1, WIDEST),
    "vocab_size": at_least(1, LARGEST_VOCABULARY),
    "hf_tokenizer_name": _IN_FOLDER,
    "tokenizer_mode": or_null(Word(("", "clips"))),
    "tokenizer_kwargs": or_null(
        Entries({"clean": Word(("canonicalize", "lower", "whitespace")), "strip_sep_token": SWITCH})
    ),
    "width": _WIDTH,
    "heads": _HEADS,
    "layers": at_least(1, MOST_LAYERS),
    "embed_cls": SWITCH,
    "pad_id": at_least(0, LARGEST_VOCABULARY),
    "eos_id": at_least(0, LARGEST_VOCABULARY),
    "no_causal_mask": SWITCH,
    "pool_type": Word(("argmax", "first", "last", "eos", "none")),
    "proj_bias": SWITCH,
    "proj_type": Word(("linear", "none")),
    "hf_model_name": _IN_FOLDER,
    "hf_model_pretrained": SWITCH,
    "hf_proj_type": or_null(Word(("linear", "mlp"))),
    "hf_pooler_type": or_null(
        Word(("mean_pooler", "max_pooler", "cls_pooler", "cls_last_hidden_state_pooler"))
    ),
}
_SETTINGS = Of(Mapping)
_MODEL: dict[str, Rule] = {
    "embed_dim": _WIDTH,
    "vision_cfg": _SETTINGS,
    "text_cfg": _SETTINGS,
    "quick_gelu": SWITCH,
    "custom_text": SWITCH,
    "init_logit_scale": Range(-1000, 1000),
    "init_logit_bias": or_null(Range(-1000, 1000)),
    "nonscalar_logit_scale": SWITCH,
}
PREPROCESS: dict[str, Rule] = {
    "size": _SIDES,
    "mode": Word(("RGB",)),
    "mean": or_null(Several(Range(-10, 10), 3, 3)),
    "std": or_null(Several(Range(1e-6, 10), 3, 3)),
    "interpolation": or_null(Word(("bicubic", "bilinear", "nearest", "random"))),
    "resize_mode": or_null(Word(("shortest", "longest", "squash"))),
    "fill_color": Either(at_least(0, 255), Several(at_least(0, 255), 3, 3)),
}
_IMAGE: dict[str, Rule] = {
    "embed_dim": _WIDTH,
    "quick_gelu": SWITCH,
    "normalise": SWITCH,
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
    if found.get("timm_model_name") is None or is_lite(found):
        return found
    name = found["timm_model_name"]
    if not tower_library("timm").is_model(name):
        raise ModelError(f"{place}.timm_model_name is {name!r}; this timm has no such model")
    return {**found, "timm_model_pretrained": False}


def read_description(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a folder says of its dual encoder: description and preprocessing.

    Raises:
        ModelError: there is none, or it may not be read.
    """
    path, inner = folder / DESCRIPTION, folder / "model" / DESCRIPTION
    if not path.is_file():
        hint = "give a folder that `suisei train --config pacs` made, or a name of open_clip"
        if inner.is_file():
            hint = f"the model of this training is in {inner.parent}"
        raise ModelError(f"{folder} is not the folder of a dual encoder: {DESCRIPTION} is missing; {hint}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{folder}: not a folder with a valid {DESCRIPTION}: {error}") from None
    if not isinstance(content, Mapping) or not isinstance(content.get("model_cfg"), Mapping):
        raise ModelError(f"{path} lacks model_cfg; it holds {shown(content)}")
    described = check_model(content["model_cfg"], f"{path}: model_cfg")
    preprocess = content.get("preprocess_cfg") or {}
    return described, check_folder(preprocess, PREPROCESS, f"{path}: preprocess_cfg")

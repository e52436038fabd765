"""The layers of a text encoder: taking the upper ones away, and telling how deep each lies."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn

from suisei.encoders.bert import BertEncoder, is_bert
from suisei.errors import ConfigError


def cut_layers(backbone: Any, depth: int, name: str) -> None:
    """Take an encoder's layers from the one after ``depth`` on away.

    Raises:
        ConfigError: it has fewer, or none that could be taken away.
    """
    count = int(backbone.config.num_hidden_layers)
    found = [
        (module, own)
        for module in backbone.modules()
        for own, child in module.named_children()
        if isinstance(child, nn.ModuleList) and len(child) == count
    ]
    if depth > count or (depth < count and len(found) != 1):
        has = f"has {count} layers" if depth > count else "cannot be cut: its layers are not in one list"
        raise ConfigError(f"text.layers is {depth}; {name} {has}; set it to {count} or less, or to last")
    for module, own in found:
        module.register_module(own, module.get_submodule(own)[:depth])
    backbone.config.num_hidden_layers = depth
    if isinstance(backbone, BertEncoder):
        backbone.settings["num_hidden_layers"] = depth


def depth_of(parameter: str, layers: int) -> int:
    """Depth from the top of an encoder parameter, told by the layer number in its name."""
    parts = parameter.split(".")
    for previous, part in pairwise(parts):
        if previous in ("layer", "layers", "h", "block") and part.isdigit():
            return layers - 1 - int(part)
    return layers if "embed" in parameter else 0


def light(backbone: Any) -> Any:
    """Return an encoder of BERT's kind as the one that packs captions and can leave lower layers out.

    It has the same weights, not copies; others are returned as they are.
    """
    settings = backbone.config.to_diff_dict()
    if not is_bert(settings):
        return backbone
    if getattr(backbone, "pooler", None) is not None:
        backbone.pooler = None
    with torch.device("meta"):
        light = BertEncoder(settings)
    light.load_state_dict(backbone.state_dict(), assign=True)
    return light

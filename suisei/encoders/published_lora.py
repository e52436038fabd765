"""Merging the LoRA checkpoints published with PAC-S++ (Sarto et al., 2024) into plain CLIP weights.

Those files hold, beside each frozen weight W, factors A and B of its update ``W + B A / r``:

====================  ======================  ===================================
weight                factors                 shapes
====================  ======================  ===================================
``attn.in_proj``      ``*_weight_lora_A/B``   [r, d] and [3d, r]
linear layers         ``*.lora_A/B``          [r, in] and [out, r]
patch convolution     ``*.lora_A/B``          [r k, in k] and [out k, r k]
====================  ======================  ===================================
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from suisei.errors import ModelError

_FACTOR_A = "lora_A"


def has_lora(tensors: Mapping[str, Tensor]) -> bool:
    """Return whether a state dict holds LoRA factors."""
    return any(key.endswith(_FACTOR_A) for key in tensors)


def merge_published_lora(tensors: Mapping[str, Tensor], *, source: str) -> dict[str, Tensor]:
    """Return plain weights, each with its low-rank update added and the factors gone.

    The authors' program applies the updates of attention and of the patch convolution while it
    computes. Those of the MLP layers it takes to be inside the saved weights already, and never adds
    them; neither does this, so that the scores are the program's.

    Args:
        tensors: the state dict, with factors.
        source: where it came from, for messages.

    Raises:
        ModelError: a factor without its partner or its weight, or shapes that do not go together.
    """
    merged = {key: value for key, value in tensors.items() if "lora_" not in key}
    for key, first in tensors.items():
        if not key.endswith(_FACTOR_A):
            continue
        stem = key.removesuffix(_FACTOR_A)
        target = stem.removesuffix("_") if stem.endswith("_weight_") else f"{stem}weight"
        second = tensors.get(f"{stem}lora_B")
        if second is None or target not in merged:
            raise ModelError(f"{source}: {key} has no {stem}lora_B or no {target}")
        if ".mlp." in key:
            continue
        merged[target] = _updated(merged[target], first, second, f"{source}: {key}")
    return merged


def _updated(weight: Tensor, first: Tensor, second: Tensor, place: str) -> Tensor:
    kernel = weight.shape[-1] if weight.ndim == 4 else 1
    fits = first.ndim == second.ndim == 2 and second.shape[1] == first.shape[0]
    if not fits or second.shape[0] * first.shape[1] != weight.numel() or first.shape[0] % kernel:
        shapes = f"{list(second.shape)} x {list(first.shape)}"
        raise ModelError(f"{place}: factors {shapes} do not make an update of {list(weight.shape)}")
    rank = first.shape[0] // kernel
    update = (second.to(torch.float32) @ first.to(torch.float32)).reshape(weight.shape)
    return (weight.to(torch.float32) + update / rank).to(weight.dtype)

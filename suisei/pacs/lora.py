"""Low-rank adaptation (Hu et al., 2021) of dual encoders, as PAC-S++ trains them.

An adapted weight W of shape [out, ...] is used as ``W + (alpha / r) B A``, with A [r, in] and
B [out, r]; a convolution's kernel counts as a matrix [out, in * k * k]. B starts at zero, so the
first forward pass is exactly that of the frozen model. W itself never changes while adapters are on,
which makes taking them off exact.

The authors' program departs from this in places: both factors of the attention's fused
in-projection start at random, and a convolution's rank grows with its kernel. Their checkpoints are
read by :mod:`suisei.encoders.published_lora`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from suisei.errors import ConfigError

RANK, ALPHA = 4, 1.0
"""Rank r, as PAC-S++ has it, and the alpha of the authors' program."""

_BLOCKS = ("resblocks", "layer", "layers", "block", "blocks")
"""What the list of transformer blocks is called in open_clip, in Hugging Face encoders and in timm."""


class LowRank(nn.Module):
    """The low-rank update of one weight, as a parametrization.

    Args:
        weight: the weight, of any shape with at least two dimensions.
        rank: rank r of the update.
        alpha: its scale is alpha / r.
        generator: source of A's starting values.
    """

    def __init__(self, weight: Tensor, rank: int, alpha: float, generator: torch.Generator) -> None:
        super().__init__()
        inputs = weight[0].numel()
        bound = 1 / math.sqrt(inputs)  # as nn.Linear starts
        start = torch.rand(rank, inputs, generator=generator) * 2 * bound - bound
        self.factor_a = nn.Parameter(start.to(weight.device))
        self.factor_b = nn.Parameter(torch.zeros(weight.shape[0], rank, device=weight.device))
        self.scale = alpha / rank

    def forward(self, weight: Tensor) -> Tensor:
        """Return the weight with its update, of the same shape."""
        return weight + self.scale * (self.factor_b @ self.factor_a).view_as(weight)


def add_lora(model: nn.Module, *, rank: int = RANK, alpha: float = ALPHA, seed: int = 0) -> list[str]:
    """Freeze a dual encoder and give every weight matrix of its towers a low-rank update.

    Adapted are, in every transformer block, the attention's projections (the fused in-projection as
    one matrix) and the linear layers, and the patch convolution. Token embeddings, norms, biases, the
    projections into the shared space and the temperature stay frozen.

    Args:
        model: an open_clip model.
        rank: rank r of the updates.
        alpha: the scale of an update is alpha / r.
        seed: of the starting values.

    Returns:
        The names of the adapted weights.

    Raises:
        ConfigError: the rank is not positive, or the model has adapters already or no such weights.
    """
    if rank < 1:
        raise ConfigError(f"rank must be at least 1, got {rank}")
    if any(True for _ in _adapted(model)):
        raise ConfigError("the model has low-rank adapters already")
    targets = list(_targets(model))
    if not targets:
        raise ConfigError("low-rank adaptation needs transformer blocks; this model has none")
    generator = torch.Generator().manual_seed(seed)
    model.requires_grad_(False)
    names = []
    for path, module, name in targets:
        update = LowRank(getattr(module, name), rank, alpha, generator)
        parametrize.register_parametrization(module, name, update)
        names.append(f"{path}.{name}")
    return names


def merge_lora(model: nn.Module) -> None:
    """Write every update into its weight, so that the model is a plain one again."""
    for module, name in list(_adapted(model)):
        parametrize.remove_parametrizations(module, name, leave_parametrized=True)
        getattr(module, name).requires_grad_(False)


def _adapted(model: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    """Yield every module and name of a weight that has a low-rank update."""
    for module in model.modules():
        if not parametrize.is_parametrized(module):
            continue
        for name, steps in module.parametrizations.items():  # type: ignore[union-attr, operator]
            if isinstance(steps[0], LowRank):
                yield module, name


def _targets(model: nn.Module) -> Iterator[tuple[str, nn.Module, str]]:
    """Yield path, module and name of every weight to adapt."""
    for path, module in model.named_modules():
        in_block = any(part in _BLOCKS for part in path.split("."))
        if in_block and isinstance(module, nn.MultiheadAttention) and module.in_proj_weight is not None:
            yield path, module, "in_proj_weight"
        elif in_block and isinstance(module, nn.Linear):  # the attention's out_proj is one as well
            yield path, module, "weight"
    visual: Any = getattr(model, "visual", None)
    timms = getattr(getattr(visual, "trunk", None), "patch_embed", None)
    own = getattr(visual, "conv1", None) if hasattr(visual, "transformer") else None  # not a ResNet's
    for path, patches in (
        ("visual.conv1", own),
        ("visual.trunk.patch_embed.proj", getattr(timms, "proj", None)),
    ):
        if isinstance(patches, nn.Conv2d):
            yield path, patches, "weight"

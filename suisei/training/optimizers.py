"""Parameter groups with layerwise learning rates, and the learning-rate schedule."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from suisei.models.cosine_start import OFFSET_RATE, SLOPE_RATE, CosineStart, Line
from suisei.models.regressor import Regressor
from suisei.ranges import LEARNING_RATE, SHARE, WEIGHT_DECAY, Range, Rule, Word, check_settings

OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
SCHEDULES = ("constant", "linear", "cosine")
FUSED_WEIGHTS = 1_000_000
"""From as many trained weights on, a CPU takes a step in one pass over the weights: the same formula, other
rounding, and measurably faster. A GPU always does."""
RULES: dict[str, Rule] = {
    "name": Word(tuple(OPTIMIZERS)),
    "head_lr": LEARNING_RATE,
    "encoder_lr": LEARNING_RATE,
    "image_lr": LEARNING_RATE,
    "extra_lr": replace(LEARNING_RATE, null=True),
    "layerwise_decay": Range(0, 1, above=True),
    "weight_decay": WEIGHT_DECAY,
    "frozen_fraction": SHARE,
    "schedule": Word(SCHEDULES),
    "warmup_fraction": SHARE,
}


@dataclass
class OptimizerConfig:
    """How the model is optimised.

    Attributes:
        name: "adam" or "adamw".
        head_lr: learning rate of everything outside the encoders (layer mix, projection, head).
        encoder_lr: learning rate of the text encoder, before layerwise decay.
        image_lr: learning rate of the image encoder where it is trained.
        extra_lr: learning rate of the extra inputs' own layer; null for head_lr.
        layerwise_decay: factor per layer from the top: the last layer gets encoder_lr times this,
            the embeddings the smallest rate.
        weight_decay: decoupled ("adamw") or L2 ("adam") weight decay; biases and norms have none.
        frozen_fraction: part of the first epoch during which the text encoder is kept frozen.
        schedule: "constant", "linear" (to zero) or "cosine" (to zero).
        warmup_fraction: part of all steps over which the rate grows from zero.
    """

    name: str = "adam"
    head_lr: float = 3e-5
    encoder_lr: float = 1e-5
    image_lr: float = 1e-4
    extra_lr: float | None = None
    layerwise_decay: float = 0.95
    weight_decay: float = 0.0
    frozen_fraction: float = 0.4
    schedule: str = "constant"
    warmup_fraction: float = 0.0

    def __post_init__(self) -> None:
        check_settings("model.optimizer", self, RULES)


def parameter_groups(
    model: Regressor, config: OptimizerConfig, beside: nn.Module | None = None
) -> list[dict[str, Any]]:
    """Return one group per learning rate and weight decay, holding every trainable parameter once.

    A text-encoder parameter at depth k from the top (0 is the last layer) has the rate
    ``encoder_lr * layerwise_decay ** (k + 1)``, as in SuiSei's research code.

    Args:
        model: the model.
        config: the settings.
        beside: what is trained with it and does not belong to it.
    """
    modules = [*model.modules(), *(beside.modules() if beside is not None else ())]
    rates: dict[nn.Parameter, float] = {}
    for _, parameter, depth in model.encoder_parameters():
        decayed = (
            config.image_lr if depth is None else config.encoder_lr * config.layerwise_decay ** (depth + 1)
        )
        rates.setdefault(parameter, decayed)
    if config.extra_lr is not None:
        rates.update(dict.fromkeys(model.beside_parameters(), config.extra_lr))
    for module in modules:
        if isinstance(module, Line):
            rates.update({module.slope: SLOPE_RATE, module.offset: OFFSET_RATE})
        elif isinstance(module, CosineStart):
            rates[module.nothing] = OFFSET_RATE
    groups: dict[tuple[float, float], dict[str, Any]] = {}
    for parameter in (own for module in modules for own in module.parameters(recurse=False)):
        if not parameter.requires_grad:
            continue
        rate = rates.get(parameter, config.head_lr)
        decay = config.weight_decay if parameter.ndim > 1 else 0.0
        group = groups.setdefault((rate, decay), {"params": [], "lr": rate, "weight_decay": decay})
        group["params"].append(parameter)
    return list(groups.values())


def build_optimizer(
    model: Regressor, config: OptimizerConfig, beside: nn.Module | None = None
) -> torch.optim.Optimizer:
    """Return the optimizer that a config describes; arguments as ``parameter_groups``."""
    groups = parameter_groups(model, config, beside)
    weights = [parameter for group in groups for parameter in group["params"]]
    large = sum(parameter.numel() for parameter in weights) >= FUSED_WEIGHTS
    fused = bool(weights) and (large or weights[0].is_cuda)
    optimizer = OPTIMIZERS[config.name](groups, fused=fused)  # type: ignore[call-arg]
    if fused:  # the trainer clips gradients, so it is the one that unscales them
        optimizer._step_supports_amp_scaling = False  # type: ignore[attr-defined]
    return optimizer


def schedule_factor(config: OptimizerConfig, total_steps: int) -> Callable[[int], float]:
    """Return the factor on every learning rate as a function of the step."""
    warmup = int(config.warmup_fraction * total_steps)

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / (warmup + 1)
        progress = min(1.0, (step - warmup) / max(1, total_steps - warmup))
        if config.schedule == "linear":
            return 1.0 - progress
        if config.schedule == "cosine":
            return 0.5 * (1.0 + math.cos(math.pi * progress))
        return 1.0

    return factor

"""Pre-training of a tower that starts from random weights: which pieces occur in an image's captions?

The mean over the places of the grid says for every piece of the vocabulary how likely a caption of the image
has it (Fang et al., 2015, detect words before they write captions). That takes no decoder and teaches a small
tower most of what few images can. Shape letters: B images, V pieces, c width of the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from suisei.captioning.grid_tower import GridTower
from suisei.models.pixel_store import PixelStore
from suisei.ranges import LEARNING_RATE, WEIGHT_DECAY, Rule, at_least, check_settings
from suisei.training.pretraining_loop import Passes, run_passes

RULES: dict[str, Rule] = {
    "epochs": at_least(0),
    "batch_size": at_least(2, 100_000),
    "learning_rate": LEARNING_RATE,
    "weight_decay": WEIGHT_DECAY,
}
WARMUP = 0.15
"""Share of the steps in which the rate rises."""
RAREST = 10
"""Captions that a piece must be in to be asked for."""
DROPOUT = 0.2


@dataclass
class WordPretraining:
    """How long, and how fast.

    Attributes:
        epochs: passes over the training images; 0 for none.
        batch_size: images per step.
        learning_rate: highest rate of the one-cycle schedule.
        weight_decay: decoupled weight decay.
    """

    epochs: int = 0
    batch_size: int = 64
    learning_rate: float = 2e-3
    weight_decay: float = 0.05

    def __post_init__(self) -> None:
        check_settings("model.pretraining", self, RULES)


def pretrain_tower(
    tower: GridTower,
    pixels: PixelStore,
    captions: Sequence[Sequence[Sequence[int]]],
    config: WordPretraining,
    *,
    seed: int,
    change: Callable[[Tensor], Tensor],
    precision: str = "32-true",
    advance: Callable[[int], Any] = lambda _: None,
) -> list[float]:
    """Train a tower in place; returns the mean loss of every epoch.

    Args:
        tower: the tower, which is left with its former switches.
        pixels: of the training images, by row.
        captions: of every image, the token ids of each caption.
        config: the settings.
        seed: decides the order and all that is random.
        change: changes images at random.
        precision: "bf16-mixed" computes in bfloat16 where that is safe.
        advance: called with 1 after every epoch.

    Raises:
        ModelError: a loss that is not finite.
    """
    wanted = piece_shares(captions)
    frequent = wanted.mean(dim=0).clamp(1e-4, 1 - 1e-4)
    head = nn.Linear(tower.width, wanted.shape[1])
    nn.init.normal_(head.weight, std=1e-3)
    head.bias.data = torch.logit(frequent)

    def batch_loss(rows: np.ndarray, _: np.random.Generator) -> Tensor:
        shown = change(pixels[torch.from_numpy(rows)])
        with torch.autocast("cpu", torch.bfloat16, enabled=precision.startswith("bf16")):
            grid = tower(shown.contiguous(memory_format=torch.channels_last))
        said = head(F.dropout(grid.float().mean(dim=1), DROPOUT))
        asked = wanted[torch.from_numpy(rows)]
        return F.binary_cross_entropy_with_logits(said, asked, reduction="none").sum(dim=1).mean()

    flags = [weights.requires_grad for weights in tower.parameters()]
    tower.requires_grad_(True)
    passes = Passes(
        "pre-training on words",
        config.epochs,
        config.batch_size,
        config.learning_rate,
        config.weight_decay,
        WARMUP,
        "model.pretraining.learning_rate",
        seed,
    )
    trained = [*tower.parameters(), *head.parameters()]
    losses = run_passes(batch_loss, tower, len(captions), passes, parameters=trained, advance=advance)
    for weights, flag in zip(tower.parameters(), flags, strict=True):
        weights.requires_grad_(flag)
    return losses


def piece_shares(captions: Sequence[Sequence[Sequence[int]]]) -> Tensor:
    """Return the share of an image's captions that have each piece, [B, pieces that enough captions have]."""
    largest = max(piece for own in captions for caption in own for piece in caption)
    counts = torch.zeros(len(captions), largest + 1)
    for row, own in enumerate(captions):
        for caption in own:
            counts[row, sorted(set(caption))] += 1
    spoken = counts.sum(dim=0)
    kept = (spoken >= min(RAREST, float(spoken.max()))) & (spoken > 0)
    return counts[:, kept] / torch.tensor([len(own) for own in captions])[:, None]

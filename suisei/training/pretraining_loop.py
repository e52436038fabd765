"""The loop of all pre-training: AdamW, a one-cycle schedule, and batches drawn by permutation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from suisei.encoders.seeded import seeded
from suisei.training.losses import require_finite
from suisei.training.pass_states import Passing, PassStates

BatchLoss = Callable[[np.ndarray, np.random.Generator], Tensor]
"""Takes the items of a batch, int64 [n], and random numbers; returns their loss, a scalar."""
Progress = Callable[[str, int], Callable[[int], Any]]
"""Reports long work: takes what it is and how many items it has, returns what is called with those done."""
LONGEST_GRADIENT = 1.0
"""Euclidean length of all gradients to which they are clipped."""


@dataclass(frozen=True, slots=True)
class Passes:
    """How often and how fast the items are gone through.

    Attributes:
        name: what messages call it, such as "pre-training".
        epochs: passes over all items.
        batch_size: items per step, about: batches of an epoch are of like size.
        learning_rate: highest rate of the schedule.
        weight_decay: decoupled weight decay.
        warmup: share of the steps in which the rate rises.
        rate_setting: the setting that a loss which is no number calls for.
        seed: decides the order, what a batch draws, and torch's random numbers meanwhile.
    """

    name: str
    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    warmup: float
    rate_setting: str
    seed: int


def run_passes(
    batch_loss: BatchLoss,
    module: nn.Module,
    items: int,
    passes: Passes,
    *,
    parameters: Iterable[nn.Parameter],
    unclipped: Iterable[nn.Parameter] = (),
    after_step: Callable[[], Any] = lambda: None,
    advance: Callable[[int], Any] = lambda _: None,
    states: PassStates | None = None,
) -> list[float]:
    """Lower a loss by gradient steps, in place; the global random numbers are left as they are.

    Args:
        batch_loss: the loss of a batch.
        module: what is trained, which is set to training.
        items: how many there are.
        passes: the settings.
        parameters: what is trained.
        unclipped: what is trained too, and whose gradients are neither counted nor clipped.
        after_step: called after every step.
        advance: called with 1 after every epoch, and at once with those that were over before.
        states: keeps the state to go on from, and gives it; None where nobody goes on.

    Returns:
        The mean loss of every epoch.

    Raises:
        ModelError: a loss that is not finite.
    """
    clipped, unclipped = list(parameters), list(unclipped)
    steps = max(1, items // passes.batch_size)
    optimizer = torch.optim.AdamW(
        [*clipped, *unclipped], lr=passes.learning_rate, weight_decay=passes.weight_decay
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, passes.learning_rate, total_steps=steps * passes.epochs + 1, pct_start=passes.warmup
    )
    rng = np.random.default_rng(passes.seed)
    passing = Passing(module, [*clipped, *unclipped], optimizer, schedule, rng)
    module.train()
    with seeded(passes.seed, clipped[0].device):
        if states is not None:
            states.go_on(passing)
            advance(len(passing.place.losses))
        place = passing.place
        while len(place.losses) < passes.epochs:
            if not place.step:
                place.order = rng.permutation(items).tolist()
            for rows in np.array_split(np.array(place.order), steps)[place.step :]:
                loss = batch_loss(rows, rng)
                where = f"{passes.name}, epoch {len(place.losses) + 1}, step {place.step + 1}"
                require_finite(loss, module, where, passes.rate_setting)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(clipped, LONGEST_GRADIENT)
                optimizer.step()
                schedule.step()
                after_step()
                place.take(float(loss.detach()), steps)
                if states is not None:
                    states.after_step(passing, steps, over=len(place.losses) == passes.epochs)
            advance(1)
    return place.losses

"""What a checkpoint says of the place in an epoch, and between two steps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from suisei.training.processes import total, world_size

GRADIENTS = "suisei_gradients"
"""Where a checkpoint has the gradients that batches before it left for the next step."""
LOSSES = "suisei_losses"
"""Where it has the losses of these batches, of a training that logs their mean."""


def begin_epoch(trainer: Any) -> None:
    """Count the epoch of the batch that begins as begun, and those before it as over.

    The trainer does not, in a run that goes on from the last batch of an epoch: a checkpoint of the next such
    batch would then say that its epoch is over, and a run that goes on from that would train it once more.

    Args:
        trainer: the trainer, whose counts are changed in place.
    """
    for progress in (trainer.fit_loop.epoch_progress.total, trainer.fit_loop.epoch_progress.current):
        progress.completed = progress.processed
        progress.ready = progress.started = progress.processed + 1


def leave_epoch_open(checkpoint: dict[str, Any], batches: float) -> None:
    """Count an epoch that ended early, by a limit of time or steps, as one that is not over yet.

    The trainer counts it as over, and a run that goes on would have one epoch less.

    Args:
        checkpoint: what the trainer is about to write; changed in place.
        batches: of an epoch.
    """
    loops = checkpoint.get("loops", {}).get("fit_loop")
    if loops is None:  # weights alone
        return
    seen = loops["epoch_loop.batch_progress"]
    if seen["is_last_batch"] or not 0 < seen["current"]["ready"] < batches:
        return
    for progress in loops["epoch_progress"].values():
        progress["processed"] = progress["completed"]


def begun_gradients(checkpoint: dict[str, Any], module: nn.Module, trainer: Any) -> dict[str, Tensor]:
    """Return the gradients of batches whose step is still to come, by weight.

    Several processes return their mean, and must all ask: each goes on from it, and the mean of what they
    make of it is the step's.

    Args:
        checkpoint: what the trainer is about to write.
        module: what is trained.
        trainer: the trainer, whose ``accumulate_grad_batches`` make a step.
    """
    if "optimizer_states" not in checkpoint:  # nothing goes on from weights alone
        return {}
    seen = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]["current"]["ready"]
    if seen >= trainer.num_training_batches or seen % trainer.accumulate_grad_batches == 0:
        return {}
    if world_size() > 1:
        return _mean_gradients(module)
    return {name: own.grad.detach() for name, own in module.named_parameters() if own.grad is not None}


def _mean_gradients(module: nn.Module) -> dict[str, Tensor]:
    """Return the mean of all processes' gradients; 0 of one that has none where another has one."""
    trained = {name: own for name, own in module.named_parameters() if own.requires_grad}
    if not trained:
        return {}
    device = next(iter(trained.values())).device
    having = total(torch.tensor([own.grad is not None for own in trained.values()], device=device).long())
    return {
        name: total(torch.zeros_like(own) if own.grad is None else own.grad.detach()) / world_size()
        for (name, own), count in zip(trained.items(), having.tolist(), strict=True)
        if count
    }


def restore_gradients(gradients: dict[str, Tensor], module: nn.Module) -> None:
    """Give weights what :func:`begun_gradients` returned, and leave ``gradients`` empty."""
    for name, own in module.named_parameters():
        if name in gradients:
            own.grad = gradients.pop(name).to(own.device)

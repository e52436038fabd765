"""What a checkpoint says of the place in an epoch, and between two steps."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

GRADIENTS = "suisei_gradients"
"""Where a checkpoint has the gradients that batches before it left for the next step."""


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
    """Return the gradients of batches whose step is still to come, by weight; none of several processes.

    Args:
        checkpoint: what the trainer is about to write.
        module: what is trained.
        trainer: the trainer, whose ``accumulate_grad_batches`` make a step.
    """
    if "optimizer_states" not in checkpoint or trainer.world_size > 1:  # nothing goes on from weights alone
        return {}
    seen = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]["current"]["ready"]
    if seen >= trainer.num_training_batches or seen % trainer.accumulate_grad_batches == 0:
        return {}
    return {name: own.grad.detach() for name, own in module.named_parameters() if own.grad is not None}


def restore_gradients(gradients: dict[str, Tensor], module: nn.Module) -> None:
    """Give weights what :func:`begun_gradients` returned, and leave ``gradients`` empty."""
    for name, own in module.named_parameters():
        if name in gradients:
            own.grad = gradients.pop(name).to(own.device)

"""What trainings share: how one that was cut off goes on; of tasks of their own, optimizer and schedule."""

from __future__ import annotations

import logging
import math
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn

from suisei.ranges import LEARNING_RATE, WEIGHT_DECAY, Rule, at_least
from suisei.training.checkpoints import DATA, FrozenWeights, restore_frozen
from suisei.training.loop_states import (
    GRADIENTS,
    begin_epoch,
    begun_gradients,
    leave_epoch_open,
    restore_gradients,
)
from suisei.training.random_states import random_states_of_all, set_random_states

logger = logging.getLogger(__name__)

STEPS: dict[str, Rule] = {
    "learning_rate": LEARNING_RATE,
    "weight_decay": WEIGHT_DECAY,
    "warmup_steps": at_least(0, 10**9),
    "cosine_steps": at_least(1, 10**9, null=True),
}


class ResumableTraining(LightningModule):
    """A training that goes on as if it had not been cut off.

    A subclass calls :meth:`note_frozen` once its modules are made.
    """

    def __init__(self) -> None:
        super().__init__()
        self._frozen = FrozenWeights()
        self._random_states: dict[str, Any] = {}
        self._gradients: dict[str, Tensor] = {}

    def note_frozen(self, but: tuple[str, ...] = ()) -> None:
        """Note which weights are not trained: checkpoints leave them out, all but parts ``but``."""
        self._frozen = FrozenWeights(self, but=but)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Let a resumed run go on with the random numbers it would have had."""
        begin_epoch(self.trainer)
        if self._random_states:
            set_random_states(self._random_states)
            self._random_states = {}
            restore_gradients(self._gradients, self)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Save the state of the random numbers, and what the data are; frozen weights stay out."""
        leave_epoch_open(checkpoint, self.trainer.num_training_batches)
        checkpoint[GRADIENTS] = begun_gradients(checkpoint, self, self.trainer)
        checkpoint["suisei_random_states"] = random_states_of_all(self.device)
        checkpoint[DATA] = getattr(self.trainer.datamodule, "digests", {})
        self._frozen.drop_from(checkpoint)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Read the state of the random numbers, and complete the weights by those that are frozen."""
        restore_frozen(checkpoint, self)
        self._random_states = checkpoint.get("suisei_random_states", {})
        self._gradients = checkpoint.get(GRADIENTS, {})


class StepTraining(ResumableTraining):
    """A resumable training counted in steps.

    A subclass has ``learning_rate``, ``weight_decay``, ``warmup_steps`` and, where the rate falls,
    ``cosine_steps``.
    """

    learning_rate: float
    weight_decay: float
    warmup_steps: int
    cosine_steps: int | None = None

    def configure_optimizers(self) -> Any:
        """Return AdamW over what is trained; matrices alone decay."""
        chosen: list[nn.Parameter] = [p for p in self.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in chosen if p.ndim > 1], "weight_decay": self.weight_decay},
            {"params": [p for p in chosen if p.ndim <= 1], "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW([g for g in groups if g["params"]], lr=self.learning_rate)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self._rate)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_train_start(self) -> None:
        """Warn where the training ends before the rate has grown to its full height."""
        steps = self.trainer.estimated_stepping_batches
        if self.warmup_steps >= steps and self.trainer.is_global_zero:
            logger.warning(
                "model.warmup_steps is %d and the training has %d steps, and never leaves its warm-up: "
                "lower model.warmup_steps, or train for longer (trainer.max_steps)",
                self.warmup_steps,
                steps,
            )

    def _rate(self, step: int) -> float:
        rate = min(1.0, (step + 1) / self.warmup_steps) if self.warmup_steps else 1.0
        if self.cosine_steps:
            rate *= (1 + math.cos(math.pi * min(1.0, step / self.cosine_steps))) / 2
        return rate

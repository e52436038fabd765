"""What trainings that are counted in steps say of their schedule."""

import pytest
import torch
from lightning.pytorch import Trainer
from torch import nn

from suisei.training.step_training import StepTraining


class Line(StepTraining):
    """Learns the slope of a line."""

    learning_rate, weight_decay = 0.1, 0.0

    def __init__(self, warmup_steps):
        super().__init__()
        self.warmup_steps = warmup_steps
        self.slope = nn.Linear(1, 1)

    def training_step(self, batch, batch_idx):
        return self.slope(batch).square().mean()


@pytest.mark.parametrize(
    ("length", "warmup", "warned"),
    [
        ({"max_steps": 3}, 2, False),
        ({"max_steps": 3}, 3, True),
        ({"max_steps": 3}, 0, False),
        ({"max_epochs": 2}, 7, False),
        ({"max_epochs": 1}, 7, True),
    ],
)
def test_a_warm_up_that_is_never_left_is_said(tmp_path, caplog, length, warmup, warned):
    trainer = Trainer(
        **length,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    trainer.fit(Line(warmup), torch.utils.data.DataLoader(torch.ones(4, 1), batch_size=1))
    said = f"model.warmup_steps is {warmup} and the training has {trainer.global_step} steps"
    assert (said in caplog.text) is warned
    assert ("never leaves its warm-up" in caplog.text) is warned

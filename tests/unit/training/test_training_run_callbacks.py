"""When a training is validated besides its interval."""

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader

from suisei.training.run_callbacks import ValidatesLast, _validation_follows


class Watched(LightningModule):
    """Notes after which steps it is validated, and what was said of that before."""

    def __init__(self):
        super().__init__()
        self.slope = torch.nn.Linear(1, 1)
        self.foretold, self.validated = [], []

    def training_step(self, batch, batch_idx):
        if _validation_follows(self.trainer):
            self.foretold.append(self.trainer.global_step + 1)
        return self.slope(batch).square().mean()

    def validation_step(self, batch, batch_idx):
        self.validated.append(self.trainer.global_step)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.parametrize(
    ("settings", "validated"),
    [
        ({"max_steps": 7, "val_check_interval": 3}, [3, 6, 7]),
        ({"max_steps": 6, "val_check_interval": 3}, [3, 6]),
        ({"max_steps": 2, "val_check_interval": 3}, [2]),
        (
            {"max_steps": 3, "val_check_interval": 5, "accumulate_grad_batches": 3},
            [2, 3],
        ),  # 3 batches, then 2
        ({"max_epochs": 2, "val_check_interval": 4}, [4, 8, 10]),
        ({"max_epochs": 2, "val_check_interval": 4, "limit_val_batches": 0}, []),
        ({"max_steps": 7, "val_check_interval": 1.0, "check_val_every_n_epoch": 1}, [5, 7]),
        ({"max_epochs": 3, "val_check_interval": 1.0, "check_val_every_n_epoch": 2}, [10]),
    ],
)
def test_the_last_batch_is_validated_wherever_the_interval_ends(tmp_path, settings, validated):
    trainer = Trainer(
        **{"max_epochs": -1, "check_val_every_n_epoch": None, **settings},
        accelerator="cpu",
        callbacks=[ValidatesLast()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        default_root_dir=tmp_path,
    )
    model, data = Watched(), torch.ones(5, 1)
    trainer.fit(model, DataLoader(data, batch_size=1), DataLoader(data[:1]))
    assert model.validated == validated
    if "accumulate_grad_batches" not in settings:
        assert model.foretold == validated

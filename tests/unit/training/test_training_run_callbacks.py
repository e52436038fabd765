"""When a training is validated besides its interval."""

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader

from suisei.training.run_callbacks import (
    ValidatesLast,
    _validation_follows,
    early_stopping,
    states_to_go_on_with,
)


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
        self.log("val_loss", float(self.trainer.global_step))  # never better than the first

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


BATCHES = torch.arange(1.0, 6.0)[:, None] / 5


def trained(folder, epochs, resumed=None, patience=99, **settings):
    """Train on five batches an epoch, validated every four, and keep the state in a folder."""
    torch.manual_seed(0)
    model = Watched()
    trainer = Trainer(
        **{"max_epochs": epochs, "val_check_interval": 4, "check_val_every_n_epoch": None, **settings},
        accelerator="cpu",
        callbacks=[
            early_stopping("val_loss", patience),
            ValidatesLast(),
            *states_to_go_on_with(folder, 1000),
        ],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(model, DataLoader(BATCHES), DataLoader(BATCHES[:1]), ckpt_path=resumed)
    return model, trainer.global_step


@pytest.mark.parametrize("settings", [{}, {"val_check_interval": 0.8, "check_val_every_n_epoch": 1}])
def test_a_run_resumed_behind_its_last_validation_ends_that_epoch(tmp_path, settings):
    first, _ = trained(tmp_path, 1, **settings)
    last = tmp_path / "checkpoints" / "last.ckpt"
    again, steps = trained(tmp_path / "again", 1, last, **settings)
    assert (steps, again.validated) == (5, [])
    assert torch.equal(again.slope.weight, first.slope.weight)
    longer, steps = trained(tmp_path / "longer", 3, last, **settings)
    unbroken, _ = trained(tmp_path / "unbroken", 3, **settings)
    assert steps == 15
    assert longer.validated == [step for step in unbroken.validated if step > 5]
    assert torch.equal(longer.slope.weight, unbroken.slope.weight)


def test_a_run_resumed_behind_its_last_step_ends_that_epoch(tmp_path):
    trained(tmp_path, -1, max_steps=5)
    last = tmp_path / "checkpoints" / "last.ckpt"
    longer, steps = trained(tmp_path / "longer", -1, last, max_steps=9)
    unbroken, _ = trained(tmp_path / "unbroken", -1, max_steps=9)
    assert (steps, longer.validated) == (9, [8, 9])
    assert torch.equal(longer.slope.weight, unbroken.slope.weight)


@pytest.mark.parametrize("patience", [1, 2, 3])
def test_patience_of_a_run_that_is_extended_is_that_of_an_unbroken_one(tmp_path, patience):
    trained(tmp_path, 1, patience=patience)  # validated after 4 and, for its end, after 5
    last = tmp_path / "checkpoints" / "last.ckpt"
    longer, steps = trained(tmp_path / "longer", 4, last, patience=patience)
    unbroken, expected = trained(tmp_path / "unbroken", 4, patience=patience)
    assert (steps, expected) == (4 * (patience + 1), 4 * (patience + 1))
    assert longer.validated == [step for step in unbroken.validated if step > 5]


@pytest.mark.parametrize("settings", [{"check_val_every_n_epoch": 1, "val_check_interval": 1.0}, {}])
def test_a_validation_besides_the_interval_takes_no_patience(tmp_path, settings):
    model, _ = trained(tmp_path, -1, max_steps=7, **settings)
    assert model.validated == ([5, 7] if settings else [4, 7])
    assert model.trainer.early_stopping_callback.wait_count == 0
    model, _ = trained(tmp_path / "longer", -1, max_steps=10, **settings)
    assert model.trainer.early_stopping_callback.wait_count == 1

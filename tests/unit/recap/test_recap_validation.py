"""What both trainings measure: whatever the size of validation batches, and nothing that is not there."""

import json
import math
from contextlib import redirect_stdout
from io import StringIO

import pytest
import torch
from lightning.pytorch import Trainer
from PIL import Image

from suisei.recap.caption_batches import LatentBatch, LatentData
from suisei.recap.latent_loss import LatentLoss
from suisei.recap.latent_training import LatentTraining
from suisei.recap.prefix_training import PrefixTraining


def test_the_loss_of_a_mapper_is_the_mean_over_all_tokens(captions, tmp_path):
    rows = []
    for number, caption in enumerate(captions):  # of very different lengths
        Image.new("RGB", (8, 8), (9 * number, 0, 0)).save(tmp_path / f"{number}.png")
        rows.append({"image": f"{number}.png", "captions": [caption]})
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    training = PrefixTraining(language_model=None, train_language_model=True, heads=8)
    training.build(captions, 4, 0)
    trainer = Trainer(
        accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    found = []
    for size in (2, 3, len(captions)):
        data = LatentData(str(pairs), str(pairs), batch_size=size)
        data.load()
        features = torch.randn(len(data.images), 4, generator=torch.Generator().manual_seed(0))
        data.attach(features, training.tokenize, contrasted=False, seed=0)
        with redirect_stdout(StringIO()):
            [figures] = trainer.validate(training, data.val_dataloader())
        found.append(figures["val_loss"])
    assert found == pytest.approx([found[-1]] * 3, rel=1e-5)


def test_the_triplet_loss_counts_captions_that_have_a_negative(monkeypatch):
    there = torch.tensor([True, False, True])
    loss = LatentLoss(*(torch.tensor(float(value)) for value in (7, 2, 0.5)))
    batch = LatentBatch(torch.zeros(3, 2), torch.zeros(3, 4), torch.ones(3, 4), "other", there=there)
    logged = {}
    training = LatentTraining()
    monkeypatch.setattr(training, "losses", lambda _: (loss, torch.tensor([1.0, 0.0, -1.0])))
    monkeypatch.setattr(
        training, "log", lambda name, value, *, batch_size, **_: logged.update({name: (value, batch_size)})
    )
    training.validation_step(batch, 0)
    assert logged == {
        "val_loss": (7, 3), "val_mse": (2, 3), "val_triplet_other": (0.5, 2),
        "val_nearer_than_other": (0.5, 2),
    }  # fmt: skip


@pytest.mark.parametrize(("there", "triplet"), [((True, False), 0.5), ((False, False), None)])
def test_a_batch_without_negatives_has_no_triplet_loss(monkeypatch, there, triplet):
    loss = LatentLoss(*(torch.tensor(float(value)) for value in (7, 2, 0.5 if triplet else 0)))
    batch = LatentBatch(*[torch.zeros(2, 4)] * 3, "shuffled", there=torch.tensor(there))
    logged = {}
    training = LatentTraining()
    monkeypatch.setattr(training, "losses", lambda _: (loss, torch.zeros(2)))
    monkeypatch.setattr(training, "log", lambda name, value, **_: logged.update({name: float(value)}))
    training.training_step(batch, 0)
    figures = {name: value for name, value in logged.items() if not math.isnan(value)}
    expected = {"train_loss": 7, "train_mse": 2, "train_triplet_shuffled": triplet}
    assert figures == {name: value for name, value in expected.items() if value is not None}

"""What trainings of the tests are run with, killed by, and compared by."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file

from suisei.training.module import SuiSei

OPTIONS = ("--baselines=[]", "--checkpoint_steps=3")
COSINE = (
    "--model.text.layers=last",
    "--model.text.trained_layers=1",
    "--model.fusion.blocks=[]",
    "--model.fusion.similarity=true",
    "--model.head.extra_hidden=3",
    "--model.head.start=cosine",
)


class KilledError(Exception):
    """Stands for a power cut."""


def kill_at(monkeypatch, step, error=KilledError):
    original = SuiSei.training_step

    def training_step(self, batch, batch_idx):
        if self.trainer.global_step == step:
            raise error
        return original(self, batch, batch_idx)

    monkeypatch.setattr(SuiSei, "training_step", training_step)


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "model" / "model.safetensors")


def assert_same_weights(one: Path, other: Path) -> None:
    left, right = weights(one), weights(other)
    assert left.keys() == right.keys()
    assert [name for name in left if not torch.equal(left[name], right[name])] == []


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

"""Every option of both of RECAP's trainings changes what it says it changes."""

import ast
import inspect
import json
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import nn

from suisei.errors import ConfigError
from suisei.recap.caption_batches import LatentData
from suisei.recap.latent_training import LatentTraining
from suisei.recap.prefix_training import PrefixTraining

STEPS = ("learning_rate", "weight_decay", "warmup_steps", "cosine_steps")
COVERED = {
    "test_damaged_images_stop_the_reading_or_are_left_out": ("data.on_error",),
    "test_steps_are_taken_as_the_settings_say": (
        *(f"latent.model.{name}" for name in STEPS), *(f"mapper.model.{name}" for name in STEPS),
    ),
    "test_pairs_are_those_of_the_files_and_the_folder_named": (
        "data.train", "data.validation", "data.root", "data.batch_size",
    ),
    "test_a_reconstruction_learns_and_its_folder_scores": (
        "latent.model.heads", "latent.model.hidden", "latent.model.max_tokens",
    ),
    "test_another_seed_margin_or_weight_is_not_ignored": (
        "latent.model.margin", "latent.model.mse_weight", "latent.model.triplet_weight",
    ),
    "test_a_checkpoint_of_clipcap_and_any_language_model_take_part": (
        "latent.model.mapper", "latent.model.mapper_heads", "latent.model.language_model",
        "mapper.model.language_model",
    ),
    "test_a_mapper_is_fed_by_no_other_tower_than_it_learned_from": ("latent.model.image",),
    "test_the_mapper_learns_and_is_written_in_the_published_layout": (
        "mapper.model.image", "mapper.model.tiny", "mapper.model.prefix", "mapper.model.spread",
        "mapper.model.layers", "mapper.model.heads",
    ),
    "test_a_language_model_learns_where_it_is_told_to": ("mapper.model.train_language_model",),
}  # fmt: skip
"""The options whose being ignored makes a test fail, by the name of the test."""


def test_every_option_has_a_test():
    owners = {"latent.model": LatentTraining, "mapper.model": PrefixTraining, "data": LatentData}
    options = [
        f"{prefix}.{name}" for prefix, kind in owners.items() for name in inspect.signature(kind).parameters
    ]
    assert sorted(options) == sorted(option for covered in COVERED.values() for option in covered)
    written = {
        node.name
        for path in Path(__file__).parent.glob("test_*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    assert set(COVERED) <= written


@pytest.mark.parametrize("kind", [LatentTraining, PrefixTraining])
def test_steps_are_taken_as_the_settings_say(kind):
    training = kind(learning_rate=0.5, weight_decay=0.25, warmup_steps=2, cosine_steps=4)
    training.part = nn.Linear(2, 2)
    chosen = training.configure_optimizers()
    optimizer, schedule = chosen["optimizer"], chosen["lr_scheduler"]["scheduler"]
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.25, 0]
    rates = []
    for _ in range(5):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    half = 0.5**0.5 / 2
    assert rates == pytest.approx([0.25, 0.5 * (0.5 + half), 0.25, 0.5 * (0.5 - half), 0], abs=1e-9)
    assert kind(warmup_steps=0)._rate(10**6) == 1  # without a cosine the rate stays


def test_a_language_model_learns_where_it_is_told_to(captions):
    training = PrefixTraining(language_model=None, train_language_model=True, heads=8)
    training.build(captions, 8, 0)
    assert all(weight.requires_grad for weight in training.captioner.parameters())


def test_pairs_are_those_of_the_files_and_the_folder_named(tmp_path):
    (tmp_path / "images").mkdir()
    for name, count in (("train", 3), ("validation", 2)):
        rows = []
        for number in range(count):
            Image.new("RGB", (8, 8), (40 * number, count, 9)).save(
                tmp_path / "images" / f"{name}{number}.png"
            )
            rows.append({"image": f"{name}{number}.png", "captions": [f"{name} {number}"]})
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = {part: str(tmp_path / f"{part}.jsonl") for part in ("train", "validation")}
    data = LatentData(**given, root=str(tmp_path / "images"), batch_size=3)
    data.load()
    assert data.captions == {
        "train": ["train 0", "train 1", "train 2"], "validation": ["validation 0", "validation 1"],
    }  # fmt: skip
    assert {path.parent for path in data.images} == {tmp_path / "images"}
    data.attach(torch.zeros(5, 2), lambda texts: [[1] for _ in texts], contrasted=False, seed=0)
    assert [len(batch) for batch in data.train_dataloader()] == [3]
    with pytest.raises(ConfigError, match="batch_size"):
        LatentData(**given, root=str(tmp_path / "images"), batch_size=4).load()

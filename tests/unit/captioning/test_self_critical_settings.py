"""Settings of tuning by rewards: each reaches what it names, and a mistake is told before any work."""

import ast
import inspect
import json
from pathlib import Path

import pytest
import torch

from suisei.captioning import self_critical_run
from suisei.captioning.caption_model import Decoding
from suisei.captioning.rewarded_images import RewardedImages
from suisei.captioning.self_critical import SelfCritical
from suisei.captioning.self_critical_run import run
from suisei.commands.train import main as train_command
from suisei.errors import ConfigError, DataError, ModelError
from tests.unit.captioning.tuning import arguments, lines


def test_settings_of_the_model(folder, tmp_path):
    """Rates, decay, warm-up, length and language reach what they name."""
    more = [
        "--model.warmup_steps=4",
        "--model.weight_decay=0.3",
        "--model.max_length=2",
        "--model.language=en",
    ]
    cli = self_critical_run.SelfCriticalCLI(
        SelfCritical,
        RewardedImages,
        self_critical_run.written_out(arguments(folder, tmp_path / "run", *more)),
        trainer_defaults=self_critical_run.TRAINER_DEFAULTS,
        about="",
    )
    made = cli.model.configure_optimizers()
    assert {group["weight_decay"] for group in made["optimizer"].param_groups} == {0.3, 0.0}
    rates = [cli.model._rate(step) for step in range(5)]
    assert rates == [0.25, 0.5, 0.75, 1.0, 1.0]
    tower = {p.data_ptr() for p in cli.model.writer.tower.parameters()}
    assert not any(p.data_ptr() in tower for g in made["optimizer"].param_groups for p in g["params"])
    grid = cli.model.writer.grid(cli.model.writer.read([folder / "0.png"]))
    tokens, texts = cli.model._write(grid, torch.Generator().manual_seed(0))
    assert tokens.shape[1:] == (3, 2)
    assert len(texts[0]) == 3
    assert cli.model.language == "en"


@pytest.mark.parametrize(
    ("more", "step"), [(("--trainer.max_steps=3",), 3), (("--trainer.max_epochs=1",), None)]
)
def test_a_training_that_is_shorter_than_its_validations_lie_apart_is_validated_at_its_end(
    folder, tmp_path, more, step
):
    assert run(arguments(folder, tmp_path / "run", "--trainer.val_check_interval=50", *more)) == 0
    report = json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf-8"))["training"]
    curve = lines(tmp_path / "run" / "curve.jsonl")
    assert report["val_reward"] == pytest.approx(curve[-1]["reward"])
    assert [line["step"] for line in curve] == [0, step or report["steps"]]
    assert (tmp_path / "run" / "checkpoints" / "best.ckpt").is_file()


def test_temperature_widens_the_draw(folder, tmp_path):
    def different(temperature):
        model = SelfCritical(
            str(folder / "captioner"), baseline="greedy", captions=40, temperature=temperature, max_length=8
        )
        grid = model.writer.grid(model.writer.read([folder / "0.png"]))
        _, texts = model._write(grid, torch.Generator().manual_seed(1))
        assert len(texts[0]) == 41  # the greedy one is the last
        assert (
            texts[0][-1]
            == model.writer.texts(
                model.writer.generate(model.writer.memory(grid), Decoding("greedy", max_length=8)).tokens
            )[0][0]
        )
        return len(set(texts[0][:-1]))

    assert different(0.2) < different(3.0)


def test_images_of_a_run(folder, tmp_path):
    source, other = str(folder / "train.jsonl"), str(folder / "dev.jsonl")
    data = RewardedImages(source, other, None, batch_size=2, train_images=5, validation_images=3)
    data.load(seed=4)
    assert {part: len(rows) for part, rows in data.parts.items()} == {"train": 5, "validation": 3}
    assert len(data.documents) == 8  # idf is of all
    assert data.test_part == []
    batches = [batch.tolist() for batch in data.train_dataloader()]
    assert [len(batch) for batch in batches] == [2, 2]
    again = RewardedImages(source, other, None, batch_size=2, train_images=5, validation_images=3)
    again.load(seed=4)
    assert [batch.tolist() for batch in again.train_dataloader()] == batches
    away = folder / "away.jsonl"
    away.write_text((folder / "dev.jsonl").read_text())
    moved = RewardedImages(source, str(away), images=str(folder), batch_size=2)
    moved.load()
    assert moved.pairs[-1].image == folder / "dev7.png"
    lost = RewardedImages(source, str(away), root=str(tmp_path), batch_size=2)
    with pytest.raises(DataError, match="there is no file of"):
        lost.load()
    with pytest.raises(ConfigError, match="5 training images do not fill a batch of 6"):
        RewardedImages(source, other, batch_size=6, train_images=5).load()
    for part in ("validation", "test"):
        with pytest.raises(DataError, match=rf"data\.{part} shares 8 images with data\.train"):
            RewardedImages(**{"train": source, "validation": other, part: source}).load()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--reward=nope"], "no metric 'nope'"),
        (["--reward=0*cider"], "no number above 0"),
        (["--model.baseline=median"], "model.baseline"),
        (["--model.captions=1"], "compares captions of an image with each other"),
        (["--model.max_skipped=2"], "model.max_skipped"),
        (["--model=/no/such/folder"], "/no/such/folder"),
        (["--model.language=ja"], "this captioner writes en"),
        (["--model.max_length=17"], "model.max_length is 17; this captioner writes at most 16 tokens"),
        (["--reward_options=[x]"], "reward_options"),
        (["--model.reward_options=[cider.colour=red]"], "has no option 'colour'"),
        (["--report_metrics=[cidr]"], "report_metrics: no metric 'cidr'"),
    ],
)
def test_mistakes_are_told_before_any_work(folder, tmp_path, more, message):
    with pytest.raises((ConfigError, DataError, ModelError, Exception), match=message) as told:
        run(arguments(folder, tmp_path / "run", *more))
    assert type(told.value).__module__ == "suisei.errors"
    assert not (tmp_path / "run").exists()


def test_without_a_captioner_the_line_says_what_to_give(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="--model: no captioner in runs/captioner/model"):
        run(arguments(folder, tmp_path / "run")[1:])
    assert not (tmp_path / "run").exists()


def test_the_command_knows_the_task(folder, tmp_path):
    given = ["--config", "self_critical", *arguments(folder, tmp_path / "run", "--data.test=null")]
    assert train_command(given) == 0
    assert json.loads((tmp_path / "run" / "report.json").read_text())["training"]["steps"] == 6


COVERED = {
    "test_settings_of_the_model": (
        "model.captioner", "model.reward", "model.captions", "model.max_length", "model.language",
        "model.learning_rate", "model.weight_decay", "model.warmup_steps",
    ),
    "test_mistakes_are_told_before_any_work": ("model.reward_options",),
    "test_captions_without_a_word_get_the_lowest_reward": ("model.lowest",),
    "test_tuning_raises_its_reward": ("model.baseline",),
    "test_temperature_widens_the_draw": ("model.temperature",),
    "test_what_is_mixed_into_the_loss_keeps_the_model_near_its_start": (
        "model.kl_weight", "model.cross_entropy_weight",
    ),
    "test_rows_without_reward_are_left_out_and_counted": ("model.max_skipped",),
    "test_what_a_run_writes": ("model.shown", "data.test", "data.test_images"),
    "test_images_of_a_run": (
        "data.train", "data.validation", "data.root", "data.images", "data.batch_size", "data.train_images",
        "data.validation_images",
    ),
    "test_a_damaged_image_costs_tuning_its_row_alone": ("data.on_error",),
}  # fmt: skip
"""The options whose being ignored makes a test fail, by the name of the test."""


def test_every_option_has_a_test():
    options = {f"model.{name}" for name in inspect.signature(SelfCritical).parameters}
    options |= {f"data.{name}" for name in inspect.signature(RewardedImages).parameters}
    assert sorted(options) == sorted(option for covered in COVERED.values() for option in covered)
    names = (
        "self_critical_run",
        "self_critical_settings",
        "self_critical_report",
        "rewards",
        "captioning_left_out",
    )
    written = {
        node.name
        for name in names
        for node in ast.parse((Path(__file__).parent / f"test_{name}.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    assert set(COVERED) <= written


def test_images_have_to_fill_a_batch_of_all_processes(folder, tmp_path, monkeypatch):
    """Else no step would be taken, and the captioner written as it was."""
    monkeypatch.setattr(self_critical_run, "train", lambda *_: pytest.fail("it began to train"))
    together = ["--trainer.devices=2", "--trainer.strategy=ddp", "--data.batch_size=5"]
    with pytest.raises(ConfigError, match=r"8 training images do not fill a batch of 10 \(5 in each of 2 p"):
        run(arguments(folder, tmp_path / "run", *together))
    assert not (tmp_path / "run").exists()

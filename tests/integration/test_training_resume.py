"""Runs that were interrupted go on as if nothing had happened; cross-validation runs every fold."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from suisei.errors import ConfigError, ModelError
from suisei.training import progress_lines
from suisei.training.checkpoints import read_checkpoint
from suisei.training.learning_curve import read_curves
from suisei.training.module import SuiSei

OPTIONS = ("--baselines=[]", "--checkpoint_steps=3", "--model.optimizer.schedule=linear")


class KilledError(Exception):
    """Stands for a power cut."""


@pytest.fixture(scope="module")
def whole(train):
    return train(*OPTIONS)


def final(run):
    return load_file(run / "model" / "model.safetensors")


def assert_same(one, other):
    left, right = final(one), final(other)
    assert [name for name in left if not torch.equal(left[name], right[name])] == []
    facts = [json.loads((run / "report.json").read_text()) for run in (one, other)]
    for name in ("steps", "epochs", "best_validation"):
        assert facts[0]["training"][name] == facts[1]["training"][name]
    assert facts[0]["results"] == facts[1]["results"]


def assert_same_last(one, other):
    left, right = (read_checkpoint(run / "checkpoints" / "last.ckpt")["state_dict"] for run in (one, other))
    assert [name for name in left if not torch.equal(left[name], right[name])] == []


def kill_at(monkeypatch, step, seen=None):
    original = SuiSei.training_step

    def training_step(self, batch, batch_idx):
        if seen is not None:
            seen.append(self.trainer.global_step)
        if self.trainer.global_step == step:
            raise KilledError
        return original(self, batch, batch_idx)

    monkeypatch.setattr(SuiSei, "training_step", training_step)


def killed(train, options, step, run):
    """Start a run, or go on with it, and kill it at a step."""
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, step)
        with pytest.raises(KilledError):
            train(*options, output=run)
    assert not (run / "report.json").exists()


@pytest.mark.parametrize(("step", "goes_on_at"), [(1, 0), (5, 3), (9, 9), (10, 10), (11, 10), (17, 15)])
def test_resumed_run_ends_with_the_same_weights(whole, train, tmp_path, step, goes_on_at):
    steps = json.loads((whole / "report.json").read_text())["training"]["steps"]
    assert steps == 20
    run = tmp_path / "run"
    killed(train, OPTIONS, step, run)
    seen: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, None, seen)
        train(*OPTIONS, "--ckpt_path=last", output=run)
    assert seen == list(range(goes_on_at, steps))
    assert_same(whole, run)


def test_a_run_that_is_killed_after_every_epoch_trains_each_once(train, tmp_path):
    options = (
        "--baselines=[]",
        "--trainer.max_epochs=3",
        "--checkpoint_steps=5",
        "--trainer.val_check_interval=4",
    )
    unbroken, run, going_on = train(*options), tmp_path / "run", ()
    for step in (10, 20):

        def killed_at(self, *_, step=step):
            if self.trainer.global_step == step:
                raise KilledError

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SuiSei, "on_train_epoch_end", killed_at)
            with pytest.raises(KilledError):
                train(*options, *going_on, output=run)
        going_on = ("--ckpt_path=last",)
    assert_same(unbroken, train(*options, *going_on, output=run))


def test_the_minutes_of_a_resumed_run_are_those_of_all_its_starts(train, tmp_path):
    run, clock = tmp_path / "run", itertools.count(0, 600)  # ten minutes pass whenever it is looked at
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress_lines, "time", SimpleNamespace(monotonic=lambda: next(clock)))
        killed(train, OPTIONS, 11, run)
    trained = sum(
        state.get("seconds", 0.0)
        for state in read_checkpoint(run / "checkpoints" / "last.ckpt")["callbacks"].values()
    )
    assert trained >= 600
    train(*OPTIONS, "--ckpt_path=last", output=run)
    minutes = json.loads((run / "report.json").read_text())["training"]["minutes"]
    assert trained / 60 < minutes < trained / 60 + 10


@pytest.mark.parametrize("step", [10, 11])
def test_a_run_with_a_limit_of_steps_goes_on_after_a_whole_epoch(train, tmp_path, step):
    options = (*OPTIONS, "--trainer.max_epochs=3", "--trainer.max_steps=26")
    unbroken = train(*options)
    killed(train, options, step, tmp_path / "run")
    assert_same(unbroken, train(*options, "--ckpt_path=last", output=tmp_path / "run"))


@pytest.mark.parametrize("first", [5, 10, 14])
def test_a_run_that_a_limit_ended_within_an_epoch_goes_on_as_an_unbroken_one(train, tmp_path, first):
    plain = ("--baselines=[]", "--model.optimizer.schedule=constant", "--model.optimizer.warmup_fraction=0")
    options = (*plain, "--trainer.max_epochs=3", "--early_stopping=null")
    unbroken = train(*options)
    train(*options, f"--trainer.max_steps={first}", output=tmp_path / "run")
    longer = train(*options, "--ckpt_path=last", output=tmp_path / "run")
    facts = [json.loads((run / "report.json").read_text())["training"] for run in (unbroken, longer)]
    assert [(f["steps"], f["epochs"]) for f in facts] == [(30, 3), (30, 3)]
    assert_same_last(unbroken, longer)


def test_resuming_with_accumulated_gradients(train, tmp_path):
    options = (*OPTIONS, "--trainer.accumulate_grad_batches=3", "--checkpoint_steps=2")
    whole = train(*options)
    killed(train, options, 3, tmp_path / "run")
    train(*options, "--ckpt_path=last", output=tmp_path / "run")
    assert_same(whole, tmp_path / "run")


def test_resuming_from_a_validation_between_two_steps(train, tmp_path):
    options = (
        "--baselines=[]", "--checkpoint_steps=50", "--trainer.accumulate_grad_batches=4",
        "--trainer.val_check_interval=6", "--trainer.log_every_n_steps=1",
    )  # fmt: skip
    unbroken = train(*options)
    killed(train, options, 2, tmp_path / "run")  # the checkpoint is that of the sixth batch
    resumed = train(*options, "--ckpt_path=last", output=tmp_path / "run")
    assert_same(unbroken, resumed)
    assert_same_last(unbroken, resumed)
    curves = [read_curves(run / "logs") for run in (unbroken, resumed)]
    assert curves[0]["train_loss"] == curves[1]["train_loss"]  # each the mean of all batches of a step


@pytest.mark.parametrize("batching", ["length", "group"])
def test_resuming_batches_of_like_samples(train, tmp_path, batching):
    options = (*OPTIONS, f"--data.batching={batching}")
    whole = train(*options)
    killed(train, options, 7, tmp_path / "run")
    train(*options, "--ckpt_path=last", output=tmp_path / "run")
    assert_same(whole, tmp_path / "run")


def test_resuming_upper_layers_that_start_from_the_cosine(train, rated_file, tmp_path):
    """Balanced batches with rated pairs, running means, lower layers computed anew."""
    options = (
        *OPTIONS, "--model.text.tiny.layers=2", "--model.text.layers=last", "--model.text.trained_layers=1",
        "--model.head.start=cosine", "--model.head.extra_hidden=3", "--model.fusion.blocks=[]",
        "--model.fusion.alignment=true", "--model.fusion.similarity=true",
        "--model.optimizer.frozen_fraction=0",
        f"--data.support={rated_file}", "--data.synthetic=0.3", "--data.batching=balanced",
        "--model.loss.cosine_weight=1", "--model.loss.pair_weight=0.1", "--model.loss.support_weight=1",
        "--model.image=null",
    )  # fmt: skip
    whole = train(*options)
    killed(train, options, 7, tmp_path / "run")
    checkpoint = torch.load(next((tmp_path / "run" / "checkpoints").glob("*.ckpt")), weights_only=True)
    kept = [name for name in checkpoint["state_dict"] if name.startswith("regressor.text.")]
    assert kept
    assert all(".layer.1." in name for name in kept)
    train(*options, "--ckpt_path=last", output=tmp_path / "run")
    assert_same(whole, tmp_path / "run")


def test_resuming_a_pretrained_ensemble_on_partly_made_data(train, tmp_path):
    options = (
        *OPTIONS, "--model.text.frozen=true", "--model.text.layers=last", "--model.pretraining.epochs=2",
        "--model.pretraining.image_epochs=1", "--model.pretraining.batch_size=8", "--model.image.frozen=true",
        "--model.fusion.alignment=true", "--model.fusion.image_similarity=true", "--model.head.members=2",
        "--data.synthetic=0.2",
    )  # fmt: skip
    whole = train(*options)
    facts = json.loads((whole / "report.json").read_text())
    assert facts["training"]["synthetic_samples"] > 0
    recorded = json.loads((whole / "splits.json").read_text())
    killed(train, options, 7, tmp_path / "run")
    train(*options, "--ckpt_path=last", output=tmp_path / "run")
    assert_same(whole, tmp_path / "run")
    assert json.loads((tmp_path / "run" / "splits.json").read_text()) == recorded


def test_resuming_with_disjoint_captions(train, rated_file, tmp_path, capfd):
    rows = [json.loads(line) for line in rated_file.read_text("utf-8").splitlines()]
    for number, row in enumerate(rows):  # half of the captions are rated with several images
        row["candidate"] = f"caption {number % 10}" if number % 2 else row["candidate"]
    shared = tmp_path / "shared.jsonl"
    shared.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    options = (
        *OPTIONS, f"--data.train={shared}", "--data.disjoint=captions", "--data.synthetic=0.2",
        "--data.fractions=[0.8,0.1,0.1]",
    )  # fmt: skip
    whole = train(*options)
    killed(train, options, 4, tmp_path / "run")
    capfd.readouterr()
    train(*options, "--ckpt_path=last", output=tmp_path / "run")
    assert_same(whole, tmp_path / "run")
    splits = [json.loads((run / "splits.json").read_text()) for run in (whole, tmp_path / "run")]
    assert splits[0] == splits[1]
    assert splits[0]["disjoint"] == "captions"
    report = json.loads((whole / "report.json").read_text())
    left_out = report["data"]["left_out"]
    assert left_out["train"] == splits[0]["left_out"]["train"] > 0
    assert sum(report["data"]["samples"].values()) + sum(left_out.values()) == len(rows)
    sentence = f"left out are {left_out['train']} training and {left_out['validation']} validation samples"
    assert sentence in (whole / "report.md").read_text()
    assert sentence in (whole / "model" / "README.md").read_text()
    assert sentence in capfd.readouterr().err


def test_every_epoch_leaves_a_checkpoint_to_go_on_with_improved_or_not(train, tmp_path):
    options = ("--baselines=[]", "--trainer.max_epochs=4", "--early_stopping.patience=9")
    worse = iter([0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.04, 0.03])

    def on_validation_epoch_end(self):
        self._validation.clear()
        self.log("val_pearson", next(worse))

    run = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SuiSei, "on_validation_epoch_end", on_validation_epoch_end)
        kill_at(patch, 35)  # in the fourth epoch of ten steps
        with pytest.raises(KilledError):
            train(*options, output=run)
        kept = {path.name: torch.load(path, weights_only=True) for path in (run / "checkpoints").iterdir()}
        assert {name: state["global_step"] for name, state in kept.items()} == {
            "best.ckpt": 10,
            "last.ckpt": 30,
        }
    seen: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SuiSei, "on_validation_epoch_end", on_validation_epoch_end)
        kill_at(patch, None, seen)
        train(*options, "--ckpt_path=last", output=run)
    assert seen[0] == 30
    report = json.loads((run / "report.json").read_text())["training"]
    assert report["best_validation"]["val_pearson"] == pytest.approx(0.5)


def test_other_data_is_not_resumed(train, rated_file, tmp_path):
    run = tmp_path / "run"
    killed(train, OPTIONS, 5, run)
    before = [(run / name).read_bytes() for name in ("config.yaml", "splits.json")]
    fewer = tmp_path / "fewer.jsonl"
    fewer.write_text("\n".join(rated_file.read_text(encoding="utf-8").splitlines()[:60]), encoding="utf-8")
    with pytest.raises(ModelError, match="other training and validation data"):
        train(*OPTIONS, "--ckpt_path=last", f"--data.train={fewer}", output=run)
    assert [(run / name).read_bytes() for name in ("config.yaml", "splits.json")] == before


def test_nothing_to_resume_is_an_error(train, tmp_path):
    with pytest.raises(ConfigError, match="no checkpoint"):
        train(*OPTIONS, "--ckpt_path=last", output=tmp_path / "empty")
    with pytest.raises(ConfigError, match="no checkpoint at"):
        train(*OPTIONS, f"--ckpt_path={tmp_path / 'absent.ckpt'}", output=tmp_path / "empty")


def test_folds_are_pooled_and_an_interrupted_cross_validation_goes_on(train, rated_file, tmp_path):
    options = (*OPTIONS, "--data.folds=2", "--trainer.max_epochs=1")
    uninterrupted = train(*options, output=tmp_path / "whole")
    rows = [json.loads(line) for line in rated_file.read_text(encoding="utf-8").splitlines()]
    scored = [json.loads(line) for line in (uninterrupted / "test_scores.jsonl").read_text().splitlines()]
    assert sorted(row["id"] for row in scored) == sorted(row["id"] for row in rows)
    report = json.loads((uninterrupted / "report.json").read_text())
    (digest,) = {fold["training"]["data_digests"]["rated"] for fold in report["folds"]}
    assert len(report["folds"]) == 2
    assert (uninterrupted / "report.md").is_file()
    with pytest.raises(ConfigError, match="holds a run already"):
        train(*options, output=uninterrupted)

    run = tmp_path / "run"
    steps = []
    with pytest.MonkeyPatch.context() as patch:
        original = SuiSei.training_step

        def second_fold_dies(self, batch, batch_idx):
            steps.append(1)
            if len(steps) == report["folds"][0]["training"]["steps"] + 2:
                raise KilledError
            return original(self, batch, batch_idx)

        patch.setattr(SuiSei, "training_step", second_fold_dies)
        with pytest.raises(KilledError):
            train(*options, output=run)
    assert (run / "fold-0" / "report.json").exists()
    finished = (run / "fold-0" / "report.json").read_text()
    (run / "fold-0" / "report.json").write_text(finished.replace(digest, "of others"))
    with pytest.raises(ModelError, match="fold-0 was trained on other data: captions"):
        train(*options, "--ckpt_path=last", output=run)
    (run / "fold-0" / "report.json").write_text(finished)
    before = (run / "fold-0" / "report.json").stat().st_mtime_ns
    train(*options, "--ckpt_path=last", output=run)
    assert (run / "fold-0" / "report.json").stat().st_mtime_ns == before
    assert json.loads((run / "report.json").read_text())["results"] == report["results"]


@pytest.mark.slow
def test_a_killed_process_is_resumed_to_the_same_weights(train, settings, tmp_path):
    options = (*OPTIONS, "--trainer.max_epochs=8")
    whole = train(*options, output=tmp_path / "whole")
    run = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "suisei.train",
        "--config",
        str(settings),
        f"--output={run}",
        *options,
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (run / "checkpoints" / "steps.ckpt").exists():
        assert process.poll() is None, "it ended before its first checkpoint"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (run / "report.json").exists()
    train(*options, "--ckpt_path=last", output=run)
    assert_same(whole, run)


def test_a_run_that_had_stopped_stays_so_unless_it_is_given_more_patience(train, tmp_path):
    """It was killed while it wrote its report, say."""
    falling = iter(range(9))

    def no_better(self):
        self._validation.clear()
        self.log("val_pearson", -float(next(falling)))

    def steps(patience, *more):
        options = ("--trainer.max_epochs=9", f"--early_stopping.patience={patience}")
        run = train(*OPTIONS, *options, *more, output=tmp_path / "run")
        return json.loads((run / "report.json").read_text())["training"]["steps"]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SuiSei, "on_validation_epoch_end", no_better)
        assert steps(1) == 20
        assert steps(1, "--ckpt_path=last") == 20
        assert steps(3, "--ckpt_path=last") == 40


@pytest.mark.parametrize("copied", [False, True])
def test_a_run_whose_folder_was_moved_or_copied_keeps_its_best_weights(train, tmp_path, copied):
    worse = iter([0.5, 0.4, 0.3])

    def no_better(self):
        self._validation.clear()
        self.log("val_pearson", next(worse))

    def goes_on_elsewhere(run, place, *more):
        (shutil.copytree if copied else shutil.move)(run, place)
        train(*OPTIONS, "--ckpt_path=last", *more, output=place)
        report = json.loads((place / "report.json").read_text())["training"]
        assert report["best_validation"]["val_pearson"] == pytest.approx(0.5)
        kept = torch.load(place / "checkpoints" / "best.ckpt", weights_only=True)
        assert kept["global_step"] == 10
        return place

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SuiSei, "on_validation_epoch_end", no_better)
        killed(train, OPTIONS, 15, tmp_path / "run")
        longer = goes_on_elsewhere(tmp_path / "run", tmp_path / "elsewhere", "--trainer.max_epochs=3")
        goes_on_elsewhere(longer, tmp_path / "further", "--trainer.max_epochs=3")  # nothing is left to train

"""What a training tells of itself, and what it refuses to go on with."""

import json
import shutil

import pytest
from PIL import Image

from suisei.cli import run_command
from suisei.commands import train as train_module
from suisei.errors import ModelError, UnavailableError
from suisei.training.module import SuiSei

OPTIONS = (
    "--baselines=[]",
    "--checkpoint_steps=3",
    "--trainer.limit_train_batches=5",
    "--trainer.max_epochs=2",
)


class KilledError(Exception):
    """Stands for a power cut."""


def stop_at(monkeypatch, step, problem):
    original = SuiSei.training_step

    def training_step(self, batch, batch_idx):
        if self.trainer.global_step == step:
            raise problem
        return original(self, batch, batch_idx)

    monkeypatch.setattr(SuiSei, "training_step", training_step)


def test_a_run_with_other_ratings_is_not_gone_on_with(train, rated_file, tmp_path, monkeypatch):
    data, run = tmp_path / "rated.jsonl", tmp_path / "run"
    shutil.copy(rated_file, data)
    options = (*OPTIONS, f"--data.train={data}")
    with monkeypatch.context() as patch:
        stop_at(patch, 7, KilledError)
        with pytest.raises(KilledError):
            train(*options, output=run)
    rows = [json.loads(line) for line in data.read_text("utf-8").splitlines()]
    splits = json.loads((run / "splits.json").read_text())
    changed = [dict(row) for row in rows]
    for row in changed:  # the same captions and groups, so that vocabulary and split are the same
        row["rating"] = [6 - value for value in row["rating"]]  # on a scale from 1 to 5
    data.write_text("".join(json.dumps(row) + "\n" for row in changed))
    with pytest.raises(ModelError, match="started with other training and validation data"):
        train(*options, "--ckpt_path=last", output=run)
    assert json.loads((run / "splits.json").read_text()) == splits
    shutil.copy(rated_file, data)
    train(*options, "--ckpt_path=last", output=run)
    assert (run / "report.json").exists()


def test_ctrl_c_says_how_far_it_came_and_how_it_goes_on(settings, tmp_path, monkeypatch, capfd):
    run = tmp_path / "run"
    command = ["--config", str(settings), f"--output={run}", *OPTIONS]
    with monkeypatch.context() as patch:
        stop_at(patch, 7, KeyboardInterrupt)
        assert run_command(train_module.main, command) == 130
    said, newest = capfd.readouterr().err.splitlines()[-1], run / "checkpoints" / "steps.ckpt"
    assert said == (
        f"suisei: interrupted; epoch 2, step 7; suisei train --config {run / 'config.yaml'} --ckpt_path last "
        f"goes on from {newest}"
    )


def test_a_run_has_its_curve_its_pace_and_its_log(settings, tmp_path, capfd):
    run, log = tmp_path / "run", tmp_path / "log.jsonl"
    command = ["--quiet", "--config", str(settings), f"--output={run}", *OPTIONS, "--log-json", str(log)]
    command += ["--trainer.logger=tensorboard", "--trainer.log_every_n_steps=1"]
    assert run_command(train_module.main, command) == 0
    assert capfd.readouterr().err == ""
    with Image.open(run / "curve.png") as image:
        assert image.width > image.height > 200
    facts = json.loads((run / "report.json").read_text())["training"]
    assert facts["samples_per_second"] > 0
    assert facts["memory_peak_mb"] > 50
    assert facts["learning_curve"] is True
    assert "(curve.png)" in (run / "report.md").read_text()
    assert list((run / "logs" / "tensorboard").glob("events.out.*"))
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(event["epoch"], event["step"]) for event in told if event["event"] == "epoch"] == [
        (1, 5),
        (2, 10),
    ]
    (done,) = [event for event in told if event["event"] == "done" and event["stage"] == "training"]
    assert (done["epoch"], done["done"], done["total"]) == (2, 10, 10)
    assert done["per_second"] > 0
    assert told[0]["event"] == "start"
    assert told[-1]["status"] == 0


@pytest.mark.parametrize(
    ("limit", "steps"), [("--trainer.max_steps=7", 7), ("--early_stopping.patience=3", 9)]
)
def test_an_end_within_the_second_epoch_is_told_as_there(settings, tmp_path, monkeypatch, limit, steps):
    from suisei.training import run_report

    monkeypatch.setattr(run_report, "plot_predicted", lambda *_, **__: None)
    monkeypatch.setattr(run_report, "RESAMPLES", 20)
    log = tmp_path / "log.jsonl"
    command = ["--config", str(settings), f"--output={tmp_path / 'run'}", *OPTIONS, "--trainer.max_epochs=3"]
    command += ["--trainer.val_check_interval=2", "--early_stopping.min_delta=1000", limit]
    assert run_command(train_module.main, [*command, "--quiet", f"--log-json={log}"]) == 0
    told = [json.loads(line) for line in log.read_text().splitlines()]
    (done,) = [event for event in told if event["event"] == "done" and event["stage"] == "training"]
    assert (done["epoch"], done["done"]) == (2, steps)


def test_a_run_without_a_log_has_no_curve(train, tmp_path):
    run = train(*OPTIONS, "--trainer.logger=false")
    assert not (run / "curve.png").exists()
    assert not (run / "logs").exists()
    assert "curve.png" not in (run / "report.md").read_text()


def test_tensorboard_is_asked_for_by_its_extra(train, tmp_path, monkeypatch):
    from suisei.training import command_line

    def absent(*_, **__):
        raise ModuleNotFoundError("Neither `tensorboard` nor `tensorboardX` is available.")

    monkeypatch.setattr(command_line, "TensorBoardLogger", absent)
    with pytest.raises(UnavailableError, match=r"pip install 'suisei\[tensorboard\]'"):
        train(*OPTIONS, "--trainer.logger=tensorboard", output=tmp_path / "run")
    assert not (tmp_path / "run").exists()

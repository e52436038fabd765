"""Several processes train what one trains: the same batches, the same validation figures, one folder."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import pytest
import torch

from suisei.encoders.text import TextEncoder
from suisei.encoders.text_config import TextEncoderConfig
from suisei.encoders.tiny import TinyTextConfig
from suisei.metrics.registry import get_metric
from suisei.training.checkpoints import read_checkpoint
from tests.unit.two_processes import environment

VALIDATION = ("val_pearson", "val_kendall", "val_loss")


@pytest.fixture(scope="module")
def text_folder(rated_file, tmp_path_factory):
    """A small text encoder without dropout, whose draws would be others in two processes."""
    rows = [json.loads(line) for line in rated_file.read_text("utf-8").splitlines()]
    captions = [row["candidate"] for row in rows]
    tiny = TinyTextConfig(vocabulary=300, width=16, layers=1)
    text = TextEncoder.create(TextEncoderConfig(name="tiny", tiny=tiny, frozen=True), captions)
    text.backbone.config.hidden_dropout_prob = text.backbone.config.attention_probs_dropout_prob = 0.0
    folder = tmp_path_factory.mktemp("text")
    text.backbone.save_pretrained(folder)
    text.tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def sets(rated_file, tmp_path_factory):
    """The rated captions as two data sets of different sizes."""
    folder = tmp_path_factory.mktemp("sets")
    lines = rated_file.read_text("utf-8").splitlines()
    groups = sorted({json.loads(line)["group"] for line in lines})
    for name, own in (("large", groups[: len(groups) * 2 // 3]), ("small", groups[len(groups) * 2 // 3 :])):
        kept = [line for line in lines if json.loads(line)["group"] in own]
        (folder / f"{name}.jsonl").write_text("\n".join(kept) + "\n", encoding="utf-8")
    return [str(folder / "large.jsonl"), str(folder / "small.jsonl")]


def figures(run):
    found = []
    for version in sorted((run / "logs").iterdir()):
        with (version / "metrics.csv").open() as file:
            found += [
                [float(row[name]) for name in VALIDATION] for row in csv.DictReader(file) if row["val_loss"]
            ]
    return found


def assert_same(found, expected):
    """Rounding that differs between one process and two may swap a pair of nearly equal scores, no more."""
    assert np.shape(found) == np.shape(expected)
    for name, own, other in zip(VALIDATION, np.transpose(found), np.transpose(expected), strict=True):
        np.testing.assert_allclose(own, other, atol=0.01 if name == "val_kendall" else 1e-4, err_msg=name)


def together(settings, run, *options):
    """Train in two processes of their own."""
    given = command(settings, run, *options)
    done = subprocess.run(given, capture_output=True, text=True, timeout=300, env=environment(), check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done


def command(settings, run, *options):
    return [
        sys.executable, "-m", "suisei", "train", "--config", str(settings), f"--output={run}",
        "--trainer.devices=2", *options,
    ]  # fmt: skip


def killed_together(settings, run, *options):
    """Train in two processes, both killed once there is a state to go on with."""
    given = command(settings, run, *options)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(given, env=environment(), start_new_session=True, **quiet) as running:
        try:
            while not (run / "checkpoints" / "last.ckpt").exists():
                assert running.poll() is None
                time.sleep(0.002)
        finally:
            os.killpg(running.pid, signal.SIGKILL)
    assert not (run / "report.json").exists()


def options_of(sets, text_folder):
    return (
        f"--data.train={json.dumps(sets)}", "--data.batching=balanced", "--data.synthetic=0.5",
        "--model.loss.pair_weight=0.5", "--model.loss.cosine_weight=0.5", "--model.head.start=cosine",
        f"--model.text.name={text_folder}", "--model.image=null", "--model.head.dropout=0",
        "--model.head.input_dropout=0", "--baselines=[]", "--model.optimizer.frozen_fraction=0.3",
        "--data.fractions=[0.5,0.4,0.1]", "--model.optimizer.head_lr=0.002",
        "--model.optimizer.encoder_lr=0.001",
    )  # fmt: skip


@pytest.mark.slow
def test_two_processes_train_as_one_and_go_on_as_one(train, settings, sets, text_folder, tmp_path):
    options = options_of(sets, text_folder)
    one = train(*options, "--data.batch_size=16")
    two = tmp_path / "two"
    said = together(settings, two, *options, "--data.batch_size=8", "--trainer.max_epochs=1")
    assert said.stdout.count("model:") == 1
    together(settings, two, *options, "--data.batch_size=8", "--ckpt_path=last")
    expected = figures(one)
    assert len(expected) == 2
    assert_same(figures(two), expected)
    reports = [json.loads((run / "report.json").read_text())["training"] for run in (one, two)]
    assert [report["processes"] for report in reports] == [1, 2]
    assert reports[0]["steps"] == reports[1]["steps"]
    models = [get_metric(f"suisei:{run / 'model'}", device="cpu") for run in (one, two)]
    scores = [model.score(["a red ball"], [["a ball"]]) for model in models]
    np.testing.assert_allclose(*scores, atol=1e-4)
    names = [{path.name for path in run.iterdir()} for run in (one, two)]
    assert names[1] - names[0] == {"predicted.png"}  # which the tests' own runs do without


@pytest.mark.slow
def test_two_processes_go_on_between_two_steps(train, settings, sets, text_folder, tmp_path):
    """Validation, after which the state is kept, comes in the middle of a step's batches."""
    options = (
        *options_of(sets, text_folder), "--trainer.accumulate_grad_batches=4",
        "--trainer.val_check_interval=3", "--checkpoint_steps=50",
    )  # fmt: skip
    one = train(*options, "--data.batch_size=8")
    two = tmp_path / "two"
    killed_together(settings, two, *options, "--data.batch_size=4")
    together(settings, two, *options, "--data.batch_size=4", "--ckpt_path=last")
    assert_same(figures(two), figures(one))


@pytest.mark.slow
def test_two_processes_that_go_on_drop_within_networks_what_they_would_have(settings, sets, tmp_path):
    options = (
        f"--data.train={sets[0]}", "--model.image=null", "--baselines=[]", "--data.batch_size=4",
        "--model.head.dropout=0.5", "--model.optimizer.head_lr=0.002", "--trainer.max_epochs=3",
    )  # fmt: skip
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    together(settings, whole, *options)
    killed_together(settings, broken, *options)
    together(settings, broken, *options, "--ckpt_path=last")
    assert len(figures(whole)) == 3
    assert figures(broken) == figures(whole)
    left, right = (read_checkpoint(run / "checkpoints" / "last.ckpt") for run in (whole, broken))
    assert left["suisei_random_states"]["processes"]["cpu"].unique(dim=0).shape[0] == 2
    for name, weights in left["state_dict"].items():
        assert torch.equal(weights, right["state_dict"][name]), name


@pytest.fixture
def started(settings, text_folder, tmp_path):
    """A training of two processes that would last for long, and has a checkpoint."""
    run = tmp_path / "run"
    given = command(
        settings, run, f"--model.text.name={text_folder}", "--model.image=null", "--trainer.max_epochs=3000",
        "--checkpoint_steps=1",
    )  # fmt: skip
    said = tmp_path / "said.txt"
    with said.open("w") as out:
        running = subprocess.Popen(given, env=environment(), start_new_session=True, stdout=out, stderr=out)
    try:
        while not list((run / "checkpoints").glob("*.ckpt")):
            assert running.poll() is None, said.read_text()
            time.sleep(0.01)
        yield running, said
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def nobody_left(group):
    """Wait until no process of a group is there; False if one stays."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("terminate", [os.kill, os.killpg])
def test_a_request_to_terminate_ends_all_processes_as_ctrl_c_does(started, terminate):
    running, said = started
    terminate(running.pid, signal.SIGTERM)
    assert running.wait(60) == 130
    assert nobody_left(running.pid)
    lines = [line for line in said.read_text().splitlines() if line.startswith("suisei: ")]
    assert len(lines) == 1
    assert lines[0].startswith("suisei: interrupted; epoch ")
    assert "--ckpt_path last goes on from " in lines[0]
    assert "Traceback" not in said.read_text()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pgrep") is None, reason="needs pgrep, to find the process")
def test_a_training_that_loses_a_process_ends_in_one_line(started):
    running, said = started
    other = subprocess.run(
        ["pgrep", "-P", str(running.pid), "-f", "suisei"], capture_output=True, text=True, check=True
    )
    os.kill(int(other.stdout.split()[0]), signal.SIGKILL)
    assert running.wait(60) == 2, said.read_text()
    assert "Traceback" not in said.read_text()
    assert said.read_text().splitlines()[-1] == (
        "suisei: training stopped: another of its processes ended, or cannot be reached; go on with "
        "--ckpt_path last"
    )
    assert nobody_left(running.pid)

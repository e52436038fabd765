"""What goes wrong in a training is one line, loses nothing, and leaves nothing half written."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from safetensors import SafetensorError

from suisei.commands import train as train_module
from suisei.errors import ConfigError, DataError, ModelError, SuiseiError
from suisei.report.contents import part_of
from suisei.report.html import render
from suisei.report.stored import read_result
from suisei.training import checkpoints, run_report
from suisei.training import run as run_module
from suisei.training.module import SuiSei
from tests.integration.training_runs import OPTIONS, KilledError, assert_same_weights, kill_at, weights


@pytest.fixture(scope="module")
def whole(train):
    return train(*OPTIONS)


@pytest.fixture
def killed(train, tmp_path):
    """A run killed after its first epoch of ten steps, with three checkpoints."""
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 16)
        with pytest.raises(KilledError):
            train(*OPTIONS, output=tmp_path / "run")
    names = {path.name for path in (tmp_path / "run" / "checkpoints").iterdir()}
    assert names == {"best.ckpt", "last.ckpt", "steps.ckpt"}
    return tmp_path / "run"


def flip(path, place=0.5):
    content = bytearray(path.read_bytes())
    start = int(place * len(content))
    content[start : start + 64] = bytes(byte ^ 0xFF for byte in content[start : start + 64])
    status = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("broken", [["steps.ckpt"], ["steps.ckpt", "last.ckpt"]])
def test_a_broken_checkpoint_is_named_and_the_newest_whole_one_gone_on_with(
    whole, killed, train, caplog, broken
):
    for name in broken:
        flip(killed / "checkpoints" / name)
    train(*OPTIONS, "--ckpt_path=last", output=killed)
    said = [record.getMessage() for record in caplog.records if "going on with" in record.getMessage()]
    assert len(said) == 1
    assert all(name in said[0] for name in broken)
    assert_same_weights(whole, killed)


def test_lost_weights_of_the_best_epoch_are_said_before_the_training(killed, train, caplog):
    best = killed / "checkpoints" / "best.ckpt"
    last = torch.load(killed / "checkpoints" / "last.ckpt", weights_only=True)
    assert last["global_step"] == 10
    flip(best)
    with pytest.MonkeyPatch.context() as patch:

        def no_better(self):
            self._validation.clear()
            self.log("val_pearson", -1.0)

        patch.setattr(SuiSei, "on_validation_epoch_end", no_better)
        with pytest.raises(ModelError, match=r"best\.ckpt: was altered"):
            train(*OPTIONS, "--ckpt_path=last", output=killed)
    assert "unless a later epoch is better, the run will end without a model" in caplog.text
    assert not (killed / "model").exists()


def test_a_run_without_a_whole_checkpoint_is_refused_in_a_line(killed, train):
    for path in (killed / "checkpoints").iterdir():
        flip(path, 0.2)
    with pytest.raises(ModelError, match=r"no checkpoint can be gone on with: .*was altered") as error:
        train(*OPTIONS, "--ckpt_path=last", output=killed)
    assert "\n" not in str(error.value)
    with pytest.raises(ModelError, match=r"best\.ckpt: was altered"):
        train(*OPTIONS, f"--ckpt_path={killed / 'checkpoints' / 'best.ckpt'}", output=killed)


def test_a_disk_that_fills_loses_no_older_checkpoint(whole, train, tmp_path, monkeypatch, capfd):
    run, written = tmp_path / "run", checkpoints._HashedFile.write
    with pytest.MonkeyPatch.context() as patch:
        saved = []

        def write(self, content):
            path = self._file.name
            if ".last.ckpt." in path and self._file.tell() > 2000:
                saved.append(path)
                self.problem = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                raise self.problem
            return written(self, content)

        patch.setattr(checkpoints._HashedFile, "write", write)
        with pytest.raises(DataError, match=r"last\.ckpt: .*\(No space left on device\)"):
            train(*OPTIONS, output=run)
    assert saved
    left = {path.name for path in (run / "checkpoints").iterdir()}
    assert left == {"best.ckpt", "steps.ckpt"}
    train(*OPTIONS, "--ckpt_path=last", output=run)
    assert_same_weights(whole, run)


def test_frozen_weights_are_in_no_checkpoint_and_the_run_resumes_exactly(train, tmp_path):
    options = (*OPTIONS, "--model.text.frozen=true")
    whole = train(*options)
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, 16)
        with pytest.raises(KilledError):
            train(*options, output=tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        names = torch.load(path, weights_only=True)["state_dict"]
        assert not any(name.startswith("regressor.text.") for name in names)
        assert any(name.startswith("regressor.image.") for name in names)
    train(*options, "--ckpt_path=last", output=tmp_path / "run")
    assert any(name.startswith("text.") for name in weights(tmp_path / "run"))
    assert_same_weights(whole, tmp_path / "run")


def test_another_learning_rate_is_not_resumed(killed, train):
    before = (killed / "config.yaml").read_bytes()
    with pytest.raises(ConfigError, match=r"model\.optimizer\.head_lr: 0\.005, now 0\.01") as error:
        train(*OPTIONS, "--ckpt_path=last", "--model.optimizer.head_lr=0.01", output=killed)
    assert "\n" not in str(error.value)
    elsewhere = killed.parent / "elsewhere"
    given = f"--ckpt_path={killed / 'checkpoints' / 'last.ckpt'}"
    with pytest.raises(ConfigError, match=r"model\.head\.hidden: \[16\], now \[17\]"):
        train(*OPTIONS, given, "--model.head.hidden=[17]", output=elsewhere)
    assert (killed / "config.yaml").read_bytes() == before
    assert not elsewhere.exists()


def test_a_longer_run_is_said(killed, train, caplog):
    train(*OPTIONS, "--ckpt_path=last", "--trainer.max_epochs=3", output=killed)
    assert "going on with other settings: trainer.max_epochs: 2, now 3" in caplog.text


def test_a_run_is_not_written_over_its_data(train, rated_file, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    lines = rated_file.read_text("utf-8").splitlines()
    groups = {json.loads(line)["group"] for line in lines}
    held_out = set(sorted(groups)[:3])
    for name, inside in (("test.jsonl", True), ("train.jsonl", False)):
        kept = [line for line in lines if (json.loads(line)["group"] in held_out) is inside]
        (folder / name).write_text("\n".join(kept) + "\n", encoding="utf-8")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    options = (f"--data.train={folder / 'train.jsonl'}", f"--data.test={folder / 'test.jsonl'}")
    for output in (folder, folder / "..", tmp_path):
        with pytest.raises(ConfigError, match=r"holds data\.train .*choose a folder of its own"):
            train(*OPTIONS, *options, output=output)
    with pytest.raises(ConfigError, match=r"holds test\.jsonl, which is no run's"):
        train(*OPTIONS, output=folder)
    with pytest.raises(ConfigError, match="is a file"):
        train(*OPTIONS, output=folder / "test.jsonl")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    "options",
    [
        ("--data.train=absent.jsonl",),
        ("--data.train=scenez",),
        ("--model.text={name: no-such/encoder}",),
        ("--model.fusion.extra_inputs=[no-such-metric]",),
    ],
)
def test_a_failed_start_leaves_nothing_in_the_way(train, tmp_path, options):
    run = tmp_path / "runs" / "one"
    with pytest.raises(SuiseiError):
        train(*OPTIONS, *options, output=run)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_cross_validation_leaves_nothing_in_the_way(train, tmp_path):
    with pytest.raises(SuiseiError):
        train(*OPTIONS, "--data.folds=2", "--data.train=absent.jsonl", output=tmp_path / "runs" / "one")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_pretraining_leaves_nothing_in_the_way(train, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise DataError("no captions")

    monkeypatch.setattr("suisei.training.text_run.pretrain", fails)
    config = tmp_path / "pretrain.yaml"
    config.write_text("task: pretrain\nmodel: {text: {name: tiny}, image: null, pretraining: {epochs: 1}}\n")
    with pytest.raises(DataError, match="no captions"):
        train_module.main(["--config", str(config), f"--output={tmp_path / 'run'}"])
    assert [path.name for path in tmp_path.iterdir()] == ["pretrain.yaml"]


def test_a_loss_that_is_no_number_stops_in_a_line(train, tmp_path, monkeypatch):
    original = SuiSei.outputs

    def outputs(self, batch):
        said = original(self, batch)
        broken = self.training and self.trainer.global_step == 12
        return replace(said, logits=said.logits * float("nan")) if broken else said

    monkeypatch.setattr(SuiSei, "outputs", outputs)
    with pytest.raises(ModelError, match=r"epoch 2, step 13: the loss is nan; .*head_lr") as error:
        train(*OPTIONS, output=tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run" / "model").exists()
    assert not (tmp_path / "run" / "report.json").exists()


def test_weights_that_ran_away_are_no_model(train, tmp_path, monkeypatch):
    def on_train_end(self):
        with torch.no_grad():
            self.regressor.members[0].fused.layers[0].weight.fill_(float("nan"))

    monkeypatch.setattr(SuiSei, "on_train_end", on_train_end)
    monkeypatch.setattr(run_module, "_load_best", lambda *_: {})
    with pytest.raises(ModelError, match=r"not finite, and no model is written"):
        train(*OPTIONS, output=tmp_path / "run")
    assert not (tmp_path / "run" / "model").exists()


def test_a_folder_whose_name_is_no_text_is_refused_before_the_training(train, tmp_path):
    with pytest.raises(ConfigError, match=r"is not UTF-8, and no model can be written there"):
        train(*OPTIONS, output=tmp_path / "r\udc83")
    assert list(tmp_path.iterdir()) == []


def test_results_appear_together_or_not_at_all(whole, killed, train):
    problems = [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        SafetensorError("I/O error: No space left on device (os error 28)"),  # of weights
    ]
    before = {path.name for path in killed.iterdir()}
    (killed / ".results-left").mkdir()  # as by a run that was killed while it wrote them
    for problem in problems:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run_report, "model_card", Mock(side_effect=problem))
            with pytest.raises(DataError, match="the results cannot be written: No space left on device"):
                train(*OPTIONS, "--ckpt_path=last", output=killed)
        assert {path.name for path in killed.iterdir()} == before
    train(*OPTIONS, "--ckpt_path=last", output=killed)
    assert_same_weights(whole, killed)
    assert (killed / "model" / "README.md").stat().st_size > 100
    assert not list(killed.glob(".results*"))


def test_a_leak_is_said_in_the_log_and_in_the_report(train, rated_file, tmp_path, caplog):
    rows = [json.loads(line) for line in rated_file.read_text("utf-8").splitlines()]
    for row in rows[:20]:
        row["group"] = f"other-{row['group']}"
    leaked = tmp_path / "leaked.jsonl"
    leaked.write_text("\n".join(map(json.dumps, rows[:20])) + "\n", encoding="utf-8")
    run = train("--baselines=[]", f"--data.test={leaked}", "--trainer.max_epochs=1")
    shared = json.loads((run / "report.json").read_text("utf-8"))["data"]["shared"]
    assert shared["test and train"]["rows"] > 0
    sentence = "share content that their groups do not show"
    said = [record.getMessage() for record in caplog.records if sentence in record.getMessage()]
    assert len(said) == 1
    for name, file in (("report.md", str(leaked)), ("model/README.md", leaked.name)):
        text = (run / name).read_text("utf-8")
        assert text.count(f"test and training share {shared['test and train']['rows']} rows") == 1
        assert f"test samples of {file} in" in text
        assert (str(rated_file) in text) is (name == "report.md")
    page = render("page", [part_of(read_result(run))])
    assert f"share {shared['test and train']['rows']} rows" in page
    assert "give more rated captions as data.test" in page
    assert "--data.folds" not in page


def test_a_damaged_image_costs_its_rows_alone_where_bad_rows_are_left_out(
    train, rated_file, tmp_path, caplog
):
    damaged = tmp_path / "cut.png"
    rows = [json.loads(line) for line in rated_file.read_text("utf-8").splitlines()]
    damaged.write_bytes(Path(rows[4]["image"]).read_bytes()[:-200])
    rows[4]["image"] = str(damaged)
    path = tmp_path / "rated.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    options = ["--baselines=[]", f"--data.train={path}", "--trainer.max_epochs=1"]
    with pytest.raises(DataError, match=r"cut\.png: the image cannot be decoded"):
        train(*options)
    run = train(*options, "--data.on_error=skip")
    assert f"1 bad row skipped, the first: {path}, row 5: {damaged}: the image cannot be" in caplog.text
    report = json.loads((run / "report.json").read_text("utf-8"))
    assert sum(report["data"]["samples"].values()) == len(rows) - 1


def test_rows_that_are_skipped_are_said_with_the_first_reason(train, rated_file, tmp_path, caplog):
    gaps = tmp_path / "gaps.jsonl"
    gaps.write_text('{"candidate": " ", "rating": 1}\n' + rated_file.read_text("utf-8"), encoding="utf-8")
    run = train("--baselines=[]", f"--data.train={gaps}", "--data.on_error=skip", "--trainer.max_epochs=1")
    reason = f"{gaps}, row 1: candidate is empty"
    assert f"1 bad row skipped, the first: {reason}" in caplog.text
    assert f"- the first bad row: {reason}" in (run / "report.md").read_text("utf-8")
    card = (run / "model" / "README.md").read_text("utf-8")
    assert "bad rows left out: 1" in card
    assert "candidate is empty" not in card

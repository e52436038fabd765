"""Trainings on ratings that pre-train their encoders, interrupted or killed while they do, or after."""

import errno
import json
import os

import pytest
import torch

from suisei.commands.train import main
from suisei.errors import ConfigError, DataError, ModelError
from suisei.training import checkpoints, pass_states, pretraining_loop
from tests.integration.training_runs import OPTIONS, KilledError, assert_same_weights, kill_at

PARTS = ("text-without-0", "text-without-1", "text", "image")
BEGUN = (
    *OPTIONS, "--model.text.frozen=true", "--model.text.layers=last", "--model.image.frozen=true",
    "--model.fusion.blocks=[]", "--model.fusion.alignment=true", "--model.fusion.image_similarity=true",
    "--model.pretraining.cross_fit=2", "--model.pretraining.epochs=2", "--model.pretraining.image_epochs=2",
    "--model.pretraining.batch_size=8", "--trainer.max_epochs=1",
)  # fmt: skip
"""Of a training that begins with four pre-trainings, those of PARTS."""
TEXT_ALONE = (
    *OPTIONS, "--model.pretraining.epochs=2", "--model.pretraining.batch_size=16", "--model.image=null",
    "--trainer.max_epochs=1",
)  # fmt: skip
LAST = "--ckpt_path=last"


@pytest.fixture(autouse=True)
def every_state(monkeypatch):
    monkeypatch.setattr(pass_states, "SPARINGLY", 0)


def watched(patch, at=None, error=KilledError):
    """Return what notes every step of pre-training from now on, and end the run before one of them."""
    checked, steps = pretraining_loop.require_finite, []

    def check(loss, module, where, setting):
        if len(steps) == at:
            raise error
        steps.append(where)
        checked(loss, module, where, setting)

    patch.setattr(pretraining_loop, "require_finite", check)
    return steps


def steps_of(train, *options, at=None, output=None, error=KilledError):
    """Train, to the end or to a step of pre-training; returns the folder, and those steps."""
    with pytest.MonkeyPatch.context() as patch:
        steps = watched(patch, at, error)
        if at is None:
            return train(*options, output=output), steps
        with pytest.raises(error):
            train(*options, output=output)
    return output, steps


@pytest.fixture(scope="module")
def unbroken(train):
    """A run that was never killed, and its steps of pre-training."""
    run, steps = steps_of(train, *BEGUN)
    assert not (run / "pretraining").exists()
    return run, steps


def figures(run):
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    training = report["training"]
    return report["results"], [training[name] for name in ("steps", "epochs", "best_validation")]


@pytest.mark.parametrize("kills", [(1,), (7, 16, 9), (13, 6), (30, 11)])
def test_a_run_that_is_killed_while_it_pretrains_takes_no_step_twice(train, tmp_path, unbroken, kills):
    (whole, expected), run, options, taken = unbroken, tmp_path / "run", BEGUN, []
    for at in kills:
        _, steps = steps_of(train, *options, "--checkpoint_steps=1", at=at, output=run)
        taken, options = taken + steps, (*BEGUN, LAST)
    _, steps = steps_of(train, *options, "--checkpoint_steps=1", output=run)
    assert taken + steps == expected
    assert_same_weights(whole, run)
    assert figures(run) == figures(whole)
    assert {path.name for path in run.iterdir()} == {path.name for path in whole.iterdir()}


def test_a_run_that_is_killed_later_has_its_encoders_at_once(train, tmp_path, unbroken, monkeypatch):
    (whole, expected), run = unbroken, tmp_path / "run"
    with monkeypatch.context() as patch:
        kill_at(patch, 4)
        steps = watched(patch)
        with pytest.raises(KilledError):
            train(*BEGUN, output=run)
    assert steps == expected
    kept = {path.stem: path for path in (run / "pretraining").iterdir()}
    assert set(kept) == set(PARTS)
    assert all(torch.load(path, weights_only=True)["optimizer_states"] == [] for path in kept.values())
    _, steps = steps_of(train, *BEGUN, LAST, output=run)
    assert steps == []
    assert_same_weights(whole, run)
    assert not (run / "pretraining").exists()


def test_a_run_that_is_killed_in_its_first_step_starts_over_from_its_pretraining(
    train, tmp_path, monkeypatch, caplog
):
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        kill_at(patch, 0, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt) as caught:
            train(*TEXT_ALONE, output=run)
    kept = run / "pretraining" / "text.ckpt"
    assert str(caught.value).endswith(f"--ckpt_path last goes on from {kept}")
    _, steps = steps_of(train, *TEXT_ALONE, LAST, output=run)
    assert steps == []
    assert "before its first checkpoint; training starts over from its pre-training" in caplog.text


def test_a_damaged_state_is_made_anew(train, tmp_path, caplog):
    whole, expected = steps_of(train, *TEXT_ALONE)
    run = tmp_path / "run"
    steps_of(train, *TEXT_ALONE, at=len(expected) - 1, output=run)
    kept = run / "pretraining" / "text.ckpt"
    content = bytearray(kept.read_bytes())
    content[len(content) // 2] ^= 1
    kept.write_bytes(content)
    _, steps = steps_of(train, *TEXT_ALONE, LAST, output=run)
    assert steps == expected
    assert f"{kept}: was altered or damaged since it was written" in caplog.text
    assert "that pre-training is made anew" in caplog.text
    assert_same_weights(whole, run)


def test_a_pretraining_goes_on_with_its_own_settings_and_data_alone(train, tmp_path, rated_file):
    run, data = tmp_path / "run", tmp_path / "rated.jsonl"
    rows = rated_file.read_text(encoding="utf-8")
    data.write_text(rows, encoding="utf-8")
    options = (*TEXT_ALONE, f"--data.train={data}", "--checkpoint_steps=1")
    steps_of(train, *options, at=2, output=run)
    with pytest.raises(ConfigError, match=r"model\.pretraining\.word_dropout: 0\.1, now 0\.3"):
        train(*options, "--model.pretraining.word_dropout=0.3", LAST, output=run)
    data.write_text(rows.replace(" the ", " that "), encoding="utf-8")
    with pytest.raises(ModelError, match="the run was started with other training"):
        train(*options, LAST, output=run)
    data.write_text(rows, encoding="utf-8")
    train(*options, LAST, output=run)


@pytest.mark.parametrize("folds", [[], ["--data.folds=3"]])
def test_a_run_that_is_interrupted_while_it_pretrains_says_how_it_goes_on(train, tmp_path, folds):
    run, options = tmp_path / "run", (*TEXT_ALONE, *folds, "--checkpoint_steps=1")
    again = f"suisei train --config {run / 'config.yaml'} --ckpt_path last"
    own = run / "fold-0" if folds else run
    places = ("starts over: there is no checkpoint yet", f"goes on from {own}/pretraining/text.ckpt")
    for at, place in enumerate(places):
        with pytest.MonkeyPatch.context() as patch:
            watched(patch, at, KeyboardInterrupt)
            with pytest.raises(KeyboardInterrupt) as caught:
                train(*options, output=run)
        assert str(caught.value) == f"{again} {place}"
        options = (*options, LAST)


def test_a_run_goes_on_by_the_config_in_its_folder_alone(train, tmp_path, caplog):
    whole, run = train(*TEXT_ALONE), tmp_path / "run"
    steps_of(train, *TEXT_ALONE, at=0, output=run)
    os.environ.pop("PL_GLOBAL_SEED", None)
    assert main(["--config", str(run / "config.yaml"), "--ckpt_path", "last"]) == 0
    said = f"{run} was interrupted before its first checkpoint; training starts over"
    assert said in [record.getMessage() for record in caplog.records]
    assert_same_weights(whole, run)


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_at_the_first_state_leaves_no_folder(train, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints.torch, "save", full)
    said = r"pretraining/text\.ckpt: the checkpoint cannot be written \(No space .* then start again$"
    with pytest.raises(DataError, match=said):
        train(*TEXT_ALONE, output=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_in_a_later_fold_leaves_the_finished_ones_to_go_on_from(train, tmp_path, monkeypatch):
    whole = checkpoints.write_checkpoint

    def write(content, path):
        if "fold-1" in path.parts:
            monkeypatch.setattr(checkpoints.torch, "save", full)
        whole(content, path)

    monkeypatch.setattr(pass_states, "write_checkpoint", write)
    options = (*TEXT_ALONE, "--data.folds=2")
    with pytest.raises(
        DataError, match=r"fold-1/pretraining/text\.ckpt: .*, then go on with --ckpt_path last$"
    ):
        train(*options, output=tmp_path / "run")
    monkeypatch.undo()
    train(*options, LAST, output=tmp_path / "run")
    assert (tmp_path / "run" / "report.json").is_file()

"""A training of PAC-S that is cut off, gone on with or stopped, and the files of the run."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from suisei.errors import ConfigError, ModelError
from suisei.pacs.dual_module import PacTraining
from suisei.pacs.dual_run import run
from tests.unit.pacs.pacs_models import arguments


@pytest.mark.parametrize("steps", [2, 4])
def test_a_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(folder, tmp_path, steps):
    more = [
        f"--model.model={folder / 'clip'}",
        "--model.trainable=image",
        "--model.augment=true",
        "--model.jitter=0.2",
        "--model.learning_rate=0.01",
        "--model.cosine_steps=6",
        "--monitor=val_recall10",
        "--data.batch_size=3",
        "--data.captions_per_image=2",
    ]
    run(arguments(folder, tmp_path / "whole", *more))
    run(arguments(folder, tmp_path / "halves", *more, f"--trainer.max_steps={steps}"))
    with pytest.raises(ConfigError, match="--ckpt_path last"):
        run(arguments(folder, tmp_path / "halves", *more))
    run(arguments(folder, tmp_path / "halves", *more, "--ckpt_path=last"))
    states = [
        torch.load(tmp_path / name / "checkpoints" / "last.ckpt", weights_only=True)
        for name in ("whole", "halves")
    ]
    assert states[0]["global_step"] == states[1]["global_step"] == 6
    for name, value in states[0]["state_dict"].items():
        torch.testing.assert_close(value, states[1]["state_dict"][name], rtol=0, atol=0, msg=name)
    reports = [json.loads((tmp_path / name / "report.json").read_text()) for name in ("whole", "halves")]
    assert reports[0]["val_recall10"] == reports[1]["val_recall10"]


class CutOffError(Exception):
    """Stands for a process that ends here."""


@pytest.mark.parametrize(
    ("hook", "time"),
    [("training_step", 2), ("training_step", 4), ("training_step", 6), ("on_validation_epoch_end", 1),
     ("on_validation_epoch_end", 2)],
)  # fmt: skip
def test_a_run_that_is_cut_off_within_an_epoch_leaves_nothing_out(folder, tmp_path, monkeypatch, hook, time):
    more = [
        f"--model.model={folder / 'clip'}",
        "--model.trainable=image",
        "--model.augment=true",
        "--model.learning_rate=0.01",
        "--data.batch_size=2",
        "--trainer.max_steps=7",
        "--trainer.val_check_interval=3",
        "--checkpoint_steps=1",
    ]
    run(arguments(folder, tmp_path / "whole", *more))
    calls, original, steps = [], getattr(PacTraining, hook), []
    step = PacTraining.training_step

    def cut(self, *given):
        calls.append(hook)
        if len(calls) == time:
            raise CutOffError
        return original(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(PacTraining, hook, cut)
        with pytest.raises(CutOffError):
            run(arguments(folder, tmp_path / "cut", *more))
    monkeypatch.setattr(
        PacTraining, "training_step", lambda self, *given: steps.append(1) or step(self, *given)
    )
    run(arguments(folder, tmp_path / "cut", *more, "--ckpt_path=last"))
    # Kept are the states after every step but those that a validation follows, and after that.
    kept = time - 1 if hook == "training_step" else 3 * time - 1
    assert len(steps) == 7 - kept
    whole, gone_on = (
        torch.load(tmp_path / name / "checkpoints" / "last.ckpt", weights_only=True)
        for name in ("whole", "cut")
    )
    assert whole["global_step"] == gone_on["global_step"] == 7
    for name, value in whole["state_dict"].items():
        torch.testing.assert_close(value, gone_on["state_dict"][name], rtol=0, atol=0, msg=name)
    reports = [json.loads((tmp_path / name / "report.json").read_text()) for name in ("whole", "cut")]
    assert reports[0]["val_loss"] == reports[1]["val_loss"]


@pytest.mark.parametrize("times", [(4, 2), (4, 4), (8, 2)])
def test_a_run_that_is_cut_off_twice_trains_every_epoch_once(folder, tmp_path, monkeypatch, times):
    more = [
        f"--model.model={folder / 'clip'}",
        "--model.learning_rate=0.01",
        "--data.batch_size=2",
        "--trainer.max_steps=14",
        "--trainer.val_check_interval=3",
        "--checkpoint_steps=1",
    ]
    seen: dict[str, list[tuple[int, int]]] = {"whole": [], "cut": []}
    step = PacTraining.training_step

    def started(name, last):
        def cut(self, *given):
            if len(seen[name]) == last:
                raise CutOffError
            seen[name].append((self.global_step, self.trainer.datamodule.epoch))
            return step(self, *given)

        monkeypatch.setattr(PacTraining, "training_step", cut)
        return [f"--output={tmp_path / name}"]

    run(arguments(folder, tmp_path / "whole", *more, *started("whole", None)))
    with pytest.raises(CutOffError):
        run(arguments(folder, tmp_path / "cut", *more, *started("cut", times[0])))
    with pytest.raises(CutOffError):
        run(arguments(folder, tmp_path / "cut", *more, "--ckpt_path=last", *started("cut", sum(times))))
    run(arguments(folder, tmp_path / "cut", *more, "--ckpt_path=last", *started("cut", None)))
    assert {epoch for _, epoch in seen["whole"]} > {0, 1, 2}
    assert sorted(set(seen["cut"])) == seen["whole"]


def test_checkpoints_hold_what_is_trained_alone_and_other_settings_are_refused(folder, tmp_path):
    more = [f"--model.model={folder / 'clip'}", "--model.learning_rate=0.01"]
    run(arguments(folder, tmp_path / "run", *more))
    kept = tmp_path / "run" / "checkpoints"
    for name in ("best.ckpt", "last.ckpt"):
        state = torch.load(kept / name, weights_only=True)["state_dict"]
        assert any("proj" in key for key in state)
        assert not any("resblocks" in key for key in state)
    given = (*more[:1], "--model.learning_rate=0.02", "--ckpt_path=last")
    with pytest.raises(ConfigError, match=r"model\.learning_rate: 0\.01, now 0\.02"):
        run(arguments(folder, tmp_path / "run", *given))
    with pytest.raises(ModelError, match=r"best\.ckpt: holds weights without the state of their training"):
        run(arguments(folder, tmp_path / "run", *more, f"--ckpt_path={kept / 'best.ckpt'}"))


def test_a_loss_that_is_no_number_stops_and_leaves_no_half_made_run(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(PacTraining, "loss", lambda *_: torch.tensor(float("nan"), requires_grad=True))
    with pytest.raises(ModelError, match=r"step 1: the loss is nan; .*model\.learning_rate"):
        run(arguments(folder, tmp_path / "run", f"--model.model={folder / 'clip'}"))
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_written_over_its_model(folder, tmp_path):
    with pytest.raises(ConfigError, match=r"is model\.model"):
        run(arguments(folder, folder / "clip", f"--model.model={folder / 'clip'}"))


def test_only_a_run_can_be_gone_on_with(folder, tmp_path):
    with pytest.raises(ConfigError, match="no checkpoint"):
        run(arguments(folder, tmp_path / "new", f"--model.model={folder / 'clip'}", "--ckpt_path=last"))


@pytest.mark.parametrize(("patience", "steps"), [(2, 4), (4, 6)])
def test_training_stops_when_nothing_gets_better(folder, tmp_path, monkeypatch, patience, steps):
    monkeypatch.setattr("suisei.pacs.dual_module.recall_at", lambda *_: torch.tensor(0.5))
    more = [f"--model.model={folder / 'clip'}", "--monitor=val_recall10", f"--patience_steps={patience}"]
    run(arguments(folder, tmp_path / "run", *more))
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["steps"] == steps
    assert report["val_recall10"] == 0.5


def test_other_data_are_refused_where_a_run_goes_on(folder, tmp_path):
    rows = (folder / "train.jsonl").read_text()
    (tmp_path / "train.jsonl").write_text(rows)
    more = [
        f"--model.model={folder / 'clip'}",
        f"--data.train={tmp_path / 'train.jsonl'}",
        f"--data.root={folder}",
    ]
    run(arguments(folder, tmp_path / "run", *more, "--trainer.max_steps=2"))
    (tmp_path / "train.jsonl").write_text("".join(rows.splitlines(keepends=True)[::-1]))
    with pytest.raises(ModelError, match="started with other training data"):
        run(arguments(folder, tmp_path / "run", *more, "--ckpt_path=last"))
    (tmp_path / "train.jsonl").write_text(rows)
    assert run(arguments(folder, tmp_path / "run", *more, "--ckpt_path=last")) == 0


def test_other_frozen_weights_are_refused_where_a_run_goes_on(folder, tmp_path):
    shutil.copytree(folder / "clip", tmp_path / "clip")
    given = arguments(folder, tmp_path / "run", f"--model.model={tmp_path / 'clip'}")
    run([*given, "--trainer.max_steps=2"])
    [weights] = (tmp_path / "clip").glob("*.safetensors")
    state = load_file(weights)
    save_file({**state, "visual.conv1.weight": state["visual.conv1.weight"] + 1}, weights)
    with pytest.raises(ModelError, match="frozen weights are not those"):
        run([*given, "--ckpt_path=last"])

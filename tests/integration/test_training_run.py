"""`suisei train` from ratings to a model folder, on a small part of the bundled sample."""

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

import suisei
from suisei.commands import train as train_module
from suisei.data.formats import read_samples
from suisei.errors import ConfigError, DataError
from suisei.training.module import SuiSei
from tests.integration.training_runs import assert_same_weights, rows_of, weights

FILES = (
    "config.yaml",
    "splits.json",
    "report.json",
    "report.md",
    "predicted.png",
    "test_scores.jsonl",
    "model/config.json",
    "model/model.safetensors",
    "model/idf.json",
    "model/README.md",
    "model/tokenizer/tokenizer.json",
)


def test_run_folder_holds_everything(finished):
    assert [name for name in FILES if not (finished / name).is_file()] == []
    assert (finished / "predicted.png").read_bytes().startswith(b"\x89PNG")


def test_model_folder_gives_the_scores_of_the_report(finished):
    samples = read_samples(finished / "test.jsonl")
    reported = rows_of(finished / "test_scores.jsonl")
    assert [row["id"] for row in reported] == [sample.id for sample in samples]
    scores = suisei.load(finished / "model").score(samples)
    np.testing.assert_allclose(scores, [row["suisei"] for row in reported], atol=1e-6)
    assert len(set(scores.round(6))) > 3  # it says something about the captions


def test_report_card_and_model_say_on_which_scale_people_rated(finished):
    samples = read_samples(finished / "test.jsonl")
    known = json.loads((finished / "report.json").read_text())["data"]["ratings"]
    assert known["scales"] == [[samples[0].rating.low, samples[0].rating.high]]
    assert known["raters"][1] == max(len(sample.rating.values) for sample in samples)
    assert json.loads((finished / "model" / "config.json").read_text())["ratings"] == known
    assert "a score of 0.5 stands for" in (finished / "model" / "README.md").read_text()


def test_no_group_is_in_two_parts_and_the_counts_are_reported(finished, rated_file):
    split = json.loads((finished / "splits.json").read_text())["groups"]
    parts = [set(split[name]) for name in ("train", "validation", "test")]
    assert all(parts)
    assert not parts[0] & parts[1]
    assert not parts[0] & parts[2]
    assert not parts[1] & parts[2]
    assert set.union(*parts) == {row["group"] for row in rows_of(rated_file)}
    data = json.loads((finished / "report.json").read_text())["data"]
    assert sum(data["samples"].values()) == len(rows_of(rated_file))


def test_report_compares_with_baselines_and_people(finished):
    report = (finished / "report.md").read_text(encoding="utf-8")
    for name in ("suisei", "unigram-f1", "length", "human", "Pearson", "Spearman", "tau-b", "tau-c"):
        assert name in report
    card = (finished / "model" / "README.md").read_text(encoding="utf-8")
    assert "unigram-f1" in card


def test_a_baseline_that_is_no_metric_is_refused_before_training(train, tmp_path):
    with pytest.raises(ConfigError, match=r"^baselines: no metric 'cidre'; did you mean 'cider'\?"):
        train("--baselines=[cidre,unigram-f1]", output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_baseline_that_cannot_run_here_is_said(train, caplog):
    run = train("--baselines=[length,recap-latent]", "--trainer.max_epochs=1")
    problem = json.loads((run / "report.json").read_text())["training"]["unavailable_baselines"]
    assert list(problem) == ["recap-latent"]
    assert f"baseline recap-latent: not compared, {problem['recap-latent']}" in caplog.messages


def test_same_seed_same_weights_and_another_seed_others(finished, train):
    assert_same_weights(finished, train("--baselines=[]"))
    other = weights(train("--baselines=[]", "--seed_everything=4"))
    same = [n for n, value in weights(finished).items() if value.ndim > 1 and torch.equal(value, other[n])]
    assert not same


def test_the_written_config_repeats_the_run(train, tmp_path):
    run = train("--baselines=[]", "--model.image=null", "--trainer.max_epochs=1")
    again = tmp_path / "again"
    assert train_module.main(["--config", str(run / "config.yaml"), f"--output={again}"]) == 0
    assert_same_weights(run, again)


def test_zero_is_a_seed_like_any_other(train):
    first = train("--baselines=[]", "--seed_everything=0")
    second = train("--baselines=[]", "--seed_everything=0")
    assert_same_weights(first, second)
    assert json.loads((first / "report.json").read_text())["training"]["seed"] == 0


def test_test_ratings_never_reach_the_weights(finished, train, rated_file, tmp_path):
    held_out = set(json.loads((finished / "splits.json").read_text())["groups"]["test"])
    rows = rows_of(rated_file)
    for row in rows:
        if row["group"] in held_out:
            row["rating"] = [6 - value for value in row["rating"]]
    altered = tmp_path / "altered.jsonl"
    altered.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    run = train("--baselines=[]", f"--data.train={altered}")
    assert_same_weights(finished, run)
    learned = ("--baselines=[]", "--model.fusion.extra_inputs=[ridge]")  # it is fitted on ratings
    with_ridge = train(*learned, f"--data.train={altered}")
    assert_same_weights(train(*learned), with_ridge)
    before, after = (json.loads((f / "report.json").read_text()) for f in (finished, run))
    assert before["training"]["best_validation"] == after["training"]["best_validation"]
    assert before["results"] != after["results"]


def test_validation_ratings_choose_the_checkpoint_only_by_choice_of_epoch(finished, train):
    one_epoch = train("--baselines=[]", "--trainer.max_epochs=1", "--model.optimizer.schedule=constant")
    facts = json.loads((one_epoch / "report.json").read_text())["training"]
    assert facts["epochs"] == 1
    assert set(facts["best_validation"]) == {"val_pearson"}
    assert facts["steps"] * 2 == json.loads((finished / "report.json").read_text())["training"]["steps"]


def test_curves_are_in_the_run_s_folder(finished):
    text = (finished / "logs" / "version_0" / "metrics.csv").read_text()
    for column in ("train_loss", "val_loss", "val_pearson"):
        assert column in text.splitlines()[0]


def test_the_logged_loss_is_the_mean_over_accumulated_batches(train, monkeypatch):
    losses = []
    original = SuiSei.training_step

    def training_step(self, batch, batch_idx):
        loss = original(self, batch, batch_idx)
        losses.append((self.trainer.global_step, float(loss.detach())))
        return loss

    monkeypatch.setattr(SuiSei, "training_step", training_step)
    run = train(
        "--baselines=[]", "--trainer.accumulate_grad_batches=4", "--trainer.log_every_n_steps=1",
    )  # fmt: skip
    with (run / "logs" / "version_0" / "metrics.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["train_loss"]]
    steps = sorted({step for step, _ in losses})
    assert [int(row["step"]) for row in rows] == steps
    for step, row in zip(steps, rows, strict=True):
        own = [loss for at, loss in losses if at == step]
        assert float(row["train_loss"]) == pytest.approx(np.mean(own), rel=1e-5)
    assert {sum(at == step for at, _ in losses) for step in steps} == {4, 2}  # an epoch ends with fewer


def test_ratings_that_are_all_equal_end_in_a_valid_report(train, rated_file, tmp_path, caplog):
    rows = [{**row, "rating": [3]} for row in rows_of(rated_file)]
    path = tmp_path / "equal.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    run = train(f"--data.train={path}", "--early_stopping.patience=1")

    def refuse(constant):
        pytest.fail(f"{constant} is not JSON")

    report = json.loads((run / "report.json").read_text(), parse_constant=refuse)
    assert report["training"]["best_validation"] == {"val_pearson": None}
    steps = report["training"]["steps"]
    assert report["training"]["epochs"] == 1  # of two
    assert (
        f"val_pearson was never defined (all scores or all ratings equal): the last weights are kept; "
        f"training ended early, at step {steps}, since" in caplog.text
    )
    caplog.clear()
    train(f"--data.train={path}", "--early_stopping=null", "--trainer.limit_train_batches=1")
    assert "the last weights are kept" in caplog.text
    assert "ended early" not in caplog.text


@pytest.mark.parametrize(("options", "folder"), [([], ""), (["--data.folds=2"], "fold-0")])
def test_interrupting_with_ctrl_c_is_one_line_and_its_own_status(
    settings, tmp_path, monkeypatch, capsys, options, folder
):
    import signal

    from suisei.__main__ import main

    def interrupt(self, batch, batch_idx):
        raise KeyboardInterrupt

    monkeypatch.setattr(SuiSei, "training_step", interrupt)
    handler = signal.getsignal(signal.SIGINT)
    try:
        status = main(["train", "--config", str(settings), f"--output={tmp_path / 'run'}", *options])
    finally:
        signal.signal(signal.SIGINT, handler)  # Lightning ignores further signals while it shuts down
    assert status == 130
    said = capsys.readouterr().err
    assert (tmp_path / "run" / folder / "config.yaml").is_file()
    assert said.splitlines()[-1] == (  # what goes on with all folds, where there are any
        f"suisei: interrupted; epoch 1, step 0; suisei train --config {tmp_path / 'run' / 'config.yaml'} "
        "--ckpt_path last starts over: there is no checkpoint yet"
    )
    assert "Traceback" not in said


def test_a_request_to_terminate_ends_a_training_as_ctrl_c_does(settings, tmp_path, monkeypatch, capsys):
    """At once: the handler of the trainer speaks to the other processes, which may hang for ever."""
    import signal

    from suisei.__main__ import main

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    gone_on = []

    def terminate(self, batch, batch_idx):
        os.kill(os.getpid(), signal.SIGTERM)
        gone_on.append(batch_idx)
        raise RuntimeError("the step goes on")

    monkeypatch.setattr(SuiSei, "training_step", terminate)
    try:
        status = main(["train", "--config", str(settings), f"--output={tmp_path / 'run'}"])
        assert signal.getsignal(signal.SIGTERM) == handlers[signal.SIGTERM]
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert (status, gone_on) == (130, [])
    assert "suisei: interrupted; epoch 1, step 0" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("workers", [1])
def test_worker_processes_change_nothing(finished, train, workers):
    assert_same_weights(finished, train("--baselines=[]", f"--data.num_workers={workers}"))


@pytest.mark.parametrize("key", ["model.nope", "model.text.nope", "data.nope", "trainer.nope", "nope"])
def test_unknown_setting_is_refused_by_name(train, key):
    with pytest.raises(ConfigError, match="nope") as error:
        train(f"--{key}=1")
    assert "\n" not in str(error.value)


def test_unknown_key_in_the_config_file_is_refused_by_name(settings, tmp_path):
    path = tmp_path / "typo.yaml"
    path.write_text(settings.read_text().replace("batch_size", "batchsize"))
    with pytest.raises(ConfigError, match=r"'batchsize'; did you mean --data\.batch_size"):
        train_module.main(["--config", str(path), "--output", str(tmp_path / "run")])
    assert not (tmp_path / "run").exists()


def test_runs_are_numbered_and_a_used_folder_is_refused(settings, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    quick = ["--config", str(settings), "--baselines=[]", "--trainer.max_epochs=1"]
    for _ in range(2):
        assert train_module.main(quick) == 0
    assert sorted(path.name for path in Path("runs").iterdir()) == ["small", "small-2"]
    with pytest.raises(ConfigError, match=r"holds a run already.*--ckpt_path last"):
        train_module.main([*quick, "--output=runs/small"])


def test_resuming_finds_the_newest_run_of_this_config_alone(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("small", "small-2", "smaller"):
        Path("runs", name).mkdir(parents=True)
        Path("runs", name, "config.yaml").touch()
    assert train_module.run_folder(None, "small", resuming=True) == Path("runs/small-2")
    assert train_module.run_folder(None, "small", resuming=False) == Path("runs/small-3")
    with pytest.raises(ConfigError, match="no run to go on with"):
        train_module.run_folder(None, "smal", resuming=True)


def test_unrated_data_is_refused(train, tmp_path):
    path = tmp_path / "unrated.jsonl"
    path.write_text('{"candidate": "a dog", "references": ["a dog"]}\n')
    with pytest.raises(DataError, match="none of its 1 sample has a rating"):
        train(f"--data.train={path}")


def test_a_training_that_ends_before_an_epoch_does_is_validated_at_its_end(train):
    run = train("--baselines=[]", "--trainer.max_steps=2", "--trainer.accumulate_grad_batches=2")
    facts = json.loads((run / "report.json").read_text())["training"]
    assert facts["steps"] == 2
    assert list(facts["best_validation"]) == ["val_pearson"]


def test_weights_that_no_validation_chose_are_said_to_be_so(train, caplog):
    run = train("--baselines=[]", "--trainer.limit_train_batches=1", "--trainer.check_val_every_n_epoch=3")
    assert "the weights are those of the last step: no validation came in time" in caplog.text
    assert json.loads((run / "report.json").read_text())["training"]["best_validation"] == {}


@pytest.mark.parametrize("counts", [False, True])
def test_report_and_card_say_whether_an_image_counts_beside_references(train, counts):
    options = ("--model.text.layers=last", "--model.fusion.blocks=[]", "--model.fusion.similarity=true",
               f"--model.fusion.image_similarity={str(counts).lower()}", "--model.head.start=cosine",
               "--model.head.rank_share=0.5", "--baselines=[]", "--trainer.max_epochs=1")  # fmt: skip
    run = train(*options)
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    card = (run / "model" / "README.md").read_text(encoding="utf-8")
    assert report["data"].get("image_beside_references") is counts
    assert ("beside references it changes nothing" in card) is (not counts)
    assert report["training"]["ranks"]
    assert "against ratings mixed with their ranks" in card

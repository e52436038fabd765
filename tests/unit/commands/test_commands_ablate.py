"""The ablate command: tables, failures and refusals, with results that are made up."""

import json
import os
import shutil
import signal

import numpy as np
import pytest

from suisei.ablation import runs as runs_module
from suisei.ablation.runs import Run
from suisei.cli import run_command
from suisei.commands import ablate
from suisei.data.formats import write_samples
from suisei.data.sample import CaptionSample, Rating


def write_result(run: Run):
    """Write what a training leaves, as if noise were less with seed 1 and more without idf."""
    rng = np.random.default_rng(0)
    human = rng.integers(0, 5, 60) / 4
    samples = [
        CaptionSample(f"a dog {n}", ("a dog",), rating=Rating((value,)), group=f"g{n // 3}", id=str(n))
        for n, value in enumerate(human)
    ]
    noise = 0.2 * run.seed + (3.0 if run.variant == "no-idf" else 0.0)
    scores = human + noise * np.random.default_rng(run.seed).normal(size=60)
    run.folder.mkdir(parents=True)
    write_samples(run.folder / "test.jsonl", samples)
    lines = [json.dumps({"id": str(n), "suisei": score}) for n, score in enumerate(scores.tolist())]
    (run.folder / "test_scores.jsonl").write_text("\n".join(lines) + "\n")
    trained = {"minutes": 1.5, "data_digests": {"train": "one"}, "encoders": {"e5": "three"}}
    report = {"training": trained, "results": {"settings": {"raters": "rows"}}}
    (run.folder / "report.json").write_text(json.dumps(report))


@pytest.fixture
def made_up(monkeypatch):
    """Trainings that take no time; returns the runs that were asked for."""
    trained: list[Run] = []

    def train(runs, jobs, lock, *, started, ended):
        failures = {}
        for run in runs:
            if run.settings["model"]["head"]["dropout"] == 0.9:
                failures[run.name] = "exit status 1: too much"
                ended(run, failures[run.name], 0.0)
                continue
            write_result(run)
            trained.append(run)
            ended(run, None, 0.0)
        return failures

    monkeypatch.setattr(runs_module, "train_all", train)
    return trained


def command(*arguments):
    return run_command(ablate.main, [str(argument) for argument in arguments])


def test_the_tables_of_an_ablation(tmp_path, made_up, capsys):
    given = (
        "--config", "configs/scenes.yaml", "--seeds", "1,2", "--output", tmp_path / "ab", "--bootstrap", 99,
        "--variants", "no-idf,no-similarity,no-pac-s", "--trainer.max_epochs", "1",
    )  # fmt: skip
    assert command(*given) == 0
    assert {(run.variant, run.seed) for run in made_up} == {
        (variant, seed) for variant in ("full", "no-idf", "no-similarity") for seed in (1, 2)
    }
    by_name = {run.name: run.settings for run in made_up}
    assert by_name["no-idf, seed 2"]["model"]["fusion"]["poolings"] == ["mean"]
    assert {run.settings["data"]["split_seed"] for run in made_up} == {0}
    assert {run.settings["trainer"]["max_epochs"] for run in made_up} == {1}
    assert by_name["full, seed 1"]["seed_everything"] == 1
    content = json.loads((tmp_path / "ab" / "report.json").read_text())
    assert content["variants"]["no-similarity"] == {"model.fusion.similarity": "false"}
    figures = {row["label"]: row for row in content["ablation"]["sections"][0]["rows"]}
    assert list(figures) == ["full", "no-idf", "no-similarity"]
    full = figures["full"]
    assert full["cells"]["pearson"]["value"] == pytest.approx(
        np.mean(list(full["by_seed"]["pearson"].values()))
    )
    assert full["cells"]["sd"]["value"] > 0
    rows = {row["label"]: row["cells"] for row in content["differences"]["sections"][0]["rows"]}
    assert rows["no-idf"]["pearson"]["high"] < 0
    assert rows["no-idf"]["holm"]["value"] < 0.05
    assert rows["no-similarity"]["pearson"]["value"] == pytest.approx(0)
    assert rows["no-similarity"]["pearson"]["low"] < 0 < rows["no-similarity"]["pearson"]["high"]
    assert rows["no-similarity"]["holm"]["value"] > 0.2
    assert "no-pac-s is left out" in (tmp_path / "ab" / "report.md").read_text()
    assert r"\begin{table}" in (tmp_path / "ab" / "report.tex").read_text()
    assert (tmp_path / "ab" / "differences.png").read_bytes().startswith(b"\x89PNG")
    assert "Differences to full" in capsys.readouterr().out

    del made_up[:]
    assert command(*given, "--seeds", "1,2,3") == 0  # only what is new is trained
    assert {run.seed for run in made_up} == {3}
    assert command(*given, "--data.batch_size", "8") == 2
    assert "data.batch_size: 32, now 8" in capsys.readouterr().err


def test_a_failed_variant_is_named_and_the_others_reported(tmp_path, made_up, capsys):
    status = command(
        "--config", "scenes", "--seeds", "1", "--output", tmp_path / "ab", "--bootstrap", "50",
        "--variants", "no-idf", "--variant", "dry:model.head.dropout=0.9",
    )  # fmt: skip
    assert status == 1
    content = json.loads((tmp_path / "ab" / "report.json").read_text())
    assert [row["label"] for row in content["differences"]["sections"][0]["rows"]] == ["no-idf"]
    assert "dry, seed 1 failed: exit status 1: too much" in content["ablation"]["notes"]
    assert any("a single seed" in note for note in content["differences"]["notes"])


def test_dry_run_writes_nothing(tmp_path, capsys):
    assert (
        command("--config", "scenes", "--output", tmp_path / "ab", "--variants", "no-idf", "--dry-run") == 0
    )
    assert not (tmp_path / "ab").exists()
    assert "6 runs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seed_everything", "3"), "--seed_everything is not for an ablation"),
        (("--ckpt_path=last",), "--ckpt_path is not for an ablation"),
        (("--variants", "no-such"), "no variant 'no-such'"),
        (("--variant", "report.json:trainer.max_epochs=1"), "a report of the ablation has that name"),
        (("--variant", "Differences.png:trainer.max_epochs=1"), "a report of the ablation has that name"),
        (("--config", "configs/pacs.yaml"), "trains an encoder alone"),
        (("--config", "configs/pretrain.yaml"), "trains an encoder alone"),
    ],
)
def test_refused_options(arguments, message, tmp_path, capsys):
    assert command("--config", "scenes", "--output", tmp_path / "ab", "--dry-run", *arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data:\n  x: 2020-13-45\n", "not YAML of plain values"),
        ("[" * 3000, "nested too deeply"),
        ("- 1\n", "holds a list, not settings"),
        ("{}\n", "holds no settings"),
    ],
)
def test_a_config_that_is_none_is_one_line(text, message, tmp_path, capsys):
    config = tmp_path / "broken.yaml"
    config.write_text(text)
    assert command("--config", config, "--output", tmp_path / "ab", "--dry-run") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"--config {config}" in line
    assert message in line


def test_a_setting_that_train_does_not_know_is_refused(tmp_path, capsys):
    given = ("--config", "scenes", "--output", tmp_path / "ab", "--variant", "x:model.hed=1", "--dry-run")
    assert command(*given) == 2
    assert "--model.hed=1; did you mean --model.head" in capsys.readouterr().err


def test_runs_of_another_split_are_refused(tmp_path, made_up, capsys):
    given = ("--config", "scenes", "--seeds", "1,2", "--output", tmp_path / "ab", "--variants", "no-idf")
    assert command(*given, "--bootstrap", "0") == 0
    path = tmp_path / "ab" / "no-idf" / "seed-2" / "test.jsonl"
    path.write_text(path.read_text().replace("a dog 7", "a cat 7"))
    assert command(*given) == 2
    assert "no-idf, seed 2 was tested on other samples than full, seed 1" in capsys.readouterr().err


def test_runs_that_learned_from_other_content_of_the_same_files_are_refused(tmp_path, made_up, capsys):
    given = ("--config", "scenes", "--seeds", "1,2", "--output", tmp_path / "ab", "--variants", "no-idf")
    assert command(*given, "--bootstrap", "0") == 0
    path = tmp_path / "ab" / "no-idf" / "seed-2" / "report.json"
    path.write_text(path.read_text().replace('"train": "one"', '"train": "two"'))
    assert command(*given, "--bootstrap", "0") == 2
    said = capsys.readouterr().err
    assert f"3 of the runs learned from other data than {path.parent}, which was trained last" in said
    assert f"Delete {tmp_path / 'ab' / 'full' / 'seed-1'}, " in said
    for variant, seed in (("full", 1), ("full", 2), ("no-idf", 1)):
        shutil.rmtree(tmp_path / "ab" / variant / f"seed-{seed}")
    path.write_text(path.read_text().replace('"train": "two"', '"train": "one"'))
    assert command(*given, "--bootstrap", "0") == 0


def test_runs_over_other_weights_in_the_same_folder_are_refused(tmp_path, made_up, capsys):
    given = ("--config", "scenes", "--seeds", "1", "--output", tmp_path / "ab", "--variants", "no-idf")
    given += ("--variant", "more:data.synthetic=0.5", "--bootstrap", "0")
    assert command(*given) == 0
    path = tmp_path / "ab" / "more" / "seed-1" / "report.json"
    whole = path.read_text()
    path.write_text(whole.replace('"e5": "three"', '"e5": "four"'))
    assert command(*given) == 2
    said = capsys.readouterr().err
    assert f"2 of the runs started from another e5 than {path.parent}, which was trained last" in said
    path.write_text(whole.replace('"e5": "three"', ""))  # a variant may have no such encoder
    assert command(*given) == 0


def test_runs_of_an_earlier_version_do_not_say_what_they_learned_from(tmp_path, made_up):
    given = ("--config", "scenes", "--seeds", "1", "--output", tmp_path / "ab", "--variants", "no-idf")
    assert command(*given, "--bootstrap", "0") == 0
    path = tmp_path / "ab" / "full" / "seed-1" / "report.json"
    path.write_text(path.read_text().replace('"data_digests"', '"unknown"'))
    assert command(*given, "--bootstrap", "0") == 0


def test_a_variant_may_learn_from_other_data(tmp_path, made_up):
    given = ("--config", "scenes", "--seeds", "1", "--output", tmp_path / "ab", "--variants", "no-idf")
    given += ("--variant", "more:data.synthetic=0.5", "--bootstrap", "0")
    assert command(*given) == 0
    path = tmp_path / "ab" / "more" / "seed-1" / "report.json"
    path.write_text(path.read_text().replace('"train": "one"', '"train": "two"'))
    assert command(*given) == 0


def test_runs_stay_locked_while_they_are_reported(tmp_path, made_up, monkeypatch, capsys):
    given = ("--config", "scenes", "--seeds", "1", "--output", tmp_path / "ab", "--variants", "no-idf")
    report, statuses = ablate._report, []

    def reported(*arguments):
        monkeypatch.setattr(ablate, "_report", report)
        statuses.append(command(*given, "--redo", "--data.batch_size", "8"))
        return report(*arguments)

    monkeypatch.setattr(ablate, "_report", reported)
    assert command(*given, "--bootstrap", "0") == 0
    assert statuses == [2]
    assert "another ablation, or a training that one left behind, is at work in" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["make_plan", "_tables"])
def test_a_request_to_terminate_ends_it_as_ctrl_c_does_at_any_time(
    place, tmp_path, made_up, monkeypatch, capsys
):
    def else_handled(*_):
        raise AssertionError("it is not handled")

    monkeypatch.setattr(ablate, place, lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.signal(signal.SIGTERM, else_handled)
    try:
        given = ("--config", "scenes", "--seeds", "1", "--output", tmp_path / "ab", "--variants", "no-idf")
        assert command(*given) == 130
        assert signal.getsignal(signal.SIGTERM) is else_handled
    finally:
        signal.signal(signal.SIGTERM, before)
    said = capsys.readouterr().err.splitlines()[-1]
    done = f"; 2 of 2 runs in {tmp_path / 'ab'} are done; the same command goes on"
    assert said == f"suisei: interrupted{done if place == '_tables' else ''}"

"""The trainings of an ablation: what is kept, refused and done again, failures and interrupts; made up."""

import sys
from pathlib import Path

import pytest
import yaml

from suisei.ablation import runs as runs_module
from suisei.ablation.runs import Run, locked, prepare_runs, train_all
from suisei.errors import ConfigError


def run_of(folder: Path, name="full", seed=1, **values) -> Run:
    return Run(name, seed, folder / name / f"seed-{seed}", {"a": {"b": 1}, "seed_everything": seed, **values})


def finish(run: Run):
    run.folder.mkdir(parents=True, exist_ok=True)
    (run.folder / "report.json").write_text("{}")


def test_finished_runs_are_kept_and_others_prepared(tmp_path):
    runs = [run_of(tmp_path, seed=seed) for seed in (1, 2)]
    assert prepare_runs(runs) == runs
    assert yaml.safe_load(runs[0].settings_file.read_text()) == runs[0].settings
    finish(runs[0])
    assert prepare_runs(runs) == runs[1:]


def test_checkpoints_of_a_run_that_ended_after_its_ablation_was_killed_are_taken_away(tmp_path):
    done, begun = runs = [run_of(tmp_path, seed=seed) for seed in (1, 2)]
    prepare_runs(runs)
    finish(done)
    for folder in (done.folder, done.folder / "fold-0", begun.folder):
        (folder / "checkpoints").mkdir(parents=True)
    assert prepare_runs(runs) == [begun]
    assert not list(done.folder.rglob("checkpoints"))
    assert (begun.folder / "checkpoints").is_dir()


def test_runs_with_other_settings_are_refused_or_redone(tmp_path):
    before, after = run_of(tmp_path), run_of(tmp_path, a={"b": 2, "c": None})
    prepare_runs([before])
    assert prepare_runs([after]) == [after]  # never started: nothing is lost
    prepare_runs([before])
    finish(before)
    with pytest.raises(ConfigError, match=r"a\.b: 1, now 2; a\.c: 'not there', now None\. .*--redo"):
        prepare_runs([after])
    assert before.finished
    assert prepare_runs([after], redo=True) == [after]
    assert not before.finished


@pytest.mark.parametrize("damaged", [b"a: 2020-13-45\n", b"[" * 3000, b"a: [1\n", b"\xff\n"])
def test_damaged_settings_of_a_run_are_named_and_not_touched(damaged, tmp_path):
    run = run_of(tmp_path)
    prepare_runs([run])
    finish(run)
    run.settings_file.write_bytes(damaged)
    with pytest.raises(ConfigError, match=r"seed-1\.yaml cannot be read: .*; delete .*seed-1, and") as error:
        prepare_runs([run])
    assert "\n" not in str(error.value)
    assert run.finished


def test_a_folder_of_something_else_is_not_touched(tmp_path):
    run = run_of(tmp_path)
    finish(run)
    with pytest.raises(ConfigError, match="not a run of this ablation"):
        prepare_runs([run], redo=True)
    assert run.finished


def test_one_ablation_at_a_time(tmp_path):
    with locked(tmp_path / "new"), pytest.raises(ConfigError, match="at work in"), locked(tmp_path / "new"):
        pass
    with locked(tmp_path / "new"):
        pass


TRAINING = """
import json, os, pathlib, sys
config, folder = sys.argv[1:3]
print("threads", os.environ.get("OMP_NUM_THREADS"), "resumed", "last" in sys.argv)
if "broken" in folder:
    sys.exit("no such thing")
folder = pathlib.Path(folder)
(folder / "checkpoints").mkdir(parents=True)
(folder / "report.json").write_text("{}")
"""


@pytest.fixture
def small_trainings(tmp_path, monkeypatch):
    """Processes that leave a report instead of training."""
    script = tmp_path / "training.py"
    script.write_text(TRAINING)
    started = runs_module.subprocess.Popen

    def start(command, **options):
        config, folder = command[command.index("--config") + 1], command[command.index("--output") + 1]
        return started([sys.executable, str(script), config, folder, *command[7:]], **options)

    monkeypatch.setattr(runs_module.subprocess, "Popen", start)


def test_trainings_run_apart_and_a_failure_leaves_the_others(tmp_path, small_trainings):
    runs = [run_of(tmp_path, name) for name in ("full", "broken", "no-idf")]
    prepare_runs(runs)
    runs[2].folder.mkdir()
    (runs[2].folder / "config.yaml").write_text("{}")  # it was started before
    seen, most = [], []
    failures = train_all(
        runs, 2, None,
        started=lambda active: most.append(len(active)),
        ended=lambda run, problem, minutes: seen.append((run.name, problem is None)),
    )  # fmt: skip
    assert list(failures) == ["broken, seed 1"]
    assert failures["broken, seed 1"].startswith("exit status 1: no such thing (see ")
    assert sorted(seen) == [("broken, seed 1", False), ("full, seed 1", True), ("no-idf, seed 1", True)]
    assert max(most) == 2
    assert runs[0].log_file.read_text() == "threads 1 resumed False\n"
    assert runs[2].log_file.read_text() == "threads 1 resumed True\n"
    assert not (runs[0].folder / "checkpoints").exists()


def test_an_interrupt_ends_the_trainings(tmp_path, monkeypatch):
    started = runs_module.subprocess.Popen
    processes = []

    def start(command, **options):
        processes.append(started([sys.executable, "-c", "import time; time.sleep(60)"], **options))
        return processes[-1]

    monkeypatch.setattr(runs_module.subprocess, "Popen", start)
    runs = [run_of(tmp_path, name) for name in ("a", "b")]
    prepare_runs(runs)

    def interrupt(active):
        if len(active) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_all(runs, 2, None, started=interrupt, ended=lambda *_: None)
    assert [process.poll() is not None for process in processes] == [True, True]

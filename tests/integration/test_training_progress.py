"""How a training goes, without a terminal: a line every so often, and figures of every validation."""

import os
import re
from types import SimpleNamespace

import pytest
import yaml

from suisei.commands import train as train_module
from suisei.progress import duration
from suisei.training import progress_lines
from suisei.training.progress_lines import wanted
from suisei.training.run_callbacks import shows_bar


def test_a_run_without_a_terminal_says_how_far_it_is(settings, tmp_path, monkeypatch, capfd):
    from suisei.training import run_report

    monkeypatch.setattr(progress_lines, "EVERY", 0.0)
    monkeypatch.setattr(run_report, "plot_predicted", lambda *_, **__: None)
    monkeypatch.setattr(run_report, "RESAMPLES", 20)
    options = ["--baselines=[]", "--trainer.limit_train_batches=3", "--trainer.enable_progress_bar=null"]
    assert train_module.main(["--config", str(settings), f"--output={tmp_path / 'run'}", *options]) == 0
    output, told = capfd.readouterr()
    assert "it/s" not in output + told  # no bar beside the lines
    steps = re.findall(
        r"^epoch (\d), step (\d) of 6, loss ([\d.]+), [\d.]+ s a step, \d min left$", told, re.M
    )
    assert [(epoch, step) for epoch, step, _ in steps] == [
        ("1", "1"), ("1", "2"), ("1", "3"), ("2", "4"), ("2", "5"), ("2", "6")
    ]  # fmt: skip
    assert all(float(loss) > 0 for *_, loss in steps)
    assert len(re.findall(r"^epoch \d, validation: .*pearson -?[\d.]+", told, re.M)) == 2
    kept = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text("utf-8"))
    assert kept["trainer"]["enable_progress_bar"] is None  # or what goes on by it would tell nothing


@pytest.mark.parametrize(
    ("chosen", "terminal", "lines"),
    [(None, False, True), (None, True, False), (False, False, False), (True, False, False)],
)
def test_lines_are_for_logs_and_a_choice_is_kept(monkeypatch, chosen, terminal, lines):
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    assert wanted(chosen) is lines
    assert shows_bar(chosen) is (False if lines else chosen)


def test_times_are_told_as_people_do():
    assert [duration(seconds) for seconds in (10, 95, 3600, 9000)] == [
        "0 min",
        "2 min",
        "1 h 0 min",
        "2 h 30 min",
    ]


@pytest.mark.parametrize(
    ("command", "before", "after"),
    [("train", None, "PASSIVE"), ("train", "ACTIVE", "ACTIVE"), ("score", None, "PASSIVE")],
)
def test_threads_of_a_command_sleep_while_they_wait(monkeypatch, command, before, after):
    from suisei import __main__ as entry

    monkeypatch.setenv("OMP_WAIT_POLICY", "set, so that it is put back")
    if before is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    else:
        monkeypatch.setenv("OMP_WAIT_POLICY", before)
    seen = []

    def run(_):
        seen.append(os.environ.get("OMP_WAIT_POLICY"))
        return 0

    monkeypatch.setattr(entry, "import_module", lambda _: SimpleNamespace(main=run))
    assert entry.main([command]) == 0
    assert seen == [after]

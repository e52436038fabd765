"""Commands that are killed at random, and at each of their file operations, lose nothing."""

import os
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.benchmarks import killed_process, kills
from tests.benchmarks.harness import Options
from tests.benchmarks.killed_cases import cases
from tests.benchmarks.killed_process import Plan, fresh
from tests.benchmarks.kills import Outcome, torture

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    made = cases(tmp_path_factory.mktemp("kills"), Options(killed_rows=70))
    return {case.name: case for group in made.values() for case in group}


@pytest.fixture(autouse=True)
def forks_alone(monkeypatch):
    monkeypatch.setattr(kills, "FRESH_SHARE", 0.0)


@pytest.mark.parametrize("name", ["score, JSONL", "score, CSV"])
def test_random_kills_lose_nothing(commands, tmp_path, name):
    outcome = torture(commands[name], 5, seed=1, work=tmp_path)
    assert outcome.kills.total() == 5
    assert (outcome.lost, outcome.again, outcome.different, outcome.problems) == (0, 0, [], [])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["score, gzip", "score, Parquet", "evaluate", "compare", "positives", "caption", "probe"]
)
def test_random_kills_of_other_commands_lose_nothing(commands, tmp_path, name):
    outcome = torture(commands[name], 5, seed=2, work=tmp_path)
    assert outcome.kills.total() == 5
    assert (outcome.lost, outcome.again, outcome.different, outcome.problems) == (0, 0, [], [])


def test_a_kill_at_each_of_the_last_file_operations_loses_nothing(commands, tmp_path, monkeypatch):
    """Where the files get their names, one run for each operation that a process may die at."""
    case, outcome = commands["score, CSV"], Outcome()
    whole = tmp_path / "whole"
    whole.mkdir()
    events = kills._unbroken(case, whole)
    expected = {name: case.plain(whole / name) for name in case.outputs}
    for number in range(events["file"] - 9, events["file"] + 1):
        monkeypatch.setattr(kills, "_plan", lambda *_, number=number: Plan("file", number))
        folder = tmp_path / f"run-{number}"
        folder.mkdir()
        kills._one_run(case, folder, 1, (random.Random(0), 1.0, events), outcome)
        kills._compare(case, folder, expected, outcome)
    assert outcome.kills == {"file": 10}
    assert (outcome.lost, outcome.again, outcome.different, outcome.problems) == (0, 0, [], [])


def test_a_new_interpreter_has_as_many_threads_as_a_fork(tmp_path, monkeypatch):
    """Other numbers of threads may give other last digits, and a difference that no kill made."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    seen = {}

    class Popen:
        def __init__(self, command, **settings):
            seen.update(settings["env"])

        def wait(self, seconds):
            return 0

    monkeypatch.setattr(killed_process.subprocess, "Popen", Popen)
    assert fresh(["score"], Plan(), tmp_path, tmp_path / "log") == 0
    assert seen["OMP_NUM_THREADS"] == "7"


def test_what_is_lost_or_scored_twice_would_be_noticed(commands, tmp_path, monkeypatch):
    case = commands["score, JSONL"]

    def anew(folder):
        for path in folder.glob("s.jsonl.part*"):
            path.unlink()
        return case.command(folder)

    monkeypatch.setattr(kills, "_plan", lambda *_: Plan("torn", 6))  # in the second block
    assert torture(replace(case, again=anew), 1, seed=0, work=tmp_path / "anew").again == 32

    def shorter(folder):
        arguments = case.again(folder)
        source = folder.with_name("fewer.jsonl")
        lines = Path(arguments[2]).read_text(encoding="utf-8").splitlines(keepends=True)
        source.write_text("".join(lines[:-3]), encoding="utf-8")
        return [*arguments[:2], str(source), *arguments[3:]]

    outcome = torture(replace(case, again=shorter), 1, seed=0, work=tmp_path / "shorter")
    assert outcome.lost == 3
    assert outcome.different
    shutil.rmtree(tmp_path)

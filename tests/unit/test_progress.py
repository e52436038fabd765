"""Progress: lines where there is no terminal, events in a log, nothing where nothing is wanted."""

import json
import re

import pytest

from suisei import progress
from suisei.progress import counting_bar, progress_bar
from suisei.runlog import events


@pytest.fixture
def often(monkeypatch):
    events.end(None)  # a command of another test may have been told to be quiet
    monkeypatch.setattr(progress, "EVERY", 0.0)
    monkeypatch.setattr(progress, "LOGGED", 0.0)
    yield
    events.end(None)


def work(count=3, total=3):
    with progress_bar("scoring", total, unit="rows") as advance:
        for _ in range(count):
            advance(1)


def test_lines_without_a_terminal(often, capsys):
    work()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert re.fullmatch(r"scoring: 1 of 3 rows, [\d.e+]+ a second, 0 min left", lines[0])
    assert re.fullmatch(r"scoring: 3 of 3 rows, [\d.e+]+ a second", lines[2])
    work(2, total=None)
    assert re.match(r"scoring: 1 rows, ", capsys.readouterr().err)


def test_parts_of_the_work_advance_whole_items():
    told = []
    step = progress.in_parts(told.append, 5, 20)
    for count in (3, 3, 10, 0, 3, 50):
        step(count)
    assert told == [0, 1, 3, 0, 0, 1]
    told.clear()
    progress.in_parts(told.append, 4, 0)(0)
    assert told == [4]


def test_lines_are_not_more_frequent_than_they_should(capsys):
    work(1000, 1000)
    assert capsys.readouterr().err == ""


def test_quiet_and_a_log_on_standard_error_write_no_lines(often, capsys):
    events.begin(None, "quiet")
    work()
    assert capsys.readouterr().err == ""
    events.begin("-")
    work()
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [event["event"] for event in told] == ["start", "stage", *["progress"] * 3, "done"]


def test_the_log_has_rows_pace_and_memory(often, tmp_path):
    events.begin(str(tmp_path / "log.jsonl"), "quiet")
    work()
    with counting_bar("resampling") as count:
        count(5, 10)
    events.end(0)
    told = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    steps = [event for event in told if event["event"] == "progress" and event["stage"] == "scoring"]
    assert [event["done"] for event in steps] == [1, 2, 3]
    assert all(event["total"] == 3 and event["per_second"] > 0 and event["memory_mb"] > 1 for event in steps)
    (resampled,) = [e for e in told if e["event"] == "progress" and e["stage"] == "resampling"]
    assert (resampled["done"], resampled["total"]) == (5, 10)
    finished = [event["stage"] for event in told if event["event"] == "done"]
    assert finished == ["scoring", "resampling"]


def test_verbose_lines_have_the_memory(often, capsys):
    events.begin(None, "verbose")
    work()
    assert re.search(r"scoring: 3 of 3 rows, [\d.e+]+ a second, [\d,]+ MB$", capsys.readouterr().err, re.M)


def test_what_is_not_shown_is_not_logged(often, tmp_path):
    events.begin(str(tmp_path / "log.jsonl"))
    with progress_bar("scoring", 3, shown=False) as advance:
        advance(3)
    events.end(None)
    assert not (tmp_path / "log.jsonl").exists()

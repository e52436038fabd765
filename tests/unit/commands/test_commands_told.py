"""What commands tell while they run: less with --quiet, and a log for machines."""

import json

import pytest

from suisei.commands import evaluate
from tests.unit.commands.acting import EVALUATING, interrupt, rated_rows, registered, scoring
from tests.unit.runs import read_rows, run


@pytest.fixture(autouse=True)
def acting(monkeypatch):
    yield from registered(monkeypatch)


@pytest.fixture
def data(tmp_path):
    return rated_rows(tmp_path)


def test_quiet_leaves_warnings_and_results(data, capsys):
    assert scoring(data, data.parent / "s.jsonl", "--quiet") == 0
    assert capsys.readouterr().err == ""
    assert scoring(data, data.parent / "t.jsonl") == 0
    assert "12 rows" in capsys.readouterr().err
    assert run(evaluate.main, "--data", data, *EVALUATING, "--quiet") == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert "rouge-l" in told.out
    assert scoring(data, data.parent / "u.jsonl", "--quiet", "--summary", data.parent / "no" / "s.json") == 2
    assert "its folder does not exist" in capsys.readouterr().err


def test_the_log_of_a_run_and_of_its_end(data, acting, capsys):
    log = data.parent / "log.jsonl"
    acting.act = staticmethod(interrupt)
    assert scoring(data, data.parent / "s.jsonl", "--log-json", log) == 130
    acting.act = staticmethod(lambda: None)
    assert scoring(data, data.parent / "s.jsonl", "--log-json", log, "--resume") == 0
    told = read_rows(log)
    assert [event["status"] for event in told if event["event"] == "end"] == [130, 0]
    assert [event["text"][:12] for event in told if event["event"] == "error"] == ["interrupted;"]
    (summary,) = [event for event in told if event["event"] == "summary"]
    assert summary["metrics"]["acting"]["n"] == 12
    (done,) = [event for event in told if event["event"] == "done"]
    assert (done["stage"], done["done"], done["total"]) == ("scoring", 12, 12)
    capsys.readouterr()
    assert run(evaluate.main, "--data", data, *EVALUATING, "--log-json", "-") == 0
    events_only = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {"start", "stage", "note", "done", "end"} <= {event["event"] for event in events_only}


def test_a_log_is_not_written_over_what_is_read(data, capsys):
    before = data.read_bytes()
    assert scoring(data, data.parent / "s.jsonl", "--log-json", data) == 2
    assert "holds something else than a log" in capsys.readouterr().err
    assert data.read_bytes() == before
    assert scoring(data, data.parent / "s.jsonl", "--log-json", data.parent / "s.jsonl") == 2
    assert "is the file of --output as well" in capsys.readouterr().err

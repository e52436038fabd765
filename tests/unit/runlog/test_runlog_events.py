"""The log for machines: an object a line, nothing that was not asked for, and no file of somebody else's."""

import json
import logging
import math
import re
from pathlib import Path

import pytest

from suisei.cli import run_command
from suisei.errors import ConfigError, DataError
from suisei.runlog import events


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    events.end(None)


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_line_is_an_event_with_its_time(tmp_path):
    path = tmp_path / "log.jsonl"
    log = events.begin(str(path), command="suisei score", arguments=["--input", "犬.jsonl"])
    assert not path.exists()  # nothing is written before there is something to say
    log.tell("progress", stage="scoring", done=3, total=None, loss=math.nan)
    events.end(0)
    start, progress, end = read(path)
    assert start["event"] == "start"
    assert start["arguments"] == ["--input", "犬.jsonl"]
    assert (progress["stage"], progress["done"], progress["total"], progress["loss"]) == (
        "scoring",
        3,
        None,
        None,
    )
    assert (end["event"], end["status"]) == ("end", 0)
    assert end["memory_peak_mb"] > 1
    for event in (start, progress, end):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["time"])
    assert start["elapsed"] <= progress["elapsed"] <= end["elapsed"]


def test_a_log_is_appended_to_and_nothing_else_is(tmp_path):
    path = tmp_path / "log.jsonl"
    for status in (130, 0):
        events.begin(str(path))
        events.current().tell("note", text="x")
        events.end(status)
    assert [event["status"] for event in read(path) if event["event"] == "end"] == [130, 0]
    data = tmp_path / "captions.jsonl"
    data.write_text('{"candidate": "a dog"}\n')
    with pytest.raises(ConfigError, match=r"captions\.jsonl: holds something else than a log"):
        events.begin(str(data))
    assert data.read_text() == '{"candidate": "a dog"}\n'
    with pytest.raises(ConfigError, match="is a folder"):
        events.begin(str(tmp_path))
    with pytest.raises(ConfigError, match="its folder does not exist"):
        events.begin(str(tmp_path / "no" / "log.jsonl"))


def test_without_a_log_nothing_is_written(tmp_path, capsys):
    events.begin(None)
    events.current().tell("note", text="x")
    events.end(0)
    assert capsys.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_standard_error_has_the_log_alone(capsys):
    log = events.begin("-")
    assert log.replaces_messages
    logging.getLogger("suisei").warning("a %s of the package", "warning")
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [event["event"] for event in told] == ["start", "warning"]
    assert told[1]["text"] == "a warning of the package"


def test_a_warning_is_told_once_and_shown_too(tmp_path, capsys):
    events.begin(str(tmp_path / "log.jsonl"))
    for number in range(3):
        logging.getLogger("suisei.metrics").warning("%d of these", number)
    events.end(0)
    assert capsys.readouterr().err == "suisei: 0 of these\n"
    assert [e["text"] for e in read(tmp_path / "log.jsonl") if e["event"] == "warning"] == ["0 of these"]
    logging.getLogger("suisei").warning("not for the log that ended")
    assert len(read(tmp_path / "log.jsonl")) == 3


def test_only_verbose_tells_what_helps_to_find_a_defect(capsys):
    for loudness, shown in (("normal", ""), ("verbose", "suisei: why\n"), ("quiet", "")):
        events.begin(None, loudness)
        logging.getLogger("suisei").debug("why")
        assert capsys.readouterr().err == shown
        assert events.current().quiet == (loudness == "quiet")


def test_a_log_that_cannot_be_written_is_an_error_once(tmp_path):
    (tmp_path / "log").mkdir()
    log = events.begin(str(tmp_path / "log" / "l.jsonl"))
    (tmp_path / "log").rmdir()
    with pytest.raises(DataError, match=r"--log-json .*l\.jsonl: cannot be written: No such file"):
        log.tell("note", text="x")
    log.tell("note", text="x")
    events.end(2)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full disk to write to")
def test_a_log_on_a_full_disk_is_an_error_once(capsys):
    """Its buffer is not tried again at the end, which would be a traceback."""

    def command(_):
        log = events.begin("/dev/full")
        log.tell("note", text="x")

    assert run_command(command) == 2
    said = capsys.readouterr().err
    assert said == "suisei: --log-json /dev/full: cannot be written: No space left on device\n"

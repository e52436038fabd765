"""The file of failed rows: what failed and why, whole when the run is, and none where nothing failed."""

import json

import numpy as np
import pytest

from suisei.cli import run_command
from suisei.commands.score import main
from suisei.metrics.base import Metric
from suisei.metrics.registry import REGISTRY, Entry
from suisei.metrics.rouge import RougeL


class Stopping(Metric):
    """Scores by length, and stops the process like Ctrl-C at one caption."""

    name = "stopping"
    stop_at: str | None = None

    def _score(self, samples, *, batch_size, progress):
        if any(sample.candidate == Stopping.stop_at for sample in samples):
            raise KeyboardInterrupt
        return np.array([float(len(sample.candidate)) for sample in samples])


@pytest.fixture
def start(tmp_path, monkeypatch):
    monkeypatch.setitem(REGISTRY, "stopping", Entry(f"{__name__}:Stopping", (), "a fake"))
    monkeypatch.setattr(Stopping, "stop_at", None)
    rows = [{"id": f"r{n}", "candidate": f"犬 {n}", "references": ["a dog"]} for n in range(12)]
    rows[2]["candidate"] = ""
    rows[5]["references"] = []
    rows[9]["candidate"] = "  "
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(output, *more):
        arguments = ["--metrics", "stopping,rouge-l", "--input", tmp_path / "in.jsonl", "--window", 4]
        return run_command(main, [str(a) for a in (*arguments, "--output", tmp_path / output, *more)])

    return run


SKIP = ("--on-error", "skip")


def failed(tmp_path, name="s.csv"):
    return [json.loads(line) for line in (tmp_path / f"{name}.failed.jsonl").read_text("utf-8").splitlines()]


def test_rows_that_failed_are_in_a_file_with_their_reason(tmp_path, start):
    assert start("s.csv", *SKIP) == 0
    first, second, third = failed(tmp_path)
    assert (first["row"], third["row"]) == (3, 10)
    assert "candidate is empty" in first["error"]
    assert second == {
        "row": 6, "id": "r5", "error": "rouge-l: no references", "candidate": "犬 5", "references": []
    }  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "s.csv", "s.csv.failed.jsonl"]


def test_a_run_that_was_cut_off_has_the_same_file_in_the_end(tmp_path, start):
    assert start("whole.csv", *SKIP) == 0
    Stopping.stop_at = "犬 8"
    assert start("s.csv", *SKIP) == 130
    assert not (tmp_path / "s.csv.failed.jsonl").exists()
    assert (tmp_path / "s.csv.failed.jsonl.part").exists()
    Stopping.stop_at = None
    assert start("s.csv", *SKIP, "--resume") == 0
    assert failed(tmp_path) == failed(tmp_path, "whole.csv")
    assert not list(tmp_path.glob("*.part*"))


def test_there_is_none_where_nothing_failed_or_nothing_may(tmp_path, start):
    assert start("s.csv", *SKIP) == 0
    rows = [{"candidate": "a dog", "references": ["a dog"]}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert start("s.csv", *SKIP) == 0
    assert not (tmp_path / "s.csv.failed.jsonl").exists()  # the one of the earlier run would be a lie
    assert start("t.csv") == 0
    assert sorted(path.name for path in tmp_path.glob("t.*")) == ["t.csv"]


def test_a_run_that_accepts_no_bad_row_takes_away_the_file_of_an_earlier_one(tmp_path, start):
    assert start("s.csv", *SKIP) == 0
    assert start("s.csv") == 2  # stops at the third row
    assert len(failed(tmp_path)) == 3
    (tmp_path / "s.csv.part").unlink()
    rows = [{"candidate": "a dog", "references": ["a dog"]}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert start("s.csv") == 0
    assert sorted(path.name for path in tmp_path.glob("s.*")) == ["s.csv"]


@pytest.mark.parametrize(("more", "there"), [(SKIP, True), ((), False)])
def test_rows_of_a_metric_that_failed_are_listed_where_rows_may_fail(
    tmp_path, start, monkeypatch, more, there
):
    def fail(*_, **__):
        raise RuntimeError("broken")

    monkeypatch.setattr(RougeL, "_score", fail)
    rows = [{"candidate": "a dog", "references": ["a dog"]}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert start("s.csv", *more) == 1
    assert (tmp_path / "s.csv.failed.jsonl").exists() == there


@pytest.mark.parametrize("name", ["s.csv.failed.jsonl", "s.csv.failed.jsonl.part"])
@pytest.mark.parametrize("skip", [SKIP, ()])
def test_it_does_not_take_the_place_of_an_input(tmp_path, start, capsys, name, skip):
    data, text = tmp_path / name, (tmp_path / "in.jsonl").read_text()
    data.write_text(text)
    assert start("s.csv", *skip, "--input", data, "--format", "jsonl") == 2
    assert "is the input" in capsys.readouterr().err
    assert data.read_text() == text

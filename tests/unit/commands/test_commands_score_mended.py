"""Score runs that meet bad rows, are killed, or find other input when they go on."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from suisei.metrics.base import Metric
from suisei.metrics.registry import REGISTRY, Entry
from tests.unit.commands.score_runs import run
from tests.unit.runs import read_rows, write_rows

BAD_ROWS = {
    "empty": ('{"id": "bad-1", "candidate": " "}', "candidate is empty"),
    "nan": ('{"id": "bad-2", "candidate": "a", "rating": NaN}', "rating is NaN"),
    "scale": ('{"id": "bad-3", "candidate": "a", "rating": 7}', "outside the rating scale"),
    "image": ('{"id": "bad-4", "candidate": "a", "image": "no.png"}', "'no.png' is not there"),
    "cut image": ('{"id": "bad-5", "candidate": "a", "image": "images/cut.png"}', "cut.png"),
    "column": ('{"id": "bad-6", "candidat": "a"}', "no column 'candidate'"),
    "failed": ('{"id": "bad-10", "error": "no.png: cut off"}', "no caption: no.png: cut off"),
    "json": ('{"id": "bad-7", "candidate": "a"', "not valid JSON"),
    "bytes": ('{"id": "bad-8", "candidate": "\udcff"}', "not valid UTF-8"),
    "long": ('{"id": "bad-9", "candidate": "%s"}' % ("x" * 100_000), "100,000 characters"),
    "twice": ('{"id": "c3", "candidate": "a"}', "'c3' is used by an earlier row"),
    "blank": ("", "blank"),
    "list": ("[]", "expected a JSON object"),
}


@pytest.fixture
def broken(tmp_path, records):
    """Captions with each kind of bad row in the middle, in one file."""
    whole = (tmp_path / "images" / "0.png").read_bytes()
    (tmp_path / "images" / "cut.png").write_bytes(whole[: len(whole) // 2])

    def make(*kinds):
        good = [json.dumps(record, ensure_ascii=False) for record in records]
        lines = good[:20] + [BAD_ROWS[kind][0] for kind in kinds] + good[20:]
        path = tmp_path / "broken.jsonl"
        path.write_bytes("".join(line + "\n" for line in lines).encode("utf-8", "surrogateescape"))
        return path

    return make


def test_bad_rows_are_skipped_with_reasons_and_nothing_else_is_lost(tmp_path, model, caption_file, broken):
    summary = tmp_path / "summary.json"
    whole = ["--model", model, "--summary", summary, "--on-error", "skip"]
    assert run(*whole, "--input", caption_file, "--output", tmp_path / "whole.jsonl") == 0
    assert run(*whole, "--input", broken(*BAD_ROWS), "--output", tmp_path / "s.jsonl", "--window", 23) == 0
    rows, count = read_rows(tmp_path / "s.jsonl"), len(BAD_ROWS)
    bad = rows[20 : 20 + count]
    for row, (kind, (_, message)) in zip(bad, BAD_ROWS.items(), strict=True):
        assert row["suisei"] is None, kind
        assert message in row["error"], kind
    good = rows[:20] + rows[20 + count :]
    expected = read_rows(tmp_path / "whole.jsonl")
    assert [row["id"] for row in good] == [row["id"] for row in expected]
    np.testing.assert_allclose([r["suisei"] for r in good], [r["suisei"] for r in expected], atol=1e-5)
    content = json.loads(summary.read_text(encoding="utf-8"))
    assert content["rows"] == 40 + count
    assert content["metrics"]["suisei"]["n"] == 40
    assert sum(content["bad_rows"].values()) == count - 1
    assert content["bad_rows"]["candidate is empty"] == 1
    assert sum(content["metrics"]["suisei"]["skipped"].values()) == 1  # the image that is cut off


@pytest.mark.parametrize("kind", BAD_ROWS)
def test_a_bad_row_stops_a_strict_run_which_keeps_what_it_has(tmp_path, model, broken, capsys, kind):
    output = tmp_path / "s.jsonl"
    assert run("--model", model, "--input", broken(kind), "--output", output, "--window", 8) == 2
    message = capsys.readouterr().err
    assert "row 21" in message
    assert BAD_ROWS[kind][1] in message
    assert "--resume" in message
    assert message.count("--on-error skip leaves") == 1
    assert not output.exists()
    assert [row["id"] for row in read_rows(f"{output}.part")] == [f"c{number}" for number in range(20)]


def test_a_strict_run_goes_on_after_the_row_is_mended(tmp_path, caption_file, broken):
    whole, output = tmp_path / "whole.jsonl", tmp_path / "s.jsonl"
    arguments = ["--metrics", "bleu-4,chrf,length", "--summary", tmp_path / "sum.json", "--window", 6]
    assert run(*arguments, "--input", caption_file, "--output", whole) == 0
    expected = json.loads((tmp_path / "sum.json").read_text())
    assert run(*arguments, "--input", broken("empty"), "--output", output) == 2
    broken()  # the same file without the bad row
    assert (
        run(*arguments, "--input", tmp_path / "broken.jsonl", "--output", output) == 2
    )  # refuses to overwrite
    assert run(*arguments, "--input", tmp_path / "broken.jsonl", "--output", output, "--resume") == 0
    assert output.read_bytes() == whole.read_bytes()
    assert json.loads((tmp_path / "sum.json").read_text())["metrics"] == expected["metrics"]
    assert sorted(path.name for path in tmp_path.glob("s.jsonl*")) == ["s.jsonl"]


class Counting(Metric):
    """Length of the caption; keeps what it was called with, and stops the process when told to."""

    name = "counting"
    seen: list = []  # noqa: RUF012 - shared by all instances on purpose
    stop_at: int | None = None

    def _score(self, samples, *, batch_size, progress):
        if Counting.stop_at is not None and len(Counting.seen) >= Counting.stop_at:
            raise KeyboardInterrupt
        Counting.seen += [sample.id for sample in samples]
        return np.array([float(len(sample.candidate)) for sample in samples])


@pytest.fixture
def counting(monkeypatch):
    monkeypatch.setitem(REGISTRY, "counting", Entry(f"{__name__}:Counting", (), "a fake"))
    monkeypatch.setattr(Counting, "seen", [])
    monkeypatch.setattr(Counting, "stop_at", None)
    return Counting


def test_a_killed_run_goes_on_where_it_was(tmp_path, caption_file, records, counting):
    output = tmp_path / "s.csv"
    arguments = ["--metrics", "counting", "--input", caption_file, "--output", output, "--window", 6]
    counting.stop_at = 18
    assert run(*arguments) == 130
    with Path(f"{output}.part").open("ab") as stream:
        stream.write(b"c18,24")  # a row that was cut off in the middle
    counting.stop_at = None
    assert run(*arguments, "--resume") == 0
    assert counting.seen == [record["id"] for record in records]  # none twice, none left out
    with output.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["id"], float(row["counting"])) for row in rows] == [
        (record["id"], len(record["candidate"])) for record in records
    ]
    assert run(*arguments, "--resume") == 0  # is complete: nothing happens
    assert len(counting.seen) == 40


def test_resuming_on_changed_input_is_refused(tmp_path, caption_file, records, counting, capsys):
    output = tmp_path / "s.jsonl"
    arguments = ["--metrics", "counting", "--output", output, "--window", 6, "--resume"]
    counting.stop_at = 18
    assert run(*arguments, "--input", caption_file) == 130
    counting.stop_at = None
    assert run(*arguments, "--input", write_rows(tmp_path / "other.jsonl", records[1:])) == 2
    assert "the input has changed" in capsys.readouterr().err
    assert run(*arguments, "--input", write_rows(tmp_path / "short.jsonl", records[:10])) == 2
    assert "8 rows more than" in capsys.readouterr().err
    assert len(read_rows(f"{output}.part")) == 18


def test_rows_are_written_as_windows_finish(tmp_path, caption_file, counting):
    output = tmp_path / "s.jsonl"
    counting.stop_at = 30
    assert run("--metrics", "counting", "--input", caption_file, "--output", output, "--window", 10) == 130
    assert len(read_rows(f"{output}.part")) == 30

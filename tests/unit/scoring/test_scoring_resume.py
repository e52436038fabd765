"""Resuming: never old scores beside new ones, and never without the part file that was found."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from suisei.commands.score import main
from suisei.data.formats import Row, iter_rows
from suisei.data.video import VideoSample
from suisei.metrics.base import Metric
from suisei.metrics.registry import REGISTRY, Entry
from suisei.scoring.digest import BAD_ROW, row_digest
from tests.unit import runs
from tests.unit.runs import write_rows


class Halting(Metric):
    """Scores by length times a factor, and stops the process like Ctrl-C at one caption."""

    name = "halting"
    stop_at: str | None = None

    def __init__(self, factor: float = 1.0, device: str = "auto") -> None:
        self.factor = factor

    def _score(self, samples, *, batch_size, progress):
        if any(sample.candidate == Halting.stop_at for sample in samples):
            raise KeyboardInterrupt
        return np.array([self.factor * len(sample.candidate) for sample in samples])


@pytest.fixture(autouse=True)
def halting(monkeypatch):
    monkeypatch.setitem(REGISTRY, "halting", Entry(f"{__name__}:Halting", (), "a fake"))
    monkeypatch.setattr(Halting, "stop_at", None)
    return Halting


@pytest.fixture
def rows(tmp_path):
    for number in range(4):
        Image.new("RGB", (4, 4 + number)).save(tmp_path / f"{number}.png")
    return [
        {
            "id": f"r{n}",
            "candidate": f"a dog {n}",
            "references": [f"dog {n}", "the dog"],
            "image": f"{n % 4}.png",
        }
        for n in range(12)
    ]


run = partial(runs.run, main)


def start(tmp_path, rows, halting, *more, metrics="halting,rouge-l", suffix="jsonl"):
    """Score the first eight of twelve rows, then stop; returns the command that goes on."""
    source, output = write_rows(tmp_path / "in.jsonl", rows), tmp_path / f"o.{suffix}"
    command = ["--metrics", metrics, "--output", output, "--window", 4, *more]
    halting.stop_at = "a dog 9"
    assert run(*command, "--input", source) == 130
    halting.stop_at = None
    return [*command, "--input", source, "--resume"]


def part_files(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("o.*"))}


def test_references_of_other_files_that_changed_are_refused(tmp_path, rows, halting, capsys):
    """What was scored with other references is not what is asked for, wherever they stand."""
    for row in rows:
        del row["references"]
    references = tmp_path / "refs.txt"
    references.write_text("".join(f"the dog {n}\n" for n in range(12)))
    again = start(tmp_path, rows, halting, "--references", references)
    before = part_files(tmp_path)
    references.write_text("".join(f"the cat {n}\n" for n in range(12)))
    assert run(*again) == 2
    assert "row 1 of the input ('r0') is not what was scored" in capsys.readouterr().err
    assert part_files(tmp_path) == before
    references.write_text("".join(f"the dog {n}\n" for n in range(12)))
    assert run(*again) == 0
    whole = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [row["id"] for row in whole] == [f"r{n}" for n in range(12)]
    assert all(row["rouge-l"] > 0 for row in whole)
    os.utime(references, ns=(2**62, 2**62))
    assert run(*again) == 2
    assert "refs.txt was changed after it" in capsys.readouterr().err


def test_another_column_of_candidates_is_refused(tmp_path, rows, halting, capsys):
    again = start(tmp_path, [{**row, "other": "a cat"} for row in rows], halting)
    assert run(*again, "--column", "candidate=other") == 2
    assert "row 1 of the input ('r0') is not what was scored" in capsys.readouterr().err


def test_white_space_around_captions_is_no_change(tmp_path, rows, halting):
    again = start(tmp_path, rows, halting)
    write_rows(tmp_path / "in.jsonl", [{**row, "candidate": f" {row['candidate']}\n"} for row in rows])
    assert run(*again) == 0


CHANGES = {
    "candidate": lambda row: row.update(candidate="another dog"),
    "reference": lambda row: row.update(references=["dog 2", "a dog"]),
    "fewer references": lambda row: row.update(references=["dog 2"]),
    "order of references": lambda row: row.update(references=row["references"][::-1]),
    "language": lambda row: row.update(language="ja"),
    "no image": lambda row: row.pop("image"),
    "another image": lambda row: row.update(image="3.png"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_finished_row_that_changed_is_refused_by_name(tmp_path, rows, halting, capsys, change, suffix):
    again = start(tmp_path, rows, halting, suffix=suffix)
    before = part_files(tmp_path)
    CHANGES[change](rows[2])
    write_rows(tmp_path / "in.jsonl", rows)
    assert run(*again) == 2
    error = capsys.readouterr().err
    assert "row 3 of the input ('r2') is not what was scored" in error
    assert "another --output" in error
    assert part_files(tmp_path) == before
    assert len(before) == 2


def test_an_image_that_was_replaced_is_noticed(tmp_path, rows, halting, capsys):
    again = start(tmp_path, rows, halting)
    Image.new("RGB", (9, 9), "red").save(tmp_path / "1.png")
    assert run(*again) == 2
    assert "row 2 of the input ('r1')" in capsys.readouterr().err


def test_rows_that_are_not_scored_yet_and_ratings_may_change(tmp_path, rows, halting):
    again = start(tmp_path, rows, halting)
    for row in rows:
        row["rating"] = 0.5
    rows[10]["candidate"] = "quite another caption"
    write_rows(tmp_path / "in.jsonl", rows)
    assert run(*again) == 0
    found = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [row["halting"] for row in found] == [len(row["candidate"]) for row in rows]
    assert sorted(part_files(tmp_path)) == ["o.jsonl"]


def test_a_bad_row_that_was_mended_is_noticed(tmp_path, rows, halting, capsys):
    good = rows[1]["candidate"]
    rows[1]["candidate"] = " "
    again = start(tmp_path, rows, halting, "--on-error", "skip")
    rows[1]["candidate"] = good
    write_rows(tmp_path / "in.jsonl", rows)
    assert run(*again) == 2
    assert "row 2 of the input ('r1') is not what was scored" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--metrics", "rouge-l"], "was scored with halting"),
        (["--metrics", "rouge-l,halting"], "was scored with halting"),
        (
            ["--metrics", "x=halting,rouge-l"],
            "was scored with halting, rouge-l; this run has x, rouge-l; use",
        ),
        (["--metric-option", "halting.factor=2"], "other options of the metrics"),
        (["--tokenizer", "character"], "was scored with halting"),
    ],
)
def test_other_metrics_or_options_are_refused(tmp_path, rows, halting, capsys, changed, message):
    again = start(tmp_path, rows, halting)
    before = part_files(tmp_path)
    if changed[0] == "--metrics":
        again = again[2:]
    assert run(*again, *changed) == 2
    assert message in capsys.readouterr().err
    assert part_files(tmp_path) == before


@pytest.mark.parametrize(("given", "sizes"), [([], [2, 2]), (["--window", "3"], [1, 3])])
def test_rows_are_scored_together_as_before_unless_it_is_said(
    tmp_path, rows, halting, given, sizes, monkeypatch
):
    again, seen, score = start(tmp_path, rows, halting, "--window", "2"), [], Halting._score
    again = [each for each in again if each not in ("--window", 4, "2")]
    monkeypatch.setattr(
        Halting, "_score", lambda own, new, **more: seen.append(len(new)) or score(own, new, **more)
    )
    assert run(*again, *given) == 0
    assert seen == sizes


def test_another_device_goes_on(tmp_path, rows, halting):
    assert run(*start(tmp_path, rows, halting), "--device", "cpu") == 0
    assert sorted(part_files(tmp_path)) == ["o.jsonl"]


def test_weights_from_changed_references_are_refused(tmp_path, rows, halting, capsys):
    again = start(tmp_path, rows, halting, metrics="halting,cider")
    rows[11]["references"] = ["quite another thing", "the dog"]  # of a row that is not scored yet
    write_rows(tmp_path / "in.jsonl", rows)
    assert run(*again) == 2
    assert "other references in the input, which decide weights" in capsys.readouterr().err


WRONG_INPUTS = {
    "mistyped": lambda folder: folder / "inn.jsonl",
    "a folder": lambda folder: folder,
    "empty": lambda folder: write_rows(folder / "empty.jsonl", []),
    "a header alone": lambda folder: raw(folder / "head.csv", b"id,candidate\n"),
    "a bad header": lambda folder: raw(folder / "head.csv", b"id,text\n1,a\n"),
    "other encoding": lambda folder: raw(folder / "x.csv", "id,candidate\nr0,赤い\n".encode("utf-16")),
    "bytes": lambda folder: raw(folder / "x.jsonl", b"\xff\x00\x81" * 50),
    "Parquet that is cut": lambda folder: raw(folder / "x.parquet", b"PAR1\x00\x00"),
    "no format": lambda folder: raw(folder / "x.txt", b"a"),
    "other rows": lambda folder: write_rows(folder / "x.jsonl", [{"id": "z", "candidate": "a"}]),
    "fewer rows": lambda folder: write_rows(folder / "x.jsonl", rows_of(folder)[:5]),
}


def raw(path, content):
    path.write_bytes(content)
    return path


def rows_of(folder):
    return [json.loads(line) for line in (folder / "in.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("wrong", WRONG_INPUTS)
@pytest.mark.parametrize("metrics", ["halting", "halting,cider"])
def test_a_part_file_survives_every_wrong_input(tmp_path, rows, halting, wrong, metrics):
    again = start(tmp_path, rows, halting, metrics=metrics)
    with (tmp_path / "o.jsonl.part").open("ab") as stream:
        stream.write(b'{"id": "r8", "hal')  # what a kill may leave
    before = part_files(tmp_path)
    place = again.index("--input") + 1
    assert run(*again[:place], WRONG_INPUTS[wrong](tmp_path), *again[place + 1 :]) == 2
    assert part_files(tmp_path) == before
    assert run(*again) == 0
    whole = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [row["id"] for row in whole] == [row["id"] for row in rows]


def test_ctrl_c_before_the_first_new_window_keeps_the_part_file(tmp_path, rows, halting):
    again = start(tmp_path, rows, halting)
    before = part_files(tmp_path)
    halting.stop_at = "a dog 8"
    assert run(*again) == 130
    assert part_files(tmp_path) == before


def test_a_run_that_begins_and_stops_before_its_first_row_leaves_nothing(tmp_path, rows, halting):
    halting.stop_at = "a dog 0"
    source = write_rows(tmp_path / "in.jsonl", rows)
    assert run("--metrics", "halting", "--input", source, "--output", tmp_path / "o.csv") == 130
    assert part_files(tmp_path) == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_a_run_ended_by_a_signal_is_resumed_to_the_same_file(tmp_path, rows, number):
    source = write_rows(tmp_path / "in.jsonl", rows)
    command = [sys.executable, "-m", "suisei", "score", "--metrics", "length", "--window", "2"]
    command += ["--output", str(tmp_path / "o.jsonl"), "--images", str(tmp_path)]
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore it
    with subprocess.Popen(
        [*command, "--input", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heeding
    ) as process:
        process.stdin.write(b"".join(source.read_bytes().splitlines(keepends=True)[:6]))
        process.stdin.flush()  # and no end: the run waits for more
        part = tmp_path / "o.jsonl.part"
        for _ in range(600):
            if part.is_file() and part.read_text().count("\n") >= 4:
                break
            time.sleep(0.1)
        process.send_signal(number)
        process.wait(60)
        assert b"Traceback" not in process.stderr.read()
    assert part.read_text().count("\n") >= 4
    assert not (tmp_path / "o.jsonl").exists()
    assert run(*command[4:], "--input", source, "--resume") == 0
    assert run("--metrics", "length", "--input", source, "--output", tmp_path / "whole.jsonl") == 0
    assert (tmp_path / "o.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_digests_differ_by_what_is_scored_and_by_nothing_else(tmp_path):
    def digest(text):
        path = raw(Path(tmp_path / "x.jsonl"), text.encode())
        return [row_digest(row) for row in iter_rows(path)]

    plain = digest('{"candidate": "a", "references": ["b", "c"]}\n')
    assert digest('{"references": ["b", "c"], "candidate": "a", "rating": 1, "id": "7"}\n') == plain
    assert digest('{"candidate": "a", "references": ["bc"]}\n') != plain
    assert digest('{"candidate": ""}\n') == [BAD_ROW]
    assert len(plain[0]) == len(BAD_ROW)


def test_digests_differ_by_a_file_written_again_and_by_the_part_of_a_video(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"0123")

    def digest(segment=None):
        return row_digest(Row(1, "a", VideoSample("a dog", video=path, segment=segment), None))

    first = digest()
    assert digest() == first
    assert len({first, digest((0.0, 1.0)), digest((0.0, 2.0))}) == 3
    os.utime(path, ns=(1, 1))  # as long as before
    assert digest() != first


def test_an_output_older_than_its_input_is_not_taken_for_its_scores(tmp_path, capsys):
    data, output = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    data.write_text('{"id": "1", "candidate": "a dog"}\n', encoding="utf-8")
    given = ["--metrics", "length", "--input", str(data), "--output", str(output)]
    assert run(*given) == 0
    assert run(*given, "--resume") == 0
    assert "nothing to resume" in capsys.readouterr().err
    assert run(*given, "--resume", "--summary", tmp_path / "sum.json") == 2
    assert "nothing is scored that --summary" in " ".join(capsys.readouterr().err.split())
    data.write_text('{"id": "1", "candidate": "quite another caption"}\n', encoding="utf-8")
    later = output.stat().st_mtime_ns + 1_000_000_000
    os.utime(data, ns=(later, later))
    before = output.read_bytes()
    assert run(*given, "--resume") == 2
    assert f"{data} was changed after it" in " ".join(capsys.readouterr().err.split())
    assert output.read_bytes() == before
    assert run(*given) == 0
    assert output.read_bytes() != before


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "tsv", "csv.gz", "parquet"])
def test_an_output_of_other_metrics_is_not_taken_for_the_scores_of_these(tmp_path, capsys, suffix):
    data, output = tmp_path / "in.jsonl", tmp_path / f"out.{suffix}"
    data.write_text('{"id": "1", "candidate": "a dog"}\n', encoding="utf-8")
    given = ["--input", data, "--output", output, "--metrics"]
    assert run(*given, "length") == 0
    assert run(*given, "length", "--resume") == 0
    before = output.read_bytes()
    assert run(*given, "length,distinct-2", "--resume") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "is complete, but has scores by length, and this run by length, distinct-2" in said
    assert output.read_bytes() == before

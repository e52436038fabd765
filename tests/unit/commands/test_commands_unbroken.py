"""Commands that are interrupted, whose disk fills or whose files go away: what is said, and what is left."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from suisei.commands import score
from tests.unit.commands.acting import Acting, interrupt, rated_rows, registered, scoring
from tests.unit.runs import read_rows, run


@pytest.fixture(autouse=True)
def acting(monkeypatch):
    yield from registered(monkeypatch)


@pytest.fixture
def data(tmp_path):
    return rated_rows(tmp_path)


def test_ctrl_c_says_what_is_finished_and_how_to_go_on(data, acting, capsys):
    output = data.parent / "s.jsonl"
    acting.act = staticmethod(interrupt)
    assert scoring(data, output) == 130
    said = capsys.readouterr().err.splitlines()[-1]
    assert (
        said == f"suisei: interrupted; 8 rows are finished, in {output}.part; the same with --resume goes on"
    )
    acting.act = staticmethod(lambda: None)
    assert scoring(data, output, "--resume") == 0
    assert len(output.read_text().splitlines()) == 12


def test_ctrl_c_in_the_middle_of_rows_into_a_pipe_says_that_some_are_there(data, tmp_path):
    rows = json.loads(data.read_text().splitlines()[0])
    many = tmp_path / "many.jsonl"  # more than a pipe holds
    many.write_text(
        "".join(json.dumps({**rows, "id": f"{n:0100}", "image": None}) + "\n" for n in range(2000))
    )
    command = [sys.executable, "-m", "suisei", "score", "--metrics", "length", "--input", str(many)]
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore it
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "--window", "1500"], preexec_fn=heeding, **pipes) as process:
        first = process.stdout.readline()  # the block is being written, and waits
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate()
    assert process.returncode == 130
    assert first
    assert 0 < rest.count("\n") < 1500
    assert said.splitlines()[-1] == (
        "suisei: interrupted; 0 rows written, and some of the next 1,500, of which the last may be cut off"
    )


def test_a_resumed_run_takes_the_blocks_of_the_one_before(data, acting, monkeypatch):
    sizes = []
    real = Acting._score

    def noting(self, samples, **options):
        sizes.append(len(samples))
        return real(self, samples, **options)

    monkeypatch.setattr(Acting, "_score", noting)
    arguments = ["--input", data, "--images", data.parent / "images", "--metrics", "acting"]
    arguments += ["--output", data.parent / "s.jsonl"]
    acting.act = staticmethod(interrupt)
    assert run(score.main, *arguments, "--window", 4) == 130
    acting.act = staticmethod(lambda: None)
    sizes.clear()
    assert run(score.main, *arguments, "--resume") == 0
    assert sizes == [4]


def test_a_summary_and_the_output_come_together(data, monkeypatch):
    """A run that dies right before its output has its name writes the summary again when it goes on."""
    output, summary = data.parent / "s.jsonl", data.parent / "summary.json"
    from suisei.scoring.output import FileOutput

    with monkeypatch.context() as patch:
        patch.setattr(FileOutput, "complete", lambda self: interrupt())
        assert scoring(data, output, "--summary", summary) == 130
    assert summary.exists()
    assert not output.exists()
    summary.unlink()
    assert scoring(data, output, "--summary", summary, "--resume") == 0
    assert json.loads(summary.read_text())["rows"] == 12
    assert output.exists()


def test_an_output_whose_summary_cannot_be_written_is_gone_on_with(data, acting, capsys):
    output, folder = data.parent / "s.jsonl", data.parent / "summaries"
    folder.mkdir()
    acting.act = staticmethod(folder.rmdir)
    assert scoring(data, output, "--summary", folder / "s.json") == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "summaries/s.json: cannot be written" in said.replace(str(folder), "summaries")
    assert said.endswith(f"; the scores are in {output}.part; --resume goes on")
    assert not output.exists()
    assert len(Path(f"{output}.part").read_text().splitlines()) == 12
    folder.mkdir()
    assert scoring(data, output, "--summary", folder / "s.json", "--resume") == 0
    assert json.loads((folder / "s.json").read_text())["rows"] == 12
    assert len(output.read_text().splitlines()) == 12
    assert not Path(f"{output}.part").exists()


@pytest.mark.parametrize("more", [(), ("--on-error", "skip")])
def test_a_folder_of_images_that_goes_away_stops_the_run(data, acting, capsys, more):
    output, images = data.parent / "s.jsonl", data.parent / "images"
    away = data.parent / "away"
    acting.act = staticmethod(lambda: images.rename(away) if images.exists() else None)
    assert scoring(data, output, *more, metrics="looking") == 2
    said = capsys.readouterr().err
    assert f"{images} is not there any more (8 rows before it are in {output}.part; --resume" in said
    assert len(Path(f"{output}.part").read_text().splitlines()) == 8
    acting.act = staticmethod(lambda: None)
    away.rename(images)
    assert scoring(data, output, *more, "--resume", metrics="looking") == 0
    rows = read_rows(output)
    assert [row["looking"] for row in rows] == [7.0] * 10 + [8.0] * 2


@pytest.mark.parametrize("more", [(), ("--on-error", "skip")])
@pytest.mark.parametrize("emptied", [False, True], ids=["away", "emptied, as a mount point is"])
def test_a_folder_that_goes_away_between_two_blocks_stops_the_run(data, capsys, monkeypatch, more, emptied):
    """Rows read after it become no samples, though their images were there when the run began."""
    from suisei.scoring.output import FileOutput

    output, images, away = data.parent / "s.jsonl", data.parent / "images", data.parent / "away"
    arguments = ("--input", data, "--metrics", "length", "--output", output, "--window", 4, *more)
    real = FileOutput.write

    def write(self, rows):
        real(self, rows)
        if not away.exists():
            images.rename(away)
            if emptied:
                images.mkdir()

    with monkeypatch.context() as patch:
        patch.setattr(FileOutput, "write", write)
        assert run(score.main, *arguments) == 2
    said = capsys.readouterr().err
    gone = images / "3.png" if emptied else images
    assert f"suisei: {gone} is not there any more (4 rows before it are in {output}.part; --resume" in said
    assert run(score.main, *arguments, "--resume") == 2
    assert "0.png is not there any more; the same command goes on once it is back" in capsys.readouterr().err
    if emptied:
        images.rmdir()
    away.rename(images)
    assert run(score.main, *arguments, "--resume") == 0
    assert ["error" in row for row in read_rows(output)] == [False] * 12


def test_images_that_never_were_there_are_bad_rows(data):
    output, images = data.parent / "s.jsonl", data.parent / "images"
    arguments = ("--input", data, "--metrics", "length", "--window", 4, "--on-error", "skip")
    (images / "6.png").unlink()
    assert run(score.main, *arguments, "--output", output) == 0
    assert ["error" in row for row in read_rows(output)].index(True) == 6
    images.rename(data.parent / "elsewhere")
    assert run(score.main, *arguments, "--output", data.parent / "none.jsonl") == 1
    assert (data.parent / "none.jsonl").read_text().count("is not there: no file") == 12


def test_an_output_that_became_a_folder_keeps_its_rows(data, acting, capsys):
    output = data.parent / "s.jsonl"
    acting.act = staticmethod(lambda: (output / "x").mkdir(parents=True))
    assert scoring(data, output) == 2
    assert f"its rows are in {output}.part; --resume goes on" in capsys.readouterr().err
    acting.act = staticmethod(lambda: None)
    shutil.rmtree(output)
    assert scoring(data, output, "--resume") == 0
    assert len(output.read_text().splitlines()) == 12


def test_a_part_file_that_was_taken_away_is_said(data, acting, capsys):
    output = data.parent / "s.jsonl"
    acting.act = staticmethod(lambda: Path(f"{output}.part").unlink())
    assert scoring(data, output) == 2
    assert "was taken away while it was written" in capsys.readouterr().err


def test_a_file_that_may_not_grow_keeps_whole_blocks(data, tmp_path):
    """The limit of a process stands for a full disk: a write in the middle of a block is cut short."""
    output = tmp_path / "s.jsonl"
    rows = data.read_text().splitlines()
    data.write_text("".join(f"{row}\n" for row in rows * 8).replace('"id"', '"number"').replace("image", "x"))
    command = [
        sys.executable,
        "-m",
        "suisei",
        "score",
        "--input",
        data,
        "--metrics",
        "length",
        "--window",
        "16",
    ]
    command += ["--output", output]

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))

    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limited)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"suisei: {output}.part")
    assert "File too large (" in done.stderr
    assert (
        f"rows before it are in {output}.part; --resume goes on after them, once there is room)"
        in done.stderr
    )
    assert "Traceback" not in done.stderr
    assert 0 < Path(f"{output}.part").stat().st_size <= 1500
    again = subprocess.run([*command, "--resume"], capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert len(output.read_text().splitlines()) == 96


def test_a_second_run_is_told_that_the_first_is_at_work(data, acting, capsys):
    output = data.parent / "s.jsonl"
    seen = []
    acting.act = staticmethod(lambda: seen.append(scoring(data, output, "--resume", metrics="length")))
    assert scoring(data, output) == 0
    assert seen == [2]
    assert "s.jsonl.part" in capsys.readouterr().err


def test_a_signal_from_the_keyboard_ends_a_process_in_a_line(data):
    rows = [
        json.dumps({"candidate": f"a dog {n}", "references": ["a dog runs in the park"] * 5})
        for n in range(40_000)
    ]
    source = data.parent / "many.jsonl"
    source.write_text("\n".join(rows) + "\n")
    output = data.parent / "s.jsonl"
    command = [sys.executable, "-m", "suisei", "score", "--input", source, "--metrics", "rouge-l,bleu-4,chrf"]
    process = subprocess.Popen(
        [*command, "--window", "64", "--output", output],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ},
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a job may ignore it
    )
    part, deadline = Path(f"{output}.part"), time.monotonic() + 120
    while not (part.exists() and part.stat().st_size > 20_000):  # some blocks
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 130, said
    assert "rows are finished, in" in said.splitlines()[-1]
    assert "Traceback" not in said

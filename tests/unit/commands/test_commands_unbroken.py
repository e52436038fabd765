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

import numpy as np
import pytest
from PIL import Image

from suisei.commands import compare, evaluate, score
from suisei.data.images import load_image
from suisei.metrics.base import Metric
from suisei.metrics.registry import REGISTRY, Entry
from suisei.runlog import events
from tests.unit.runs import read_rows, run, write_rows


class Acting(Metric):
    """Scores by length, and does something when it comes to a caption."""

    name = "acting"
    at = "a dog 9"
    act = staticmethod(lambda: None)

    def _score(self, samples, *, batch_size, progress):
        if any(sample.candidate == Acting.at for sample in samples):
            Acting.act()
        return np.array([float(len(sample.candidate)) for sample in samples])


class Looking(Acting):
    """Looks at the images besides."""

    def _score(self, samples, **options):
        scores = super()._score(samples, **options)
        for sample in samples:
            load_image(sample.image)
        return scores


def interrupt():
    raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def acting(monkeypatch):
    for fake in (Acting, Looking):
        entry = Entry(f"{__name__}:{fake.__name__}", (), "a fake")
        monkeypatch.setitem(REGISTRY, fake.__name__.lower(), entry)
    monkeypatch.setattr(Acting, "act", staticmethod(lambda: None))
    yield Acting
    events.end(None)


@pytest.fixture
def data(tmp_path):
    """Twelve rated rows whose images are in a folder of their own."""
    images = tmp_path / "images"
    images.mkdir()
    rows = []
    for number in range(12):
        Image.new("RGB", (8, 8 + number)).save(images / f"{number}.png")
        rows.append({
            "id": f"r{number}", "candidate": f"a dog {number}", "references": ["a dog runs", "犬が走る"],
            "image": str(images / f"{number}.png"), "rating": number / 12,
        })  # fmt: skip
    return write_rows(tmp_path / "rows.jsonl", rows)


def scoring(data, output, *more, metrics="acting"):
    images = data.parent / "images"
    return run(
        score.main,
        "--input",
        data,
        "--images",
        images,
        "--metrics",
        metrics,
        "--output",
        output,
        "--window",
        4,
        *more,
    )


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


def test_an_image_that_goes_away_stops_an_evaluation_that_keeps_scores(data, acting, capsys):
    image, away = data.parent / "images" / "9.png", data.parent / "away.png"
    arguments = ["--data", data, "--metrics", "looking", "--bootstrap", 10, "--keep", data.parent / "kept"]
    acting.act = staticmethod(lambda: image.rename(away) if image.exists() else None)
    assert run(evaluate.main, *arguments) == 2
    assert f"{image} is not there any more; the same command goes on" in capsys.readouterr().err
    acting.act = staticmethod(lambda: None)
    away.rename(image)
    assert run(evaluate.main, *arguments) == 0


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


EVALUATING = ("--metrics", "length,acting,rouge-l", "--bootstrap", 10)


def test_ctrl_c_of_an_evaluation_says_what_is_kept(data, acting, capsys):
    arguments = ["--data", data, *EVALUATING, "--json", data.parent / "e.json"]
    keep = ["--keep", data.parent / "kept"]
    acting.act = staticmethod(interrupt)
    assert run(evaluate.main, *arguments) == 130
    assert (
        "1 of 3 metrics are done; their scores are lost; with --keep DIR they would"
        in capsys.readouterr().err
    )
    assert run(evaluate.main, *arguments, *keep) == 130
    assert (
        f"1 of 3 metrics are done; scores are in {data.parent / 'kept'}, and the same"
        in capsys.readouterr().err
    )
    acting.act = staticmethod(lambda: None)
    assert run(evaluate.main, *arguments, *keep) == 0
    whole = (data.parent / "e.json").read_bytes()
    assert run(evaluate.main, *arguments) == 0
    assert (data.parent / "e.json").read_bytes() == whole


def test_a_comparison_goes_on_from_what_is_kept(data, acting):
    rows = read_rows(data)
    for name in ("one", "two"):
        own = [{**row, "candidate": f"{row['candidate']} {name}"} for row in rows]
        write_rows(data.parent / f"{name}.jsonl", own)
    arguments = [
        data.parent / "one.jsonl",
        data.parent / "two.jsonl",
        *EVALUATING,
        "--json",
        data.parent / "c.json",
    ]
    assert run(compare.main, *arguments) == 0
    whole = (data.parent / "c.json").read_bytes()
    acting.at = "a dog 9 two"
    acting.act = staticmethod(interrupt)
    try:
        assert run(compare.main, *arguments, "--keep", data.parent / "kept") == 130
        acting.act = staticmethod(lambda: None)
        assert run(compare.main, *arguments, "--keep", data.parent / "kept") == 0
    finally:
        acting.at = "a dog 9"
    assert (data.parent / "c.json").read_bytes() == whole


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

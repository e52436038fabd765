"""Scoring in several processes: the same rows in the same order, and the same ends of a run."""

import json
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from suisei.commands.score import main
from suisei.scoring import parallel
from tests.unit import runs
from tests.unit.runs import read_rows, write_rows

WORDS = [
    "red",
    "blue",
    "dog",
    "cat",
    "ball",
    "runs",
    "sleeps",
    "on",
    "under",
    "the",
    "a",
    "table",
    "chair",
    "star",
    "three",
    "two",
    "small",
    "large",
]


@pytest.fixture(scope="module")
def rows(pictures):
    generator = np.random.default_rng(0)

    def caption():
        return " ".join(generator.choice(WORDS, size=generator.integers(3, 9)))

    return [
        {"id": f"r{number}", "candidate": caption(), "references": [caption(), caption()]}
        | ({"image": str(pictures[number % 4])} if number % 3 else {})
        for number in range(60)
    ]


run = partial(runs.run, main, "--any-path")  # the pictures lie elsewhere


def test_two_processes_give_the_rows_of_one(tmp_path, model_folder, rows):
    source = write_rows(tmp_path / "rows.jsonl", rows)
    metrics = ["--model", model_folder, "--metrics", "cider,bleu-1,rouge-l", "--window", 7]
    metrics += ["--precision", "fp32"]  # what is the default depends on the machine
    found = {}
    for processes in (1, 2):
        output, summary = tmp_path / f"{processes}.jsonl", tmp_path / f"{processes}.json"
        given = ["--input", source, "--output", output, "--summary", summary, "--processes", processes]
        assert run(*metrics, *given) == 0
        found[processes] = read_rows(output), json.loads(summary.read_text())["metrics"]
    assert [row["id"] for row in found[2][0]] == [row["id"] for row in rows]
    scores = [[list(row.values())[1:] for row in found[processes][0]] for processes in (1, 2)]
    assert np.std(scores[0], axis=0).min() > 1e-4
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-6)
    for label, entry in found[1][1].items():
        assert found[2][1][label]["corpus"] == pytest.approx(entry["corpus"], abs=1e-6)
        assert found[2][1][label]["signature"] == entry["signature"]


def test_a_bad_row_ends_the_run_after_all_rows_before_it_which_resuming_keeps(tmp_path, rows, capsys):
    good = write_rows(tmp_path / "good.jsonl", rows)
    bad = write_rows(tmp_path / "bad.jsonl", [*rows[:40], {"id": "r40", "candidate": " "}, *rows[41:]])
    output = tmp_path / "scores.jsonl"
    settings = ["--metrics", "rouge-l", "--output", output, "--window", 8, "--processes", 2]
    assert run("--input", bad, *settings) == 2
    assert "row 41" in capsys.readouterr().err
    assert [row["id"] for row in read_rows(tmp_path / "scores.jsonl.part")] == [f"r{n}" for n in range(40)]
    assert run("--input", good, *settings, "--resume") == 0
    assert [row["id"] for row in read_rows(output)] == [f"r{n}" for n in range(60)]
    assert run("--metrics", "rouge-l", "--input", good, "--output", tmp_path / "one.jsonl") == 0
    assert read_rows(tmp_path / "one.jsonl") == read_rows(output)


def test_a_kind_of_warning_is_said_once_however_many_windows_have_it(tmp_path, model_folder, capsys):
    rows = [{"candidate": f"a dog {n}", "references": ["a dog"] if n > 5 else []} for n in range(8)]
    source = write_rows(tmp_path / "rows.jsonl", rows)
    given = ["--model", model_folder, "--input", source, "--output", tmp_path / "out.jsonl", "--window", 4]
    assert run(*given, "--processes", 2) == 0
    assert capsys.readouterr().err.count("are scored from the candidate alone") == 1


def test_every_warning_of_a_process_is_an_event_of_the_log(tmp_path, rows, capfd):
    source = write_rows(tmp_path / "rows.jsonl", [row | {"candidate": "犬がいる"} for row in rows])
    given = ["--metrics", "bleu-4", "--tokenizer", "ptb", "--input", source, "--processes", 2]
    assert run(*given, "--output", tmp_path / "out.jsonl", "--window", 8, "--log-json", "-") == 0
    events = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    warned = [event["text"] for event in events if event["event"] == "warning"]
    assert sum("'ptb' is for English" in text for text in warned) == 1


def test_warnings_of_processes_are_said_as_they_are():
    handler, record = (
        parallel.CollectedWarnings(),
        logging.LogRecord("suisei", 30, "", 0, "100%% of %s", None, None),
    )
    for record.msg, record.args in (("100%% of %s: %d", (Path("a%"), 3)), ("100%", ())):
        handler.emit(record)
    assert [text % own if own else text for text, own in handler.messages] == ["100% of a%: 3", "100%"]


def test_processes_and_devices_exclude_each_other_and_devices_must_exist(tmp_path, rows, capsys):
    given = ["--metrics", "rouge-l", "--input", write_rows(tmp_path / "rows.jsonl", rows)]
    for extra, message in (
        (["--processes", 2, "--devices", "all"], "give one of them"),
        (["--devices", "none"], "expected a number of GPUs"),
        (["--devices", "99"], "GPUs here"),
        (["--devices", "1", "--device", "cpu"], "give one of them"),
    ):
        assert run(*given, *extra) == 2
        assert message in capsys.readouterr().err


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs Linux's list of processes")
def test_a_run_that_is_killed_leaves_no_process_and_can_be_resumed(tmp_path, rows):
    output, source = tmp_path / "scores.jsonl", write_rows(tmp_path / "rows.jsonl", rows)
    command = [sys.executable, "-m", "suisei", "score", "--metrics", "rouge-l", "--output", str(output)]
    command += ["--processes", "2", "--window", "8", "--any-path"]
    with subprocess.Popen([*command, "--input", "-"], stdin=subprocess.PIPE) as process:
        process.stdin.write(source.read_bytes())
        process.stdin.flush()  # and no end: the run waits for more
        part = tmp_path / "scores.jsonl.part"
        wait_until(lambda: part.is_file() and part.read_text().count("\n") >= 8)
        workers = children(process.pid)
        assert len(workers) >= 2
        process.kill()
    wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    resumed = [*command, "--input", str(source), "--resume"]
    assert subprocess.run(resumed, capture_output=True, check=False).returncode == 0
    assert [row["id"] for row in read_rows(output)] == [row["id"] for row in rows]


def test_nothing_of_a_pool_is_left_once_it_was_ended():
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        pool.submit(time.sleep, 100)
        manager = pool._executor_manager_thread
        parallel.end_at_once(pool)
        assert not manager.is_alive()  # which would close a pipe that Python writes to as it ends


LAUNCHER = """
from suisei.__main__ import main
from suisei.metrics.registry import REGISTRY

REGISTRY["mine"] = REGISTRY["length"]  # which no process that this one starts will see
raise SystemExit(main())
"""


@pytest.mark.parametrize("shards", [False, True])
def test_a_process_that_cannot_make_its_metric_says_why(tmp_path, rows, shards):
    for number in range(2):
        write_rows(tmp_path / f"s-{number}.jsonl", rows[:4])
    command = [sys.executable, "-c", LAUNCHER, "score", "--metrics", "mine", "--processes", "2"]
    source, output = ("s-*.jsonl", "scores") if shards else ("s-0.jsonl", "scores.jsonl")
    command += ["--input", source, "--output", output, "--any-path"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "a scoring process could not make its metrics: no metric 'mine'" in found.stderr
    assert "Traceback" not in found.stderr
    assert "memory" not in found.stderr


ENDLESS = """
import pathlib, signal, sys, time

if "--multiprocessing-fork" in sys.orig_argv:  # a worker, which has imported nothing yet
    signal.raise_signal(signal.SIGINT)

from suisei.metrics.overlap import Length

def score(self, samples, **options):
    pathlib.Path(__file__).with_name("reached").touch()
    time.sleep(3600)

Length._score = score
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs Linux's list of processes")
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("shards", [False, True])
def test_keys_that_interrupt_end_all_processes_whatever_they_are_at(tmp_path, times, shards):
    """A terminal signals the whole group, workers that begin too; nobody takes windows under way."""
    (tmp_path / "sitecustomize.py").write_text(ENDLESS)
    for shard in range(2):
        write_rows(tmp_path / f"{shard}.jsonl", [{"candidate": "a dog"}] * 80)
    source, output = ("*.jsonl", "out") if shards else ("0.jsonl", "out.jsonl")
    command = [sys.executable, "-m", "suisei", "score", "--metrics", "length", "--processes", "2"]
    command += ["--input", str(tmp_path / source), "--output", str(tmp_path / output), "--window", "8"]
    with subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a job may ignore it
    ) as process:
        try:
            wait_until((tmp_path / "reached").exists)
            workers = children(process.pid)
            for _ in range(times):
                os.killpg(process.pid, signal.SIGINT)
                time.sleep(0.15)
            said = process.communicate(timeout=60)[1]
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode in (130, -signal.SIGINT)  # which a shell calls 130 as well
    if times == 1:  # a second one may come while the message is being written
        assert process.returncode == 130
        assert said.startswith("suisei: interrupted")
        assert "Traceback" not in said
    assert len(workers) >= 2
    wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


def children(process):
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def wait_until(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    pytest.fail("waited for a minute")


def test_warnings_of_shards_are_said_once_too(tmp_path, model_folder, capfd):
    for shard in range(2):
        rows = [{"candidate": f"a dog {shard} {n}"} for n in range(5)]
        write_rows(tmp_path / f"{shard}.jsonl", rows)
    given = ["--model", model_folder, "--input", str(tmp_path / "*.jsonl"), "--output", tmp_path / "out"]
    assert run(*given, "--processes", 2, "--window", 2) == 0
    said = capfd.readouterr().err  # of all processes
    assert said.count("are scored from the candidate alone") == 1


def test_quiet_leaves_warnings(tmp_path, model_folder, capsys):
    source = write_rows(tmp_path / "rows.jsonl", [{"candidate": "a dog"}])
    assert run("--model", model_folder, "--input", source, "--output", tmp_path / "o.jsonl", "--quiet") == 0
    said = capsys.readouterr().err
    assert "suisei: 1 of 1 samples are scored from the candidate alone" in said
    assert said.count("\n") == 1

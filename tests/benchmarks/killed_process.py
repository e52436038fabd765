"""A command in a process that dies where it is told to.

Beside the commands stand a metric that notes the id of every row that it scores, and one in the place of a
captioning model.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from suisei.metrics.base import Metric
from suisei.metrics.registry import REGISTRY, Entry

COUNT_FILE = "SUISEI_KILLS_COUNT"
ATTEMPT = "SUISEI_KILLS_ATTEMPT"
LONGEST = 900.0
"""Seconds after which a command that is not to be killed is taken to hang."""
HUNG = 124
"""The exit status that stands for that."""
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True)
class Plan:
    """When a process dies.

    Attributes:
        kind: "time", "file" (before a file operation), "torn" (in the middle of a write) or "never".
        when: seconds, or which operation or write.
    """

    kind: str = "never"
    when: float = 0


class Counted(Metric):
    """A score that tells its row; appends the attempt, the id and the score of what it scores to a file."""

    name = "counted"

    def _score(self, samples, *, batch_size, progress):
        scores = [zlib.crc32(f"{s.id} {s.candidate}".encode()) / 2**32 for s in samples]
        _note(f"{s.id}|{score!r}" for s, score in zip(samples, scores, strict=True))
        time.sleep(0.0002 * len(samples))
        return np.array(scores)


class Told:
    """In the place of a captioning model: says the size of an image, and counts what it is asked."""

    name, revision = "told", "1"

    def __init__(self, model: str, **settings: Any) -> None:
        kept = ("beams", "top_p", "max_tokens")
        self.settings = {"num_beams": settings["beams"], "max_new_tokens": settings["max_tokens"]}
        assert set(kept) < set(settings)

    def generate(self, pictures: Sequence[Any], seeds: Sequence[int]) -> list[str]:
        _note(str(seed) for seed in seeds)
        return [
            f"a picture of {picture.size} and {seed}" for picture, seed in zip(pictures, seeds, strict=True)
        ]


def _note(names: Iterable[str]) -> None:
    """Append what is scored in this attempt, before it is."""
    if COUNT_FILE in os.environ:
        handle = os.open(os.environ[COUNT_FILE], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, "".join(f"{os.environ.get(ATTEMPT, 0)} {name}\n" for name in names).encode())
        os.close(handle)


def take_places(command: str) -> None:
    """Add the metric that counts, and put what counts in the place of a captioning model."""
    REGISTRY["counted"] = Entry(f"{__name__}:Counted", (), "counts what it scores")
    if command == "positives":
        from suisei.pacs import generators

        generators.Captioner = Told
    if command == "caption":
        from suisei.captioning import caption_writing

        plain = caption_writing._read

        def counted(model: Any, image: Path) -> Any:
            _note([str(image)])
            return plain(model, image)

        caption_writing._read = counted


def fresh(arguments: Sequence[str], plan: Plan, folder: Path, log: Path) -> int:
    """Start a command in a new interpreter; returns its exit status, negative for a signal."""
    program = (
        "import sys; from suisei.__main__ import main; "
        "from tests.benchmarks.killed_process import take_places; take_places(sys.argv[1]); sys.exit(main())"
    )
    # As many threads as what is forked has: other numbers of them may differ in the last digit.
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            stdout=stream, stderr=stream, start_new_session=True, env=environment,
        )  # fmt: skip
        try:
            return process.wait(plan.when + 1 if plan.kind == "time" else None)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return process.wait()


def forked(arguments: Sequence[str], plan: Plan, folder: Path, log: Path, counts: Path | None = None) -> int:
    """Run a command in a child of this process; returns its exit status, negative for a signal."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _be_the_command(arguments, plan, folder, log, counts)
    timed = plan.kind == "time"
    ended = _wait(child, plan.when if timed else LONGEST)
    if ended is None:
        os.kill(child, signal.SIGKILL)  # it may not have a group of its own yet
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        ended = os.waitpid(child, 0)[1]
        return os.waitstatus_to_exitcode(ended) if timed else HUNG
    return os.waitstatus_to_exitcode(ended)


def _wait(child: int, seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        time.sleep(0.001 if seconds < 10 else 0.01)
    return None


def _be_the_command(
    arguments: Sequence[str], plan: Plan, folder: Path, log: Path, counts: Path | None
) -> None:
    """In the child: run the command and leave, whatever happens."""
    status = 70
    try:
        os.setsid()
        handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        events = Counter[str]()
        _die_at_files(plan, folder, events)
        _die_in_writes(plan, events)
        from suisei.__main__ import main

        take_places(arguments[0])
        status = main(list(arguments))
        if counts is not None:
            counts.write_text(json.dumps(events))
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 1
    except Exception:  # noqa: BLE001 - it is shown, and the status says it
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _die_at_files(plan: Plan, folder: Path, events: Counter[str]) -> None:
    """Die right before a file operation in the folder: opening to write, renaming, removing, making."""
    inside = str(folder)

    def hook(event: str, details: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = details
            counts = isinstance(flags, int) and flags & WRITING
        else:
            path = details[0] if details else None
            counts = event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
        if counts and isinstance(path, str | bytes | os.PathLike) and os.fsdecode(path).startswith(inside):
            events["file"] += 1
            if plan.kind == "file" and events["file"] == plan.when:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def _die_in_writes(plan: Plan, events: Counter[str]) -> None:
    """Die in the middle of a write: of rows and their digests, and of a checkpoint."""
    from suisei.scoring import output

    def torn(write: Callable[..., Any], position: int) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            events["torn"] += 1
            if plan.kind == "torn" and events["torn"] == plan.when:
                content = arguments[position]
                write(*arguments[:position], content[: len(content) // 2], *arguments[position + 1 :])
                os.kill(os.getpid(), signal.SIGKILL)
            return write(*arguments)

        return wrapped

    for module in (output, sys.modules.get("suisei.captioning.caption_part")):
        if module is not None:
            module.write_all = torn(module.write_all, 1)
    checkpoints = sys.modules.get("suisei.training.checkpoints")
    if checkpoints is not None:
        checkpoints._HashedFile.write = torn(checkpoints._HashedFile.write, 1)

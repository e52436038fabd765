"""The runs of an ablation: one folder each, trained by processes of their own, resumed and kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from suisei.data.paths import try_lock
from suisei.data.writers import replacing
from suisei.errors import ConfigError, one_line
from suisei.ranges import differences

_GRACE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Run:
    """One training.

    Attributes:
        variant: name of the variant.
        seed: of the training.
        folder: the run's folder, as ``suisei train`` writes it.
        settings: its whole configuration, as plain values.
    """

    variant: str
    seed: int
    folder: Path
    settings: Mapping[str, Any]

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.variant}, seed {self.seed}"

    @property
    def settings_file(self) -> Path:
        """The configuration that it is trained with, beside its folder."""
        return self.folder.with_suffix(".yaml")

    @property
    def log_file(self) -> Path:
        """What its process said."""
        return self.folder.with_suffix(".log")

    @property
    def finished(self) -> bool:
        """Whether it is trained and tested."""
        return (self.folder / "report.json").is_file()


def prepare_runs(runs: Sequence[Run], *, redo: bool = False) -> list[Run]:
    """Write the runs' settings and return those that are still to be trained.

    Args:
        runs: all runs of the ablation.
        redo: delete runs that were made with other settings, instead of refusing them.

    Raises:
        ConfigError: a run that exists was made with other settings, or with such as cannot be read.
    """
    for run in runs:
        if run.folder.exists() and not run.settings_file.is_file():
            raise ConfigError(f"{run.folder} is not a run of this ablation; choose another --output")
    changed = {run.folder: _differences(run) for run in runs if run.folder.exists()}
    changed = {folder: keys for folder, keys in changed.items() if keys}
    if changed and not redo:
        folder, keys = next(iter(changed.items()))
        raise ConfigError(
            f"{len(changed)} of the runs in the folder were made with other settings, such as {folder}: "
            f"{'; '.join(keys[:3])}{'; ...' if len(keys) > 3 else ''}. Choose another --output, or train "
            "those runs anew: --redo"
        )
    for run in runs:
        if run.folder in changed:
            shutil.rmtree(run.folder)
        run.folder.parent.mkdir(parents=True, exist_ok=True)
        with replacing(run.settings_file) as temporary:
            temporary.write_text(yaml.safe_dump(dict(run.settings), sort_keys=False), encoding="utf-8")
        if run.finished:  # its ablation may have been killed before it did that
            _drop_checkpoints(run)
    return [run for run in runs if not run.finished]


def _differences(run: Run) -> list[str]:
    """Return how a run's settings differ from those it was made with: ``key: old, now new``."""
    try:
        old = yaml.safe_load(run.settings_file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(
            f"{run.settings_file} cannot be read: {one_line(error)}; delete {run.folder}, and the same "
            "command trains that run anew"
        ) from None
    return list(differences(old, run.settings).values())


@contextmanager
def locked(folder: Path) -> Iterator[int | None]:
    """Keep other ablations out of a folder, also while trainings that outlive this process are at work.

    Yields:
        What the training processes must inherit: the lock ends with the last of them.

    Raises:
        ConfigError: another ablation is at work there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a") as handle:
        if not try_lock(handle):
            raise ConfigError(
                f"another ablation, or a training that one left behind, is at work in {folder}; wait for it, "
                "or end it"
            )
        yield handle.fileno() if os.name == "posix" else None  # Windows hands no files on


def train_all(
    runs: Sequence[Run],
    jobs: int,
    lock: int | None,
    *,
    started: Callable[[Sequence[Run]], Any],
    ended: Callable[[Run, str | None, float], Any],
) -> dict[str, str]:
    """Train runs, several at once, each in a process of its own.

    Args:
        runs: what to train; one that was interrupted goes on from its newest checkpoint.
        jobs: how many at once; with more than one, each process has one thread.
        lock: from :func:`locked`.
        started: called with the runs that are being trained when that changes.
        ended: called with a run, why it failed or None, and its minutes.

    Returns:
        {name of a run: why it failed}; the others are not affected by it.
    """
    waiting, failures = deque(runs), {}
    active: dict[Future[int], tuple[Run, subprocess.Popen[bytes], float]] = {}
    with ThreadPoolExecutor(jobs) as pool:  # its threads wait for processes
        try:
            while waiting or active:
                while waiting and len(active) < jobs:
                    run = waiting.popleft()
                    process = _start(run, single=jobs > 1, lock=lock)
                    active[pool.submit(process.wait)] = (run, process, time.perf_counter())
                    started([each for each, _, _ in active.values()])
                for future in wait(active, return_when=FIRST_COMPLETED).done:
                    run, _, begun = active.pop(future)
                    problem = _outcome(run, future.result())
                    if problem:
                        failures[run.name] = problem
                    ended(run, problem, (time.perf_counter() - begun) / 60)
                    started([each for each, _, _ in active.values()])
        finally:
            _stop([process for _, process, _ in active.values()])
    return failures


def _start(run: Run, *, single: bool, lock: int | None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "suisei.train", "--config", str(run.settings_file)]
    command += ["--output", str(run.folder)]
    if (run.folder / "config.yaml").is_file():
        command += ["--ckpt_path", "last"]
    environment = {name: value for name, value in os.environ.items() if name != "PL_GLOBAL_SEED"}
    if single:
        environment["OMP_NUM_THREADS"] = "1"
    with run.log_file.open("ab") as log:
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            pass_fds=() if lock is None else (lock,),
        )  # fmt: skip


def _outcome(run: Run, status: int) -> str | None:
    """Return why a run failed, or None."""
    if status == 0 and run.finished:
        _drop_checkpoints(run)
        return None
    lines = [line for line in run.log_file.read_text("utf-8", errors="replace").splitlines() if line.strip()]
    last = lines[-1].strip()[:300] if lines else "it said nothing"
    return f"exit status {status}: {last} (see {run.log_file})"


def _drop_checkpoints(run: Run) -> None:
    """Take away the checkpoints of a finished run, which only resume it."""
    for folder in (run.folder / "checkpoints", *run.folder.glob("fold-*/checkpoints")):
        shutil.rmtree(folder, ignore_errors=True)


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + _GRACE_SECONDS
    for process in processes:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

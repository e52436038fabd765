"""Who scores the shards of a set on one machine: this process, or several, each a whole shard at a time."""

from __future__ import annotations

import multiprocessing
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeAlias

from suisei.errors import DataError, UnavailableError
from suisei.scoring.parallel import (
    CollectedWarnings,
    WorkerSettings,
    begin_worker,
    end_at_once,
    made_or_why,
    submitted,
    warn_again,
    worker_scorer,
)
from suisei.scoring.seen_images import SeenImages
from suisei.scoring.shard_scores import ShardReport, ShardSettings, ShardTask, reads_images, score_shard
from suisei.scoring.stream import Scorer

TRIES = 3
"""So often a shard is begun whose worker dies, before it is left out."""

Run = Callable[[Sequence[ShardTask]], Iterator[tuple[ShardTask, ShardReport]]]
"""Scores shards, and yields each with its report, in any order."""
_WHY_DIED = "perhaps for lack of memory; use fewer --processes"
_Answer: TypeAlias = tuple[ShardReport, list[tuple[str, Any]]]


class ShardWorker:
    """Scores whole shards, one after the other.

    Args:
        scorer: the metrics.
        settings: those of the run.
    """

    def __init__(self, scorer: Scorer, settings: ShardSettings) -> None:
        self._scorer, self._settings = scorer, settings
        self._pictured = reads_images(scorer.metrics.values())
        self._seen = SeenImages(settings.images)

    def score(self, task: ShardTask) -> ShardReport:
        """Score a shard; see :func:`suisei.scoring.shard_scores.score_shard`.

        Raises:
            DataError: its files cannot be written, or images went away.
        """
        try:
            return score_shard(self._scorer, task, self._settings, pictured=self._pictured, seen=self._seen)
        except OSError as error:
            where = task.output(self._settings.kind)
            raise DataError(f"{where}: cannot be written: {error.strerror or error}") from None


class Attempts:
    """How often each shard was begun by a worker that died with it."""

    def __init__(self) -> None:
        self._deaths: Counter[ShardTask] = Counter()

    def again(self, task: ShardTask, reason: str) -> ShardReport | None:
        """Count a death; returns a report where the shard is given up, None where it is begun again."""
        self._deaths[task] += 1
        if self._deaths[task] < TRIES:
            return None
        return ShardReport(str(task.source), failed=f"{task.source}: its worker died {TRIES} times: {reason}")


def one_process(scorer: Scorer, settings: ShardSettings) -> Run:
    """Return what scores shards in this process."""
    worker = ShardWorker(scorer, settings)

    def run(tasks: Sequence[ShardTask]) -> Iterator[tuple[ShardTask, ShardReport]]:
        for task in tasks:
            yield task, worker.score(task)

    return run


def several_processes(worker: WorkerSettings, settings: ShardSettings, devices: Sequence[str | None]) -> Run:
    """Return what scores shards in as many processes as devices; one that dies is replaced."""

    def run(tasks: Sequence[ShardTask]) -> Iterator[tuple[ShardTask, ShardReport]]:
        left, attempts = deque(tasks), Attempts()
        processes = [_Process(worker, settings, device) for device in devices[: len(tasks)]]
        idle = list(processes)
        under_way: dict[Future[_Answer], tuple[_Process, ShardTask]] = {}
        try:
            while left or under_way:
                while left and idle:
                    process, task = idle.pop(), left.popleft()
                    under_way[process.score(task)] = process, task
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    process, task = under_way.pop(future)
                    idle.append(process)
                    report = _report(future, process) or attempts.again(task, _WHY_DIED)
                    if report is None:
                        left.append(task)
                    else:
                        yield task, report
        finally:
            for process in processes:
                process.end()  # what a worker has not finished, it has not written

    return run


def _report(future: Future[_Answer], process: _Process) -> ShardReport | None:
    """Return the report of a shard, None where its process died; then there is another one."""
    try:
        report, warnings = future.result()
    except BrokenProcessPool:
        process.replace()
        return None
    warn_again(warnings)
    return report


class _Process:
    """A process of a pool of its own: where one dies, a common pool does not say which, nor at what shard."""

    def __init__(self, worker: WorkerSettings, settings: ShardSettings, device: str | None) -> None:
        self._made_of = worker, settings, device
        self._pool = self._begun()

    def score(self, task: ShardTask) -> Future[_Answer]:
        """Begin a shard."""
        try:
            return submitted(self._pool, _score, task)
        except BrokenProcessPool:  # it died since its last shard
            self.replace()
            return submitted(self._pool, _score, task)

    def replace(self) -> None:
        """Go on with another process."""
        self.end()
        self._pool = self._begun()

    def end(self) -> None:
        """End the process, whatever it is at."""
        end_at_once(self._pool)

    def _begun(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")  # a forked CUDA or OpenMP does not work
        return ProcessPoolExecutor(1, context, _start, self._made_of)


_worker: tuple[ShardWorker | UnavailableError, CollectedWarnings] | None = None


def _start(worker: WorkerSettings, settings: ShardSettings, device: str | None) -> None:
    global _worker
    begin_worker()
    handler = CollectedWarnings.begun()
    _worker = made_or_why(lambda: ShardWorker(worker_scorer(worker, device), settings)), handler


def _score(task: ShardTask) -> _Answer:
    """Return the report of a shard, and what was warned of meanwhile."""
    assert _worker is not None
    worker, warnings = _worker
    if isinstance(worker, UnavailableError):
        raise worker
    return worker.score(task), warnings.taken()

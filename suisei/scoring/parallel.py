"""Scoring windows in several processes, one per GPU or a few on the CPU; rows come back in input order."""

from __future__ import annotations

import logging
import math
import multiprocessing
import os
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from typing import Any, TextIO, TypeVar

from suisei.cli import is_of_pillows_limit, keep_memory
from suisei.data.formats import Row
from suisei.errors import DataError, SuiseiError, UnavailableError
from suisei.metrics.base import Metric
from suisei.scoring.plan import MetricPlan
from suisei.scoring.stream import Job, ScoredRow, Scorer

T = TypeVar("T")
WINDOWS_PER_PROCESS = 2
"""Windows that are under way for each process: one being scored, one waiting."""


@dataclass
class WorkerSettings:
    """What a worker makes its metrics from.

    Attributes:
        plans: {label: which metric, with its options}.
        states: {label: what a metric was fitted to}.
        name: of the input, for messages.
        batch_size: handed to the metrics.
        threads: CPU threads of one worker.
    """

    plans: Mapping[str, MetricPlan]
    states: Mapping[str, dict[str, Any]]
    name: str
    batch_size: int
    threads: int


@dataclass
class _Answer:
    scored: list[ScoredRow]
    failed: dict[str, str]
    warnings: list[tuple[str, Any]] = field(default_factory=list)


class ParallelScorer(Scorer):
    """Scores with as many processes as devices; every process has metrics of its own.

    A metric that died in one process gets no score in any later row, as with a single process.

    Args:
        metrics: {label: metric} of this process, for corpus scores.
        settings: what the workers are made from.
        devices: the device of each process, None for the one that the options name.
    """

    def __init__(
        self, metrics: Mapping[str, Metric], settings: WorkerSettings, devices: Sequence[str | None]
    ) -> None:
        super().__init__(metrics, settings.name, settings.batch_size)
        self._settings = settings
        self._devices = list(devices)

    def score_all(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, list[ScoredRow]]]:
        """Yield each job with its scored rows, in order.

        Raises:
            DataError: what ``jobs`` raised, after all jobs before it.
            UnavailableError: a process died, or could not make its metrics.
        """
        context = multiprocessing.get_context("spawn")  # a forked CUDA or OpenMP does not work
        devices = context.SimpleQueue()
        for device in self._devices:
            devices.put(device)
        pool = ProcessPoolExecutor(len(self._devices), context, _start, (self._settings, devices))
        pending: deque[tuple[Job, Future[_Answer]]] = deque()
        source, problem, more = iter(jobs), None, True
        try:
            while more or pending:
                while more and len(pending) < WINDOWS_PER_PROCESS * len(self._devices):
                    try:
                        job = next(source, None)
                    except DataError as error:  # rows before it are still on their way
                        job, problem = None, error
                    more = job is not None
                    if job is not None:
                        pending.append((job, submitted(pool, _score, job.new)))
                if pending:
                    job, future = pending.popleft()
                    yield job, self._received(future.result())
            pool.shutdown()
        except BrokenProcessPool:
            raise UnavailableError(
                "a scoring process ended before its time, perhaps for lack of memory; use fewer --processes"
            ) from None
        finally:
            end_at_once(pool)  # of a run that was left, nobody takes the windows under way
        if problem is not None:
            raise problem

    def _received(self, answer: _Answer) -> list[ScoredRow]:
        warn_again(answer.warnings)
        for label, reason in self.failed.items():
            for row in answer.scored:
                if row.bad is None:
                    row.scores[label], row.errors[label] = math.nan, reason
        for label, reason in answer.failed.items():
            self.failed.setdefault(label, reason)
        return answer.scored


def warn_again(messages: Iterable[tuple[str, Any]]) -> None:
    """Warn here of what workers warned of."""
    logger = logging.getLogger("suisei")
    for message, arguments in messages:
        logger.warning(message, *arguments)


class CollectedWarnings(logging.Handler):
    """Warnings of a worker, to be shown by the process that started it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[tuple[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a warning."""
        # With its values apart: what is said once is known by its text without them.
        if isinstance(record.args, tuple):
            values = tuple(one if isinstance(one, int | float | str) else str(one) for one in record.args)
            self.messages.append((str(record.msg), values))
        else:
            self.messages.append((record.getMessage(), ()))

    def show(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        """Keep a warning of Python's own kind; where a library gives it, its place is kept too."""
        if is_of_pillows_limit(category):
            return
        place = "" if category is UserWarning else f"{filename}:{lineno}: {category.__name__}: "
        self.messages.append((f"{place}{message}", ()))

    @classmethod
    def begun(cls) -> CollectedWarnings:
        """Collect what this process warns of from now on, in place of showing it."""
        handler, logger = cls(), logging.getLogger("suisei")
        logger.addHandler(handler)
        logger.propagate = False
        warnings.showwarning = handler.show
        return handler

    def taken(self) -> list[tuple[str, Any]]:
        """Return what was collected since it was last asked for."""
        messages, self.messages = self.messages, []
        return messages


def submitted(pool: ProcessPoolExecutor, function: Callable[..., T], *given: Any) -> Future[T]:
    """Submit work to a pool; a worker that is started for it has Ctrl-C blocked from its beginning.

    Before :func:`begin_worker` is reached, it would show where its imports were interrupted.
    """
    if not hasattr(signal, "pthread_sigmask"):
        return pool.submit(function, *given)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(function, *given)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_SECONDS_TO_END = 5
"""For what remains of a pool whose workers were told to end; they do at once unless the system is stuck."""


def end_at_once(pool: ProcessPoolExecutor) -> None:
    """End a pool and its workers, whatever they are at: what they have not finished is lost."""
    processes = list((getattr(pool, "_processes", None) or {}).values())
    manager = getattr(pool, "_executor_manager_thread", None)
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        with suppress(OSError, ValueError):
            process.terminate()
    if manager is not None:  # its last act closes a pipe, which a program that ends meanwhile writes to
        manager.join(_SECONDS_TO_END)


_worker: tuple[Scorer | UnavailableError, CollectedWarnings] | None = None


def worker_scorer(settings: WorkerSettings, device: str | None) -> Scorer:
    """Make the metrics of a worker process, and what scores with them."""
    os.environ["OMP_NUM_THREADS"] = str(settings.threads)  # before torch is imported
    keep_memory()
    from suisei.metrics.registry import get_metric

    metrics = {}
    for label, plan in settings.plans.items():
        options = {**plan.options, **({"device": device} if device and "device" in plan.options else {})}
        metrics[label] = get_metric(plan.spec, **options)
        if label in settings.states:
            metrics[label].load_state(settings.states[label])
    return Scorer(metrics, settings.name, settings.batch_size)


def made_or_why(make: Callable[[], T]) -> T | UnavailableError:
    """Return what a worker works with, or why it has none, to be raised when it is first asked to work.

    What the initializer of a pool raises is printed as it is, and to the parent looks like a death.
    """
    try:
        return make()
    except Exception as error:  # noqa: BLE001 - a metric raises what it likes
        reason = str(error) if isinstance(error, SuiseiError) else f"{type(error).__name__}: {error}"
        found = UnavailableError(f"a scoring process could not make its metrics: {reason}")
        found.__cause__ = error
        return found


def begin_worker() -> None:
    """Let a worker process leave Ctrl-C to the process that started it, and end with that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _start(settings: WorkerSettings, devices: Any) -> None:
    """Make the metrics of a worker process."""
    global _worker
    begin_worker()
    handler = CollectedWarnings.begun()
    _worker = made_or_why(lambda: worker_scorer(settings, devices.get())), handler


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _score(rows: Sequence[Row]) -> _Answer:
    assert _worker is not None
    scorer, handler = _worker
    if isinstance(scorer, UnavailableError):
        raise scorer
    scored = scorer.score(rows)
    return _Answer(scored, dict(scorer.failed), handler.taken())

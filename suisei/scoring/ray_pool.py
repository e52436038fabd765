"""Scoring the shards of a large set on a Ray cluster: one actor per device, each a whole shard at a time.

Every machine of the cluster must have suisei, and the shards, models and output under the same paths.
An actor that dies, with its machine or without, is replaced, and its shard is begun again.
"""

from __future__ import annotations

import os
import platform
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from suisei.cli import usable_cores
from suisei.errors import ConfigError, SuiseiError, UnavailableError, one_line
from suisei.scoring.parallel import CollectedWarnings, WorkerSettings, warn_again, worker_scorer
from suisei.scoring.shard_pool import Attempts, Run, ShardWorker
from suisei.scoring.shard_scores import ShardReport, ShardSettings, ShardTask

OBJECT_STORE = 200_000_000
"""Bytes of a local cluster's object store: tasks and reports are small, and shards do not pass through it."""
PATIENCE = 600.0
"""Seconds to wait for the first worker, and for a shard while no worker is left."""


_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}


@dataclass(frozen=True, slots=True)
class Cluster:
    """What of a cluster is used.

    Attributes:
        workers: number of actors.
        gpus: GPUs of each, 0 or 1.
        threads: CPU cores of each.
    """

    workers: int
    gpus: int
    threads: int


def connect(processes: int | None, devices: str | None) -> Cluster:
    """Connect to the Ray cluster that RAY_ADDRESS names; without it start one on this machine.

    A cluster that runs here without being named may be somebody else's, or a dead one whose files remain.

    Args:
        processes: workers without GPU; None for as many as there are GPUs, or else cores.
        devices: number of GPUs, or "all"; None as above.

    Raises:
        UnavailableError: Ray is not installed, or the cluster cannot be reached.
        ConfigError: more GPUs than the cluster has.
    """
    ray = import_ray()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not ray.is_initialized():
        if address := os.environ.get("RAY_ADDRESS"):
            _join(address)
        else:
            start_here(max(processes or 0, usable_cores()))
    return _chosen(_nodes(), processes, devices)


def _join(address: str) -> None:
    try:
        import_ray().init(address=address, **_QUIET)
    except Exception as error:  # noqa: BLE001 - of an address, Ray raises a ValueError, RuntimeError or others
        raise UnavailableError(
            f"RAY_ADDRESS {address}: {one_line(error)}; give HOST:PORT of a cluster that runs, auto for one "
            "on this machine, or unset it to have one started here; one that demands a token is joined with "
            "RAY_AUTH_MODE=token and its token in RAY_AUTH_TOKEN or ~/.ray/auth_token"
        ) from None


def start_here(cores: int) -> None:
    """Start a cluster of this machine alone, which ends with this process.

    Raises:
        UnavailableError: it does not start.
    """
    try:
        import_ray().init(
            address="local",
            num_cpus=cores,
            include_dashboard=False,
            object_store_memory=OBJECT_STORE,
            **_QUIET,
        )
    except Exception as error:  # noqa: BLE001 - Ray raises no other where its own processes do not come up
        raise UnavailableError(f"Ray does not start on this machine: {one_line(error)}") from None


@dataclass(frozen=True, slots=True)
class _Node:
    cores: int
    gpus: int

    def room(self, threads: int, gpus: int) -> int:
        """Return how many workers with so many cores and GPUs, 0 or 1, it has room for."""
        return min(self.cores // threads, self.gpus) if gpus else self.cores // threads


def _nodes() -> list[_Node]:
    """Return the machines of the connected cluster that are alive."""
    resources = [node["Resources"] for node in import_ray().nodes() if node["Alive"]]
    return [_Node(int(each.get("CPU", 0)), int(each.get("GPU", 0))) for each in resources]


def _chosen(nodes: Sequence[_Node], processes: int | None, devices: str | None) -> Cluster:
    if processes:
        return Cluster(processes, 0, _threads(nodes, processes, 0))
    gpus = sum(node.gpus for node in nodes)
    wanted = gpus if devices in (None, "all") else int(devices or 0)
    if wanted > gpus:
        raise ConfigError(
            f"--devices {devices}: the cluster has {gpus} GPUs; --processes N is for CPUs, RAY_ADDRESS for "
            "another cluster"
        )
    if wanted:
        return Cluster(wanted, 1, _threads(nodes, wanted, 1))
    return Cluster(max(1, sum(node.cores for node in nodes)), 0, 1)


def _threads(nodes: Sequence[_Node], workers: int, gpus: int) -> int:
    """Return the most cores for each worker with which the machines have room for all, at least 1.

    A worker is on one machine: of one that wants more cores than any has, Ray waits for ever.
    """
    share = sum(node.cores for node in nodes) // workers
    fitting = (n for n in range(share, 1, -1) if sum(node.room(n, gpus) for node in nodes) >= workers)
    return next(fitting, 1)


def import_ray() -> Any:
    """Return the module ``ray``.

    Raises:
        UnavailableError: it is not installed.
    """
    os.environ.setdefault(
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0"
    )  # its future default, without its warning
    try:
        import ray
    except ImportError:
        raise UnavailableError("--engine ray needs Ray: pip install 'suisei[ray]'") from None
    return ray


class _Actor:
    """What runs in a worker of the cluster, which begins in a folder of its machine's.

    Args:
        worker: what the metrics are made from.
        settings: those of the run.
        device: of the metrics.
        folder: where relative paths start, of shards, scores, images and models.
    """

    def __init__(
        self, worker: WorkerSettings, settings: ShardSettings, device: str | None, folder: str
    ) -> None:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        self._warnings = CollectedWarnings.begun()
        self._images, self._missing = settings.images, ""
        try:
            os.chdir(folder)
        except OSError:  # which does not matter where all paths begin at the root
            self._missing = folder
        self._worker = ShardWorker(worker_scorer(worker, device), settings)

    def ready(self) -> int:
        """Answer once the metrics are made."""
        return os.getpid()

    def score(self, task: ShardTask) -> tuple[ShardReport, list[tuple[str, Any]]]:
        """Return the report of a shard, and what was warned of meanwhile.

        Raises:
            UnavailableError: it is named from a folder that is not on this machine.
        """
        paths = (task.source, task.target, Path(self._images or os.sep))
        if self._missing and not all(path.is_absolute() for path in paths):
            raise UnavailableError(
                f"{self._missing} is not on {platform.node()}; start suisei score in a folder that all "
                "machines of the cluster see, or give --input, --output and --images with absolute paths"
            )
        return self._worker.score(task), self._warnings.taken()


def ray_workers(worker: WorkerSettings, settings: ShardSettings, cluster: Cluster) -> Run:
    """Return what scores shards on the connected cluster."""
    worker = replace(worker, threads=cluster.threads)

    def run(tasks: Sequence[ShardTask]) -> Iterator[tuple[ShardTask, ShardReport]]:
        fleet = _Fleet(worker, settings, cluster, min(cluster.workers, len(tasks)))
        try:
            yield from fleet.run(tasks)
        finally:
            fleet.end()

    return run


class _Fleet:
    """The actors of a run, and what each of them is doing."""

    def __init__(self, worker: WorkerSettings, settings: ShardSettings, cluster: Cluster, size: int) -> None:
        self._ray = import_ray()
        device = "cuda:0" if cluster.gpus else None  # an actor sees its GPU alone
        self._made_of = (worker, settings, device, str(Path.cwd()))
        kind = self._ray.remote(_Actor)
        self._kind = kind.options(num_cpus=cluster.threads, num_gpus=cluster.gpus, max_restarts=0)
        self._starting: dict[Any, Any] = {}  # what answers when an actor is ready: the actor
        self._working: dict[Any, tuple[Any, ShardTask]] = {}
        self._idle: list[Any] = []
        self._deaths = 0
        self._most_deaths = 3 * size
        for _ in range(size):
            self._start_one()

    def run(self, tasks: Sequence[ShardTask]) -> Iterator[tuple[ShardTask, ShardReport]]:
        """Score tasks."""
        left, attempts, idle = deque(tasks), Attempts(), self._idle
        while left or self._working:
            while left and idle:
                actor, task = idle.pop(), left.popleft()
                self._working[actor.score.remote(task)] = (actor, task)
            for answer in self._answers():
                if answer in self._starting:
                    idle += self._begun(answer)
                    continue
                actor, task = self._working.pop(answer)
                report = self._report(answer)
                if isinstance(report, tuple):
                    report, warned = report
                    warn_again(warned)
                    idle.append(actor)
                    yield task, report
                    continue
                self._start_one()
                given_up = attempts.again(task, report)
                if given_up is None:
                    left.append(task)
                else:
                    yield task, given_up

    def end(self) -> None:
        """End all actors: what one has not finished, it has not written."""
        for actor in [*self._starting.values(), *(actor for actor, _ in self._working.values()), *self._idle]:
            self._ray.kill(actor)
        self._starting, self._working, self._idle = {}, {}, []

    def _start_one(self) -> None:
        actor = self._kind.remote(*self._made_of)
        self._starting[actor.ready.remote()] = actor

    def _answers(self) -> list[Any]:
        waiting = [*self._working, *self._starting]
        done, _ = self._ray.wait(waiting, num_returns=1, timeout=None if self._working else PATIENCE)
        if not done:
            raise UnavailableError(
                f"no worker of the cluster was ready within {PATIENCE:.0f} s: are there free cores or GPUs?"
            )
        found: list[Any] = done
        return found

    def _begun(self, answer: Any) -> list[Any]:
        """Return the actor that is ready, none where it died; too many deaths in a row end the run."""
        actor = self._starting.pop(answer)
        problem = self._report(answer)
        if isinstance(problem, int):
            self._deaths = 0
            return [actor]
        self._deaths += 1
        if self._deaths > self._most_deaths:
            raise UnavailableError(f"the cluster's workers die before they are ready: {problem}")
        self._start_one()
        return []

    def _report(self, answer: Any) -> Any:
        """Return an actor's answer, or as text why it died.

        Raises:
            SuiseiError: what it raised on purpose.
        """
        errors = self._ray.exceptions
        try:
            return self._ray.get(answer)
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, SuiseiError):
                raise cause from None
            raise
        except errors.RayError as error:  # it crashed, its machine went away, or was short of memory
            return one_line(error)

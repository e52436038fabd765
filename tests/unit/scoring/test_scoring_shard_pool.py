"""Processes that score shards and die: each death costs the shard that it happened at, and no other."""

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from suisei.scoring import shard_pool
from suisei.scoring.parallel import WorkerSettings
from suisei.scoring.shard_pool import several_processes
from suisei.scoring.shard_scores import ShardReport, ShardSettings, ShardTask

POISON = "00001.tar"


class Poisoned:
    """Scores nothing, and ends its process at one shard."""

    def score(self, task):
        if task.source.name == POISON:
            time.sleep(0.1)  # while the others are at work
            os._exit(9)
        time.sleep(0.3)
        return ShardReport(str(task.source))


def start_poisoned(worker, settings, device):
    shard_pool._worker = Poisoned(), shard_pool.CollectedWarnings.begun()


def scored(processes, shards, monkeypatch):
    """Return what scores so many shards in so many processes."""
    monkeypatch.setattr(shard_pool, "_start", start_poisoned)
    run = several_processes(
        WorkerSettings({}, {}, "in", 8, 1), ShardSettings({}, "jsonl", "0"), [None] * processes
    )
    return run([ShardTask(Path(f"{number:05d}.tar"), Path(f"{number:05d}")) for number in shards])


@pytest.mark.parametrize("processes", [2, 4])
def test_a_shard_that_kills_its_process_takes_no_other_with_it_and_is_named(processes, monkeypatch):
    reports = [report for _, report in scored(processes, range(2 * processes), monkeypatch)]
    assert len(reports) == 2 * processes
    (failed,) = (report for report in reports if report.failed)
    assert failed.shard == POISON
    assert failed.failed.startswith(f"{POISON}: its worker died 3 times: ")


def test_processes_that_die_between_two_shards_lose_none(monkeypatch):
    reports = []
    for _, report in scored(2, range(2, 8), monkeypatch):
        reports.append(report)
        if len(reports) == 2:
            for process in multiprocessing.active_children():
                os.kill(process.pid, signal.SIGKILL)
                process.join()
            time.sleep(0.5)  # until it is noticed
    assert sorted(report.shard for report in reports) == [f"{number:05d}.tar" for number in range(2, 8)]
    assert not any(report.failed for report in reports)

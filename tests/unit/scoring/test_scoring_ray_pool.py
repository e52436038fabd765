"""Which Ray cluster is used, what of it, and what becomes of workers that it ends; without Ray."""

import os
from pathlib import Path

import pytest

from suisei.commands.score import main
from suisei.errors import ConfigError, UnavailableError
from suisei.scoring import ray_pool
from suisei.scoring.parallel import WorkerSettings
from suisei.scoring.ray_pool import Cluster, connect, ray_workers
from suisei.scoring.shard_scores import ShardReport, ShardSettings, ShardTask
from tests.unit.scoring.ray_stub import OutOfMemoryError, RayStub
from tests.unit.scoring.shard_runs import samples, write_tar


@pytest.fixture
def stubbed(monkeypatch):
    """Return what makes a stand-in for Ray, and has it used."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")

    def stub(**settings):
        ray = RayStub(**settings)
        monkeypatch.setattr(ray_pool, "import_ray", lambda: ray)
        return ray

    return stub


def test_without_an_address_a_cluster_is_started_here_and_none_is_looked_for(stubbed, monkeypatch):
    """One that runs on this machine may be somebody else's, or dead."""
    monkeypatch.setattr(ray_pool, "usable_cores", lambda: 3)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    for processes, cores in ((None, 3), (2, 3), (5, 5)):
        ray = stubbed()
        connect(processes, None)
        (settings,) = ray.connections
        assert (settings["address"], settings["num_cpus"]) == ("local", cores)


@pytest.mark.parametrize("address", ["head:6379", "auto"])
def test_the_address_says_which_cluster(stubbed, monkeypatch, address):
    monkeypatch.setenv("RAY_ADDRESS", address)
    ray = stubbed()
    connect(None, None)
    (settings,) = ray.connections
    assert settings["address"] == address


@pytest.mark.parametrize("kind", [ConnectionError, ValueError, RuntimeError])
def test_an_address_that_leads_nowhere_is_one_line(stubbed, monkeypatch, kind):
    monkeypatch.setenv("RAY_ADDRESS", "http://x")
    stubbed(refuses=kind("Invalid address:\n  http://x"))
    with pytest.raises(UnavailableError) as error:
        connect(None, None)
    assert str(error.value).startswith("RAY_ADDRESS http://x: Invalid address: http://x; give HOST:PORT ")
    assert "RAY_AUTH_MODE=token" in str(error.value)  # which Ray's own error does not always say


@pytest.mark.parametrize(
    ("nodes", "processes", "devices", "expected"),
    [
        ([(8, 0)], None, None, Cluster(8, 0, 1)),
        ([(8, 2)], None, None, Cluster(2, 1, 4)),
        ([(8, 2)], None, "all", Cluster(2, 1, 4)),
        ([(8, 2)], None, "1", Cluster(1, 1, 8)),
        ([(8, 2)], 4, None, Cluster(4, 0, 2)),
        ([(1, 0), (1, 0)], 1, None, Cluster(1, 0, 1)),  # no machine has the two cores of the cluster
        ([(1, 0), (1, 0)], 2, None, Cluster(2, 0, 1)),
        ([(6, 0), (2, 0)], 2, None, Cluster(2, 0, 3)),  # both on the larger one
        ([(4, 0), (4, 0)], 3, None, Cluster(3, 0, 2)),
        ([(2, 0)], 5, None, Cluster(5, 0, 1)),
        ([(64, 8)] * 2, None, "1", Cluster(1, 1, 64)),
        ([(16, 8), (64, 0)], None, None, Cluster(8, 1, 2)),  # the other machine's cores are without GPUs
        ([(0, 0), (4, 1)], None, None, Cluster(1, 1, 4)),
    ],
)
def test_workers_are_as_many_as_devices_with_cores_that_machines_have(
    stubbed, nodes, processes, devices, expected
):
    stubbed(nodes=nodes)
    assert connect(processes, devices) == expected


def test_more_devices_than_there_are_are_refused(stubbed):
    stubbed(nodes=[(8, 2)])
    with pytest.raises(ConfigError, match="--devices"):
        connect(None, "3")


def test_a_worker_ended_for_lack_of_memory_is_replaced_and_its_shard_scored_again(stubbed, monkeypatch):
    ended = []

    class Ended:
        def __init__(self, *given):
            pass

        def ready(self):
            return 1

        def score(self, task):
            if len(ended) < 2 or task.source.name == "1.tar":
                ended.append(task)
                raise OutOfMemoryError("the monitor ended it")
            return ShardReport(str(task.source)), []

    ray = stubbed()
    monkeypatch.setattr(ray_pool, "_Actor", Ended)
    run = ray_workers(WorkerSettings({}, {}, "in", 8, 1), ShardSettings({}, "jsonl", "0"), Cluster(1, 0, 1))
    reports = [report for _, report in run([ShardTask(Path(f"{n}.tar"), Path(str(n))) for n in range(3)])]
    failed = {report.shard: report.failed for report in reports if report.failed}
    assert len(reports) == 3
    assert failed == {"1.tar": "1.tar: its worker died 3 times: the monitor ended it"}
    assert len(ray.asked) == 1 + len(ended)


@pytest.fixture
def elsewhere(tmp_path, stubbed, monkeypatch):
    """A cluster whose workers begin in a folder of their own."""
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setattr(ray_pool.CollectedWarnings, "begun", ray_pool.CollectedWarnings)
    stubbed(begin=lambda *given: os.chdir(other))
    return other


def score_here(folder, monkeypatch, output):
    write_tar(folder / "here" / "in" / "0.tar", samples(0))
    monkeypatch.chdir(folder / "here")
    return main(
        ["--engine", "ray", "--processes", "1", "--metrics", "length", "--input", "in/*.tar", *output]
    )


def test_relative_paths_are_those_of_the_command_and_not_of_its_workers(tmp_path, elsewhere, monkeypatch):
    assert score_here(tmp_path, monkeypatch, ["--output", "out"]) == 0
    assert (tmp_path / "here" / "out" / "0_stats.json").is_file()
    assert not list(elsewhere.iterdir())


def test_a_worker_without_the_folder_of_relative_paths_says_so(tmp_path, elsewhere, monkeypatch):
    def gone(folder):
        raise FileNotFoundError(folder)

    stub_begin = ray_pool.import_ray()._begin

    def begin(*given):
        stub_begin(*given)
        monkeypatch.setattr(os, "chdir", gone)

    monkeypatch.setattr(ray_pool.import_ray(), "_begin", begin)
    with pytest.raises(UnavailableError, match=r"here is not on .*; start suisei score in a folder that all"):
        score_here(tmp_path, monkeypatch, ["--output", str(tmp_path / "out")])

"""Shards on a local Ray cluster with two workers, one of them killed: the bytes are those of one machine."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from suisei.commands.score import main
from suisei.errors import UnavailableError
from suisei.scoring import ray_pool
from tests.integration.shard_files import write_shards

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'suisei[ray]'")
pytest.importorskip("pyarrow")

SHARDS, ROWS = 12, 400


@pytest.fixture(scope="module")
def cluster():
    """Two workers' worth of cores on this machine, and little memory."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_memory_monitor_refresh_ms", "0")
    for last in (False, True):
        try:
            ray_pool.start_here(2)
            break
        except UnavailableError as error:  # on a machine that is busy with much else
            ray.shutdown()
            if last:
                pytest.skip(str(error))
    yield
    ray.shutdown()


def score(folder, name, *options):
    files = ["--input", str(folder / "*.tar"), "--output", str(folder / name)]
    arguments = ["--metrics", "length,unigram-f1", *files]
    keep = ["--keep-top", "0.3", "--keep-by", "unigram-f1", "--uids", str(folder / f"{name}.npy")]
    assert main([*arguments, *keep, *options]) == 0
    return {path.name: path.read_bytes() for path in (folder / name).glob("*.parquet")}


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_the_scores_are_those_of_one_machine(cluster, tmp_path, monkeypatch):
    write_shards(tmp_path, SHARDS, ROWS)
    expected = score(tmp_path, "local")
    killed, seen = [], []
    ready = ray_pool._Fleet._begun

    def begun(self, answer):
        """Kill the first worker soon after it begins to score."""
        actors = ready(self, answer)
        if actors and not killed:
            pid = ray.get(actors[0].ready.remote())
            killed.append(pid)
            threading.Thread(target=kill_once_it_works, args=(pid, tmp_path / "ray"), daemon=True).start()
        return actors

    def counted(self):
        seen.append(self)
        return started(self)

    started = ray_pool._Fleet._start_one
    monkeypatch.setattr(ray_pool._Fleet, "_start_one", counted)
    monkeypatch.setattr(ray_pool._Fleet, "_begun", begun)
    found = score(tmp_path, "ray", "--engine", "ray", "--processes", "2")
    assert len(seen) == 3  # two, and one for the one that was killed
    assert len(expected) == SHARDS
    assert found == expected
    uids = [np.load(tmp_path / f"{name}.npy") for name in ("local", "ray")]
    assert len(uids[0]) == 3 * SHARDS * ROWS // 10
    np.testing.assert_array_equal(*uids)


def kill_once_it_works(pid, output):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(Path(output).glob("*.parquet")):
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_shard_that_kills_its_workers_is_named_and_the_others_are_scored(cluster, tmp_path, monkeypatch):
    write_shards(tmp_path, 3, 5)
    (tmp_path / "00001.tar").unlink()
    os.mkfifo(tmp_path / "00001.tar")  # no file: the worker below dies of it

    class Deadly(ray_pool._Actor):  # in here it is sent to the workers, which cannot import this file
        def score(self, task):
            if not task.source.is_file():
                os._exit(9)
            return super().score(task)

    monkeypatch.setattr(ray_pool, "_Actor", Deadly)
    arguments = ["--metrics", "length", "--input", str(tmp_path / "*.tar"), "--output", str(tmp_path / "out")]
    assert main([*arguments, "--engine", "ray", "--processes", "2"]) == 1
    assert sorted(path.stem for path in (tmp_path / "out").glob("*.parquet")) == ["00000", "00002"]


@pytest.mark.slow
def test_what_a_worker_warns_of_is_said_here(cluster, tmp_path, capsys):
    write_shards(tmp_path, 1, 5)

    class Talking(ray_pool._Actor):
        def score(self, task):
            import warnings

            warnings.warn("the worker says so", UserWarning, stacklevel=1)
            return super().score(task)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ray_pool, "_Actor", Talking)
        score(tmp_path, "out", "--engine", "ray", "--processes", "1")
    assert capsys.readouterr().err.count("the worker says so") == 1


@pytest.mark.slow
def test_relative_paths_are_those_of_the_command_where_the_cluster_was_started_elsewhere(
    cluster, tmp_path, monkeypatch
):
    write_shards(tmp_path, 2, 5)
    monkeypatch.chdir(tmp_path)
    arguments = ["--engine", "ray", "--processes", "2", "--metrics", "length"]
    for shards, output in (("*.tar", "one"), (str(tmp_path / "*.tar"), "two")):
        assert main([*arguments, "--input", shards, "--output", output]) == 0
        assert sorted(path.stem for path in (tmp_path / output).glob("*.parquet")) == ["00000", "00001"]

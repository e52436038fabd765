"""How many cores a process takes: those it may run on, within the share of its container."""

import os
import platform
import subprocess
import sys

import pytest

from suisei import cli
from suisei.cli import threads_each, usable_cores
from suisei.commands import score, score_metrics, score_shards


@pytest.fixture
def sixteen(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)


def write(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 16),
        ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "max 100000\n"}, 16),
        ({"proc/self/cgroup": "0::/job\n", "sys/fs/cgroup/job/cpu.max": "250000 100000\n"}, 3),
        ({"proc/self/cgroup": "0::/pod/job\n", "sys/fs/cgroup/pod/cpu.max": "400000 100000\n"}, 4),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "9900000 100000\n"}, 16),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "what\n"}, 16),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/job\n0::/\n",
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "200000\n",
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
            },
            2,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            },
            16,
        ),
    ],
)
def test_a_container_has_its_share(tmp_path, sixteen, files, cores):
    write(tmp_path, files)
    assert usable_cores(tmp_path) == cores


@pytest.mark.parametrize(
    ("given", "processes", "threads"),
    [(None, 4, 4), ("", 4, 4), ("6", 4, 1), ("9", 4, 2), ("8,2", 4, 2), ("1", 4, 1), ("many", 5, 3)],
)
def test_processes_share_the_threads(monkeypatch, given, processes, threads):
    monkeypatch.setattr(cli, "usable_cores", lambda: 16)
    if given is None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    assert threads_each(processes) == threads


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be bound to cores here")
@pytest.mark.parametrize(("given", "expected"), [({}, "1"), ({"OMP_NUM_THREADS": "7"}, "7")])
def test_a_command_takes_no_more_threads_than_its_cores(given, expected):
    if (os.cpu_count() or 1) < 2:
        pytest.skip("one core")
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from suisei.__main__ import main\nmain(['--version'])\n"
        "print(os.environ['OMP_NUM_THREADS'], os.environ['OMP_WAIT_POLICY'])"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    done = subprocess.run([sys.executable, "-c", code], env={**kept, **given}, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == f"{expected} PASSIVE", done.stderr


def test_the_module_that_trains_does_as_the_command():
    code = (
        "import os, runpy, sys\nsys.argv = ['train', '--help']\n"
        "try:\n    runpy.run_module('suisei.train', run_name='__main__')\n"
        "except SystemExit:\n    print(os.environ['OMP_WAIT_POLICY'])"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OMP_")}
    done = subprocess.run([sys.executable, "-c", code], env=kept, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "PASSIVE", done.stderr


@pytest.mark.parametrize("module", [score_metrics, score_shards])
def test_processes_that_score_side_by_side_share_the_cores(module, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "threads_each", lambda processes: asked.append(processes) or 1)
    rows = tmp_path / "0.jsonl"
    rows.write_text('{"id": "1", "candidate": "a dog"}\n')
    shards = module is score_shards
    given = (
        [str(tmp_path / "{0..0}.jsonl"), str(tmp_path / "scores")]
        if shards
        else [str(rows), str(tmp_path / "s.csv")]
    )
    options = ["--metrics", "length", "--processes", "2", "--quiet"]
    assert score.main(["--input", given[0], "--output", given[1], *options]) == 0
    assert asked == [2]


COMMAND = "from suisei.__main__ import main; main(['--version'])"
WORKER = "from suisei.scoring.parallel import *; worker_scorer(WorkerSettings({}, {}, 'rows', 1, 1), None)"

TRAIN = """
import contextlib, runpy, sys
sys.argv = ["train", "--help"]
with contextlib.suppress(SystemExit):
    runpy.run_module("suisei.train", run_name="__main__")
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told")
@pytest.mark.parametrize("begin", [COMMAND, WORKER, TRAIN])
@pytest.mark.parametrize(("given", "kept"), [({}, True), ({"MALLOC_ARENA_MAX": "8"}, False)])
def test_freed_memory_is_kept_for_what_comes_next(begin, given, kept):
    program = f"""
import resource
{begin}
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = b"x" * 100_000_000
    del block
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    usual = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))
    }
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, env={**usual, **given}, capture_output=True, text=True, check=True)
    assert (int(done.stdout.split()[-1]) < 1000) is kept

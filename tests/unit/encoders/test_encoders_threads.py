"""One thread: small work, of the calling thread alone, for as long as it takes; and all work after a fork."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from suisei.encoders.precision import to_precision
from suisei.encoders.threads import one_thread
from suisei.metrics.loading import load
from suisei.models import folder


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_the_calling_thread_alone_computes_alone():
    with ThreadPoolExecutor(1) as other:
        assert other.submit(torch.get_num_threads).result() == 2
        with one_thread():
            assert torch.get_num_threads() == 1
            with one_thread():
                assert torch.get_num_threads() == 1
            assert torch.get_num_threads() == 1
            assert other.submit(torch.get_num_threads).result() == 2
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_weights_are_converted_by_one_thread():
    class Seen(torch.nn.Linear):
        def _apply(self, *arguments, **options):
            threads.append(torch.get_num_threads())
            return super()._apply(*arguments, **options)

    threads = []
    to_precision(Seen(2, 2), "bf16")
    assert threads == [1]
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_a_model_is_opened_by_one_thread(monkeypatch):
    seen = []
    read = folder._read
    monkeypatch.setattr(folder, "_read", lambda *a: (seen.append(torch.get_num_threads()), read(*a))[1])
    load(device="cpu", cache="off")
    assert seen == [1]
    assert torch.get_num_threads() == 2


FORKING = """
import os, signal, sys
import suisei, torch

def scores(metric):
    return metric.score(["a dog runs", "犬が走る"], [["a dog"], ["犬がいる"]])

torch.set_num_threads(2)
metric = suisei.load(device="cpu", cache="off")
expected = scores(metric)
child = os.fork()
if child:
    assert torch.get_num_threads() == 2
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
signal.alarm(100)  # ends what waits for threads that are not there
assert torch.get_num_threads() == 2  # whatever else a forked process is for
same = abs(scores(suisei.load(device="cpu", cache="off")) - expected).max() < 1e-5
same &= abs(scores(metric) - expected).max() < 1e-5
os._exit(0 if same and torch.get_num_threads() == 1 else 1)
"""


THREADED = """
import os, signal, sys, threading
import torch
from suisei.encoders.threads import compute_alone_if_forked

def compute():
    compute_alone_if_forked()
    torch.ones(2_000_000).sin().sum()
    return torch.get_num_threads()

torch.set_num_threads(2)
assert compute() == 2
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
signal.alarm(30)
counts = []
thread = threading.Thread(target=lambda: counts.append(compute()))
thread.start()
thread.join()
counts.append(compute())
os._exit(0 if counts == [1, 1] else 1)
"""

LATER = """
import os, signal, sys
import numpy as np
from suisei.metrics.base import Metric

class Lazy(Metric):
    name = "lazy"

    def _score(self, samples, *, batch_size, progress):
        import torch

        if not counts:
            torch.set_num_threads(2)
        torch.ones(2_000_000).sin().sum()
        counts.append(torch.get_num_threads())
        return np.zeros(len(samples))

counts = []
assert "torch" not in sys.modules
metric = Lazy()
metric.score(["a dog"])
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
signal.alarm(30)
metric.score(["a dog"])
os._exit(0 if counts == [2, 1] else 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(FORKING, id="loads and scores"),
        pytest.param(THREADED, id="another of its threads came first"),
        pytest.param(LATER, id="torch came with the first score"),
    ],
)
def test_a_forked_process_computes_in_one_thread(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr

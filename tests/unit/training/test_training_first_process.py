"""What a training starts for itself ends with it, also where it waits for what never comes."""

import os
import signal
import subprocess
import sys

import pytest

from suisei.training.first_process import end_with_first_process, known_to_those_it_starts

WAITING = """
import threading
from suisei.training.first_process import end_with_first_process
end_with_first_process()
print("waiting", flush=True)
threading.Event().wait(60)
"""
FIRST = """
import subprocess, sys
from suisei.training.first_process import known_to_those_it_starts
with known_to_those_it_starts():
    subprocess.Popen([sys.executable, "-c", sys.argv[1]])
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_others_end_with_the_first_that_is_killed(number):
    with subprocess.Popen(
        [sys.executable, "-c", FIRST, WAITING], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as first:
        assert first.stdout.readline() == b"waiting\n"
        first.send_signal(number)
        assert first.wait(10) == -number
        assert first.communicate(timeout=10)[0] == b""  # the other would hold it open


def test_one_that_a_person_or_torchrun_started_is_left_alone(monkeypatch):
    import threading

    before = threading.active_count()
    end_with_first_process()
    assert threading.active_count() == before
    with known_to_those_it_starts():
        assert os.environ["SUISEI_FIRST_PROCESS"] == str(os.getpid())
    assert "SUISEI_FIRST_PROCESS" not in os.environ

"""What goes wrong in a training of several processes is said once, by the one that knows."""

from types import SimpleNamespace

import pytest
import torch

from suisei.errors import UnavailableError
from suisei.training import processes
from suisei.training.run_fit import LESS_MEMORY, fit

GLOO = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:1234"
NCCL = "NCCL error: remote process exited or there was a network error, NCCL version 2.27"


def trainer_that_meets(error, *, first):
    def fit(*_, **__):
        raise error

    return SimpleNamespace(
        fit=fit, fit_loop=SimpleNamespace(), _signal_connector=SimpleNamespace(), is_global_zero=first
    )


@pytest.mark.parametrize("text", [GLOO, NCCL, "writev [127.0.0.1]:1234: Broken pipe"])
def test_a_lost_process_is_a_line_of_the_first_alone(monkeypatch, text):
    monkeypatch.setattr(processes, "world_size", lambda: 2)
    with pytest.raises(UnavailableError, match=r"another of its processes ended.*--ckpt_path last"):
        fit(trainer_that_meets(RuntimeError(text), first=True), None, None, None)
    with pytest.raises(SystemExit) as end:
        fit(trainer_that_meets(RuntimeError(text), first=False), None, None, None)
    assert end.value.code == 2


def test_other_errors_of_a_program_are_not_taken_for_it(monkeypatch):
    with pytest.raises(RuntimeError, match="closed by peer"):  # of one process, which has no other
        fit(trainer_that_meets(RuntimeError(GLOO), first=True), None, None, None)
    monkeypatch.setattr(processes, "world_size", lambda: 2)
    with pytest.raises(RuntimeError, match="shapes"):
        fit(trainer_that_meets(RuntimeError("shapes differ"), first=True), None, None, None)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "out of memory"),
        (torch.OutOfMemoryError("CUDA:\n none"), "CUDA: none"),
        (RuntimeError("can't allocate memory: 9 bytes"), "can't allocate memory: 9 bytes"),
    ],
)
def test_a_lack_of_memory_is_one_line(error, said):
    with pytest.raises(UnavailableError) as stopped:
        fit(trainer_that_meets(error, first=True), None, None, None)
    assert str(stopped.value) == f"training stopped: {said}; {LESS_MEMORY}"


def test_ctrl_c_is_said_by_the_first_process_alone():
    with pytest.raises(SystemExit) as end:
        fit(trainer_that_meets(KeyboardInterrupt(), first=False), None, None, None)
    assert end.value.code == 130

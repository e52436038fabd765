"""Seeded blocks: the numbers that ``torch.manual_seed`` gives, and no other generator touched."""

from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import suisei
from suisei.encoders.seeded import seeded
from suisei.training.pretraining_loop import Passes, run_passes


def gpus_of(monkeypatch):
    """Return what is asked of GPUs' generators from here on; plug-ins of pytest seed them before a test."""
    calls = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: calls.append(("all", seed)))
    monkeypatch.setattr(torch.cuda, "_lazy_call", lambda call, **_: calls.append(("queued", call)))
    return calls


def test_numbers_on_the_cpu_are_those_of_the_seed_and_others_go_on(monkeypatch):
    reseeded = gpus_of(monkeypatch)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(7)
        expected = torch.rand(3)
        after = torch.rand(3)
        torch.default_generator.manual_seed(7)
        with seeded(np.int64(7)):
            assert torch.equal(torch.rand(3), expected)
        assert torch.equal(torch.rand(3), expected)
        with pytest.raises(KeyError), seeded(0):
            raise KeyError
        assert torch.equal(torch.rand(3), after)
    assert reseeded == []


def test_training_on_the_cpu_leaves_the_numbers_of_gpus(monkeypatch):
    reseeded = gpus_of(monkeypatch)
    module = nn.Linear(2, 1)
    passes = Passes("test", 1, 2, 0.1, 0.0, 0.1, "rate", 3)
    run_passes(lambda *_: module(torch.rand(2, 2)).sum(), module, 4, passes, parameters=module.parameters())
    assert reseeded == []


@pytest.mark.parametrize("name", ["cuda:1", None])
def test_of_gpus_only_the_one_that_draws_is_seeded_and_put_back(monkeypatch, name):
    reseeded = gpus_of(monkeypatch)
    done, place = [], torch.device(name or "cuda:0")

    @contextmanager
    def noted(kind, devices):
        done.append((kind, devices))
        yield
        done.append((kind, "end"))

    monkeypatch.setattr(torch.random, "fork_rng", lambda devices: noted("fork", devices))
    monkeypatch.setattr(torch.cuda, "device", lambda device: noted("device", device))
    monkeypatch.setattr(torch.cuda, "manual_seed", lambda seed: done.append(("seed", seed)))
    monkeypatch.setattr(torch, "get_default_device", lambda: torch.device("cuda:0"))
    state = torch.get_rng_state()
    with seeded(5, None if name is None else place):
        done.append(("inside", None))
    torch.set_rng_state(state)
    assert done == [
        ("fork", [place]),
        ("device", place),
        ("seed", 5),
        ("device", "end"),
        ("inside", None),
        ("fork", "end"),
    ]
    assert reseeded == []


def test_nothing_else_seeds_all_generators():
    package = Path(suisei.__file__).parent
    found = [path for path in package.rglob("*.py") if "torch.manual_seed(" in path.read_text("utf-8")]
    assert found == []

"""Gradients between two steps, in several processes: each goes on from the mean of all."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from suisei.training.loop_states import begun_gradients, restore_gradients
from tests.unit.two_processes import answers_of


class Parts(nn.Module):
    """A part that both processes use, one that the first alone does, one that none does, and one frozen."""

    def __init__(self):
        super().__init__()
        for name in ("shared", "first", "unused", "frozen"):
            setattr(self, name, nn.Parameter(torch.zeros(2), requires_grad=name != "frozen"))


def saved(seen):
    """A checkpoint after ``seen`` batches."""
    progress = {"current": {"ready": seen}}
    return {"optimizer_states": [], "loops": {"fit_loop": {"epoch_loop.batch_progress": progress}}}


TRAINER = SimpleNamespace(num_training_batches=10, accumulate_grad_batches=4)


def work(rank):
    model = Parts()
    (model.shared * torch.tensor([1.0, 2.0]) * (rank + 1)).sum().backward()
    if rank == 0:
        model.first.sum().backward()
    found = begun_gradients(saved(6), model, TRAINER)
    between = begun_gradients(saved(8), model, TRAINER)
    return {name: value.numpy() for name, value in found.items()}, between, model.shared.grad.tolist()


@pytest.mark.slow
def test_two_processes_go_on_from_their_mean(tmp_path):
    for rank, (found, between, own) in enumerate(answers_of(work, tmp_path)):
        assert found.keys() == {"shared", "first"}
        np.testing.assert_allclose(found["shared"], [1.5, 3.0])
        np.testing.assert_allclose(found["first"], [0.5, 0.5])
        assert between == {}
        assert own == [rank + 1, 2 * (rank + 1)]  # what it trains with is its own still


def test_one_process_has_its_own_back():
    model, other = Parts(), Parts()
    model.shared.sum().backward()
    found = begun_gradients(saved(1), model, TRAINER)
    assert begun_gradients({"state_dict": {}}, model, TRAINER) == {}
    assert begun_gradients(saved(10), model, TRAINER) == {}  # an epoch's last batch makes a step
    restore_gradients(found, other)
    assert other.shared.grad.tolist() == [1.0, 1.0]
    assert other.unused.grad is None
    assert found == {}

"""What the report of a training says of it."""

import math
from types import SimpleNamespace

import pytest

from suisei.training.run_facts import epochs_of


@pytest.mark.parametrize(
    ("counted", "steps", "batches", "share", "epochs"),
    [
        (4, 32, 15, 2, 4),
        (3, 32, 15, 2, 4),  # a start after the last step, which Lightning does not count up
        (1, 5, 15, 2, 1),  # broken off within the first
        (2, 9, 15, 2, 2),
        (2, 5, 15, 2, 2),  # with steps that were left out
        (3, 32, math.inf, 1, 3),
        (3, 32, 0, 1, 3),
    ],
)
def test_epochs_are_those_that_the_steps_began(counted, steps, batches, share, epochs):
    trainer = SimpleNamespace(
        current_epoch=counted, global_step=steps, num_training_batches=batches, accumulate_grad_batches=share
    )
    assert epochs_of(trainer) == epochs

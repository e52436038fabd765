"""What lower layers say of captions is kept of the wanted ones alone."""

import torch

from suisei.models.lower_layers import LowerStates
from tests.unit.kernels import Kernels

CAPTIONS = ["a cat", "two dogs", "猫", "赤いボール"]
LENGTHS = [3, 5, 2, 4]


def test_states_of_wanted_captions_are_kept_without_padding_and_no_others():
    states = torch.randn(4, 5, 8)
    kept = LowerStates(2, ["two dogs", "赤いボール", "猫", "another"])
    kept.keep(CAPTIONS, states, LENGTHS)
    assert not kept.covers(["a cat"])
    assert not kept.covers(["another"])
    assert kept.covers(CAPTIONS[1:])
    found = kept.padded(["猫", "two dogs", "赤いボール"])
    expected = torch.zeros(3, 5, 8)
    for place, row in enumerate((2, 1, 3)):
        expected[place, : LENGTHS[row]] = states[row, : LENGTHS[row]]
    assert torch.equal(found, expected)
    stored = {
        own.untyped_storage().data_ptr(): own.untyped_storage().nbytes() for own in kept._states.values()
    }
    assert sum(stored.values()) == (5 + 2 + 4) * 8 * 4


def test_a_batch_without_a_wanted_caption_leaves_nothing():
    kept = LowerStates(2, ["another"])
    kept.keep(CAPTIONS, torch.randn(4, 5, 8), LENGTHS)
    assert not kept._states


def test_a_gpu_is_told_of_batches_and_not_of_captions():
    def told(times):
        captions = [f"{number}" for number in range(times)]
        with Kernels() as asked:
            LowerStates(1, captions).keep(captions, torch.zeros(times, 3, 8), [2] * times)
        return asked.count

    assert told(50) == told(1)

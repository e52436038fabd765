"""Orders of training batches: every sample once, decided by seed and epoch, resumable in the middle."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from suisei.training import batching as module
from suisei.training.batching import EpochBatches, ResumableDataLoader, batch_loader


def at_epoch(sampler, epoch):
    sampler.set_epoch(epoch)
    return list(sampler)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4)), max_size=40), st.integers(1, 7), st.data())
def test_every_position_comes_once_and_all_batches_but_one_are_full(rows, size, data):
    lengths = np.array([length for length, _ in rows]) if data.draw(st.booleans()) else None
    groups = [f"g{group}" for _, group in rows] if data.draw(st.booleans()) else None
    positions = [100 + number for number in range(len(rows))]
    sampler = EpochBatches(positions, size, 3, lengths=lengths, groups=groups)
    for epoch in (0, 1):
        batches = at_epoch(sampler, epoch)
        assert len(batches) == len(sampler)
        assert sorted(position for batch in batches for position in batch) == positions
        assert sum(len(batch) != size for batch in batches) <= 1
        assert batches == at_epoch(EpochBatches(positions, size, 3, lengths=lengths, groups=groups), epoch)


@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("group", [False, True])
def test_order_depends_on_seed_and_epoch_alone(sort, group):
    lengths = np.arange(50) % 5 if sort else None
    groups = [str(number % 10) for number in range(50)] if group else None

    def order(seed, epoch):
        sampler = EpochBatches(range(100, 150), 7, seed, lengths=lengths, groups=groups)
        torch.rand(7)
        return at_epoch(sampler, epoch)

    assert order(0, 0) == order(0, 0)
    assert len({str(order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


def test_shuffled_batches_are_cut_from_one_permutation():
    generator = torch.Generator().manual_seed(2 * 100_003 + 1)
    expected = (torch.randperm(10, generator=generator) + 5).tolist()
    batches = at_epoch(EpochBatches(range(5, 15), 4, 2), 1)
    assert batches == [expected[:4], expected[4:8], expected[8:]]


def test_sorting_saves_padding_and_leaves_most_of_the_order_random(monkeypatch):
    monkeypatch.setattr(module, "BATCHES_PER_CHUNK", 10)
    lengths = np.random.default_rng(0).integers(5, 40, size=800)

    def padded(sampler):
        return sum(len(batch) * lengths[batch].max() for batch in at_epoch(sampler, 0))

    plain = EpochBatches(range(800), 8, 0)
    bucketed = EpochBatches(range(800), 8, 0, lengths=lengths)
    assert padded(plain) > 1.4 * lengths.sum()
    assert padded(bucketed) < 1.1 * lengths.sum()
    longest = [lengths[batch].max() for batch in at_epoch(bucketed, 0)]
    assert abs(np.corrcoef(np.arange(100), longest)[0, 1]) < 0.3  # not from short to long
    one, other = ({frozenset(batch) for batch in at_epoch(bucketed, epoch)} for epoch in (0, 1))
    assert len(one & other) < 5


def test_groups_stay_together_and_are_sorted_by_their_longest():
    groups = [str(number // 4) for number in range(40)]
    lengths = np.array([number // 4 for number in range(40)])
    batches = at_epoch(EpochBatches(range(40), 8, 1, lengths=lengths, groups=groups), 0)
    assert sorted(sorted({position // 4 for position in batch}) for batch in batches) == [
        [0, 1], [2, 3], [4, 5], [6, 7], [8, 9]
    ]  # fmt: skip


def loader_at(epoch, built=None, workers=0, **options):
    def collate(positions):
        if built is not None:
            built.append(list(positions))
        return torch.tensor(positions)

    sampler = EpochBatches(range(10), 3, 0, **options)
    sampler.set_epoch(epoch)
    return batch_loader(sampler, collate, workers, ResumableDataLoader)


def batches(loader):
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize("options", [{}, {"lengths": np.arange(10) % 3}])
@pytest.mark.parametrize("done", [0, 1, 3])
def test_resumed_loader_builds_what_is_left_of_the_epoch_and_then_all_of_the_next(done, options):
    interrupted = loader_at(2, **options)
    iterator = iter(interrupted)
    for _ in range(done):
        next(iterator)
    built = []
    resumed = loader_at(2, built, **options)
    resumed.load_state_dict(interrupted.state_dict())
    left = batches(loader_at(2, **options))[done:]
    assert batches(resumed) == left
    assert built == left  # the batches before are not even made
    assert resumed.state_dict() == {"epoch": 2, "batches": 4}
    resumed.sampler.set_epoch(3)
    assert batches(resumed) == batches(loader_at(3, **options))


def test_workers_resume_too():
    resumed = loader_at(1, workers=1)
    resumed.load_state_dict({"epoch": 1, "batches": 2})
    assert batches(resumed) == batches(loader_at(1))[2:]


def test_loader_saved_after_an_epoch_skips_nothing_of_the_next():
    finished = loader_at(0)
    batches(finished)
    resumed = loader_at(1)
    resumed.load_state_dict(finished.state_dict())
    assert batches(resumed) == batches(loader_at(1))
    shortened = loader_at(0)  # trainer.limit_train_batches ends an epoch early
    next(iter(shortened))
    resumed = loader_at(1)
    resumed.load_state_dict(shortened.state_dict())
    assert batches(resumed) == batches(loader_at(1))

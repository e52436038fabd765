"""Orders of training batches: every sample once, decided by seed and epoch, resumable in the middle."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from suisei.training import batching as module
from suisei.training.batching import (
    BalancedBatches,
    EpochBatches,
    FullBatches,
    ResumableDataLoader,
    batch_loader,
)


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


def collate(built, positions):
    if built is not None:
        built.append(list(positions))
    return torch.tensor(positions)


def loader_at(epoch, built=None, workers=0, **options):
    sampler = EpochBatches(range(10), 3, 0, **options)
    sampler.set_epoch(epoch)
    return batch_loader(sampler, partial(collate, built), workers, ResumableDataLoader)


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


def balanced(counts=(7, 3), sizes=(4, 2), batch_size=16, seed=1, pairs=range(0)):
    """Data sets with so many groups of so many samples; the position says set, group and place."""
    sets = [
        [[1000 * number + 10 * group + place for place in range(size)] for group in range(count)]
        for number, (count, size) in enumerate(zip(counts, sizes, strict=True))
    ]
    return sets, BalancedBatches(sets, batch_size, seed, pairs)


def test_balanced_batches_hold_whole_groups_of_every_set():
    sets, sampler = balanced()
    assert sampler.per_step == [2, 4]  # eight samples of each
    batches = at_epoch(sampler, 0)
    assert len(batches) == len(sampler) == 4
    for batch in batches:
        for groups in sets:
            for group in groups:
                assert len({*batch} & {*group}) in (0, len(group))
        assert {position // 1000 for position in batch} == {0, 1}


def test_an_epoch_is_one_pass_over_the_longest_set_and_the_others_start_again():
    sets, sampler = balanced()
    for epoch in range(3):
        seen = [position for batch in at_epoch(sampler, epoch) for position in batch]
        assert sorted(p for p in seen if p < 1000) == sorted(p for group in sets[0] for p in group)
        assert len([p for p in seen if p >= 1000]) == 4 * 4 * 2
    times = [sum(p == 1000 + 10 * group for p in seen) for group in range(3)]
    assert min(times) == 5  # 16 groups of 3
    assert max(times) == 6


def test_balanced_order_depends_on_seed_and_epoch_alone_and_goes_on_anywhere():
    orders = {str(at_epoch(balanced(seed=seed)[1], epoch)) for seed in (0, 1) for epoch in (0, 1)}
    assert len(orders) == 4
    whole = at_epoch(balanced(pairs=range(5000, 5020))[1], 1)
    sampler = balanced(pairs=range(5000, 5020))[1]
    sampler.first = 2
    assert at_epoch(sampler, 1) == whole[2:]
    assert at_epoch(sampler, 1) == whole


def test_every_balanced_batch_has_pairs_of_captions_to_the_last():
    _, sampler = balanced(pairs=range(5000, 5007))
    for batch in at_epoch(sampler, 0):
        assert len([position for position in batch if position >= 5000]) == module.PAIRS_PER_STEP
    seen = {position for batch in at_epoch(sampler, 0) for position in batch}
    assert seen >= set(range(5000, 5007))


def test_one_set_alone_is_passed_through_once():
    sets, sampler = balanced(counts=(5,), sizes=(3,), batch_size=1)
    assert sampler.per_step == [1]
    assert sorted(map(sorted, at_epoch(sampler, 0))) == sets[0]


def test_processes_share_full_batches_out_and_leave_the_rest():
    shares = [list(FullBatches(range(26), 4, 0, rank, 3)) for rank in range(3)]
    assert [len(own) for own in shares] == [2, 2, 2]
    assert all(len(batch) == 4 for own in shares for batch in own)
    assert len({position for own in shares for batch in own for position in batch}) == 24
    whole = list(FullBatches(range(26), 12, 0, 0, 1))
    assert [[*first, *second, *third] for first, second, third in zip(*shares, strict=True)] == whole


def test_an_epoch_after_one_that_was_gone_on_with_is_whole():
    for batches in (EpochBatches(range(12), 3, 0), BalancedBatches([[[n] for n in range(12)]], 3, 0)):
        batches.first = 3
        assert len(list(batches)) == 1
        assert len(list(batches)) == 4


def test_batches_of_one_chunk_are_sorted_by_the_longest_of_a_group(monkeypatch):
    monkeypatch.setattr(module, "BATCHES_PER_CHUNK", 2)
    lengths, groups = np.array([1, 9, 3, 4, 8, 2]), ["a", "a", "b", "b", "c", "c"]
    for seed in range(8):
        batches = list(EpochBatches(range(4), 2, seed, lengths=np.array([5, 6, 7, 8])))
        assert sorted(map(sorted, batches)) == [[0, 1], [2, 3]]
        order = EpochBatches(range(6), 3, seed, lengths=lengths, groups=groups)
        assert sorted(map(sorted, order)) == [[0, 1, 5], [2, 3, 4]]  # by 4, 8 and 9


def test_epochs_do_not_share_the_batches_of_lengths_that_are_all_different(monkeypatch):
    monkeypatch.setattr(module, "BATCHES_PER_CHUNK", 2)
    sampler = EpochBatches(range(80), 4, 0, lengths=np.arange(80))
    one, other = ({frozenset(batch) for batch in at_epoch(sampler, epoch)} for epoch in (0, 1))
    assert len(one & other) < 5


def test_going_through_batches_draws_no_random_numbers_of_the_training():
    loader = batch_loader(EpochBatches(range(6), 2, 0), torch.tensor, kind=ResumableDataLoader)
    state = torch.random.get_rng_state()
    assert len(list(loader)) == 3
    assert torch.equal(torch.random.get_rng_state(), state)

"""What several processes compute of a batch is the batch: no sample twice, none left out, the same loss."""

import itertools
import pickle
from types import SimpleNamespace

import pytest
import torch

from suisei.errors import ConfigError
from suisei.models.batch import Batch
from suisei.training import objective as objective_module
from suisei.training import processes
from suisei.training.batching import EpochBatches
from suisei.training.objective import LossConfig, Objective
from suisei.training.shares import RankBatches, part_of, parts, share_of, shared_out

SAMPLES = 30


@pytest.mark.parametrize("world", [2, 3, 5])
def test_shares_are_the_batch(world):
    positions = list(range(0, SAMPLES, 2))
    pairs = [SAMPLES + number for number in range(6)]
    for size in (1, 2, 7, 15):
        batch = positions[:size] + pairs
        shares = [share_of(batch, rank, world, SAMPLES) for rank in range(world)]
        counted = [place for share in shares for place in share.places if place >= 0]
        assert sorted(counted) == list(range(size))
        for share in shares:
            assert share.whole == size
            own = [position for position in share if position < SAMPLES]
            assert len(own) == len(share.places)
            assert share.places == [-1] or own == [batch[place] for place in share.places]
        given = [position for share in shares for position in share if position >= SAMPLES]
        assert sorted(given) == pairs


def test_groups_stay_together_and_processes_get_about_as_much():
    names = "aaabbbbccddeeeef"
    shares = [share_of(range(16), rank, 2, 16, names.__getitem__) for rank in range(2)]
    groups = [{names[position] for position in share} for share in shares]
    assert not groups[0] & groups[1]
    assert sorted(len(share) for share in shares) == [7, 9]


def test_parts_in_order_are_the_batch_in_order_whatever_its_length():
    for size, world in itertools.product(range(1, 9), (2, 3, 4)):
        batch = list(range(100, 100 + size))
        given = [part_of(batch, rank, world) for rank in range(world)]
        assert [p for part in given if part.places != [-1] for p in part] == batch
        assert all(part.places == [-1] and len(part) == 1 for part in given if part.places[0] < 0)


def test_every_process_has_its_part_of_each_batch_and_one_alone_the_batches():
    batches = [[3, 1, 2, 0], [5, 4]]
    assert parts(batches, 0, 1) == batches
    assert not hasattr(parts(batches, 0, 1)[0], "places")
    ranks = [parts(batches, rank, 2) for rank in range(2)]
    assert [[*own, *other] for own, other in zip(*ranks, strict=True)] == batches
    assert [len(own) for own in ranks[0]] == [2, 1]


def test_an_epoch_of_shares_is_that_of_one_process_and_can_be_entered_in_its_middle():
    def batches():
        return EpochBatches(range(SAMPLES), 8, seed=3)

    whole = batches()
    whole.set_epoch(2)
    expected = [sorted(batch) for batch in whole]
    ranks = [RankBatches(batches(), rank, 2, SAMPLES) for rank in range(2)]
    for rank in ranks:
        rank.set_epoch(2)
        assert (len(rank), rank.epoch) == (len(expected), 2)
    assert [sorted(a + b) for a, b in zip(*ranks, strict=True)] == expected
    for rank in ranks:
        rank.first = 2
    assert [sorted(a + b) for a, b in zip(*ranks, strict=True)] == expected[2:]


def test_a_share_survives_the_way_to_a_process_that_makes_batches():
    share = pickle.loads(pickle.dumps(share_of(range(5), 1, 2, 5)))
    assert (list(share), share.places, share.whole) == ([1, 3], [1, 3], 5)
    batch = shared_out(lambda _: SimpleNamespace())(share)
    assert batch.place.tolist() == [1, 3]
    assert batch.whole == 5


def batch_of(rows, target, source, original, pairs, pair_target):
    nothing = torch.zeros(0, dtype=torch.long)
    return Batch(
        caption_rows=nothing, ids=None, mask=None, candidate=rows, references=nothing,
        reference_mask=nothing, image_rows=nothing, pixels=None, image=nothing, image_mask=nothing,
        extras=nothing, target=target, source=source, original=original, pairs=pairs, pair_target=pair_target,
    )  # fmt: skip


@pytest.mark.parametrize("several_sets", [True, False])
@pytest.mark.parametrize("cut", [[(0, 4), (4, 7)], [(0, 7), None]])
def test_the_parts_of_a_loss_sum_to_the_loss(several_sets, cut, monkeypatch):
    """Of data sets of different sizes, degraded captions, rated pairs, and a process that has no sample."""
    torch.manual_seed(0)
    logits, start, target = torch.randn(2, 7), torch.randn(7), torch.rand(7)
    vectors, pair_target = torch.randn(6, 1, 4), torch.rand(3)
    pairs = torch.tensor([[0, 1], [2, 3], [4, 5]])
    source = torch.tensor([0, 0, 0, 2, 2, 0, 0]) if several_sets else None
    original = torch.tensor([-1, 0, 0, -1, -1, 4, 5])
    objective = Objective(LossConfig(cosine_weight=0.5, pair_weight=0.3, support_weight=0.7))

    def part(rows, own_pairs):
        stand_in = rows is None
        chosen = torch.arange(7)[slice(*((0, 1) if stand_in else rows))]
        inside = original[chosen] - chosen[0]
        inside = torch.where(original[chosen] >= 0, inside, -1)
        given = batch_of(
            chosen, target[chosen], None if source is None else source[chosen], inside,
            pairs[own_pairs] if own_pairs else None, pair_target[own_pairs] if own_pairs else None,
        )  # fmt: skip
        return given, SimpleNamespace(logits=logits[:, chosen], start=start[chosen], vectors=vectors)

    whole = objective(part((0, 7), [0, 1, 2])[1], part((0, 7), [0, 1, 2])[0])
    made = [part(rows, own) for rows, own in zip(cut, ([0], [1, 2]), strict=True)]
    for (given, _), rows in zip(made, cut, strict=True):
        given.place, given.whole = torch.tensor([-1]) if rows is None else given.candidate, 7
    monkeypatch.setattr(objective_module, "total", lambda counts: counts)
    counts = sum(torch.tensor(objective_module._counts(given)) for given, _ in made)
    monkeypatch.setattr(objective_module, "total", lambda _: counts)
    torch.testing.assert_close(sum(objective(said, given) for given, said in made), whole)


@pytest.mark.parametrize(
    ("variables", "first"),
    [
        ({}, True), ({"LOCAL_RANK": "1"}, False), ({"RANK": "2", "LOCAL_RANK": "0"}, False),
        ({"RANK": "0", "LOCAL_RANK": "0"}, True), ({"NODE_RANK": "1"}, False), ({"SLURM_PROCID": "3"}, False),
        ({"SLURM_PROCID": "0"}, True), ({"SLURM_PROCID": "0", "LOCAL_RANK": "1"}, True),
    ],
)  # fmt: skip
def test_the_first_process_is_known_from_what_started_it(variables, first, monkeypatch):
    for name in (*processes._RANKS, *processes._PLACES, "SLURM_JOB_NAME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert processes.is_first_process() is first


@pytest.mark.parametrize(
    ("devices", "nodes", "several"),
    [(1, 1, False), ("auto", 1, False), ([1], 1, False), ("3,", 1, False), (2, 1, True), ("2", 1, True),
     ([0, 1], 1, True), ("0,1", 1, True), (1, 2, True), (-1, 1, True)],
)  # fmt: skip
def test_settings_that_ask_for_several_processes(devices, nodes, several):
    trainer = SimpleNamespace(devices=devices, num_nodes=nodes)
    assert processes.several_processes(trainer) is several


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"output": None}, "name it with --output"),
        ({"folds": 3}, "--data.fold N"),
        ({"task": "pretrain"}, "task"),
    ],
)
def test_what_several_processes_cannot_do_is_said_before_any_work(changed, message):
    trainer = SimpleNamespace(devices=2, num_nodes=1, use_distributed_sampler=True)
    config = SimpleNamespace(
        trainer=trainer, output=changed.get("output", "run"), task=changed.get("task"),
        data=SimpleNamespace(folds=changed.get("folds", 0), fold=None),
    )  # fmt: skip
    with pytest.raises(ConfigError, match=message):
        processes.check_processes(config)
    config.trainer.devices = "auto"
    processes.check_processes(config)
    assert (trainer.devices, trainer.use_distributed_sampler) == (1, False)


def test_rated_pairs_are_asked_for_no_unit():
    names = ["a", "a", "b", "b"]
    given = [0, 1, 2, 3, 4, 5]
    shares = [share_of(given, rank, 2, 4, names.__getitem__) for rank in range(2)]
    assert shares == [[0, 1, 4], [2, 3, 5]]
    assert [own.places for own in shares] == [[0, 1], [2, 3]]


def test_what_makes_batches_can_be_given_to_processes_that_are_not_forked():
    again = pickle.loads(pickle.dumps(shared_out(SimpleNamespace)))
    assert again.args == (SimpleNamespace,)

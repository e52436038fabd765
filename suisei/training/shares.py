"""Which samples of a batch each process of a training computes, so that together they compute the batch.

One process with batches of 16 and two with batches of 8 each see the same samples in every step: a batch is
made for all processes, by the seed and the epoch alone, and then shared out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import torch
from torch.utils.data import Sampler

from suisei.models.batch import Batch
from suisei.training.batching import BalancedBatches, EpochBatches


class Share(list[int]):
    """The positions in a batch that one process computes.

    Attributes:
        places: where in the batch of all processes its samples stand; [-1] for a stand-in, a sample that does
            not count, in a process that has none of this batch.
        whole: samples in the batch of all processes.
    """

    places: list[int]
    whole: int


class RankBatches(Sampler[list[int]]):
    """The shares of one process in the batches of an epoch.

    Args:
        batches: the batches of all processes.
        rank: number of the process.
        world: how many processes there are.
        samples: positions from this one on are rated pairs of captions.
        unit: names what keeps positions together in one process; None for each on its own.
    """

    def __init__(
        self,
        batches: EpochBatches | BalancedBatches,
        rank: int,
        world: int,
        samples: int,
        unit: Callable[[int], str] | None = None,
    ) -> None:
        self.batches, self.rank, self.world, self.samples, self.unit = batches, rank, world, samples, unit

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration is of."""
        return self.batches.epoch

    @property
    def first(self) -> int:
        """The batch that the next iteration begins with."""
        return self.batches.first

    @first.setter
    def first(self, number: int) -> None:
        self.batches.first = number

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch; Lightning calls this before every one."""
        self.batches.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.batches:
            yield share_of(batch, self.rank, self.world, self.samples, self.unit)


def share_of(
    batch: Sequence[int], rank: int, world: int, samples: int, unit: Callable[[int], str] | None = None
) -> Share:
    """Return what one process computes of a batch; arguments as for :class:`RankBatches`.

    Neighbours of one unit stay together, and every unit goes to the process that has the fewest positions so
    far. Rated pairs, which come last in a batch, are units of their own.
    """
    units: list[list[int]] = []
    last = None
    for place, position in enumerate(batch):
        name = unit(position) if unit is not None and position < samples else None
        if name is None or name != last:
            units.append([])
        units[-1].append(place)
        last = name
    held: list[list[int]] = [[] for _ in range(world)]
    for places in units:
        min(held, key=len).extend(places)
    return _made(batch, held[rank], samples)


def part_of(batch: Sequence[int], rank: int, world: int) -> Share:
    """Return one process's part of a batch: consecutive, so that parts in order are the batch in order."""
    bounds = [len(batch) * number // world for number in (rank, rank + 1)]
    return _made(batch, list(range(*bounds)), max(batch) + 1)


def shared_out(collate: Callable[[Sequence[int]], Batch]) -> Callable[[Sequence[int]], Batch]:
    """Return what makes a batch of a share, which then knows its places in the batch of all processes.

    It can be pickled if ``collate`` can: processes that are not forked are given it so.
    """
    return partial(_placed, collate)


def _placed(collate: Callable[[Sequence[int]], Batch], positions: Sequence[int]) -> Batch:
    batch = collate(positions)
    if isinstance(positions, Share):
        batch.place, batch.whole = torch.tensor(positions.places), positions.whole
    return batch


def parts(batches: Iterable[Sequence[int]], rank: int, world: int) -> list[Sequence[int]]:
    """Return one process's part of every batch; the batches themselves where there is one process."""
    return [batch if world == 1 else part_of(batch, rank, world) for batch in batches]


def _made(batch: Sequence[int], places: Sequence[int], samples: int) -> Share:
    own = [place for place in places if batch[place] < samples]
    share = Share([batch[place] for place in places] if own else [batch[0], *(batch[p] for p in places)])
    share.places = own or [-1]
    share.whole = sum(position < samples for position in batch)
    return share

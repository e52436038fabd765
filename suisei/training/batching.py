"""Which samples meet in a training batch, and a loader that goes on in the middle of an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch.utils.data import DataLoader, Sampler

from suisei.models.batch import Batch

Batching = Literal["shuffled", "length", "group", "balanced"]
PAIRS_PER_STEP = 6
"""Rated pairs of captions in a balanced batch."""
BATCHES_PER_CHUNK = 50
"""Samples are sorted by length among this many batches, so that most of the order stays random."""


class EpochBatches(Sampler[list[int]]):
    """Batches of positions, in an order that depends on the seed and the epoch alone.

    Samples, or whole groups of them, are shuffled; where lengths are given, they are then sorted by length
    within chunks of BATCHES_PER_CHUNK batches. Batches that are not random already are shuffled once more.
    Every position comes once per epoch, and every batch but one is full.

    Args:
        positions: positions of the training samples, [N].
        batch_size: samples per batch.
        seed: decides the order, together with the epoch.
        lengths: length of every sample, [N]; None for no sorting.
        groups: what keeps samples together, N names; None for samples on their own.

    Attributes:
        first: the batch that the next iteration begins with.
    """

    def __init__(
        self,
        positions: Sequence[int],
        batch_size: int,
        seed: int,
        *,
        lengths: np.ndarray | None = None,
        groups: Sequence[str] | None = None,
    ) -> None:
        self.positions = np.asarray(positions, dtype=np.int64)
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0
        self.first = 0
        self._lengths = lengths
        self._random = lengths is None and groups is None
        self._unit = np.arange(len(self.positions))  # the group of every sample
        if groups is not None:
            self._unit = np.unique(np.asarray(groups), return_inverse=True)[1]

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch; Lightning calls this before every one."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.positions) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        first, self.first = self.first, 0
        generator = torch.Generator().manual_seed(self.seed * 100_003 + self.epoch)
        order = self._order(generator)
        numbers = list(range(len(self)))
        if not self._random:
            numbers = torch.randperm(len(self), generator=generator).tolist()
        for number in numbers[first:]:
            yield order[number * self.batch_size : (number + 1) * self.batch_size].tolist()

    def _order(self, generator: torch.Generator) -> np.ndarray:
        units = int(self._unit.max(initial=-1)) + 1
        shuffled = torch.randperm(units, generator=generator).numpy()
        if self._lengths is not None:
            longest = np.zeros(units, dtype=np.int64)
            np.maximum.at(longest, self._unit, self._lengths)
            ends = np.cumsum(np.bincount(self._unit, minlength=units)[shuffled])
            chunk = (ends - 1) // (BATCHES_PER_CHUNK * self.batch_size)
            shuffled = shuffled[np.lexsort((longest[shuffled], chunk))]  # stable: equal lengths stay shuffled
        rank = np.empty(units, dtype=np.int64)
        rank[shuffled] = np.arange(units)
        return self.positions[np.argsort(rank[self._unit], kind="stable")]


class FullBatches(EpochBatches):
    """The full batches of an epoch, of each the share of one process.

    Args:
        positions: positions of what batches are made of, [N].
        batch_size: how many per batch and process.
        seed: decides the order, together with the epoch.
        rank: number of the process.
        world: how many processes there are.
    """

    def __init__(self, positions: Sequence[int], batch_size: int, seed: int, rank: int, world: int) -> None:
        super().__init__(positions, batch_size * world, seed)
        self.world = world
        self._share = slice(rank * batch_size, (rank + 1) * batch_size)

    def __len__(self) -> int:
        return len(self.positions) // self.batch_size

    def __iter__(self) -> Iterator[list[int]]:
        for batch in super().__iter__():
            yield batch[self._share]


class BalancedBatches(Sampler[list[int]]):
    """Batches of whole groups of every data set, in an order that depends on the seed and the epoch alone.

    Every batch has as many groups of each set as make up the set's equal share of the samples, at least one;
    an epoch is one pass over the set that lasts longest, and the others start again when they are through.

    Args:
        sets: for every data set, the positions of each group's samples.
        batch_size: samples per batch, about.
        seed: decides the order, together with the epoch.
        pairs: positions of rated pairs of captions, PAIRS_PER_STEP of which go into every batch.

    Attributes:
        first: the batch that the next iteration begins with.
    """

    def __init__(
        self, sets: Sequence[Sequence[Sequence[int]]], batch_size: int, seed: int, pairs: range = range(0)
    ) -> None:
        self.sets = sets
        share = batch_size / len(sets)
        self.per_step = [max(1, round(share * len(groups) / sum(map(len, groups)))) for groups in sets]
        self.seed = seed
        self.pairs = pairs
        self.epoch = 0
        self.first = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch; Lightning calls this before every one."""
        self.epoch = epoch

    def __len__(self) -> int:
        return max(-(-len(groups) // own) for groups, own in zip(self.sets, self.per_step, strict=True))

    def __iter__(self) -> Iterator[list[int]]:
        first, self.first = self.first, 0
        generator = torch.Generator().manual_seed(self.seed * 100_003 + self.epoch)
        orders = [
            _endless(len(groups), own * len(self), generator, again=-(-len(groups) // own) < len(self))
            for groups, own in zip(self.sets, self.per_step, strict=True)
        ]
        pairs = _endless(len(self.pairs), PAIRS_PER_STEP * len(self), generator, again=True)
        for step in range(first, len(self)):
            batch = []
            for groups, order, own in zip(self.sets, orders, self.per_step, strict=True):
                batch += [row for group in order[step * own : (step + 1) * own] for row in groups[group]]
            drawn = pairs[step * PAIRS_PER_STEP : (step + 1) * PAIRS_PER_STEP]
            yield batch + [self.pairs[pair] for pair in drawn]


def _endless(count: int, wanted: int, generator: torch.Generator, *, again: bool) -> list[int]:
    """Return as many numbers below ``count`` in random order, of one permutation or ``again`` and again."""
    order: list[int] = []
    while count and (not order or (again and len(order) < wanted)):
        order += torch.randperm(count, generator=generator).tolist()
    return order[:wanted]


class ResumableDataLoader(DataLoader):
    """A DataLoader over EpochBatches that goes on where a killed run stopped, even within an epoch."""

    _done = 0
    _resume: tuple[int, int] | None = None

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch and how many of its batches have been handed out."""
        return {"epoch": self._epoch, "batches": self._done}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Skip as many batches at the next iteration, if it is of the same epoch."""
        self._resume = int(state["epoch"]), int(state["batches"])

    @property
    def _epoch(self) -> int:
        return int(getattr(self.sampler, "epoch", 0))

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        epoch, skip = self._resume or (self._epoch, 0)
        self._resume = None
        if epoch != self._epoch or skip >= len(self):
            skip = 0
        self.sampler.first = skip  # type: ignore[attr-defined]
        self._done = skip
        for number, batch in enumerate(super().__iter__(), start=skip + 1):
            self._done = number
            yield batch


class _Positions:
    """A data set whose items are the positions asked for: a batch is made of all of them at once."""

    def __getitem__(self, positions: Sequence[int]) -> Sequence[int]:
        return positions


def batch_loader(
    batches: Any,
    collate: Callable[[Sequence[int]], Any] | None,
    num_workers: int = 0,
    kind: type[DataLoader] = DataLoader,
) -> Any:
    """Return a loader of batches.

    Args:
        batches: a sequence of lists of positions, or a sampler of them.
        collate: makes the batch of the samples at some positions.
        num_workers: processes that make batches.
        kind: the class of the loader.
    """
    return kind(
        _Positions(),  # type: ignore[arg-type]
        sampler=batches,
        batch_size=None,
        collate_fn=collate,
        num_workers=num_workers,
        generator=torch.Generator(),  # without one, iterating draws from the global random numbers,
    )  # and a resumed run would not go on with the numbers of an uninterrupted one

"""Data modules whose training goes on, even within an epoch, with the batches of an unbroken one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader

from suisei.data.file_rows import Row, skipped_note
from suisei.errors import ConfigError
from suisei.training.batching import ResumableDataLoader, batch_loader
from suisei.training.setting_names import as_settings

logger = logging.getLogger(__name__)


class TensorBatch:
    """A batch that is a dataclass of tensors and plain values."""

    def to(self, device: torch.device) -> Self:
        """Return the batch on a device."""
        moved: dict[str, Any] = {
            name: value.to(device) if isinstance(value, Tensor) else value
            for name, value in vars(self).items()
        }
        return type(self)(**moved)


class ResumableData(LightningDataModule):
    """A data module that knows where in an epoch its training batches are.

    What a training batch holds must depend on the seed, the epoch and its number alone.

    Attributes:
        skipped: the bad rows that were left out.
        digests: of each part of the data that were read, by which a run knows them when it goes on.
    """

    def __init__(self) -> None:
        super().__init__()
        self._batches: Any = None
        self._loader: ResumableDataLoader | None = None
        self._resume: dict[str, Any] = {}
        self.skipped: list[Row] = []
        self.digests: dict[str, str] = {}

    def tell_of_skipped(self) -> None:
        """Say how many bad rows were left out, and what is wrong with the first."""
        if self.skipped:
            logger.warning("%s", as_settings(skipped_note([row.error for row in self.skipped])))

    @property
    def skipped_facts(self) -> dict[str, Any]:
        """What a report says of the rows that were left out."""
        first = as_settings(" ".join(str(self.skipped[0].error).split())) if self.skipped else None
        return {"skipped_rows": len(self.skipped), "first_skipped": first}

    @property
    def processes(self) -> tuple[int, int]:
        """The number of this process, and how many there are."""
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)

    @property
    def epoch(self) -> int:
        """The epoch that training batches are of."""
        return int(self._batches.epoch) if self._batches is not None else 0

    def resumable(
        self, batches: Any, collate: Callable[[Sequence[int]], Any] | None, num_workers: int = 0
    ) -> ResumableDataLoader:
        """Return the loader of training batches; arguments as for ``batch_loader``."""
        self._batches = batches
        loader: ResumableDataLoader = batch_loader(batches, collate, num_workers, ResumableDataLoader)
        if self._resume:
            loader.load_state_dict(self._resume)
        self._loader = loader
        return loader

    def state_dict(self) -> dict[str, Any]:
        """Return where in the epoch the training batches are, for the checkpoint."""
        return self._loader.state_dict() if self._loader is not None else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where a checkpoint was written.

        Lightning restores the state of loaders too, but not once something has asked for the number
        of steps, as the learning-rate schedule does.
        """
        self._resume = dict(state_dict)


def in_order(
    positions: Sequence[int], batch_size: int, collate: Callable[[Sequence[int]], Any]
) -> DataLoader[Any]:
    """Return a loader of batches that are cut from positions in order, such as those of validation."""
    loader: DataLoader[Any] = batch_loader(cut(positions, batch_size), collate)
    return loader


def cut(positions: Sequence[int], batch_size: int) -> list[Sequence[int]]:
    """Return positions in parts of a size, the last of which may be smaller.

    >>> cut([1, 2, 3], 2)
    [[1, 2], [3]]
    """
    return [positions[start : start + batch_size] for start in range(0, len(positions), batch_size)]


def require_full_batch(count: int, what: str, batch_size: int, processes: int = 1) -> None:
    """Refuse too few of what batches are made of.

    Args:
        count: how many there are.
        what: names them, in the plural.
        batch_size: how many of a batch each process takes.
        processes: how many processes share a batch.

    Raises:
        ConfigError: not one batch is full.
    """
    whole = batch_size * processes
    if count < whole:
        shared = f" ({batch_size} in each of {processes} processes)" if processes > 1 else ""
        one = f"1 training {what.removesuffix('s')} does not fill"
        named = one if count == 1 else f"{count} training {what} do not fill"
        raise ConfigError(f"{named} a batch of {whole}{shared}; lower data.batch_size")

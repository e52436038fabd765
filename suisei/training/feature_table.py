"""Features of frozen encoders, looked up batch by batch in training."""

from __future__ import annotations

import torch
from torch import Tensor

SHARE_OF_GPU = 0.5
"""Features move to a GPU as a whole where they take at most this share of its free memory."""


class FeatureTable:
    """Rows of features, in memory that is used again from batch to batch.

    A batch may take hundreds of megabytes, and asking the system for as much fresh memory costs several
    times what copying does. What a look-up returned is therefore only good until the next one.

    Args:
        features: [N, ...], on the CPU.
    """

    def __init__(self, features: Tensor) -> None:
        self._features = features
        self._buffer = features.new_empty(0, *features.shape[1:])

    def look_up(self, rows: Tensor, device: torch.device) -> Tensor:
        """Return the features of rows int64 [n] as [n, ...] on a device."""
        if device.type == "cuda" and self._fits(device):
            self._features = self._features.to(device)
        if self._features.device == device:
            rows = rows.to(device)
            return self._into_buffer(rows) if device.type == "cpu" else self._features[rows]
        return self._into_buffer(rows.cpu()).to(device)

    def _into_buffer(self, rows: Tensor) -> Tensor:
        if len(self._buffer) < len(rows):
            self._buffer = self._features.new_empty(len(rows), *self._features.shape[1:])
        found = self._buffer[: len(rows)]
        return torch.index_select(self._features, 0, rows, out=found)

    def _fits(self, device: torch.device) -> bool:
        if self._features.device == device:
            return False  # it is there already
        free, _ = torch.cuda.mem_get_info(device)
        return self._features.numel() * self._features.element_size() <= SHARE_OF_GPU * free

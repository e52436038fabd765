"""Features of captions and images by content, in memory, bounded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from suisei.encoders.locks import Lock

_ENTRY_BYTES = 400  # what a key and its place in memory take beside the numbers
Encode = Callable[[list[Any]], Tensor]
"""Turns items into features, float32 [items, ...]."""


class FeatureCache:
    """Features by key, in memory, bounded; the least recently used are dropped.

    All lie in one block of memory: a stream of single tensors would break it into pieces. Threads may
    share it: they encode side by side, and only looking up and keeping is done one at a time. A pickled
    cache comes back empty.

    Args:
        max_bytes: size of what is kept between calls.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._least = 1
        self._row_of: OrderedDict[str, int] = OrderedDict()
        self._block = torch.empty(0)
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[FeatureCache], tuple[int]]:
        return FeatureCache, (self.max_bytes,)

    def look_up(self, keys: Sequence[str], items: Sequence[Any], encode: Encode) -> Tensor:
        """Return the features of every item, [len(items), ...], encoding only the unknown ones.

        Args:
            keys: a key that stands for each item's content; no two items share one.
            items: what ``encode`` takes.
            encode: turns a list of items into a tensor, [len, ...].
        """
        with self._lock:  # what is known is copied now: its row may hold another's features a moment later
            rows = [self._row_of.get(key, -1) for key in keys]
            known = [position for position, row in enumerate(rows) if row >= 0]
            found = self._block[[rows[position] for position in known]]
            for position in known:
                self._row_of.move_to_end(keys[position])
        unknown = [position for position, row in enumerate(rows) if row < 0]
        if not unknown:
            return found
        fresh = encode([items[position] for position in unknown])
        result = fresh.new_empty(len(keys), *fresh.shape[1:])
        result[unknown] = fresh
        if known:
            result[known] = found
        with self._lock:
            self._keep([keys[position] for position in unknown], fresh)
        return result

    def make_room(self, items: int) -> None:
        """Keep so many items at once at least, whatever they take."""
        with self._lock:
            self._least = max(self._least, items)
            if 0 < len(self._block) < self._least:
                kept = self._block
                self._block = kept.new_empty(self._least, *kept.shape[1:])
                self._block[: len(kept)] = kept

    def _keep(self, keys: list[str], features: Tensor) -> None:
        if not keys:
            return
        if not len(self._block):
            room = max(self._least, self.max_bytes // (features[0].nbytes + _ENTRY_BYTES))
            # Memory that was never written to takes no room.
            self._block = torch.empty(room, *features.shape[1:], dtype=features.dtype)
        # Another thread may have kept some of them meanwhile.
        new = [position for position, key in enumerate(keys) if key not in self._row_of]
        new = new[-len(self._block) :]
        rows = []
        for position in new:
            free = len(self._row_of)
            row = free if free < len(self._block) else self._row_of.popitem(last=False)[1]
            self._row_of[keys[position]] = row
            rows.append(row)
        self._block[rows] = features[new]

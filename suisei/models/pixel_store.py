"""PixelStore: preprocessed images by row. Shape letter: s side in pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from suisei.data.images import read_image
from suisei.errors import DataError

MAX_PIXEL_BYTES = 2 * 1024**3
"""Preprocessed images are kept in memory up to this size; above it they are decoded per batch."""


class PixelStore:
    """Preprocessed images by row, kept in memory where they fit.

    Args:
        images: image sources.
        preprocess: turns a PIL image into float32 [3, s, s].
        max_bytes: largest size to keep in memory.
        progress: called with 1 for each image that is decoded ahead.

    Raises:
        DataError: images that cannot be read, all of them counted and some named; those of a store that
            does not fit into memory are found when their rows are asked for.
    """

    def __init__(
        self,
        images: Sequence[Any],
        preprocess: Callable[[Any], Tensor],
        max_bytes: int = MAX_PIXEL_BYTES,
        progress: Callable[[int], Any] = lambda _: None,
    ) -> None:
        self.images = images
        self.preprocess = preprocess
        self._kept: Tensor | None = None
        if not images:
            return
        rows = range(len(images))
        found = (self._decode_or_problem(row) for row in rows)
        first = next((pixels for pixels in found if not isinstance(pixels, DataError)), None)
        if first is not None and first.numel() * first.element_size() * len(images) > max_bytes:
            return
        problems = []
        self._kept = torch.empty(len(images), *(() if first is None else first.shape))
        with ThreadPoolExecutor(4) as pool:
            for row, pixels in enumerate(pool.map(self._decode_or_problem, rows)):
                if isinstance(pixels, DataError):
                    problems.append(str(pixels))
                else:
                    self._kept[row] = pixels
                progress(1)
        if problems:
            more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
            raise DataError(
                f"{len(problems)} of {len(images)} images cannot be read: {'; '.join(problems[:3])}{more}; "
                "mend the files, or leave their rows out"
            )

    def _decode_or_problem(self, row: int) -> Tensor | DataError:
        try:
            return self._decode(row)
        except DataError as error:
            return error

    def _decode(self, row: int) -> Tensor:
        return read_image(self.images[row], self.preprocess)

    def __getitem__(self, rows: Tensor) -> Tensor:
        """Return float32 [len(rows), 3, s, s]."""
        if self._kept is not None:
            return self._kept[rows]
        return torch.stack([self._decode(int(row)) for row in rows])

"""What a captioner's tower says of images, by row.

Shape letters: B images of a batch, P places of an image, c width of the tower's grid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from suisei.captioning.caption_model import CaptionModel
from suisei.captioning.captioner import Captioner
from suisei.captioning.grid_store import GridStore
from suisei.data.decodable import check_decodable
from suisei.encoders.cache_place import disk_cache
from suisei.encoders.precision import choose_precision

IMAGES_PER_CALL = 64
MOST_GRID_BYTES = 1024**3
"""What a frozen tower says of the images is kept in memory up to this size; beyond, it is asked again."""


class ImageGrids:
    """What a captioner's tower says of images, by row: once and for all where the tower is frozen.

    What the frozen tower of one of our own captioners says is that of its training, in the cache of features.

    Args:
        captioner: whose tower.
        images: the images.
        folder: where the file of grids that do not fit into memory is.
        advance: called with the number of images that are done.

    Raises:
        DataError: an image that cannot be read, whether or not what is said of it is kept.
    """

    def __init__(
        self,
        captioner: CaptionModel,
        images: Sequence[Any],
        folder: Path | None = None,
        advance: Callable[[int], Any] = lambda _: None,
    ) -> None:
        self._captioner, self._images = captioner, images
        self._kept: Tensor | GridStore | None = None
        if not captioner.tower_is_frozen:
            check_decodable(images, advance=advance)  # rather than when a step of training asks for them
            return
        if isinstance(captioner, Captioner):
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            self._kept = GridStore(
                captioner.tower,
                [Path(image) for image in images],
                precision=choose_precision("auto", captioner.device.type),
                disk=disk_cache(),
                folder=folder,
                advance=advance,
                half=False,  # several processes would round what differs in the last digit to other numbers
            )
            return
        self._kept = self._ask_all(advance)

    def _ask_all(self, advance: Callable[[int], Any]) -> Tensor | None:
        """Return the grids of all images; None where they are too large to keep."""
        kept = torch.empty(0)
        for start in range(0, len(self._images), IMAGES_PER_CALL):
            part = self._ask(range(start, min(start + IMAGES_PER_CALL, len(self._images)))).cpu()
            if not start:
                if part[0].nbytes * len(self._images) > MOST_GRID_BYTES:
                    check_decodable(self._images, advance=advance)
                    return None
                kept = torch.empty(len(self._images), *part.shape[1:], dtype=part.dtype)
            kept[start : start + len(part)] = part
            advance(len(part))
        return kept

    def _ask(self, rows: Sequence[int]) -> Tensor:
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self._captioner.tower_is_frozen):
            pixels = self._captioner.read([self._images[row] for row in rows])
            return self._captioner.grid(pixels.to(self._captioner.device))

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self._images)

    def __getitem__(self, rows: Tensor) -> Tensor:
        """Return the grids of rows [B], [B, P, c], on the captioner's device; with gradient if it learns."""
        if self._kept is not None:
            return self._kept[rows.cpu()].to(self._captioner.device)
        return self._ask(rows.tolist())

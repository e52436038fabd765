"""What a frozen tower says of every place of every image, computed once and kept.

Between runs it is in the cache of features; during a run in memory, or in a file of its own where large.
Shape letters: I images, P places, c width.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suisei.captioning.grid_tower import GridTower
from suisei.data.images import check_unchanged, content_key
from suisei.encoders.batch_sizes import images_per_batch
from suisei.encoders.decoding import decoded_batches
from suisei.encoders.feature_file import DiskCache, DiskFeatures
from suisei.errors import DataError

IN_MEMORY = 2**30
"""Bytes of grids up to which they are kept in memory."""
CHUNK = 256
"""Images that are encoded before they are kept."""


class GridStore:
    """The grids of images by row.

    Args:
        tower: a frozen tower.
        images: paths, each once.
        mirrored: whether the grid of the mirrored image is kept too.
        precision: what the tower computes in, "fp32" or "bf16".
        disk: where grids are kept between runs; None for nowhere.
        folder: where the file of a large store is, which goes when the store does.
        advance: called with the number of images of each batch.
        most: bytes up to which they are kept in memory.
        half: whether they are kept in half precision, in half the room.

    Raises:
        DataError: an image cannot be read, or the file cannot be written.
    """

    def __init__(
        self,
        tower: GridTower,
        images: Sequence[Path],
        *,
        mirrored: bool = False,
        precision: str = "fp32",
        disk: DiskCache | None = None,
        folder: Path | None = None,
        advance: Callable[[int], Any] = lambda _: None,
        most: int = IN_MEMORY,
        half: bool = True,
    ) -> None:
        self.views = 1 + mirrored
        shape = (len(images) * self.views, tower.places, tower.width)
        self._file: Any = None
        self._kept = self._room(shape, np.dtype(np.float16 if half else np.float32), folder, most)
        was_training = tower.training
        tower.eval()
        for view in range(self.views):
            kept = _cache(tower, disk, view, precision)
            for start in range(0, len(images), CHUNK):
                some = list(images[start : start + CHUNK])
                encode = partial(_encode, tower, mirrored=bool(view), precision=precision, advance=advance)
                keys = [content_key(image) for image in some]
                unique = dict(zip(keys, some, strict=True))
                found = kept.look_up(list(unique), list(unique.items()), encode)
                rows = {key: row for row, key in enumerate(unique)}
                grids = found[[rows[key] for key in keys]]
                if half:
                    grids = grids.clamp(-65504, 65504).half()
                first = view * len(images) + start
                self._kept[first : first + len(some)] = grids.numpy()
        tower.train(was_training)
        self.images = len(images)

    def _room(
        self, shape: tuple[int, int, int], dtype: np.dtype, folder: Path | None, most: int
    ) -> np.ndarray:
        if dtype.itemsize * int(np.prod(shape)) <= most:
            return np.empty(shape, dtype=dtype)
        try:
            self._file = tempfile.NamedTemporaryFile(dir=folder, prefix=".grids-", suffix=".raw")  # noqa: SIM115
            return np.memmap(self._file, dtype=dtype, mode="w+", shape=shape)
        except OSError as error:
            raise DataError(
                f"{folder}: the grids of images cannot be kept: {error.strerror or error}"
            ) from None

    def __getitem__(self, rows: Tensor) -> Tensor:
        """Return float32 [len(rows), P, c]; of mirrored images where a row is ``images`` higher."""
        return torch.from_numpy(np.ascontiguousarray(self._kept[rows.cpu().numpy()])).float()


def _cache(tower: GridTower, disk: DiskCache | None, view: int, precision: str) -> DiskFeatures:
    if disk is None:
        return DiskFeatures()
    settings: tuple[object, ...] = ("grids", tower.image.architecture(), precision, "mirrored" * view)
    if tower.before_norm:  # grids that were kept before there was a choice are those after it
        settings = (*settings, "before the last norm")
    return disk.features_of(tower.image.tower, *settings)


def _encode(
    tower: GridTower,
    items: list[tuple[str, Path]],
    mirrored: bool,
    precision: str,
    advance: Callable[[int], Any],
) -> Tensor:
    """Return the grids of images, each given as a hash of its content and its path, float32 [I, P, c]."""
    sources = [source for _, source in items]
    device = next(tower.parameters()).device
    found = []
    for pixels in decoded_batches(
        sources, tower.image.preprocess, images_per_batch(tower.image.tower, device.type)
    ):
        shown = pixels.to(device).contiguous(memory_format=torch.channels_last)
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            found.append(tower(shown.flip(-1) if mirrored else shown).float().cpu())
        advance(len(pixels))
    check_unchanged([key for key, _ in items], sources)
    return torch.cat(found).clone()

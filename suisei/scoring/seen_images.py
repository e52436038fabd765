"""The images that a run has found, by which it tells one that went away from one that never was there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from suisei.data.formats import Row
from suisei.data.paths import FetchedImage, full_path
from suisei.data.sample import CaptionSample
from suisei.data.video import VideoSample
from suisei.errors import DataError

MOST_FOLDERS = 1000
"""Of so many folders an image is remembered."""


class SeenImages:
    """Remembers an image or video per folder, to look for it again where a row lacks its own.

    Args:
        root: the folder of images that the caller names, which is there; None without one.
    """

    def __init__(self, root: Path | str | None = None) -> None:
        self._root = root
        self._last: dict[str, str] = {}

    def watch(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield rows, and remember what they found."""
        for row in rows:
            self.remember(row)
            yield row

    def remember(self, row: Row) -> None:
        """Remember what a row found."""
        sample = row.sample
        if sample is None or (sample.image is None and not isinstance(sample, VideoSample)):
            return
        for name in files_of(sample):
            folder = os.path.dirname(name)  # noqa: PTH120 - of every row: a Path takes several times as long
            if folder not in self._last and len(self._last) == MOST_FOLDERS:
                del self._last[next(iter(self._last))]
            self._last[folder] = name

    def gone(self, failed: Iterable[Row]) -> str | None:
        """Return what went away since the run began, None where nothing did.

        Args:
            failed: rows that lack a sample or a score.
        """
        if self._root is not None and not os.path.isdir(self._root):  # noqa: PTH112 - a dead mount raises
            return str(self._root)
        known: dict[str, str | None] = {}  # rows share their folders
        for row in failed:
            if row.sample is not None and (name := vanished(row.sample)):
                return name
            if row.absent is None:
                continue
            missing = topmost_missing(row.absent)
            near = os.path.dirname(missing)  # noqa: PTH120
            if near not in known:
                known[near] = next(self._lost_in(near), None)
            if lost := known[near]:
                return missing if _is_in(lost, missing) else lost
        return None

    def _lost_in(self, folder: str) -> Iterator[str]:
        """Yield the remembered files below a folder that are not there any more."""
        for name in map(full_path, self._last.values()):
            if _is_in(name, folder) and not os.path.exists(name):  # noqa: PTH110
                yield name


def files_of(sample: CaptionSample) -> list[str]:
    """Return the paths of a sample's image and video; what was fetched is kept by whoever fetched it."""
    files = [sample.image, sample.video if isinstance(sample, VideoSample) else None]
    named = [
        str(file) for file in files if isinstance(file, str | Path) and not isinstance(file, FetchedImage)
    ]
    return [name for name in named if "://" not in name]


def vanished(sample: CaptionSample) -> str | None:
    """Return the image or video of a sample that is not there, None where all is.

    A row whose image is not there when it is read becomes no sample: such a file went away since.
    """
    return next((name for name in files_of(sample) if not os.path.exists(name)), None)  # noqa: PTH110


def readable_again(sample: CaptionSample, reason: str) -> bool:
    """Say whether the image that a sample was refused for can be read now.

    People mend what they are told of, and its size and time, by which another image is known, may be as they
    were: it may have lacked a permission, or have been larger than the limit.

    Args:
        sample: the sample.
        reason: why a metric refused it.
    """
    from suisei.data.images import load_image

    if sample.image is None or " ".join(str(sample.image).split()) not in reason:
        return False
    try:
        load_image(sample.image)
    except DataError:
        return False
    return True


def topmost_missing(name: str) -> str:
    """Return the first part of a file's path that is not there: the file, or a folder above it."""
    missing = full_path(name)
    while not os.path.exists(above := os.path.dirname(missing)) and above != missing:  # noqa: PTH110, PTH120
        missing = above
    return missing


def _is_in(name: str, folder: str) -> bool:
    return name == folder or name.startswith(os.path.join(folder, ""))  # noqa: PTH118

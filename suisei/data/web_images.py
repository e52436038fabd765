"""Images on the web, for those who ask for them: fetched by a few threads while rows are read.

What was fetched lies in a temporary folder until the process ends. An address is asked once, and one that
fails costs its own rows.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

from suisei.data.file_rows import Row
from suisei.data.paths import FetchedImage
from suisei.data.web_requests import Limits, checked_address, fetch
from suisei.errors import DataError

THREADS = 8
AHEAD = 64
"""So many rows are read ahead of the one whose image is waited for."""

_NOT_A_NAME = re.compile(r"[^0-9A-Za-z._-]")


class Fetcher:
    """Fetches images, each address once.

    Args:
        folder: of what is fetched.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="suisei-web")
        self._started: dict[str, tuple[str, Future[None]]] = {}

    def start(self, address: str) -> FetchedImage:
        """Begin to fetch an image; returns where it will be.

        Raises:
            DataError: the address is none that is asked; the reason alone.
        """
        parts = checked_address(address)
        key = hashlib.blake2b(address.encode(), digest_size=16).hexdigest()
        name = _NOT_A_NAME.sub("_", parts.path.rpartition("/")[2])[-80:].lstrip(".") or "image"
        path = FetchedImage(self._folder / key / name)
        if key not in self._started:
            self._started[key] = (address, self._pool.submit(_keep, address, path))
        return path

    def wait(self, image: FetchedImage) -> None:
        """Wait until an image is there.

        Raises:
            DataError: it could not be had.
        """
        address, done = self._started[image.key]
        try:
            done.result()
        except DataError as error:
            raise DataError(f"image {address[:200]!r} {error}") from None

    def forget(self, image: FetchedImage) -> None:
        """Fetch an image no more, if nothing has begun to."""
        started = self._started.get(image.key)
        if started is not None and started[1].cancel():
            del self._started[image.key]


def _keep(address: str, path: FetchedImage) -> None:
    from suisei.data.images import BYTES_PER_PIXEL, content_key, max_pixels  # Pillow

    path.parent.mkdir()
    part = path.parent / "part"
    try:
        with part.open("wb") as stream:
            fetch(address, stream, Limits(BYTES_PER_PIXEL * max_pixels()))
        content_key(part)  # its head is that of an image
        part.replace(path)
    except DataError as error:
        part.unlink(missing_ok=True)
        raise DataError(str(error).replace(f"{part}: ", "cannot be used: ")) from None
    except OSError as error:
        raise DataError(f"cannot be kept: {error.strerror or error}") from None


@cache
def fetcher() -> Fetcher:
    """Return what fetches images in this process."""
    _FOLDERS.append(folder := tempfile.TemporaryDirectory(prefix="suisei-web-", ignore_cleanup_errors=True))
    return Fetcher(Path(folder.name))


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []
"""Removed when the process ends."""


def with_fetched(rows: Iterable[Row], name: str, *, waits: bool = False) -> Iterator[Row]:
    """Yield rows when their images are there; one whose image cannot be had becomes a bad one.

    Args:
        rows: of a file; reading one begins to fetch its image.
        name: of the file.
        waits: whether rows come as they are made, so that each is given before the next is read.
    """
    ahead = 1 if waits else AHEAD
    held: deque[Row] = deque()
    try:
        for row in rows:
            held.append(row)
            if len(held) >= ahead:
                yield _arrived(held.popleft(), name)
        while held:
            yield _arrived(held.popleft(), name)
    finally:  # of a reading that ends early: a process waits for what its threads have to do
        for row in held:
            if row.sample is not None and isinstance(row.sample.image, FetchedImage):
                fetcher().forget(row.sample.image)


def _arrived(row: Row, name: str) -> Row:
    if row.sample is None or not isinstance(row.sample.image, FetchedImage):
        return row
    try:
        fetcher().wait(row.sample.image)
    except DataError as error:
        return replace(row, sample=None, error=DataError(f"{name}, row {row.number}: {error}"))
    return row

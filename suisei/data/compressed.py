"""Files that may be compressed by gzip, which their names say."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, cast

from suisei.errors import DataError

DAMAGED = "the compressed file is cut off or damaged; copy it again"
ALWAYS_UNPACKED, MOST_UNPACKED = 1 << 26, 200
"""So many bytes are unpacked of any file, and so many times its own of larger ones: text gives 3 to 20."""
BOMB = f"it unpacks to over {MOST_UNPACKED} times its size, as no text does; decompress it if you trust it"
NOT_GZIP = "not compressed by gzip; leave out .gz, or copy the file again"


def is_gzip(path: Path | str) -> bool:
    """Say whether a file is compressed, by its name."""
    return Path(path).suffix.lower() == ".gz"


def plain_suffix(path: Path | str) -> str:
    """Return a file's suffix in lower case, looking through ``.gz``."""
    path = Path(path)
    return Path(path.stem).suffix.lower() if is_gzip(path) else path.suffix.lower()


class _Bounded(io.RawIOBase):
    """What a gzip stream unpacks to, as far as that is no more than text would."""

    def __init__(self, unpacked: gzip.GzipFile, packed: IO[bytes]) -> None:
        self._unpacked, self._packed = unpacked, packed
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._unpacked.readinto(buffer)
        self._count += count
        if self._count > ALWAYS_UNPACKED and self._count > MOST_UNPACKED * self._packed.tell():
            raise DataError(BOMB)
        return count


@contextmanager
def open_plain(path: Path | str) -> Iterator[IO[bytes]]:
    """Open a file to read its bytes, decompressed where its name ends in ``.gz``.

    Raises:
        DataError: it is not compressed although its name says so, cut off, or a bomb; also while it is read.
        OSError: it cannot be opened or read.
    """
    try:
        with ExitStack() as stack:
            stream = stack.enter_context(Path(path).open("rb"))
            if is_gzip(path):
                unpacked = stack.enter_context(gzip.GzipFile(fileobj=stream))
                yield cast("IO[bytes]", stack.enter_context(io.BufferedReader(_Bounded(unpacked, stream))))
            else:
                yield stream
    except gzip.BadGzipFile:
        raise DataError(NOT_GZIP) from None
    except (EOFError, zlib.error):
        raise DataError(DAMAGED) from None

"""Files that may be compressed by gzip, which their names say."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from suisei.errors import DataError

DAMAGED = "the compressed file is cut off or damaged; copy it again"
NOT_GZIP = "not compressed by gzip; leave out .gz, or copy the file again"


def is_gzip(path: Path | str) -> bool:
    """Say whether a file is compressed, by its name."""
    return Path(path).suffix.lower() == ".gz"


def plain_suffix(path: Path | str) -> str:
    """Return a file's suffix in lower case, looking through ``.gz``."""
    path = Path(path)
    return Path(path.stem).suffix.lower() if is_gzip(path) else path.suffix.lower()


@contextmanager
def open_plain(path: Path | str) -> Iterator[IO[bytes]]:
    """Open a file to read its bytes, decompressed where its name ends in ``.gz``.

    Raises:
        DataError: it is not compressed although its name says so, or is cut off; also while it is read.
        OSError: it cannot be opened or read.
    """
    try:
        with cast("IO[bytes]", gzip.open(path, "rb") if is_gzip(path) else Path(path).open("rb")) as stream:
            yield stream
    except gzip.BadGzipFile:
        raise DataError(NOT_GZIP) from None
    except (EOFError, zlib.error):
        raise DataError(DAMAGED) from None

"""The checksum that files of models, captioners and manifests are known by."""

from __future__ import annotations

import hashlib
from pathlib import Path

PIECE = 2**22
"""Bytes that are hashed at once: a thread that hashes seldom waits for the interpreter."""


def sha256_of(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        piece = memoryview(bytearray(min(PIECE, max(1, path.stat().st_size))))
        while read := file.readinto(piece):
            digest.update(piece[:read])
    return digest.hexdigest()

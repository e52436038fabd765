"""Features of captions and images by content, kept on disk for the next run.

They are raw float32 numbers in one SQLite file, each with a checksum, under a hash of all that
decides them: the caption or the image's content, every weight of the encoder, tokenizer or
preprocessing, pooling, precision and library versions. Whatever changes any of these makes another key,
so nothing has to be invalidated. SQLite keeps writers of several processes apart.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from suisei.encoders.feature_cache import Encode
from suisei.encoders.locks import Lock
from suisei.encoders.weight_digest import library_versions, module_digest

FILE = "features.sqlite"

ITEMS_PER_CHUNK = 16_384
"""Items that are encoded, and then written, at once: an interrupted run keeps what it has written."""

_LAYOUT = "3"
_KEYS_PER_QUERY = 500
_CHECKSUM_BYTES = 8
LOCK_SECONDS = 30.0
"""How long to wait for another process that is writing."""

PAGE_BYTES = 32_768
"""Several features fit into a page: with smaller ones a third of the file would be empty."""

_OF_THE_PARENT: list[sqlite3.Connection | None] = []
"""What a fork inherited: SQLite asks that a child neither use nor close it."""


logger = logging.getLogger(__name__)


class DiskCache:
    """The file of features, bounded in size; the oldest are dropped first.

    Nothing here ever fails a run: a damaged file is built anew, and one that cannot be used (a full
    disk, a lock that is not released) is left alone from then on, with a warning. Threads take turns, and
    a copy in another process, forked or pickled, opens the file for itself.

    Args:
        folder: where the file is, made where it is absent.
        max_bytes: largest size of the file.
        least_weights: encoders with fewer weights are not cached.

    Raises:
        OSError: the folder cannot be made.
    """

    def __init__(self, folder: Path, max_bytes: int, least_weights: int = 0) -> None:
        self.path = folder / FILE
        self.max_bytes = max_bytes
        self.least_weights = least_weights
        self._connection: sqlite3.Connection | None = None
        self._broken = False
        self._process = os.getpid()
        self._lock = Lock()
        folder.mkdir(parents=True, exist_ok=True)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}

    def features_of(self, encoder: nn.Module, *settings: object) -> DiskFeatures:
        """Return the part of the cache that belongs to an encoder; nothing is kept of one too small.

        Args:
            encoder: every weight of it counts.
            settings: what else decides the features, as values whose ``repr`` says all about them.
        """
        if sum(weights.numel() for weights in encoder.parameters()) < self.least_weights:
            return DiskFeatures()
        device = next((str(weights.device.type) for weights in encoder.parameters()), "cpu")
        parts = (_LAYOUT, library_versions(), device, module_digest(encoder), settings)
        return DiskFeatures(self, hashlib.blake2b(repr(parts).encode(), digest_size=20).digest())

    def read(self, keys: Sequence[bytes]) -> dict[bytes, np.ndarray]:
        """Return {key: float32 [...]} of the keys that are there and undamaged."""
        found: dict[bytes, np.ndarray] = {}
        for start in range(0, len(keys), _KEYS_PER_QUERY):
            wanted = keys[start : start + _KEYS_PER_QUERY]
            query = f"SELECT key, value FROM features WHERE key IN ({','.join('?' * len(wanted))})"
            with self._guarded() as connection:
                if connection is None:
                    return found
                for key, value in connection.execute(query, wanted):
                    features = _unpacked(key, value)
                    if features is not None:
                        found[key] = features
        return found

    def write(self, keys: Sequence[bytes], features: np.ndarray) -> None:
        """Keep float32 [len(keys), ...]; the oldest make room."""
        rows = [(key, _packed(key, row)) for key, row in zip(keys, features, strict=True)]
        with self._guarded() as connection:
            if connection is None or not rows:
                return
            connection.execute("BEGIN IMMEDIATE")
            self._make_room(connection, sum(len(key) + len(value) for key, value in rows))
            connection.executemany("INSERT OR REPLACE INTO features (key, value) VALUES (?, ?)", rows)
            connection.execute("COMMIT")

    def size(self) -> tuple[int, int]:
        """Return how many items there are, and the bytes that the file takes."""
        if not self.path.is_file():
            return 0, 0
        items = 0
        with self._guarded() as connection:
            if connection is not None:
                items = int(connection.execute("SELECT count(*) FROM features").fetchone()[0])
        return items, sum(path.stat().st_size for path in self._files() if path.is_file())

    def clear(self) -> None:
        """Remove the file. A run that is using it goes on without what it has lost."""
        with self._lock:
            self.close()
            for path in self._files():
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; it is opened again when it is needed."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _files(self) -> list[Path]:
        return [self.path.with_name(self.path.name + suffix) for suffix in ("", "-wal", "-shm")]

    def _make_room(self, connection: sqlite3.Connection, needed: int) -> None:
        page = _number(connection, "PRAGMA page_size")
        while True:
            taken = page * (
                _number(connection, "PRAGMA page_count") - _number(connection, "PRAGMA freelist_count")
            )
            items = _number(connection, "SELECT count(*) FROM features")
            if taken + needed + 2 * page <= self.max_bytes or not items:  # these may begin two pages more
                return
            oldest = "SELECT rowid FROM features ORDER BY rowid LIMIT ?"
            connection.execute(f"DELETE FROM features WHERE rowid IN ({oldest})", (items // 8 + 1,))

    @contextmanager
    def _guarded(self) -> Iterator[sqlite3.Connection | None]:
        """Give the open file, or None where it cannot be used; see the class for what errors do."""
        with self._lock:
            connection = self._open()
            try:
                yield connection
            except sqlite3.OperationalError as error:
                self._give_up(error)
            except sqlite3.DatabaseError as error:
                self._rebuild(error)
            finally:
                if self._connection is not None and self._connection.in_transaction:
                    self._connection.rollback()

    def _open(self) -> sqlite3.Connection | None:
        if self._process != os.getpid():
            _OF_THE_PARENT.append(self._connection)
            self._connection, self._process = None, os.getpid()
        if self._connection is not None or self._broken:
            return self._connection
        for _ in range(2):
            try:
                self._connection = _connect(self.path)
                break
            except sqlite3.OperationalError as error:
                self._give_up(error)
                break
            except sqlite3.DatabaseError as error:
                self._rebuild(error)
                if self._broken:
                    break
        return self._connection

    def _give_up(self, error: sqlite3.Error | OSError) -> None:
        self._broken = True
        logger.warning("%s: the feature cache is not used (%s)", self.path, error)
        self.close()

    def _rebuild(self, error: sqlite3.Error) -> None:
        logger.warning("%s: the feature cache is damaged (%s) and is built anew", self.path, error)
        try:
            self.clear()
        except OSError as why:  # somebody else's folder, say
            self._give_up(why)


class DiskFeatures:
    """The features of one encoder, in a :class:`DiskCache` or nowhere.

    Args:
        cache: where they are kept; None encodes everything.
        space: stands for the encoder and all its settings.
    """

    def __init__(self, cache: DiskCache | None = None, space: bytes = b"") -> None:
        self.cache = cache
        self._space = space

    def look_up(self, keys: Sequence[str], items: Sequence[Any], encode: Encode) -> Tensor:
        """Return the features of every item, float32 [len(items), ...], encoding those not on disk.

        Args:
            keys: a key that stands for each item's content.
            items: what ``encode`` takes.
            encode: turns a list of items into a tensor, [len, ...]; every item's shape is the same.
        """
        if self.cache is None:
            return encode(list(items))
        hashed = [hashlib.blake2b(key.encode(), digest_size=20, key=self._space).digest() for key in keys]
        result = torch.empty(0)
        for start in range(0, len(keys), ITEMS_PER_CHUNK):
            part = hashed[start : start + ITEMS_PER_CHUNK]
            found = self.cache.read(part)
            missing = [row for row, key in enumerate(part) if key not in found]
            encoded = torch.empty(0)
            if missing:
                encoded = encode([items[start + row] for row in missing]).float().cpu()
                self.cache.write([part[row] for row in missing], encoded.numpy())
            if not start:
                shape = encoded.shape[1:] if missing else found[part[0]].shape
                result = torch.empty(len(keys), *shape)
            if missing:
                result[[start + row for row in missing]] = encoded
            rows = result.numpy()
            for row, key in enumerate(part):
                if key in found:
                    rows[start + row] = found[key]
        return result


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # for a new file
        connection.execute("PRAGMA journal_mode = WAL")  # readers do not wait for writers
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA journal_size_limit = 16777216")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS features (key BLOB UNIQUE NOT NULL, value BLOB NOT NULL)"
        )
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _packed(key: bytes, features: np.ndarray) -> bytes:
    """Return checksum, number of dimensions, their lengths and the numbers."""
    shape = np.array([features.ndim, *features.shape], dtype="<u4").tobytes()
    content = shape + features.astype("<f4", copy=False).tobytes()
    return _checksum(key, content) + content


def _unpacked(key: object, value: object) -> np.ndarray | None:
    """Return the features, None where they are damaged; columns of SQLite hold values of any type."""
    if not (isinstance(key, bytes) and isinstance(value, bytes)):
        return None
    content = value[_CHECKSUM_BYTES:]
    if len(content) < 4 or value[:_CHECKSUM_BYTES] != _checksum(key, content):
        return None
    dimensions = int(np.frombuffer(content, "<u4", count=1)[0])
    shape = np.frombuffer(content, "<u4", count=dimensions, offset=4)
    return np.frombuffer(content, "<f4", offset=4 + 4 * dimensions).reshape(shape)


def _checksum(key: bytes, content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_CHECKSUM_BYTES, key=key).digest()


def _number(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])

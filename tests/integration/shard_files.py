"""Writes sets in shards for tests and benchmarks: captions, references and uids in tar archives."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np

WORDS = (
    "a",
    "the",
    "red",
    "blue",
    "small",
    "large",
    "dog",
    "cat",
    "ball",
    "table",
    "runs",
    "sleeps",
    "on",
    "under",
)


def captions(generator, count, words=(3, 12)):
    """Return captions of so many words."""
    return [" ".join(generator.choice(WORDS, generator.integers(*words))) for _ in range(count)]


def write_shards(folder, shards, rows, first=0):
    """Write ``00000.tar`` and so on; returns their paths."""
    numbers = range(first, first + shards)
    return [write_shard(Path(folder) / f"{number:05d}.tar", number, rows) for number in numbers]


def write_shard(path, number, rows):
    """Write one archive, whose content its number decides."""
    generator = np.random.default_rng(number)
    given, references = captions(generator, rows), captions(generator, rows)
    with tarfile.open(path, "w") as tar:
        for row in range(rows):
            key = f"{number:05d}{row:06d}"
            uid = f"{number * 1_000_003 + row * 7919:032x}"
            details = {"key": key, "uid": uid, "references": [references[row]]}
            for kind, content in (("txt", given[row]), ("json", json.dumps(details))):
                info = tarfile.TarInfo(f"{key}.{kind}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content.encode()))
    return path

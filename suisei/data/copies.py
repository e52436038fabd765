"""Image files that are one image under different names: their bytes are the same."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

_END = 4096
"""Bytes of a file's end: pictures of one size and kind begin alike, and hardly ever end so."""


def same_files(held_out: Iterable[str], others: Iterable[str]) -> dict[str, str]:
    """Return {path: hash of the content} of the files of two parts that are copies of each other.

    A file is read as far as its size, and then its end, are those of one of the other part: of a large data
    set all would have to be read else.

    Args:
        held_out: real paths of the files of a part.
        others: those of another part; what is in both is no copy.
    """
    known = set(others)
    parts, both = [set(held_out) - known, known], set[str | None]()
    found: list[dict[str, str | None]] = []
    for key in (_size, _end, _hash):
        found = [_keys(part, key) for part in parts]
        both = (set(found[0].values()) & set(found[1].values())) - {None}
        parts = [{path for path, own in keys.items() if own in both} for keys in found]
    return {path: own for keys in found for path, own in keys.items() if own is not None and own in both}


def copies_among(held_out: Iterable[Path | str], others: Iterable[Path | str]) -> dict[str, str]:
    """Return {a file of a part: the first of another part that it is a copy of}, both as they are named."""
    own, known = real_paths(held_out), real_paths(others)
    hashes = same_files(own.values(), known.values())
    first: dict[str, str] = {}
    for name, place in known.items():
        if place in hashes:
            first.setdefault(hashes[place], str(name))
    there = set(known.values())
    return {
        str(name): first[hashes[place]]
        for name, place in own.items()
        if place in hashes and place not in there
    }


def content_of(files: Iterable[Path | str]) -> dict[Path | str, str]:
    """Return {a file as it is named: what stands for its content}, the same for copies and links.

    Files are read as :func:`same_files` reads them.
    """
    names = real_paths(files)
    paths, keys = set(names.values()), dict[str, str | None]()
    for key in (_size, _end, _hash):
        keys = _keys(paths, key)
        counts = Counter(keys.values())
        paths = {path for path, own in keys.items() if own is not None and counts[own] > 1}
    return {name: (keys[path] or path) if path in paths else path for name, path in names.items()}


def real_paths(paths: Iterable[Path | str]) -> dict[Path | str, str]:
    """Return the real path of every file, by the name that it has."""
    return {path: os.path.realpath(path) for path in dict.fromkeys(paths)}


def _keys(paths: Iterable[str], key: Callable[[str], str]) -> dict[str, str | None]:
    keys: dict[str, str | None] = {}
    for path in paths:
        try:
            keys[path] = key(path) if os.path.isfile(path) else None  # noqa: PTH113 - one call per image
        except OSError:
            keys[path] = None  # whatever reads the image next says what is wrong with it
    return keys


def _size(path: str) -> str:
    return str(os.stat(path).st_size)  # noqa: PTH116


def _end(path: str) -> str:
    with Path(path).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _END))
        return f"{size} {hashlib.blake2b(file.read()).hexdigest()}"


def _hash(path: str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()

"""The best share of a scored set as DataComp's resharder reads it: a sorted array of uids."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np

from suisei.data.writers import replacing
from suisei.errors import DataError
from suisei.scoring.shard_files import read_written

UID = np.dtype("u8,u8")
"""A uid of 32 hexadecimal digits: its first 16, its last 16."""
_HEX = re.compile(r"[0-9a-fA-F]{32}")
_PORTION = 1 << 16


@dataclass(frozen=True, slots=True)
class Kept:
    """What was kept of a set.

    Attributes:
        kept: samples whose uids are written.
        scored: samples with a score and a uid of their own, of which they are a share.
        repeated: further samples with a score and the uid of one of those, which stands there once.
        unnamed: samples with a score and no uid of 32 hexadecimal digits, which cannot be kept.
        unnamed_in: {file of scores: so many of them}.
        least: the worst score that is kept; None where nothing is.
    """

    kept: int
    scored: int
    unnamed: int
    least: float | None
    repeated: int = 0
    unnamed_in: Mapping[str, int] = field(default_factory=dict)


def write_best(
    files: Iterable[Path], label: str, share: float, path: Path, *, higher_is_better: bool = True
) -> Kept:
    """Write the uids of the best share of all samples, as ``numpy.save`` does.

    So many are kept as the share of scored samples says, rounded down and at least one. Of equal scores those
    with the smaller uids are kept. Samples that share a uid count as one, with the best of their scores: what
    reads the array yields a sample as often as its uid stands there.

    Args:
        files: files of scores.
        label: the metric that decides.
        share: how much is kept, above 0 and at most 1.
        path: where the array goes; its dtype is ``u8,u8``.
        higher_is_better: False for a distance, of which the lowest scores are kept.

    Raises:
        DataError: a file cannot be read or written, or no sample has a score and a uid.
    """
    found = _Found()
    for file in files:
        found.add(file, read_written(file, label))
    uids, scores = found.arrays()
    if not len(uids):
        raise DataError(f"{path}: no sample has both a score and a uid of 32 hexadecimal digits")
    worse = -scores if higher_is_better else scores
    own = _best_of_each(uids, worse)
    count = max(1, share_of(len(own), share))
    best = own[np.argsort(worse[own], kind="stable")[:count]]
    with replacing(path) as temporary, temporary.open("wb") as stream:
        np.save(stream, np.sort(uids[best]), allow_pickle=False)
    unnamed = {str(file): number for file, number in found.unnamed.items() if number}
    least, repeated = float(scores[best[-1]]), len(uids) - len(own)
    return Kept(count, len(own), sum(unnamed.values()), least, repeated, unnamed)


def share_of(count: int, share: float) -> int:
    """Return a share of a count, rounded down, as one reckons by hand.

    >>> share_of(100, 0.29)  # 28.999... in binary
    29
    """
    return math.floor(Fraction(str(share)) * count)


def _best_of_each(uids: np.ndarray, worse: np.ndarray) -> np.ndarray:
    """Return where the best sample of each uid stands, in the order of uids."""
    order = np.lexsort((worse, uids["f1"], uids["f0"]))
    ordered = uids[order]
    first = np.ones(len(order), bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return order[first]


class _Found:
    """Uids and scores, 24 bytes a sample."""

    def __init__(self) -> None:
        self.unnamed: dict[Path, int] = {}
        self._uids: list[np.ndarray] = [np.zeros(0, UID)]
        self._scores: list[np.ndarray] = [np.zeros(0)]

    def add(self, file: Path, rows: Iterator[tuple[str | None, float]]) -> None:
        uids, scores = [], []
        self.unnamed[file] = 0
        for uid, score in rows:
            if score != score:
                continue
            if uid is None or not _HEX.fullmatch(uid):
                self.unnamed[file] += 1
                continue
            uids.append((int(uid[:16], 16), int(uid[16:], 16)))
            scores.append(score)
            if len(uids) == _PORTION:
                self._keep(uids, scores)
                uids, scores = [], []
        self._keep(uids, scores)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        return np.concatenate(self._uids), np.concatenate(self._scores)

    def _keep(self, uids: list[tuple[int, int]], scores: list[float]) -> None:
        self._uids.append(np.array(uids, UID))
        self._scores.append(np.array(scores))

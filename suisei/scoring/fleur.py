"""Scores in the text layout of FLEUR's authors: blocks of image file, caption and two scores.

Lee et al., "FLEUR: An Explainable Reference-Free Evaluation Metric for Image Captioning Using a Large
Multimodal Model", ACL 2024 (``results`` of their repository). A sample is known by the name of its image's
file and by its caption, so that one file holds what several benchmarks ask for, in any order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from suisei.cli import counted
from suisei.data.sample import CaptionSample
from suisei.errors import DataError

RAW, SMOOTHED = "FLEUR (raw)", "FLEUR"
_AFTER_ANOTHER_FILE = re.compile(r"^\w+ count : \d+(?=image file : )")
_FIELDS = {"model score": RAW, "our score": SMOOTHED}

Key = tuple[str, str]


def fleur_key(sample: CaptionSample) -> Key:
    """Return what a sample is known by: the file name of its image, which is its group, and its caption."""
    return _key(str(sample.group), sample.candidate)


def _key(image: str, caption: str) -> Key:
    return Path(image).name, " ".join(caption.split())


def read_fleur(path: Path) -> list[dict[str, Any]]:
    """Return a row per caption: ``key``, and its scores.

    Raises:
        DataError: a line belongs to no block, or a block ends without its score.
    """
    rows: list[dict[str, Any]] = []
    image = caption = None
    for number, name, value in _lines(path):
        if name == "image file":
            image, caption = value, None
        elif name == "caption":
            caption = value
        elif name in _FIELDS:
            if image is None or caption is None:
                raise DataError(f"{path}, line {number}: a score before 'image file :' and 'caption :'")
            key = _key(image, caption)
            if not rows or rows[-1]["key"] != key or _FIELDS[name] in rows[-1]:
                rows.append({"key": key})
            rows[-1][_FIELDS[name]] = value
    if not rows:
        raise DataError(f"{path}: no 'image file :', 'caption :' and 'our score :' in it")
    return rows


def fleur_order(path: Path, rows: Sequence[dict[str, Any]], samples: Sequence[CaptionSample]) -> list[int]:
    """Return the row of each sample, -1 where it has none.

    Raises:
        DataError: two rows of the same caption have different scores, or no sample has a row.
    """
    where: dict[Key, int] = {}
    for position, row in enumerate(rows):
        known = where.setdefault(row["key"], position)
        if rows[known] != row:
            raise DataError(f"{path}: {row['key'][1][:60]!r} of {row['key'][0]} has two scores")
    order = [where.get(fleur_key(sample), -1) for sample in samples]
    if max(order, default=-1) < 0:
        raise DataError(
            f"{path}: none of its {counted(len(rows), 'caption')} is a sample's, of {len(samples):,}"
        )
    return order


def _lines(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the number, name and value of the lines that have them.

    The authors' files of Pascal-50S end in ``tie count : 9`` without a line's end: in several files made one,
    the first block of the next begins in that line.
    """
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        line = _AFTER_ANOTHER_FILE.sub("", line)
        name, colon, value = line.partition(" : ")
        if colon:
            yield number, name.strip(), value.strip()

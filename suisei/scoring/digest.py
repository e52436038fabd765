"""Digests of what decides a score, by which a resumed run tells whether anything has changed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from suisei.data.formats import Row
from suisei.data.image_bytes import ImageBytes
from suisei.data.paths import FetchedImage, full_path
from suisei.data.video import VideoSample
from suisei.errors import DataError

DIGEST_CHARACTERS = 16

BAD_ROW = "0" * DIGEST_CHARACTERS
"""Of a row without sample: there is nothing that could have been scored."""


def row_digest(row: Row) -> str:
    """Return a digest of the row's captions, image and video; the rating is no part of it.

    A file counts with its path, size and time of change: to read every image would take longer than many a
    metric does.
    """
    sample = row.sample
    if sample is None:
        return BAD_ROW
    content: list[Any] = [sample.candidate, sample.references, sample.language, file_state(sample.image)]
    if isinstance(sample, VideoSample):
        content += [file_state(sample.video), sample.segment]
    return value_digest(content)


def value_digest(value: Any) -> str:
    """Return a digest of a value that JSON can hold."""
    text = json.dumps(value, ensure_ascii=True, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_CHARACTERS // 2).hexdigest()


def file_state(path: Any) -> Any:
    """Return what tells an image or video from another, as JSON can hold it: see :func:`row_digest`."""
    if path is None:
        return None
    if isinstance(path, ImageBytes):
        return [hashlib.blake2b(path.content, digest_size=DIGEST_CHARACTERS // 2).hexdigest()]
    if not isinstance(path, str | Path):
        return _pixels(path)
    if isinstance(path, FetchedImage):
        return [path.key]
    full = full_path(path)
    try:
        status = Path(full).stat()
    except (OSError, ValueError):  # of a NUL in its name
        return [full]
    return [full, status.st_size, status.st_mtime_ns]


def _pixels(image: Any) -> list[str] | None:
    """Return what an image in memory shows; None of one that cannot be decoded, which has no score."""
    from suisei.data.images import content_key

    try:
        return [content_key(image)]
    except DataError:
        return None

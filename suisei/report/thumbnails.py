"""Pictures inside a page: small, and bounded in number of bytes."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING

from suisei.data.images import read_image

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 320
"""Longest side of a thumbnail, in pixels."""
MOST_BYTES = 40_000
"""Of a thumbnail; one that would be larger is compressed more."""


def thumbnail(source: str | Path | Image) -> str:
    """Return an image as the data URI of a small JPEG.

    Raises:
        DataError: it cannot be read.
    """

    def shrink(image: Image) -> bytes:
        small = image.copy()
        small.thumbnail((SIDE, SIDE))
        for quality in (78, 55, 30):
            stream = io.BytesIO()
            small.save(stream, "JPEG", quality=quality, optimize=True)
            if stream.tell() <= MOST_BYTES:
                break
        return stream.getvalue()

    return "data:image/jpeg;base64," + base64.b64encode(read_image(source, shrink)).decode("ascii")

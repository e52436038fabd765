"""An image file whose bytes are in memory, such as an archive's member: decoded as late as one on disk."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class ImageBytes:
    """The content of an image file.

    Attributes:
        name: for messages, such as "00000.tar/000000012.jpg"; it tells no image from another.
        content: the bytes of the file, which nothing has looked at yet.
    """

    name: str
    content: bytes

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"ImageBytes({self.name!r}, {len(self.content):,} bytes)"

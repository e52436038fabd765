"""Karpathy's splits of COCO, Flickr8k and Flickr30k: images with their captions and the part they are in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from suisei.errors import DataError

PARTS = ("train", "restval", "val", "test")
"""As the files call them."""


class KarpathyImage(NamedTuple):
    """One image.

    Attributes:
        place: where it stands in the file, for messages.
        id: COCO's id of it; the name of its file in the other sets.
        file: the name of its file.
        path: the file within its folder, as ``val2014/NAME``; the name alone where none is named.
        part: which of PARTS it is in.
        captions: as the file has them, unchecked; None where they are no list.
    """

    place: str
    id: Any
    file: str
    path: str
    part: Any
    captions: list[Any] | None


def karpathy_images(content: Any) -> list[Any] | None:
    """Return the images of a document in Karpathy's layout, None of another document."""
    images = content.get("images") if isinstance(content, dict) else None
    if not isinstance(images, list) or not images or not isinstance(images[0], dict):
        return None
    return images if "sentences" in images[0] else None


def read_karpathy(name: str, images: list[Any]) -> Iterator[KarpathyImage]:
    """Yield the images that :func:`karpathy_images` has found.

    Args:
        name: of the file, for messages.
        images: as the file has them.

    Raises:
        DataError: an image without a file's name.
    """
    for number, image in enumerate(images, 1):
        place = f"image {number}"
        if not isinstance(image, dict) or not isinstance(image.get("filename"), str):
            raise DataError(f"{name}, {place}: expected an object with a filename, got {image!r:.60}")
        file, sentences = image["filename"], image.get("sentences")
        captions = None
        if isinstance(sentences, list):
            captions = [each.get("raw") if isinstance(each, dict) else None for each in sentences]
        yield KarpathyImage(
            place,
            image.get("cocoid", file),
            file,
            str(PurePosixPath(str(image.get("filepath") or "")) / file),
            image.get("split"),
            captions,
        )

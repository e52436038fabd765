"""Karpathy's splits of COCO, Flickr8k and Flickr30k: images with their captions and the part they are in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from suisei.data.compressed import plain_suffix
from suisei.errors import ConfigError, DataError

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
        number: the split's own ``imgid``, which counts its images; None where it has none.
    """

    place: str
    id: Any
    file: str
    path: str
    part: Any
    captions: list[Any] | None
    number: int | None = None


def karpathy_images(content: Any) -> list[Any] | None:
    """Return the images of a document in Karpathy's layout, None of another document."""
    images = content.get("images") if isinstance(content, dict) else None
    if not isinstance(images, list) or not images or not isinstance(images[0], dict):
        return None
    return images if "sentences" in images[0] else None


def split_name(source: str) -> tuple[str, str | None]:
    """Return the file of a source and what is named behind it, None for nothing: a part or not."""
    file, colon, named = source.rpartition(":")
    return (file, named) if colon and plain_suffix(file) == ".json" else (source, None)


def named_parts(source: str) -> tuple[str, tuple[str, ...]]:
    """Return the file and the parts of it that a source names, as ``dataset_coco.json:train+restval`` does.

    Raises:
        ConfigError: a part that no file has.
    """
    file, named = split_name(source)
    if named is None:
        return source, ()
    parts = tuple(named.split("+"))
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise ConfigError(f"{source}: no part {unknown[0]!r}; there are {', '.join(PARTS)}, joined by +")
    return file, parts


def check_parts(file: str, parts: Sequence[str], images: Sequence[Any] | None) -> None:
    """Make sure that parts are named of a Karpathy split, and of no other file.

    Args:
        file: its name.
        parts: those named.
        images: what :func:`karpathy_images` says of it.

    Raises:
        ConfigError: they are not, or are of another file.
    """
    if images is not None and not parts:
        raise ConfigError(f"{file} is a Karpathy split; name its parts, such as {file}:train+restval")
    if images is None and parts:
        named = f"{file}:{'+'.join(parts)}"
        raise ConfigError(f"{named}: {file} is no Karpathy split, which alone has parts; name it {file}")


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
        file, sentences, number_in_split = image["filename"], image.get("sentences"), image.get("imgid")
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
            number_in_split if isinstance(number_in_split, int) else None,
        )

"""Images of parts of a Karpathy split, named behind its file: ``dataset_coco.json:train+restval``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from suisei.data.caption_texts import read_text
from suisei.data.json_files import invalid_json
from suisei.data.karpathy import check_parts, karpathy_images, named_parts, read_karpathy, split_name
from suisei.data.paths import Allowed, Root
from suisei.data.sample import check_captions, plain_text
from suisei.errors import DataError


class PartImage(NamedTuple):
    """One image of the parts asked for.

    Attributes:
        file: path of the image, whether it is there or not.
        captions: at least one.
        name: the name of its file.
    """

    file: Path
    captions: tuple[str, ...]
    name: str


def file_of(source: str) -> str:
    """Return the file of a source, without the parts that may be named behind it."""
    return split_name(source)[0]


def names_parts(source: str) -> bool:
    """Say whether a source names parts of a JSON file."""
    return split_name(source)[1] is not None


def read_parts(
    source: str, *, images: Path | str | None = None, allowed: Allowed | None = None
) -> list[PartImage] | None:
    """Read the images of parts of a Karpathy split.

    Args:
        source: a JSON file and its parts, "dataset_coco.json:train+restval".
        images: folder of the images, where it is not the file's own. An image lies in the folder within it
            that the split names, or in it directly.
        allowed: what the file may name beside images in that folder or its own.

    Returns:
        The images in the order of the file; None of another document, named without parts.

    Raises:
        ConfigError: no parts of a split, unknown ones, or parts of another document.
        DataError: a file that cannot be read, or captions that cannot be scored.
    """
    file, parts = named_parts(source)
    document = _document(file)
    check_parts(file, parts, document)
    if document is None:
        return None
    own = Path(file).parent
    return list(_images(file, document, parts, Root(own if images is None else images, own, allowed=allowed)))


def _document(file: str) -> list[Any] | None:
    """Return the images of a Karpathy split, None of another document."""
    try:
        return karpathy_images(json.loads(read_text(file)))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file}: {invalid_json(error, fix='copy the file again')}") from None


def _images(file: str, images: list[Any], parts: Sequence[str], folder: Root) -> Iterator[PartImage]:
    for image in read_karpathy(file, images):
        if image.part not in parts:
            continue
        place = f"{file}, {image.place}"
        captions = image.captions or []
        if not captions or not all(isinstance(text, str) for text in captions):
            raise DataError(f"{place}: sentences must be a list of objects whose raw is a text")
        check_captions(f"{place}: sentence", captions)
        within = folder.found(image.path, place=place)
        found = within if within.is_file() else folder.found(Path(image.file).name, place=place)
        yield PartImage(found, tuple(map(plain_text, captions)), image.file)

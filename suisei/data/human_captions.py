"""Files of nothing but captions that people wrote: COCO annotations, Karpathy's splits, several by image id.

They hold references and no system's captions, so that there is nothing to score in them. What asks how
metrics take people's captions makes candidates of some.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from suisei.data.caption_texts import is_json, read_text
from suisei.data.coco import read_references
from suisei.data.documents import is_row, parse_json
from suisei.data.file_rows import Note, warn
from suisei.data.joins import image_file
from suisei.data.karpathy import check_parts, karpathy_images, named_parts, read_karpathy
from suisei.data.paths import Allowed, Root
from suisei.data.sample import CaptionSample
from suisei.errors import DataError


def human_captions(
    source: str,
    *,
    images: Path | str | None = None,
    joined: bool = False,
    allowed: Allowed | None = None,
    note: Note = warn,
) -> list[CaptionSample] | None:
    """Return a sample per image whose references are all of its captions, in the file's order.

    Args:
        source: COCO annotations (.json), parts of a Karpathy split such as "dataset_coco.json:test", or JSON
            of several captions by image id.
        images: the folder of the images; no sample has one where it is None.
        joined: whether captions of systems are to be joined with them, by image.
        allowed: what the file may name beside images in ``images``.
        note: told what the file is taken for, and how many images are not there.

    Returns:
        The samples, each with its first caption as candidate, the image's id as ``group`` and the name of its
        file, where the file says it, as ``id``; None where the source is anything else. Rows that name no
        images are an image each, called "row 1", "row 2", ..., which is the name of none.

    Raises:
        ConfigError: a Karpathy split whose parts are not named, or parts of another file.
        DataError: a caption that is no text or empty, a folder that is not there, no image in the parts, or
            images or systems beside rows that name no images.
    """
    file, parts = named_parts(source)
    content = _document(file)
    listed = karpathy_images(content)
    check_parts(file, parts, listed)
    if listed is None and not _is_references(content):
        return None
    found = read_references([file])
    if found.by_line:
        if images is not None or joined:
            what = (
                "no image can be found for them"
                if images is not None
                else "no system can be joined with them"
            )
            raise DataError(f"{file}: its rows name no images, so that {what}; give captions by image id")
        found.captions = {f"row {number}": own for number, own in found.captions.items()}
    if listed is not None:
        wanted = {str(image.id).strip() for image in read_karpathy(file, listed) if image.part in parts}
        found.captions = {image: own for image, own in found.captions.items() if image in wanted}
        if not found.captions:
            raise DataError(f"{source}: no image with a caption is in it")
    note(found.describe())
    files = {image: name for name, image in found.file_names.items()}
    samples = [
        CaptionSample(own[0], own, group=image, id=files.get(image, image))
        for image, own in found.captions.items()
    ]
    return samples if images is None else _with_images(samples, images, allowed, note)


def _document(file: str) -> Any:
    """Return what a JSON file holds, None where it is none, or one that whoever reads rows has to judge."""
    if not is_json(file) or not Path(file).is_file():
        return None
    try:
        return parse_json(read_text(file))
    except (ValueError, RecursionError):
        return None


def _is_references(content: Any) -> bool:
    """Say whether a document is COCO annotations, or has several captions of an image."""
    if isinstance(content, dict):
        return "annotations" in content or (not is_row(content) and _has_several(content.values()))
    rows = content if isinstance(content, list) else []
    return _has_several(v for row in rows if isinstance(row, dict) and len(row) == 1 for v in row.values())


def _has_several(values: Iterable[Any]) -> bool:
    lists = (value for value in values if isinstance(value, list) and len(value) > 1)
    return any(all(isinstance(text, str) for text in value) for value in lists)


def _with_images(
    samples: list[CaptionSample], folder: Path | str, allowed: Allowed | None, note: Note
) -> list[CaptionSample]:
    if not Path(folder).is_dir():
        raise DataError(f"{folder}: no such folder of images; leave it out if there are none")
    root = Root(folder, allowed=allowed)
    made = []
    for sample in samples:
        file = sample.id if sample.id != sample.group else None
        made.append(replace(sample, image=image_file(root, str(sample.group), file)))
    absent = [sample for sample in made if sample.image is None]
    if absent:
        note(f"{folder} has no image for {len(absent):,} of {len(made):,} ids (the first: {absent[0].id})")
    return made

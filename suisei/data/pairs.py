"""Images with their captions, real and generated: what a dual encoder is trained on."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from suisei.cli import counted
from suisei.data.benchmarks.flickr8k import FLICKR8K_PARTS, IMAGE_FOLDERS, read_captions, read_image_list
from suisei.data.caption_texts import is_json
from suisei.data.column_names import field_called
from suisei.data.compressed import open_plain, plain_suffix
from suisei.data.copies import content_of
from suisei.data.decodable import problems_of, sound_items
from suisei.data.file_rows import Row, none_usable
from suisei.data.formats import OnError
from suisei.data.json_files import parse_object
from suisei.data.karpathy_parts import file_of, names_parts, read_parts
from suisei.data.paths import Allowed, Root, full_path
from suisei.data.sample import check_captions, plain_text
from suisei.errors import ConfigError, DataError

_LOG = logging.getLogger(__name__)
_LISTS = ("captions", "generated_images", "generated_captions")
_FIELDS = ("image", *_LISTS, "generated_from")
_LOOKED_AT = 100
"""Lines of a file of which one is to say what the rows are: bad ones may stand before it."""


@dataclass(frozen=True, slots=True)
class ImageCaptions:
    """One image with everything that describes or depicts the same thing.

    Attributes:
        image: path of the real image.
        captions: captions written by people, at least one.
        generated_images: paths of images generated from its captions.
        generated_captions: captions generated from the image.
        generated_from: the caption that each generated image was made from, None where that is unknown;
            empty where it is unknown of all.
    """

    image: Path
    captions: tuple[str, ...]
    generated_images: tuple[Path, ...] = ()
    generated_captions: tuple[str, ...] = ()
    generated_from: tuple[str | None, ...] = ()

    @property
    def origins(self) -> tuple[str | None, ...]:
        """The caption that each generated image was made from, as many as there are images."""
        return self.generated_from or (None,) * len(self.generated_images)

    def images_for(self, caption: str) -> tuple[Path, ...]:
        """Return the images generated from a caption; all generated ones where none is known to be."""
        files = zip(self.generated_images, self.origins, strict=True)
        return tuple(file for file, origin in files if origin == caption) or self.generated_images


def is_pairs(source: str) -> bool:
    """Return whether a name or file is one that :func:`load_pairs` reads.

    Of a file the first row that has a candidate or ``captions`` says so: captions alone are of a pair, and
    beside a candidate they are its references. Rows before it may be bad ones.
    """
    name, _, part = source.partition("-")
    if (name == "flickr8k" and part in FLICKR8K_PARTS) or names_parts(source):
        return True
    path = Path(source)
    if plain_suffix(path) != ".jsonl" or not path.is_file():
        return False
    try:
        with open_plain(path) as file:
            told = (_tells_pairs(line) for line in islice(file, _LOOKED_AT))
            return next((found for found in told if found is not None), False)
    except (OSError, DataError):
        return False  # whatever reads the file next says what is wrong with it


def _tells_pairs(line: bytes) -> bool | None:
    """Return whether a line shows that its file is one of pairs; None where it shows nothing."""
    try:
        row = json.loads(line.decode("utf-8-sig", errors="replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    if any(field_called(name) == "candidate" for name in row):
        return False
    return True if "captions" in row else None


def load_pairs(
    source: str,
    *,
    root: Path | str | None = None,
    allowed: Allowed | None = None,
    on_error: OnError = "raise",
    skipped: list[Row] | None = None,
) -> list[ImageCaptions]:
    """Read training data by name or from a file.

    Args:
        source: "flickr8k-train", "flickr8k-dev" or "flickr8k-test"; a Karpathy split with the parts
            wanted, "dataset_coco.json:train+restval"; or a JSON lines file, which may be compressed by
            gzip, with ``image``, ``captions`` and, where there are positives, ``generated_images``,
            ``generated_captions`` and ``generated_from``, see :class:`ImageCaptions`; captions are read as
            :func:`suisei.data.sample.plain_text` has them, which is how they are scored.
        root: the folder of Flickr8k, or the folder that a file's image paths are relative to (the
            file's own where left out).
        allowed: what a file may name beside images in that folder or its own.
        on_error: "raise" refuses bad rows and images that are not there, "skip" leaves them out.
        skipped: a list that receives what is left out.

    Raises:
        ConfigError: an unknown name or part, or no root for Flickr8k.
        DataError: bad rows, missing images, or an image that occurs twice; all are counted and some named.
            With "skip", where nothing is usable.
    """
    name, _, part = source.partition("-")
    if name == "flickr8k" and part in FLICKR8K_PARTS:
        if root is None:
            raise ConfigError(f"{source} needs root, the folder of Flickr8k")
        pairs = _flickr8k(Path(root), part)
    elif plain_suffix(source) == ".jsonl":
        path = Path(source)
        folders = Root(path.parent if root is None else root, path.parent, allowed=allowed)
        pairs = list(_manifest(path, folders, on_error, skipped))
    else:
        pairs = list(_split(source, root, allowed))
    return _with_files(pairs, source, on_error, skipped)


def decodable_pairs(
    source: str, pairs: Sequence[ImageCaptions], skipped: list[Row], *, told: bool = True
) -> list[ImageCaptions]:
    """Return the pairs whose images, generated ones too, can all be decoded.

    Args:
        source: where they are from.
        pairs: the data.
        skipped: a list that receives the others.
        told: whether to say how far it is.

    Raises:
        DataError: none is usable, or an image went away meanwhile.
    """
    problems = problems_of(source, pairs, _files, told=told)
    return sound_items(source, pairs, problems, skipped)


def merge_pairs(pairs: Sequence[ImageCaptions], keys: Iterable[str]) -> dict[str, ImageCaptions]:
    """Make one pair of those with the same key, called as the first of them; returns them by key.

    In training, captions of the one would be among the negatives of the other.
    """
    merged: dict[str, ImageCaptions] = {}
    for key, pair in zip(keys, pairs, strict=True):
        merged[key] = _both(merged[key], pair) if key in merged else pair
    return merged


def load_different_pairs(
    source: str,
    part: str,
    *,
    root: Path | str | None = None,
    on_error: OnError = "raise",
    skipped: list[Row] | None = None,
    told: bool = True,
) -> list[ImageCaptions]:
    """Read training data as :func:`load_pairs` does, copies of an image as one, and say so.

    Args:
        source: see there.
        part: of the data, for the message.
        root: see there.
        on_error: with "skip", images that cannot be decoded are left out too.
        skipped: a list that receives what is left out.
        told: whether to say how far the decoding is.
    """
    skipped = [] if skipped is None else skipped
    pairs = load_pairs(source, root=root, on_error=on_error, skipped=skipped)
    if on_error == "skip":
        pairs = decodable_pairs(source, pairs, skipped, told=told)
    contents = content_of(pair.image for pair in pairs)
    merged = list(merge_pairs(pairs, [contents[pair.image] for pair in pairs]).values())
    if len(merged) < len(pairs):
        _LOG.warning(
            "data.%s: of %d image files %d differ; copies count as one image, with the captions of all",
            *(part, len(pairs), len(merged)),
        )
    return merged


def _both(first: ImageCaptions, second: ImageCaptions) -> ImageCaptions:
    return ImageCaptions(
        first.image,
        tuple(dict.fromkeys((*first.captions, *second.captions))),
        (*first.generated_images, *second.generated_images),
        tuple(dict.fromkeys((*first.generated_captions, *second.generated_captions))),
        (*first.origins, *second.origins),
    )


def hold_out_captions(pairs: Sequence[ImageCaptions], count: int) -> list[ImageCaptions]:
    """Let each image's last captions stand in for generated ones, which they then no longer are real.

    Args:
        pairs: the data.
        count: how many captions per image; images with no more than that are left as they are.

    Raises:
        ConfigError: a count below 0.
    """
    if count < 0:
        raise ConfigError(f"held-out captions must be at least 0, got {count}")
    return [
        replace(
            pair,
            captions=pair.captions[:-count],
            generated_captions=(*pair.generated_captions, *pair.captions[-count:]),
        )
        if 0 < count < len(pair.captions)
        else pair
        for pair in pairs
    ]


def _flickr8k(root: Path, part: str) -> list[ImageCaptions]:
    captions = read_captions(root)
    folder = next((root / name for name in IMAGE_FOLDERS if (root / name).is_dir()), None)
    if folder is None:
        raise DataError(f"{root} has no image folder {IMAGE_FOLDERS[0]}")
    names = read_image_list(root, part)
    absent = [name for name in names if name not in captions]
    if absent:
        raise DataError(f"{root}: {len(absent)} images of {part} have no captions: {_some(absent)}")
    return [ImageCaptions(folder / name, captions[name]) for name in names]


def _split(source: str, root: Path | str | None, allowed: Allowed | None) -> Iterator[ImageCaptions]:
    images = read_parts(source, images=root, allowed=allowed) if is_json(file_of(source)) else None
    if images is None:
        known = ", ".join(f"flickr8k-{part}" for part in FLICKR8K_PARTS)
        raise ConfigError(
            f"unknown training pairs {source!r}; expected {known}, a Karpathy split with its parts "
            "(dataset_coco.json:train+restval), or a .jsonl or .jsonl.gz file"
        )
    seen: set[str] = set()
    for image in images:
        file = full_path(image.file)
        if file in seen:
            raise DataError(
                f"{source}: image {image.name!r} occurs twice; list it once, with all its captions"
            )
        seen.add(file)
        yield ImageCaptions(image.file, image.captions)


def _manifest(
    path: Path, root: Root, on_error: OnError, skipped: list[Row] | None
) -> Iterator[ImageCaptions]:
    seen: dict[str, int] = {}
    bad: list[Row] = []
    try:
        with open_plain(path) as opened:
            lines = opened.read().decode("utf-8-sig").split("\n")  # a caption may hold other ends of lines
    except (OSError, UnicodeDecodeError, DataError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{path}, row {number}"
        try:
            row = _fields(line, place)
            pair = _pair(row, root, place)
            first = seen.setdefault(full_path(pair.image), number)
            if first != number:
                raise DataError(f"{place}: image {row['image']!r} was in row {first} already")
        except DataError as error:
            if on_error == "raise":
                raise
            bad.append(Row(number, None, None, error))
        else:
            yield pair
    if bad and not seen:
        raise none_usable(len(bad), bad[0].error)
    if not seen:
        raise DataError(f"{path}: has no rows")
    if skipped is not None:
        skipped += bad


def _pair(row: Mapping[str, Any], root: Root, place: str) -> ImageCaptions:
    return ImageCaptions(
        root.found(row["image"], place=place),
        tuple(row["captions"]),
        tuple(root.found(name, place=place) for name in row["generated_images"]),
        tuple(row["generated_captions"]),
        tuple(row.get("generated_from", ())),
    )


def _fields(line: str, place: str) -> dict[str, Any]:
    try:
        row = parse_object(line)
    except DataError as error:
        raise DataError(f"{place}: {error}") from None
    if not isinstance(row.get("image"), str) or not row["image"]:
        raise DataError(f"{place}: expected an object whose `image` is a path")
    unknown = [key for key in row if key not in _FIELDS]
    if unknown:
        raise DataError(f"{place}: unknown field {unknown[0]!r}; there are {', '.join(_FIELDS)}")
    for field in _LISTS:
        values = row.setdefault(field, [])
        if not isinstance(values, list) or not all(isinstance(v, str) and v.strip() for v in values):
            raise DataError(f"{place}: {field} must be a list of texts that are not blank")
        if field != "generated_images":
            check_captions(f"{place}: {field}", values)
            row[field] = [plain_text(value) for value in values]
    if not row["captions"]:
        raise DataError(f"{place}: captions is empty; every image needs at least one")
    _check_origins(row, place)
    return row


def _check_origins(row: dict[str, Any], place: str) -> None:
    """Refuse captions of generated images that are not as many, or none of the image's own."""
    origins, images = row.get("generated_from", []), row["generated_images"]
    if not isinstance(origins, list) or (origins and len(origins) != len(images)):
        raise DataError(
            f"{place}: generated_from must be a list of {counted(len(images), 'caption')}, one of each of "
            "generated_images, or null where it is unknown"
        )
    row["generated_from"] = [plain_text(own) if isinstance(own, str) else own for own in origins]
    for origin in row["generated_from"]:
        if origin is not None and origin not in row["captions"]:
            raise DataError(
                f"{place}: generated_from has {origin!r:.60}, which is none of the image's captions; name "
                "one of them, or null where it is unknown"
            )


def _files(pair: ImageCaptions) -> tuple[Path, ...]:
    return (pair.image, *pair.generated_images)


def _with_files(
    pairs: Sequence[ImageCaptions], source: str, on_error: OnError, skipped: list[Row] | None
) -> list[ImageCaptions]:
    """Return the pairs of which all files are there; to leave out all of them would be of no use."""
    paths = dict.fromkeys(path for pair in pairs for path in _files(pair))
    absent = {path: None for path in paths if not os.path.isfile(path)}  # noqa: PTH113 - any name
    lacking = [[path for path in _files(pair) if path in absent] for pair in pairs]
    if absent and (on_error == "raise" or all(lacking)):
        raise DataError(
            f"{source}: there is no file of {counted(len(absent), 'image')}: {_some([*map(str, absent)])}; "
            "give the folder that holds them (--data.root, --images or --root)"
        )
    problems = [f"there is no file {files[0]}" if files else None for files in lacking]
    return sound_items(source, pairs, problems, skipped)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")

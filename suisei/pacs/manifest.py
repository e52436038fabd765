"""Manifests of generated captions and images, checked when they are read.

A folder of positives holds ``captions.jsonl`` (captions generated from images), ``images.jsonl`` and
``images/`` (images generated from captions), or one of the two. Every line of a manifest is one item
with the model, its revision, the seed and the settings that made it
(:mod:`suisei.pacs.positive_writer` writes them).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suisei.data.checksums import sha256_of
from suisei.data.images import content_keys
from suisei.data.item_seeds import text_key
from suisei.data.json_files import invalid_json
from suisei.data.lines import LONE_RETURN
from suisei.data.pairs import ImageCaptions, merge_pairs
from suisei.data.paths import is_inside
from suisei.data.writers import replacing
from suisei.errors import DataError

KINDS = ("captions", "images")
_REQUIRED = ("kind", "source", "model", "revision", "seed", "run_seed", "settings")
_TYPES = {"kind": str, "source": str, "seed": int, "run_seed": int, "settings": dict}


@dataclass(frozen=True, slots=True)
class Positive:
    """One generated caption or image.

    Attributes:
        kind: "captions" or "images": what was generated.
        source: key of what it was generated from.
        caption: the generated caption, or the caption that the image was generated from.
        file: the generated image; None for a caption.
        model: which model made it.
        revision: its commit or checksum.
        seed: the item's seed.
        settings: the settings it was made with.
        id: the caller's name of the source.
    """

    kind: str
    source: str
    caption: str
    file: Path | None
    model: str
    revision: str
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None


def read_positives(path: Path | str) -> dict[str, Positive]:
    """Read a manifest, or both manifests of a folder; every generated image is compared with its checksum.

    Args:
        path: a manifest file, or the folder of one.

    Returns:
        {source key: positive}; look up an image with ``suisei.data.images.content_key`` and a caption
        with :func:`text_key`. Items that the model declined are left out.

    Raises:
        DataError: no manifest, a broken line, a source that occurs twice, an image file that is missing
            or was changed.
    """
    path = Path(path)
    manifests = [path / f"{kind}.jsonl" for kind in KINDS] if path.is_dir() else [path]
    existing = [manifest for manifest in manifests if manifest.is_file()]
    if not existing:
        looked = " or ".join(str(manifest) for manifest in manifests)
        raise DataError(f"no manifest of positives: {looked} is not there; make one with suisei positives")
    found: dict[str, Positive] = {}
    missing: list[str] = []
    for manifest in existing:
        for place, record in records(manifest):
            if record["source"] in found:
                raise DataError(f"{place}: source {record['source']} occurs twice; remove one of the lines")
            if "problem" in record:
                continue
            positive = _positive(record, manifest.parent, place)
            found[positive.source] = positive
            if positive.file is not None and not os.path.isfile(positive.file):  # noqa: PTH113 - whatever its name
                missing.append(f"{place}: {positive.file}")
            elif positive.file is not None:
                _verify(positive.file, record.get("sha256"), place)
    if missing:
        more = ", ..." if len(missing) > 3 else ""
        raise DataError(
            f"{len(missing)} generated images are missing: {', '.join(missing[:3])}{more}; restore them, or "
            "remove their lines and run suisei positives again"
        )
    return found


def join_positives(pairs: Sequence[ImageCaptions], positives: Mapping[str, Positive]) -> list[ImageCaptions]:
    """Give every image the captions generated from it and the images generated from its captions.

    What it has already stays, and comes first. Each image stands beside the caption that it was made from.
    Pairs of one image, under one name or as copies of a file, become one, called as the first of them.
    """
    merged = merge_pairs(pairs, content_keys([pair.image for pair in pairs]))
    joined = []
    for key, pair in merged.items():
        made = positives.get(key)
        captions = (made.caption,) if made is not None else ()
        images = list(zip(pair.generated_images, pair.origins, strict=True))
        for caption in pair.captions:
            drawn = positives.get(text_key(caption))
            if drawn is not None and drawn.file is not None:
                images.append((drawn.file, caption))
        origins: dict[Path, str | None] = {}
        for file, origin in images:
            origins[file.absolute()] = origins.get(file.absolute()) or origin
        joined.append(
            ImageCaptions(
                pair.image,
                pair.captions,
                tuple(origins),
                tuple(dict.fromkeys((*pair.generated_captions, *captions))),
                tuple(origins.values()),
            )
        )
    return joined


def write_pairs(path: Path, pairs: Sequence[ImageCaptions]) -> None:
    """Write training pairs as the JSON lines that ``suisei.data.pairs.load_pairs`` reads, with full paths.

    Raises:
        DataError: the file cannot be written.
    """
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as stream:
        for pair in pairs:
            record = {
                "image": str(pair.image.absolute()),
                "captions": list(pair.captions),
                "generated_images": [str(file.absolute()) for file in pair.generated_images],
                "generated_captions": list(pair.generated_captions),
                "generated_from": list(pair.generated_from),
            }
            stream.write(json.dumps(record, ensure_ascii=False) + "\n")


def records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place, record); a last line without its end is the item a run was writing, and is left out.

    Args:
        path: the manifest.

    Raises:
        DataError: it cannot be read, or a line is not an item.
    """
    try:
        whole, end, rest = path.read_bytes().rpartition(b"\n")  # the rest may end within a character
        lines = whole.decode("utf-8").split("\n") if end else []
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    if b"\r" in rest:  # no run writes one: these are items, whose line ends another program changed
        raise DataError(f"{path}, line {len(lines) + 1}: {LONE_RETURN}")
    for number, line in enumerate(lines, start=1):
        place = f"{path}, line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            problem = invalid_json(error, line=True, fix="remove the line to make the item again")
            raise DataError(f"{place}: {problem}") from None
        absent = [name for name in _REQUIRED if not isinstance(record, dict) or name not in record]
        wrong = [] if absent else [name for name, kind in _TYPES.items() if not _is_of(record[name], kind)]
        if absent or wrong or record["kind"] not in KINDS:
            what = f"no {absent[0]!r}" if absent else f"a wrong {(wrong or ['kind'])[0]}"
            raise DataError(f"{place}: not an item of a manifest ({what}); remove the line")
        yield place, record


def _is_of(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _positive(record: Mapping[str, Any], folder: Path, place: str) -> Positive:
    caption, name = record.get("caption"), record.get("file")
    if not isinstance(caption, str) or (record["kind"] == "images") != isinstance(name, str):
        raise DataError(f"{place}: an item needs a caption, and an image its file; remove the line")
    file = None
    if name is not None:
        file = folder / name
        if not is_inside(folder, file):
            raise DataError(f"{place}: file {name[:80]!r} is outside the manifest's folder")
    return Positive(
        record["kind"],
        record["source"],
        caption,
        file,
        str(record["model"]),
        str(record["revision"]),
        record["seed"],
        record["settings"],
        record.get("id"),
    )


def _verify(file: Path, expected: Any, place: str) -> None:
    try:
        actual = sha256_of(file)
    except OSError as error:
        raise DataError(f"{place}: {file} cannot be read: {error.strerror or error}") from None
    if actual != expected:
        raise DataError(f"{place}: {file} is not the image that was generated; restore it, or remove both")

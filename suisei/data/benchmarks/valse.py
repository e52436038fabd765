"""VALSE: captions beside foils that differ in one linguistic phenomenon.

Parcalabescu et al., "VALSE: A Task-Independent Benchmark for Vision and Language Models Centered on
Linguistic Phenomena", ACL 2022. One file per part: ``{name: {image_file, caption, foil, mturk}}``. A row
counts if at least two of three people found that the caption, and not the foil, describes the image.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from suisei.data.benchmarks.benchmark import Benchmark, ImageFolder, LayoutError
from suisei.data.benchmarks.coco_captions import KARPATHY, CocoCaptions, without_caption
from suisei.data.benchmarks.jsonfile import number_of, text_of
from suisei.data.benchmarks.paired import Pair, pair_rows
from suisei.data.formats import Row
from suisei.data.json_files import as_object, read_object

FOIL_FILES = (
    "existence",
    "plurals",
    "counting-small-quant",
    "counting-adversarial",
    "counting-hard",
    "relations",
    "action-replacement",
    "actant-swap",
    "coreference-standard",
    "coreference-hard",
    "foil-it",
)
MIN_VOTES = 2
"""So many people must have seen the caption as the right one."""

CAPTIONS = ("captions_val2014.json", "captions_val2017.json")
SOURCE = "orig_caption"
"""COCO's caption ("a field"), of which plurals make the right one ("exactly one field")."""


def _rows(root: Path, images: Path | None) -> Iterator[Row]:
    paths = {part: root / f"{part}.json" for part in FOIL_FILES if (root / f"{part}.json").is_file()}
    if not paths:
        raise LayoutError(
            f"{root}: looked for {', '.join(f'{part}.json' for part in FOIL_FILES)} and found none"
        )
    captions, files = CocoCaptions.find(root, *CAPTIONS), ImageFolder.find(images)
    seen: set[str] = set()
    for part, path in paths.items():
        make = partial(_pair, part, captions)
        yield from pair_rows(path, enumerate(read_object(path).items(), start=1), make, files, seen)


def _pair(part: str, captions: CocoCaptions, _: int, entry: tuple[str, Any]) -> Pair | None:
    name, record = entry[0], as_object(entry[1])
    if number_of(as_object(record.get("mturk")), "caption") < MIN_VOTES:
        return None
    image, right = text_of(record, "image_file"), text_of(record, "caption")
    return Pair(
        f"{part}/{name}",
        (right, text_of(record, "foil")),
        ((part, 1.0),),
        image,
        _references(captions, image, right, record) if "coco" in _origin(record) else (),
    )


def _references(captions: CocoCaptions, image: str, right: str, record: dict[str, Any]) -> tuple[str, ...]:
    """Return an image's captions but for the right one, and the one that it is a rewrite of."""
    found = captions.of(image, without=right)
    return without_caption(found, text_of(record, SOURCE)) if SOURCE in record else found


def _origin(record: dict[str, Any]) -> str:
    """Return where the image comes from; numbers of other collections are not COCO's."""
    origin = text_of(record, "dataset").casefold()
    return "coco" if origin.startswith("foil") else origin


VALSE = Benchmark(
    name="valse",
    rows=_rows,
    language="en",
    rating_scale=(0.0, 1.0),
    summary="captions of images, each beside a foil, in up to eleven parts (existence, counting, ...)",
    source=(
        f"Root is the folder that holds {', '.join(f'{part}.json' for part in FOIL_FILES)} or some of them, "
        "from https://github.com/Heidelberg-NLP/VALSE (data); a folder of all images goes into --images. It "
        f"has no references: with {' or '.join(CAPTIONS)} (or {KARPATHY}) beside the files, those of COCO's "
        "images other than the right caption, and the one that it is a rewrite of (plurals), are"
    ),
    has_images=True,
    protocol="pairs",
)

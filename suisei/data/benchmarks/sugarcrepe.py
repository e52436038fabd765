"""SugarCrepe: captions of COCO images beside hard negatives of seven kinds.

Hsieh et al., "SugarCrepe: Fixing Hackable Benchmarks for Vision-Language Compositionality", NeurIPS 2023
Datasets and Benchmarks. One file per kind: ``{number: {filename, caption, negative_caption}}``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from suisei.data.benchmarks.benchmark import Benchmark, ImageFolder, find_file
from suisei.data.benchmarks.coco_captions import KARPATHY, CocoCaptions
from suisei.data.benchmarks.jsonfile import text_of
from suisei.data.benchmarks.paired import Pair, pair_rows
from suisei.data.formats import Row
from suisei.data.json_files import as_object, read_object

KINDS = ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")
CAPTIONS = "captions_val2017.json"


def _rows(root: Path, images: Path | None) -> Iterator[Row]:
    captions, files = CocoCaptions.find(root, CAPTIONS), ImageFolder.find(images, root / "val2017")
    seen: set[str] = set()
    for kind in KINDS:
        path = find_file(root, f"{kind}.json")
        make = partial(_pair, kind, captions)
        yield from pair_rows(path, enumerate(read_object(path).values(), start=1), make, files, seen)


def _pair(kind: str, captions: CocoCaptions, number: int, record: Any) -> Pair:
    record = as_object(record)
    image, right = text_of(record, "filename"), text_of(record, "caption")
    return Pair(
        f"{kind}/{number}",
        (right, text_of(record, "negative_caption")),
        ((kind, 1.0),),
        image,
        captions.of(image, without=right),
    )


SUGARCREPE = Benchmark(
    name="sugarcrepe",
    rows=_rows,
    language="en",
    rating_scale=(0.0, 1.0),
    summary="7,511 captions of COCO images, each beside a hard negative of one of seven kinds",
    source=(
        f"Root is the folder that holds {', '.join(f'{kind}.json' for kind in KINDS)}, from "
        "https://github.com/RAIVNLab/sugar-crepe (data); the images are COCO's val2017 (--images). It has no "
        f"references: with COCO's {CAPTIONS} (or {KARPATHY}) beside the files, an image's captions other "
        "than the right one are"
    ),
    has_images=True,
    protocol="pairs",
)

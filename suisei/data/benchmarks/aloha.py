"""HAT and nocaps-FOIL: captions with and without hallucinated objects.

Petryk et al., "ALOHa: A New Measure for Hallucination in Captioning Models", NAACL 2024. Both are lists of
records with ``image_path`` and ``references``: HAT's captions were written by models and people marked what
is hallucinated; nocaps-FOIL puts a caption (``baseline``) beside the same with one noun replaced (``foil``).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from suisei.data.benchmarks.benchmark import Benchmark, ImageFolder, find_file, make_row
from suisei.data.benchmarks.jsonfile import bool_of, text_of, texts_of
from suisei.data.benchmarks.paired import Pair, pair_rows
from suisei.data.formats import Row
from suisei.data.json_files import as_object, read_list
from suisei.data.sample import CaptionSample, Rating

HAT_FILE, FOIL_FILE = "hat-trainval.json", "nocaps-val-foil.json"


def _hat_rows(root: Path, images: Path | None) -> Iterator[Row]:
    path, files = find_file(root, HAT_FILE), ImageFolder.find(images)
    seen: set[str] = set()
    for number, record in enumerate(read_list(path), start=1):
        row = make_row(path, number, partial(_hat_sample, record, files), seen)
        if row is not None:
            yield row


def _hat_sample(record: Any, files: ImageFolder) -> CaptionSample:
    record = as_object(record)
    image = text_of(record, "image_path")
    return CaptionSample(
        text_of(record, "caption"),
        texts_of(record, "references"),
        image=files.path(image),
        rating=Rating((0.0 if bool_of(record, "contains_hallucination") else 1.0,)),
        language="en",
        group=image,
        id=text_of(record, "sample_id"),
    )


def _foil_rows(root: Path, images: Path | None) -> Iterator[Row]:
    path, files = find_file(root, FOIL_FILE), ImageFolder.find(images)
    yield from pair_rows(path, enumerate(read_list(path), start=1), _foil_pair, files, set())


def _foil_pair(number: int, record: Any) -> Pair:
    record = as_object(record)
    return Pair(
        str(number),
        (text_of(record, "baseline"), text_of(record, "foil")),
        ((text_of(record, "domain"), 1.0),),
        text_of(record, "image_path"),
        texts_of(record, "references"),
    )


_SOURCE = (
    "Root is the folder that holds {file}, from https://github.com/DavidMChan/aloha (data); the images are "
    "{images} (--images)"
)

HAT = Benchmark(
    name="hat",
    rows=_hat_rows,
    language="en",
    rating_scale=(0.0, 1.0),
    summary="400 captions of COCO images by models, 135 of which (rated 0) hold a hallucination",
    source=_SOURCE.format(file=HAT_FILE, images="COCO's val2014"),
    has_images=True,
    protocol="detection",
)

NOCAPS_FOIL = Benchmark(
    name="nocaps-foil",
    rows=_foil_rows,
    language="en",
    rating_scale=(0.0, 1.0),
    summary="2,500 captions of nocaps images, each beside itself with one noun replaced, in three domains",
    source=_SOURCE.format(file=FOIL_FILE, images="those of nocaps' validation set"),
    has_images=True,
    protocol="pairs-and-detection",
)

"""FOIL-COCO: captions of COCO images beside the same with one noun that is wrong.

Shekhar et al., "FOIL it! Find One mismatch between Image and Language caption", ACL 2017. A file in COCO's
layout: ``images``, and ``annotations`` whose ``id`` is shared by a caption (``foil`` false) and its foils.
References are the image's captions other than the right one (Hessel et al., EMNLP 2021, section 4.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from suisei.data.benchmarks.benchmark import Benchmark, ImageFolder, find_file
from suisei.data.benchmarks.coco_captions import CocoCaptions
from suisei.data.benchmarks.jsonfile import bool_of, number_of, text_of
from suisei.data.benchmarks.paired import Pair, pair_rows
from suisei.data.formats import Row
from suisei.data.json_files import as_object, read_object
from suisei.errors import DataError

FILE, CAPTIONS = "foilv1.0_test_2017.json", "captions_val2014.json"
MAX_REFERENCES = 4


def _rows(root: Path, images: Path | None) -> Iterator[Row]:
    path = find_file(root, FILE)
    content = read_object(path)
    try:
        names: dict[float, str] = {int(entry["id"]): str(entry["file_name"]) for entry in content["images"]}
        annotations = list(content["annotations"])
        right = {
            entry["id"]: text_of(entry, "caption") for entry in annotations if not bool_of(entry, "foil")
        }
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DataError(
            f"{path}: expected 'images' with id and file_name, and 'annotations' with id, image_id, caption "
            f"and foil ({type(error).__name__}: {error})"
        ) from None
    make = partial(_pair, names, right, CocoCaptions.find(root, CAPTIONS), {})
    files = ImageFolder.find(images, root / "val2014")
    yield from pair_rows(path, enumerate(annotations, start=1), make, files, set())


def _pair(
    names: Mapping[float, str],
    right: Mapping[Any, str],
    captions: CocoCaptions,
    counts: dict[Any, int],
    _: int,
    record: Any,
) -> Pair | None:
    record = as_object(record)
    if not bool_of(record, "foil"):
        return None
    key, image = record.get("id"), names.get(number_of(record, "image_id"))
    if image is None or not isinstance(key, int | str) or key not in right:
        what = f"image {record.get('image_id')}" if image is None else f"right caption {key}"
        raise DataError(f"its {what} is not in the file; download it again")
    counts[key] = counts.get(key, 0) + 1
    return Pair(
        f"{key}-{counts[key]}",
        (right[key], text_of(record, "caption")),
        (("FOIL", 1.0),),
        image,
        captions.of(image, without=right[key])[:MAX_REFERENCES],
    )


FOIL = Benchmark(
    name="foil",
    rows=_rows,
    language="en",
    rating_scale=(0.0, 1.0),
    summary="captions of COCO images, each beside itself with one wrong noun (the test part of FOIL)",
    source=(
        f"Root is the folder that holds {FILE}, from https://foilunitn.github.io, and COCO's {CAPTIONS}, "
        "which the references come from (without it there are none); the images are COCO's val2014 "
        "(--images)"
    ),
    has_images=True,
    protocol="foil",
)

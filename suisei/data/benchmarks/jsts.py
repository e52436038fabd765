"""JSTS: pairs of Japanese captions with the similarity, 0 to 5, that crowd workers saw in them.

Kurihara, Kawahara and Shibata: "JGLUE: Japanese General Language Understanding Evaluation", LREC
2022. Not ratings of captions for images, but close to it: ``sentence2`` is taken as a candidate that
is compared with ``sentence1``, a caption of the same image or of another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from suisei.data.benchmarks.benchmark import Benchmark, find_file, make_row, text_rows
from suisei.data.benchmarks.jsonfile import number_of
from suisei.data.formats import Row
from suisei.data.json_files import parse_object
from suisei.data.sample import CaptionSample, Rating
from suisei.errors import DataError

RELEASED_PARTS = ("train", "valid")
SCALE = (0.0, 5.0)

# One image, or two joined by "_", then the two captions.
_IMAGES = re.compile(r"([0-9]+(?:_[0-9]+)?)-")


def _rows(root: Path, images: Path | None) -> Iterator[Row]:
    paths = {part: find_file(root, f"{part}-v1.3.json") for part in RELEASED_PARTS}
    groups = _image_groups(paths.values())
    seen: set[str] = set()
    for part, path in paths.items():
        for number, line, problem in text_rows(path):
            row = make_row(path, number, partial(_sample, line, problem, part, groups), seen)
            if row is not None:
                yield row


def _sample(line: str, problem: str | None, part: str, groups: dict[str, str]) -> CaptionSample:
    if problem is not None:
        raise DataError(problem)
    record = parse_object(line)
    return CaptionSample(
        candidate=record.get("sentence2", ""),
        references=(record.get("sentence1", ""),),
        rating=Rating((number_of(record, "label"),), *SCALE),
        language="ja",
        group=groups[_images_of(record)[0]],
        id=f"{part}-{record.get('sentence_pair_id')}",
    )


def _images_of(record: dict[str, Any]) -> list[str]:
    match = _IMAGES.match(str(record.get("yjcaptions_id")))
    if match is None:
        raise DataError(
            f"yjcaptions_id must begin with an image number, got {record.get('yjcaptions_id')!r:.60}"
        )
    return match.group(1).split("_")


def _image_groups(paths: Iterable[Path]) -> dict[str, str]:
    """Map every image to the name of its group.

    Some pairs are captions of two images. Both images, and all pairs of either, then belong to one
    group, or else an image would be on two sides of a split; the largest group has ten pairs. A
    group is called after its first image in the order of their numbers.
    """
    parent: dict[str, str] = {}

    def top(image: str) -> str:
        while parent.setdefault(image, image) != image:
            image = parent[image]
        return image

    for path in paths:
        for _, line, _ in text_rows(path):
            try:
                first, *others = _images_of(parse_object(line))
            except DataError:
                continue  # the row is reported when its sample is made
            for other in (first, *others):
                low, high = sorted((top(first), top(other)), key=int)
                parent[high] = low
    return {image: top(image) for image in list(parent)}


JSTS = Benchmark(
    name="jsts",
    rows=_rows,
    language="ja",
    rating_scale=SCALE,
    summary="13,908 pairs of Japanese captions with similarity 0 to 5 (JGLUE 1.3); no image files",
    source=(
        "Root is the folder that holds train-v1.3.json and valid-v1.3.json; both come with JGLUE: "
        "https://github.com/yahoojapan/JGLUE (datasets/jsts-v1.3)"
    ),
    correlation="pearson",
)

"""THumB: captions of COCO images by four models and a person, rated for precision and recall.

Kasai et al., "Transparent Human Evaluation for Image Captioning", NAACL 2022. One JSON object per line:
``SYS``, ``seg_id``, ``hyp``, ``image``, ``P`` and ``R`` (1 to 5), and the total ``human_score``: their mean
less what fluency, conciseness and inclusive language cost. Figures are given with the human captions and
without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from suisei.data.benchmarks.benchmark import Benchmark, ImageFolder, find_file, make_row, text_rows
from suisei.data.benchmarks.coco_captions import KARPATHY, CocoCaptions, without_caption
from suisei.data.benchmarks.jsonfile import number_of, parse_line, text_of
from suisei.data.formats import Row
from suisei.data.judged import ScaledCaption
from suisei.data.sample import Rating
from suisei.errors import DataError

FILE, CAPTIONS = "mscoco_THumB-1.0.jsonl", "captions_val2014.json"
HUMAN = "Human"
POOLS = ("with human captions", "without human captions")
RATING = (1.0, 5.0)
TOTAL = (0.0, 5.0)
"""The total may fall below the worst rating by what bad language costs."""


def _rows(root: Path, images: Path | None) -> Iterator[Row]:
    path = find_file(root, FILE)
    captions, files = CocoCaptions.find(root, CAPTIONS), ImageFolder.find(images, root / "val2014")
    written = _human_captions(path) if captions else {}
    seen: set[str] = set()
    for number, line, problem in text_rows(path):
        row = make_row(path, number, partial(_sample, line, problem, captions, written, files), seen)
        if row is not None:
            yield row


def _human_captions(path: Path) -> dict[str, str]:
    """Return {image: the human caption that is rated}; no caption of the image has it as a reference."""
    found = {}
    for _, line, _ in text_rows(path):
        try:
            record = parse_line(line)
        except DataError:
            continue  # reported when its sample is made
        if record.get("SYS") == HUMAN:
            found[str(record.get("image"))] = str(record.get("hyp"))
    return found


def _sample(
    line: str,
    problem: str | None,
    captions: CocoCaptions,
    written: Mapping[str, str],
    files: ImageFolder,
) -> ScaledCaption:
    if problem is not None:
        raise DataError(problem)
    record = parse_line(line)
    image, system = text_of(record, "image"), text_of(record, "SYS")
    total = Rating((number_of(record, "human_score"),), *TOTAL)
    return ScaledCaption(
        text_of(record, "hyp"),
        without_caption(captions.of(image), written.get(image, "")),
        image=files.path(image),
        rating=total,
        language="en",
        system=system,
        group=image,
        id=f"{text_of(record, 'seg_id')}/{system}",
        scales=(("precision", _rating(record, "P")), ("recall", _rating(record, "R")), ("total", total)),
        parts=POOLS[:1] if system == HUMAN else POOLS,
    )


def _rating(record: Mapping[str, Any], field: str) -> Rating:
    return Rating((number_of(record, field),), *RATING)


THUMB = Benchmark(
    name="thumb",
    rows=_rows,
    language="en",
    rating_scale=TOTAL,
    summary="2,500 captions of 500 COCO images by four models and people, rated for precision and recall",
    source=(
        f"Root is the folder that holds {FILE}, from https://github.com/jungokasai/THumB (mscoco), and, for "
        f"references, COCO's {CAPTIONS} (or {KARPATHY}); the images are COCO's val2014 (--images)"
    ),
    has_images=True,
    protocol="scales",
)

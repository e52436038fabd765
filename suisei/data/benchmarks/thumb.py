"""THumB: captions of COCO images by four models and a person, rated for precision and recall.

Kasai et al., "Transparent Human Evaluation for Image Captioning", NAACL 2022. One JSON object per line:
``SYS``, ``seg_id``, ``hyp``, ``image``, ``P`` and ``R`` (1 to 5), and the total ``human_score``: their mean
less what fluency, conciseness and inclusive language cost. Figures are given with the human captions and
without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from suisei.data.benchmarks.benchmark import Benchmark, ImageFolder, find_file, make_row, text_rows
from suisei.data.benchmarks.coco_captions import KARPATHY, CocoCaptions, without_caption
from suisei.data.benchmarks.jsonfile import number_of, text_of, texts_of
from suisei.data.formats import Row
from suisei.data.json_files import parse_object
from suisei.data.judged import ScaledCaption
from suisei.data.sample import Rating
from suisei.errors import DataError

FILE, CAPTIONS = "mscoco_THumB-1.0.jsonl", "captions_val2014.json"
REFERENCES = "mscoco_references.json"
"""JSON Lines in spite of its name: ``seg_id`` and ``refs``, the four captions that are not rated."""
References = Callable[[Mapping[str, Any]], tuple[str, ...]]
HUMAN = "Human"
POOLS = ("with human captions", "without human captions")
RATING = (1.0, 5.0)
TOTAL = (0.0, 5.0)
"""The total may fall below the worst rating by what bad language costs."""


def _rows(root: Path, images: Path | None) -> Iterator[Row]:
    path = find_file(root, FILE)
    references, files = _references(root, path), ImageFolder.find(images, root / "val2014")
    seen: set[str] = set()
    for number, line, problem in text_rows(path):
        row = make_row(path, number, partial(_sample, line, problem, references, files), seen)
        if row is not None:
            yield row


def _references(root: Path, path: Path) -> References:
    """Return what finds the references of a record: those of the release, else COCO's other captions."""
    if (root / REFERENCES).is_file():
        return partial(_released, root / REFERENCES, _read_released(root / REFERENCES))
    captions = CocoCaptions.find(root, CAPTIONS)
    return partial(_others, captions, _human_captions(path) if captions else {})


def _read_released(path: Path) -> dict[str, tuple[str, ...]]:
    """Return {seg_id: captions}, without those that are rated.

    Raises:
        DataError: a line is laid out otherwise, or a seg_id occurs twice.
    """
    found: dict[str, tuple[str, ...]] = {}
    for number, line, problem in text_rows(path):
        try:
            if problem is not None:
                raise DataError(problem)
            record = parse_object(line)
            name, captions = text_of(record, "seg_id"), texts_of(record, "refs")
            if name in found:
                raise DataError(f"seg_id {name[:40]!r} occurs twice; copy the file again")
        except DataError as error:
            raise DataError(f"{path}, row {number}: {error}") from None
        found[name] = captions
    return found


def _released(
    path: Path, captions: Mapping[str, tuple[str, ...]], record: Mapping[str, Any]
) -> tuple[str, ...]:
    name = text_of(record, "seg_id")
    if name not in captions:
        raise DataError(f"seg_id {name[:40]!r} has no references in {path}; copy that file again")
    return captions[name]


def _others(captions: CocoCaptions, written: Mapping[str, str], record: Mapping[str, Any]) -> tuple[str, ...]:
    image = text_of(record, "image")
    return without_caption(captions.of(image), written.get(image, ""))


def _human_captions(path: Path) -> dict[str, str]:
    """Return {image: the human caption that is rated}; no caption of the image has it as a reference."""
    found = {}
    for _, line, _ in text_rows(path):
        try:
            record = parse_object(line)
        except DataError:
            continue  # reported when its sample is made
        if record.get("SYS") == HUMAN:
            found[str(record.get("image"))] = str(record.get("hyp"))
    return found


def _sample(line: str, problem: str | None, references: References, files: ImageFolder) -> ScaledCaption:
    if problem is not None:
        raise DataError(problem)
    record = parse_object(line)
    image, system = text_of(record, "image"), text_of(record, "SYS")
    total = Rating((number_of(record, "human_score"),), *TOTAL)
    return ScaledCaption(
        text_of(record, "hyp"),
        references(record),
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
        f"Root is the folder that holds {FILE} and {REFERENCES}, from https://github.com/jungokasai/THumB "
        f"(mscoco); without the latter, references are those of COCO's {CAPTIONS} (or {KARPATHY}) other than "
        "the caption that is rated, if that is there; the images are COCO's val2014 (--images)"
    ),
    has_images=True,
    protocol="scales",
)

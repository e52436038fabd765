"""Composite: captions of Flickr8k, Flickr30k and COCO images by two models and a person, rated 1 to 5.

Aditya et al., "From Images to Sentences through Scene Description Graphs using Commonsense Reasoning and
Knowledge", 2015. The references of an image are its captions without the one that is rated as a candidate,
for all three candidates of the image: so the published figures come out (Hessel et al., EMNLP 2021,
appendix A, "no GT").

Two layouts are read: ``composite.jsonl``, a row per caption with ``source``, ``image``, ``caption``,
``references`` and ``rating``; and a table of :mod:`suisei.data.benchmarks.hub`, whose references are taken as
they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from suisei.data.benchmarks.benchmark import Benchmark, ImageFolder, make_row, text_rows
from suisei.data.benchmarks.hub import SHARDS, HubTable
from suisei.data.benchmarks.jsonfile import number_of, text_of, texts_of
from suisei.data.formats import Row
from suisei.data.json_files import parse_object
from suisei.data.sample import CaptionSample, Rating
from suisei.errors import DataError

FILE = "composite.jsonl"
SCALE = (1.0, 5.0)

_TABLE = HubTable((FILE, "en_test_composite_da2.csv", "en_test_composite_da.csv", *SHARDS), SCALE)


def _rows(root: Path, images: Path | None) -> Iterator[Row]:
    path = _TABLE.files(root)[0]
    if path.suffix != ".jsonl":
        yield from _TABLE.rows(root, images)
        return
    files, seen = ImageFolder.find(images, path.parent / "images"), set[str]()
    counts: Counter[str] = Counter()
    for number, line, problem in text_rows(path):
        row = make_row(path, number, partial(_sample, line, problem, files, counts), seen)
        if row is not None:
            yield row


def _sample(line: str, problem: str | None, files: ImageFolder, counts: Counter[str]) -> CaptionSample:
    if problem is not None:
        raise DataError(problem)
    record = parse_object(line)
    source, image = text_of(record, "source"), text_of(record, "image")
    counts[image] += 1
    return CaptionSample(
        text_of(record, "caption"),
        texts_of(record, "references"),
        image=files.path(f"{source}/{image}"),
        rating=Rating((number_of(record, "rating"),), *SCALE),
        language="en",
        group=image,
        id=f"{image}/{counts[image]}",
    )


COMPOSITE = Benchmark(
    name="composite",
    rows=_rows,
    language="en",
    rating_scale=SCALE,
    summary="11,985 English captions of 3,995 Flickr8k, Flickr30k and COCO images, one rating of 1 to 5 each",
    source=(
        f"Root is the folder that holds {FILE} (source, image, caption, references, rating) or "
        f"en_test_composite_da2.csv (imgid, mt, refs, score) or {' or '.join(SHARDS)} (img, cand, refs, "
        "human_score), or the file itself; the ratings are Aditya et al.'s "
        "(https://arxiv.org/abs/1511.03292); images are in its folder 'images' or in --images, directly or "
        "in flickr8k, flickr30k and coco; those inside Parquet are unpacked into the folder that --images "
        "names"
    ),
    has_images=True,
)

"""CapEval1k: 1,000 captions of 250 COCO images by four models, rated by people.

Lee et al., "UMIC: An Unreferenced Metric for Image Captioning via Contrastive Learning", ACL 2021. Read
from ``captioning_human_judgments.pkl``, where it has an entry beside other sets, each with ``candidate``,
``reference`` and ``score`` side by side, or from a table in the layout of :mod:`suisei.data.benchmarks.hub`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from suisei.data.benchmarks.benchmark import Benchmark, make_row
from suisei.data.benchmarks.hub import HubTable, caption_list
from suisei.data.benchmarks.pickled import read_pickled
from suisei.data.formats import Row
from suisei.data.sample import CaptionSample, Rating
from suisei.errors import DataError

PICKLE, ENTRY = "captioning_human_judgments.pkl", "capeval1k"
FIELDS = ("candidate", "reference", "score")
SCALE = (0.0, 5.0)
"""Holds ratings of 1 to 5, and the same brought to 0 to 1."""

_TABLE = HubTable((PICKLE, "capeval1k*.csv", "capeval1k*.parquet"), SCALE)


def _rows(root: Path, images: Path | None) -> Iterator[Row]:
    path = _TABLE.files(root)[0]
    if path.suffix != ".pkl":
        yield from _TABLE.rows(root, images)
        return
    content, seen = read_pickled(path), set[str]()
    entry = content.get(ENTRY, content) if isinstance(content, dict) else None
    columns = [entry.get(name) if isinstance(entry, dict) else None for name in FIELDS]
    sizes = {len(column) if isinstance(column, list) else 0 for column in columns}
    if len(sizes) != 1 or sizes == {0}:
        raise DataError(f"{path}: expected {ENTRY!r} with lists of equal length in {', '.join(FIELDS)}")
    for number, values in enumerate(zip(*columns, strict=True), start=1):
        row = make_row(path, number, partial(_sample, number, *values), seen)
        if row is not None:
            yield row


def _sample(number: int, candidate: Any, references: Any, score: Any) -> CaptionSample:
    if isinstance(candidate, list) and len(candidate) == 1:
        candidate = candidate[0]
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise DataError(f"score must be a number, got {score!r:.40}")
    references = caption_list(references)
    return CaptionSample(
        candidate,
        references,
        rating=Rating((score,), *SCALE),
        language="en",
        group=" ".join(references) or None,  # the file has no image names
        id=str(number),
    )


CAPEVAL1K = Benchmark(
    name="capeval1k",
    rows=_rows,
    language="en",
    rating_scale=SCALE,
    summary="1,000 captions of 250 COCO images by four models, rated by people",
    source=(
        f"Root is the folder that holds {PICKLE} (in which images have no names), or a table "
        f"capeval1k.csv with the columns imgid, mt, refs and score; see "
        "https://github.com/hwanheelee1993/UMIC; the images are COCO's val2014 (--images)"
    ),
    has_images=True,
)

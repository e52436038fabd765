"""LongCap-Arena: long captions rated for descriptiveness, relevance and fluency.

Matsuda, Wada, Sugiura et al.: "VELA: An LLM-Hybrid-as-a-Judge Approach for Evaluating Long Image Captions",
EMNLP 2025. A table per test set and scale, in the layout of :mod:`suisei.data.benchmarks.hub`: Parquet
``dci_val.desc-*`` (test A) and ``dci_test.desc-*`` (test B) on the hub, ``desc_dci_val.csv`` beside the code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suisei.data.benchmarks.benchmark import Benchmark, LayoutError, make_row
from suisei.data.benchmarks.hub import (
    CANDIDATES,
    caption_list,
    find_tables,
    first_of,
    read_table,
    score_of,
)
from suisei.data.benchmarks.pictures import Pictures
from suisei.data.formats import Row
from suisei.data.judged import ScaledCaption
from suisei.data.sample import Rating
from suisei.errors import DataError

SCALES = {"desc": "descriptiveness", "rel": "relevance", "flu": "fluency"}
TEST_SETS = {"dci_val": "test A", "dci_test": "test B"}
SCALE = (0.0, 1.0)


@dataclass(slots=True)
class _Caption:
    """A caption with the ratings found of it so far."""

    place: tuple[Path, int]
    part: str
    text: str
    references: tuple[str, ...]
    name: str
    image: Path | None
    ratings: dict[str, Rating] = field(default_factory=dict)

    def sample(self) -> ScaledCaption:
        scales = tuple((name, self.ratings[name]) for name in SCALES.values() if name in self.ratings)
        return ScaledCaption(
            self.text,
            self.references,
            image=self.image,
            rating=Rating((sum(rating.mean for _, rating in scales) / len(scales),)),
            language="en",
            group=self.name,
            id=f"{self.place[0].stem}/{self.place[1]}",
            scales=scales,
            parts=(self.part,),
        )


class _Captions:
    """Brings the ratings of a caption together, which stand in a table per scale."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str, str], _Caption] = {}
        self.bad: list[Row] = []

    def read(self, path: Path, part: str, scale: str, images: Path | None) -> None:
        """Read one table."""
        pictures = Pictures(images, path.parent / "images", path.parent.parent / "images")
        for number, record, problem in read_table(path):
            try:
                if problem is not None:
                    raise DataError(problem)
                caption = self._caption((path, number), part, record, pictures)
                rating = Rating((score_of(record),), *SCALE)
            except DataError as error:
                self.bad.append(Row(number, None, None, DataError(f"{path}, row {number}: {error}")))
                continue
            known = caption.ratings.get(scale)
            caption.ratings[scale] = Rating((*known.values, *rating.values), *SCALE) if known else rating

    def _caption(
        self, place: tuple[Path, int], part: str, record: Mapping[str, Any], pictures: Pictures
    ) -> _Caption:
        name, image = pictures.of(record)
        text = " ".join(str(first_of(record, CANDIDATES)).split())
        made = _Caption(place, part, text, caption_list(record.get("refs")), name, image)
        return self.found.setdefault((part, name, text), made)


def _rows(root: Path, images: Path | None) -> Iterator[Row]:
    if root.is_file():  # it would be taken for every scale of both sets
        raise LayoutError(
            f"{root}: a table is of one scale and one test set; give the folder that holds them"
        )
    captions = _Captions()
    for key, part in TEST_SETS.items():
        for short, scale in SCALES.items():
            for path in _files(root, key, short):
                captions.read(path, part, scale, images)
    if not captions.found and not captions.bad:
        raise LayoutError(f"{root}: looked for data/dci_test.desc-*.parquet or desc_dci_test.csv, found none")
    yield from captions.bad
    seen: set[str] = set()
    for caption in captions.found.values():
        if caption.ratings:
            row = make_row(*caption.place, caption.sample, seen)
            if row is not None:
                yield row


def _files(root: Path, key: str, short: str) -> list[Path]:
    name = f"{key}.{short}-*.parquet"
    try:
        return find_tables(root, (f"data/{name}", name, f"test/{short}_{key}.csv", f"{short}_{key}.csv"))
    except LayoutError:
        return []


LONGCAP_ARENA = Benchmark(
    name="longcap-arena",
    rows=_rows,
    language="en",
    rating_scale=SCALE,
    summary="long English captions, rated 0 to 1 for descriptiveness, relevance and fluency; two test sets",
    source=(
        "Root is the folder that holds data/dci_val.desc-*.parquet and so on, from "
        "https://huggingface.co/datasets/Ka2ukiMatsuda/LongCap-Arena, or desc_dci_val.csv and so on; images "
        "are in its folder 'images' or in --images, and those inside Parquet are unpacked into the folder "
        "that --images names (without one only the text is read)"
    ),
    has_images=True,
    protocol="scales",
)

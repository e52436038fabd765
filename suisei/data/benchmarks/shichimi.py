"""Shichimi: Japanese captions of COCO images by ten models, each rated 1 to 5 by a person.

Wada, Kaneda and Sugiura: "JaSPICE: Automatic Evaluation Metric Using Predicate-Argument Structures
for Image Captioning Models", CoNLL 2023. One CSV with the columns ``src`` and ``ref`` (two references),
``mt`` (the candidate), ``score`` and ``imgid``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from suisei.data.benchmarks.benchmark import Benchmark, LayoutError, text_rows, with_language
from suisei.data.formats import Row, iter_rows

USUAL_NAME = "shichimi_dev.csv"
COLUMNS = {"imgid", "src", "mt", "ref", "score"}
SCALE = (1.0, 5.0)


def _rows(root: Path, images: Path | None) -> Iterator[Row]:
    return with_language(iter_rows(_csv_file(root), format="csv", rating_scale=SCALE), "ja")


def _csv_file(root: Path) -> Path:
    """Return the file itself, or the one CSV of the right layout in a folder."""
    if root.is_file():
        return root
    if (root / USUAL_NAME).is_file():
        return root / USUAL_NAME
    if not root.is_dir():
        raise LayoutError(f"{root}: there is no such file or folder; looked for {USUAL_NAME} in it")
    fitting = [path for path in sorted(root.glob("*.csv")) if _has_layout(path)]
    if len(fitting) != 1:
        found = (
            f"found {', '.join(path.name for path in fitting)}; give one of them" if fitting else "found none"
        )
        raise LayoutError(
            f"{root}: looked for {USUAL_NAME} or one .csv with the columns "
            f"{', '.join(sorted(COLUMNS))}; {found}"
        )
    return fitting[0]


def _has_layout(path: Path) -> bool:
    if path.stat().st_size == 0:
        return False
    _, header, problem = next(text_rows(path), (0, "", None))
    return problem is None and {name.strip().strip('"') for name in header.split(",")} >= COLUMNS


SHICHIMI = Benchmark(
    name="shichimi",
    rows=_rows,
    language="ja",
    rating_scale=SCALE,
    summary="Japanese captions of COCO images by ten models, one rating of 1 to 5 each; no image files",
    source=(
        f"Root is the folder that holds {USUAL_NAME}, or the CSV file itself; "
        "Shichimi is for research; ask its authors, who are at https://github.com/keio-smilab23/JaSPICE"
    ),
    correlation="tau-b",
)

"""IIW-400: two long descriptions of an image, and which people prefer in five respects.

Garg et al., "ImageInWords: Unlocking Hyper-Detailed Image Descriptions", EMNLP 2024. One JSON object per
line: ``IIW`` (by people), ``IIW-P5B`` (by a model) and ``iiw-human-sxs-iiw-p5b`` with a verdict of five
steps per respect, for about 100 of the 400 images. The file has verdicts on GPT-4V's descriptions too, but
not those descriptions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from suisei.data.benchmarks.benchmark import Benchmark, ImageFolder, find_file, text_rows
from suisei.data.benchmarks.jsonfile import text_of
from suisei.data.benchmarks.paired import Pair, pair_rows
from suisei.data.formats import Row
from suisei.data.json_files import as_object, parse_object
from suisei.errors import DataError

FILE, VERDICTS = "data.jsonl", "iiw-human-sxs-iiw-p5b"
PREFIX = "metrics/"
STRENGTHS = {"substantially": 1.0, "marginally": 0.75}
"""How far a description is preferred that is so much better."""

SIDES = ("IIW-Human", "IIW-P5B")


def _rows(root: Path, images: Path | None) -> Iterator[Row]:
    path = find_file(root, FILE)
    lines = ((number, (line, problem)) for number, line, problem in text_rows(path))
    yield from pair_rows(path, lines, _pair, ImageFolder.find(images), set())


def _pair(_: int, entry: tuple[str, str | None]) -> Pair | None:
    line, problem = entry
    if problem is not None:
        raise DataError(problem)
    record = parse_object(line)
    if VERDICTS not in record:
        return None  # only a part of the images was judged
    verdicts = as_object(record[VERDICTS])
    if not verdicts:
        raise DataError(f"{VERDICTS} holds no verdict")
    preferred = tuple((name.removeprefix(PREFIX), _share(name, text)) for name, text in verdicts.items())
    key = text_of(record, "image/key")
    return Pair(key, (text_of(record, "IIW"), text_of(record, "IIW-P5B")), preferred, f"{key}.jpg")


def _share(name: str, verdict: Any) -> float:
    """Return how far people's description is preferred.

    >>> _share("metrics/Specificity", "IIW-P5B is marginally better")
    0.25
    """
    words = str(verdict).split(" ")
    if words == ["Neutral"]:
        return 0.5
    if len(words) != 4 or words[0] not in SIDES or words[2] not in STRENGTHS:
        raise DataError(
            f"{name} must be Neutral or like 'IIW-Human is marginally better' "
            f"({' or '.join(SIDES)}, {' or '.join(STRENGTHS)}), got {verdict!r:.60}"
        )
    strength = STRENGTHS[words[2]]
    return strength if words[0] == SIDES[0] else 1 - strength


IIW_400 = Benchmark(
    name="iiw-400",
    rows=_rows,
    language="en",
    rating_scale=(0.0, 1.0),
    summary="long descriptions of about 100 images by people and by a model, compared in five respects",
    source=(
        f"Root is the folder that holds {FILE}, from https://github.com/google/imageinwords "
        "(datasets/IIW-400); there are no references; the images are DOCCI's aar_test_NUMBER.jpg (--images)"
    ),
    has_images=True,
    protocol="pairs",
)

"""Who rated samples: their raters, whose ratings may stand in rows of their own.

Rows in long format, one per rater and caption, become one sample with the ratings of all its raters. As they
stand, such rows are samples of one rater each: no rater could be held against the others, and every caption
would be scored, trained on and counted as often as it was rated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from suisei.cli import counted
from suisei.data.benchmarks import BENCHMARKS
from suisei.data.sample import CaptionSample, Rating

LONG = 0.75
"""Share of rated rows that differ from another in nothing but the rating, from which a file is in long
format. Where a file has rows of systems that it does not name, up to a fifth do: systems say the same of an
image."""
_SHOWN = 8
"""How many scales are named, those of the most samples."""


def rating_facts(samples: Sequence[CaptionSample]) -> dict[str, Any]:
    """Return what is known of the ratings of samples: their scales and how many raters a sample has.

    Returns:
        {"scales": [[lowest, highest], ...], the commonest first; "raters": [fewest, most]}; empty where no
        sample is rated.
    """
    ratings = [sample.rating for sample in samples if sample.rating is not None]
    if not ratings:
        return {}
    scales = Counter((rating.low, rating.high) for rating in ratings).most_common(_SHOWN)
    counts = [len(rating.values) for rating in ratings]
    return {"scales": [list(scale) for scale, _ in scales], "raters": [min(counts), max(counts)]}


@dataclass(frozen=True, slots=True)
class Joined:
    """Samples whose raters are together.

    Attributes:
        samples: the samples, in the order of their first rows.
        rows: of which row each is the first, from 0.
        note: what was joined, in a line; "" where nothing was.
    """

    samples: list[CaptionSample]
    rows: list[int]
    note: str = ""


def raters_joined(source: str | Path, samples: Sequence[CaptionSample]) -> Joined:
    """Return rows that are alike in everything but the rating and the id as one sample, with its first id.

    Rows without a rating, those of several ratings each, those of a file in which few of the rated are alike
    (:data:`LONG`) and those of a benchmark, whose reader knows its raters, stay as they are.

    Args:
        source: what the samples were read from, a file or a benchmark's name.
        samples: N samples, in the order of their rows.
    """
    rows_of: dict[Any, list[int]] = {}
    for row, sample in enumerate(samples):
        rows_of.setdefault(_key(sample, row), []).append(row)
    several = [rows for rows in rows_of.values() if len(rows) > 1]
    alike = sum(map(len, several))
    rated = sum(sample.rating is not None for sample in samples)
    if str(source) in BENCHMARKS or not alike or alike < LONG * rated:
        return Joined(list(samples), list(range(len(samples))))
    note = (
        f"{source}: {alike:,} rows rate {counted(len(several), 'sample')}, a row per rater: rows "
        "that differ in nothing but the rating are one sample with several ratings"
    )
    if all(samples[row].rating == samples[rows[0]].rating for rows in several for row in rows):
        note += "; all rows of a sample rate it alike: check that no row is there twice"
    joined = [_joined([samples[row] for row in rows]) for rows in rows_of.values()]
    return Joined(joined, [rows[0] for rows in rows_of.values()], note)


def _key(sample: CaptionSample, row: int) -> Any:
    """Return what rows of one sample have in common; the row's own number where it stands for itself."""
    rating = sample.rating
    if rating is None or len(rating.values) > 1:
        return row
    own = (getattr(sample, each.name) for each in fields(sample) if each.name not in ("rating", "id"))
    return (type(sample), rating.low, rating.high, *own)


def _joined(samples: Sequence[CaptionSample]) -> CaptionSample:
    ratings = [sample.rating for sample in samples if sample.rating is not None]
    if len(samples) == 1:
        return samples[0]
    values = tuple(value for rating in ratings for value in rating.values)
    return replace(samples[0], rating=Rating(values, ratings[0].low, ratings[0].high))

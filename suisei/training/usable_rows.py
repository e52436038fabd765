"""Rows that a training on ratings can use: they have a rating, and no damaged image that it would look at."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from suisei.cli import counted
from suisei.data.benchmarks import BENCHMARKS
from suisei.data.decodable import problems_of
from suisei.data.formats import OnError, Row
from suisei.data.sample import CaptionSample
from suisei.data.unused_columns import unused_numbers
from suisei.errors import DataError

Numbered = tuple[int, CaptionSample]
"""The number of a row, from 1, and its sample."""
_SHOWN = 8
"""How many columns that may hold ratings are named."""


def rated_rows(
    source: str, samples: Sequence[CaptionSample], skipped: Collection[int], on_error: OnError
) -> tuple[list[Numbered], list[Row]]:
    """Return the rows that have a rating, and the others with the reason.

    Args:
        source: where the rows come from.
        samples: the samples of all rows but those that were skipped.
        skipped: the numbers of those rows.
        on_error: "raise" to refuse rows without a rating.

    Raises:
        DataError: no row has a rating, or one has none and none may be left out.
    """
    numbers = (number for number in itertools.count(1) if number not in skipped)
    rows = list(zip(numbers, samples, strict=False))
    unrated = [number for number, sample in rows if sample.rating is None]
    if unrated and len(unrated) == len(samples):
        raise _none_rated(source, len(samples))
    if unrated and on_error == "raise":
        raise DataError(
            f"{source}: {len(unrated):,} of {len(samples):,} samples have no rating, the first is "
            f"row {unrated[0]}; training needs one each: add them, or leave the rows out: "
            "--data.on_error skip"
        )
    return (
        [row for row in rows if row[1].rating is not None],
        [_left_out(source, number, "no rating, and training needs one") for number in unrated],
    )


def decodable_rows(
    source: str, rows: Sequence[Numbered], *, told: bool = True
) -> tuple[list[Numbered], list[Row]]:
    """Return the rows without an image or with one that can be decoded, and the others with the reason.

    Every image is decoded once, and nothing of it is kept.

    Args:
        source: where the rows come from.
        rows: the rows.
        told: whether to say how far it is.

    Raises:
        DataError: an image went away since the rows were read, as a folder on another machine may: that
            costs no rows.
    """
    problems = problems_of(source, rows, _images, told=told)
    kept = [row for row, problem in zip(rows, problems, strict=True) if not problem]
    return kept, [
        _left_out(source, number, problem)
        for (number, _), problem in zip(rows, problems, strict=True)
        if problem
    ]


def _left_out(source: str, number: int, problem: str) -> Row:
    return Row(number, None, None, DataError(f"{source}, row {number}: {problem}"))


def _images(row: Numbered) -> list[Any]:
    return [] if row[1].image is None else [row[1].image]


def _none_rated(source: str, samples: int) -> DataError:
    """Return what is wrong with data without any rating, which is probably called otherwise."""
    numbers = [] if source in BENCHMARKS else unused_numbers(Path(source))
    unused = ", ".join(repr(name[:60]) for name in numbers[:_SHOWN])
    hint = f" (columns of numbers that fill nothing: {unused})" if numbers else ""
    return DataError(
        f"{source}: none of its {counted(samples, 'sample')} has a rating, and training needs one each; call "
        f"the column of ratings 'rating', or those of several raters 'rating_1', 'rating_2', ...{hint}"
    )

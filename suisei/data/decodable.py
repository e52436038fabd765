"""Which images of a data set can be decoded, found out before anything is made of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from suisei.cli import usable_cores
from suisei.data.file_rows import Row, none_usable
from suisei.data.images import read_image
from suisei.errors import DataError
from suisei.progress import reported

Item = TypeVar("Item")

DECODING_THREADS = min(4, usable_cores())
"""More of them wait for the interpreter: beside a GPU and 16 cores, 4 decoded 890 images of 224 pixels a
second, and 16 decoded 810."""


def decoding_problems(
    images: Sequence[Any], advance: Callable[[int], Any] = lambda _: None
) -> list[str | None]:
    """Return what is wrong with each image, None where it can be decoded; nothing of it is kept.

    Args:
        images: paths or PIL images, each of them once.
        advance: called with 1 for each image.

    Raises:
        DataError: a file went away since the data were read, as a folder on another machine may: that is no
            fault of the image.
    """
    problems = []
    # The map of the pool, left early, drops the images that are left.
    with ThreadPoolExecutor(DECODING_THREADS) as pool:
        for image, problem in zip(images, pool.map(_problem, images), strict=True):
            if problem and isinstance(image, str | Path) and not os.path.exists(image):  # noqa: PTH110
                raise DataError(f"{image} is not there any more; start again once it is back")
            problems.append(problem)
            advance(1)
    return problems


def problems_of(
    source: str, items: Sequence[Item], images: Callable[[Item], Iterable[Any]], *, told: bool = True
) -> list[str | None]:
    """Return what is wrong with the images of each item, None where all of them can be decoded.

    Every image is decoded once, however many items have it.

    Args:
        source: where the items are from.
        items: what has images.
        images: the images of an item, paths or PIL images.
        told: whether to say how far it is.

    Raises:
        DataError: a file went away since the data were read.
    """
    shown = {_key(image): image for item in items for image in images(item)}
    with reported(told=told and bool(shown)) as progress:
        found = decoding_problems(list(shown.values()), progress(f"{source}: decoding images", len(shown)))
    problems = dict(zip(shown, found, strict=True))
    return [next(filter(None, (problems[_key(image)] for image in images(item))), None) for item in items]


def sound_items(
    source: str, items: Sequence[Item], problems: Sequence[str | None], skipped: list[Row] | None
) -> list[Item]:
    """Return the items without a problem; the others are left out.

    Args:
        source: where the items are from, before each problem.
        items: such as images with captions.
        problems: of each item.
        skipped: a list that receives what is left out.

    Raises:
        DataError: all have one.
    """
    bad = [
        Row(number, None, None, DataError(f"{source}: {problem}"))
        for number, problem in enumerate(problems, start=1)
        if problem
    ]
    if bad and len(bad) == len(items):
        raise none_usable(len(bad), bad[0].error)
    if skipped is not None:
        skipped += bad
    return [item for item, problem in zip(items, problems, strict=True) if not problem]


def check_decodable(
    images: Sequence[Any],
    source: str = "",
    kind: str = "images",
    advance: Callable[[int], Any] = lambda _: None,
) -> None:
    """Refuse images that cannot be decoded.

    Args:
        images: paths or PIL images.
        source: where they are from, before the message.
        kind: what they are called.
        advance: called with 1 for each image.

    Raises:
        DataError: some cannot; they are counted and the first is named.
    """
    problems = [problem for problem in decoding_problems(images, advance) if problem]
    if problems:
        raise DataError(
            f"{source}{len(problems)} of {len(images)} {kind} cannot be read: {problems[0]}; mend the files, "
            "or leave their rows out"
        )


def _key(image: Any) -> Any:
    """Return what tells sources of images apart; a path is one image however often it is named."""
    return str(image) if isinstance(image, str | Path) else id(image)


def _problem(image: Any) -> str | None:
    try:
        read_image(image, _Nothing())
    except DataError as problem:
        return str(problem)
    return None


class _Nothing:
    """What is made of an image that is only to be decoded, a JPEG at the smallest of its sizes."""

    side = 1

    def __call__(self, image: Any) -> None:
        """Do nothing."""

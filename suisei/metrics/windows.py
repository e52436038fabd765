"""Samples in windows, so that memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from suisei.data.sample import CaptionSample


def windows(samples: Sequence[CaptionSample], size: int) -> Iterator[list[int]]:
    """Yield the positions of samples, at most ``size`` at a time.

    More than one window has samples of the same references together, such as those of several systems, so
    that references are not encoded once for each; within that they keep their order.
    """
    order = list(range(len(samples)))
    if len(order) > size:
        first: dict[tuple[str, ...], int] = {}
        seen = [first.setdefault(sample.references, place) for place, sample in enumerate(samples)]
        order.sort(key=seen.__getitem__)
    for start in range(0, len(order), size):
        yield order[start : start + size]

"""Fitting corpus statistics on what is about to be scored, without holding it in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Protocol, runtime_checkable

from suisei.data.sample import CaptionSample
from suisei.metrics.base import Metric
from suisei.scoring.columns import fit_unrated


@runtime_checkable
class StreamFit(Protocol):
    """A metric whose corpus statistics are counted sample by sample, such as CIDEr's idf."""

    def fit_stream(self, samples: Iterable[CaptionSample]) -> None:
        """Fit corpus statistics on samples that need not fit into memory."""


def fit_metrics(metrics: Iterable[Metric], read: Callable[[], Iterable[CaptionSample]]) -> int:
    """Fit metrics, each in a pass of its own; ratings are taken away, and whatever cannot stream is listed.

    Args:
        metrics: the metrics.
        read: gives all samples once more at every call.

    Returns:
        The number of samples.
    """
    count = 0
    for metric in metrics:
        count = 0

        def counted() -> Iterator[CaptionSample]:
            nonlocal count
            for sample in read():
                count += 1
                yield sample if sample.rating is None else replace(sample, rating=None)

        if isinstance(metric, StreamFit):
            metric.fit_stream(counted())
        else:
            fit_unrated(metric, list(counted()))
    return count

"""Metrics that are the share of one count in another."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.metrics.base import Metric


class ShareMetric(Metric):
    """A metric that counts things in a caption, and of how many something is true.

    The score is their share, 0 where there are none. The corpus score is the share of those of all captions.
    A subclass writes :meth:`counts`.
    """

    @abstractmethod
    def counts(self, samples: Sequence[CaptionSample]) -> Iterable[tuple[int, int]]:
        """Return of how many things of each sample it is true, and how many there are."""

    def _score(self, samples: Sequence[CaptionSample], *, batch_size: int, progress: bool) -> np.ndarray:
        return share(self.sample_statistics(samples))

    def sample_statistics(self, samples: Sequence[CaptionSample]) -> np.ndarray:
        """Return both counts of each sample, int64 [N, 2]."""
        return np.array(list(self.counts(samples)), dtype=np.int64).reshape(len(samples), 2)

    def corpus_from_statistics(self, totals: np.ndarray) -> np.ndarray:
        """Return the share of each row of summed counts, float64 [B]."""
        return share(totals)


def share(counts: np.ndarray) -> np.ndarray:
    """Return part / whole of counts [N, 2], 0 where the whole is 0.

    >>> share(np.array([[1, 4], [0, 0]])).tolist()
    [0.25, 0.0]
    """
    part, whole = counts[:, 0].astype(np.float64), counts[:, 1].astype(np.float64)
    return np.divide(part, whole, out=np.zeros(len(counts)), where=whole > 0)

"""Corpus scores of a stream, from what can be added up window by window."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.metrics.base import Metric, SummableCorpus


class CorpusScore:
    """The mean and the corpus score of one metric over a stream.

    A metric whose corpus score is the mean needs two numbers, a :class:`SummableCorpus` its counts.
    Any other that has a corpus score of its own needs all samples at once: their captions are kept until
    the end, some hundred bytes each; images never are.

    Args:
        metric: the metric whose samples are added.
    """

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.own = type(metric).corpus_score is not Metric.corpus_score
        self.count = 0
        self._sums: list[float] = []
        self._statistics: np.ndarray | None = None
        self._kept: list[CaptionSample] = []
        self._scores: list[np.ndarray] = []

    def add(self, samples: Sequence[CaptionSample], scores: np.ndarray) -> None:
        """Add scored samples; ``scores`` is float64 [len(samples)] without NaN."""
        if not samples:
            return
        self.count += len(samples)
        self._sums = [math.fsum([*self._sums, *scores.tolist()])]
        if not self.own:
            return
        if isinstance(self.metric, SummableCorpus):
            statistics = self.metric.corpus_statistics(samples)
            self._statistics = statistics if self._statistics is None else self._statistics + statistics
            return
        self._kept += [
            CaptionSample(sample.candidate, sample.references, language=sample.language) for sample in samples
        ]
        self._scores.append(scores)

    @property
    def mean(self) -> float | None:
        """The mean of the scores, None if there are none."""
        return self._sums[0] / self.count if self.count else None

    def value(self) -> float | None:
        """Return the corpus score, None if nothing was scored."""
        if not self.count or not self.own:
            return self.mean
        if self._statistics is not None and isinstance(self.metric, SummableCorpus):
            return self.metric.corpus_from_statistics(self._statistics)
        return self.metric.corpus_score(self._kept, np.concatenate(self._scores))

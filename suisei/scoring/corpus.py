"""Corpus scores from what adds up: of a stream window by window, and of resamples of a corpus."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError
from suisei.metrics.base import Metric, SummableCorpus, averages
from suisei.metrics.share import ShareMetric


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
        self.own = not averages(metric)
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
            statistics = self.metric.sample_statistics(samples).sum(axis=0)
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
            return float(self.metric.corpus_from_statistics(self._statistics[None])[0])
        return self.metric.corpus_score(self._kept, np.concatenate(self._scores))


@dataclass(frozen=True, slots=True)
class Summands:
    """What adds up to a metric's corpus score, sample by sample.

    Attributes:
        rows: float64 [N, K]; NaN where the sample has no score.
        score: the corpus scores of sums of rows, [B, K] to float64 [B].
        quotient: whether that is the first of two sums over the second, as of means and shares.
    """

    rows: np.ndarray
    score: Callable[[np.ndarray], np.ndarray]
    quotient: bool = False

    def with_score(self, score: float, where: np.ndarray) -> Summands:
        """Return them with samples, bool [N], that have another score, and in a share count as one thing.

        Counts that no score can be put in place of, such as BLEU's, stay as they are.
        """
        if not self.quotient:
            return self
        return replace(self, rows=np.where(where[:, None], [score, 1.0], self.rows))


def summands(metric: Metric, samples: Sequence[CaptionSample], scores: np.ndarray) -> Summands:
    """Return what adds up to the corpus score: the metric's counts, or score and 1 where it is the mean.

    Args:
        metric: the metric, fitted where it must be.
        samples: N samples.
        scores: float64 [N], as the metric gave them, NaN where there is none.

    Raises:
        ConfigError: the metric has a corpus score of its own that does not come from sums.
    """
    if not isinstance(metric, SummableCorpus):
        if not averages(metric):
            raise ConfigError(f"{metric.name}: its corpus score does not come from sums over samples")
        return Summands(np.stack([scores, np.where(np.isnan(scores), np.nan, 1.0)], axis=1), _mean, True)
    there = np.flatnonzero(~np.isnan(scores))
    counts = (
        metric.sample_statistics([samples[position] for position in there.tolist()]) if len(there) else None
    )
    rows = np.full((len(samples), 1 if counts is None else counts.shape[1]), np.nan)
    if counts is not None:
        rows[there] = counts
    return Summands(rows, metric.corpus_from_statistics, isinstance(metric, ShareMetric))


def _mean(totals: np.ndarray) -> np.ndarray:
    quotients: np.ndarray = totals[:, 0] / totals[:, 1]
    return quotients

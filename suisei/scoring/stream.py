"""The streaming core of ``suisei score``: a window of rows at a time, scored with every metric."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from suisei.data.formats import Row
from suisei.data.sample import CaptionSample
from suisei.errors import DataError, one_line
from suisei.metrics.base import Metric
from suisei.scoring.columns import FAILURES, failure_text
from suisei.scoring.corpus import CorpusScore
from suisei.scoring.digest import row_digest

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class ScoredRow:
    """What becomes of one input row.

    Attributes:
        number: the row's number, from 1.
        id: the row's own id, or its number where it has none.
        scores: {label: score}; NaN where there is none.
        errors: {label: why that metric gave no score}.
        bad: what is wrong with the whole row.
        stop: the error with which a run that accepts no bad row ends here.
        digest: of what the row was scored from.
    """

    number: int
    id: str | int
    scores: dict[str, float]
    errors: dict[str, str] = field(default_factory=dict)
    bad: str | None = None
    stop: DataError | None = None
    digest: str = ""

    @property
    def error(self) -> str | None:
        """All that is wrong with the row, in one line."""
        if self.bad is not None:
            return self.bad
        reasons = dict.fromkeys(self.errors.values())
        named = [
            f"{', '.join(label for label, text in self.errors.items() if text == reason)}: {reason}"
            for reason in reasons
        ]
        return "; ".join(named) or None


@dataclass(slots=True)
class Job:
    """A window of rows on its way through a run.

    Attributes:
        window: the rows.
        known: what an earlier run made of the first of them.
        new: the rows after those, to be scored.
        stop: the error with which the run ends after this window.
    """

    window: list[Row]
    known: list[ScoredRow]
    new: list[Row]
    stop: DataError | None = None


def windows(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    """Yield rows in lists of ``size``; rows that came before a broken file's error still come out.

    Raises:
        DataError: what ``rows`` raised, after the last window.
    """
    window: list[Row] = []
    problem = None
    try:
        for row in rows:
            window.append(row)
            if len(window) == size:
                yield window
                window = []
    except DataError as error:
        problem = error
    if window:
        yield window
    if problem is not None:
        raise problem


class Scorer:
    """Scores windows of rows with several metrics, none of which can take the others down.

    A sample that a metric refuses (an image that cannot be decoded) gets no score from that metric.
    A metric that dies gets no further call; its error stands in the rows that it left unscored.

    Args:
        metrics: {label: metric}, fitted where they must be.
        name: of the input, for messages.
        batch_size: handed to the metrics.
    """

    def __init__(self, metrics: Mapping[str, Metric], name: str, batch_size: int = 64) -> None:
        self.metrics = dict(metrics)
        self.name = name
        self.batch_size = batch_size
        self.failed: dict[str, str] = {}
        self.corpora = {label: CorpusScore(metric) for label, metric in self.metrics.items()}

    def score(self, rows: Sequence[Row]) -> list[ScoredRow]:
        """Return one scored row per row, in order."""
        scored = [self._blank(row) for row in rows]
        good = [(row.sample, result) for row, result in zip(rows, scored, strict=True) if row.sample]
        samples = [sample for sample, _ in good]
        results = [result for _, result in good]
        for label in self.metrics:
            self._score_column(label, samples, results)
        return scored

    def score_all(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, list[ScoredRow]]]:
        """Yield each job with the scored rows of its new rows, in order."""
        for job in jobs:
            yield job, self.score(job.new)

    def add_to_corpora(self, rows: Sequence[Row], scored: Sequence[ScoredRow]) -> None:
        """Count scored rows in the mean and the corpus score of every metric."""
        for label, corpus in self.corpora.items():
            pairs = [
                (row.sample, result.scores[label])
                for row, result in zip(rows, scored, strict=True)
                if row.sample is not None and not math.isnan(result.scores[label])
            ]
            corpus.add([sample for sample, _ in pairs], np.array([score for _, score in pairs]))

    def _blank(self, row: Row) -> ScoredRow:
        nothing = dict.fromkeys(self.metrics, math.nan)
        result = ScoredRow(row.number, row.id or row.number, nothing, digest=row_digest(row))
        if row.error is not None:
            result.bad, result.stop = one_line(row.error, None), row.error
        return result

    def _score_column(
        self, label: str, samples: Sequence[CaptionSample], results: Sequence[ScoredRow]
    ) -> None:
        if label not in self.failed:
            try:
                scores, refused = self.metrics[label].score_each(samples, batch_size=self.batch_size)
            except FAILURES as error:
                _LOG.debug("metric %s failed", label, exc_info=True)
                self.failed[label] = failure_text(error)
        if label in self.failed:
            for result in results:
                result.errors[label] = self.failed[label]
            return
        missing = self.metrics[label].missing(samples)
        for position, (result, score) in enumerate(zip(results, scores.tolist(), strict=True)):
            problem = refused.get(position)
            if problem is not None:
                result.errors[label] = one_line(problem, None)
                result.stop = result.stop or DataError(f"{self.name}, row {result.number}: {problem}")
            elif math.isfinite(score):
                result.scores[label] = score
            else:
                result.errors[label] = missing.get(position, "no score")

"""What a protocol of a data set is, and the first: correlation with ratings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError
from suisei.metaeval.agreement import AgreementData
from suisei.metaeval.correlation import CorrelationError
from suisei.metaeval.correlation_tables import add_failed, add_ranks, evaluation_table
from suisei.metaeval.metric_pairs import Comparison, compare_metrics
from suisei.metaeval.published import published_table
from suisei.metaeval.resampling import bootstrap_values, group_weights
from suisei.metaeval.settings import EvaluationSettings
from suisei.metaeval.tables import Table
from suisei.scoring.columns import ScoreColumn, oriented_scores
from suisei.scoring.plan import MetricPlan

Score = Callable[[MetricPlan, Sequence[CaptionSample], int], ScoreColumn]
"""Scores a metric on samples that have so many references each."""
Progress = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]
"""Shows what is done: called with a description, gives what is called with (done, total)."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What metrics are measured by.

    Attributes:
        data: the benchmark's name, or the file.
        samples: N samples, all rated where the protocol needs ratings.
        columns: the metrics' scores of them.
        external: those of the columns that were read from files.
        further: more columns that the protocol asked for, by number of references.
        compare: whether every pair of metrics is tested.
    """

    data: str
    samples: Sequence[CaptionSample]
    columns: Sequence[ScoreColumn]
    external: Sequence[ScoreColumn] = ()
    further: Mapping[int | None, Sequence[ScoreColumn]] = field(default_factory=dict)
    compare: bool = False

    @property
    def backbones(self) -> dict[str, str | None]:
        """{metric: what encodes its images, where that is known}."""
        return {column.label: column.backbone for column in self.columns}


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of it.

    Attributes:
        table: the main table.
        others: further tables, by their name in the JSON.
        comparison: the metrics compared pair by pair, where that was asked for.
    """

    table: Table
    others: dict[str, Table]
    comparison: Comparison | None = None


class Protocol:
    """Correlation with ratings, as in files of ratings and most benchmarks.

    Attributes:
        needs_ratings: whether samples without rating are left out.
    """

    needs_ratings: bool = True

    def check(self, data: str, settings: EvaluationSettings, *, compare: bool) -> None:
        """Refuse settings that the protocol has no use for, before hours of scoring.

        Raises:
            ConfigError: such a setting is given.
        """

    def plotted(self, settings: EvaluationSettings) -> str:
        """Return the column of the main table that a plot shows."""
        return settings.correlation

    def further_columns(
        self,
        plans: Sequence[MetricPlan],
        columns: Sequence[ScoreColumn],
        samples: Sequence[CaptionSample],
        score: Score,
    ) -> tuple[Mapping[int | None, Sequence[ScoreColumn]], list[str]]:
        """Score what the protocol needs beside every metric's scores of the samples; returns it and notes."""
        return {}, []

    def measure(self, evaluation: Evaluation, settings: EvaluationSettings, progress: Progress) -> Measured:
        """Return the figures of an evaluation.

        Args:
            evaluation: scores and samples.
            settings: how they are correlated and resampled.
            progress: reports long work.
        """
        columns, samples = evaluation.columns, evaluation.samples
        scored = oriented_scores(columns)
        with progress("correlations") as report:
            table = evaluation_table(
                scored,
                samples,
                settings,
                signatures={column.label: column.signature or "" for column in columns},
                title=f"Agreement with human ratings: {Path(evaluation.data).name}",
                progress=report,
            )
        others: dict[str, Table] = {}
        comparison = None
        if settings.published:
            published = published_table(
                evaluation.data, scored, samples, settings.raters, evaluation.backbones
            )
            others |= {} if published is None else {"published": published}
        if evaluation.compare:
            with progress("paired tests") as report:
                comparison = compare_metrics(scored, samples, settings, progress=report)
            table = add_ranks(table, comparison.ranks, settings.correlation)
            others["comparison"] = comparison.table
        errors = {column.label: column.error for column in columns if column.error}
        return Measured(add_failed(table, errors, [column.label for column in columns]), others, comparison)

    def resampled_difference(
        self, a: np.ndarray, b: np.ndarray, samples: Sequence[CaptionSample], settings: EvaluationSettings
    ) -> np.ndarray | None:
        """Return how much better a metric is than another by the plotted figure, on resamples of groups.

        Args:
            a: scores of N captions, higher is better, NaN where missing.
            b: those of the other metric; captions without score of both are left out.
            samples: the captions.
            settings: the coefficient, resamples and seed.

        Returns:
            float64 [resamples], NaN where a resample has no figure; None where there is nothing to resample.
        """
        both = ~np.isnan(a + b)
        try:
            datas = [AgreementData.from_samples(each, samples).subset(both) for each in (a, b)]
            rows = [data.correlated(settings.averaging).rows(settings.raters) for data in datas]
            weights = group_weights(len(rows[0].group_names), settings.n_resamples, settings.seed)
            drawn = [
                bootstrap_values(each, settings.correlation, settings.averaging, weights) for each in rows
            ]
        except (CorrelationError, ConfigError):
            return None
        return drawn[0] - drawn[1]

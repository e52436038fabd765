"""How metrics are measured on a data set: by correlation with ratings, or as its authors do.

A benchmark names its protocol (:attr:`suisei.data.benchmarks.benchmark.Benchmark.protocol`); files of ratings
have the first. A new one is a subclass of :class:`Protocol` and an entry of PROTOCOLS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from suisei.data.benchmarks import BENCHMARKS
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError
from suisei.metaeval.correlation_tables import add_failed, add_ranks, evaluation_table
from suisei.metaeval.metric_pairs import Comparison, compare_metrics
from suisei.metaeval.published import published_table
from suisei.metaeval.settings import EvaluationSettings
from suisei.metaeval.tables import Table
from suisei.metaeval.video_protocols import columns_by_references, foil_table, vatex_table
from suisei.scoring.columns import ScoreColumn
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
        samples: N samples, all rated.
        columns: the metrics' scores of them.
        external: those of the columns that were read from files.
        further: more columns that the protocol asked for, by number of references.
    """

    data: str
    samples: Sequence[CaptionSample]
    columns: Sequence[ScoreColumn]
    external: Sequence[ScoreColumn] = ()
    further: Mapping[int | None, Sequence[ScoreColumn]] = field(default_factory=dict)


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
    """Correlation with ratings, as in files of ratings and most benchmarks."""

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

    def measure(
        self, evaluation: Evaluation, settings: EvaluationSettings, progress: Progress, *, compare: bool
    ) -> Measured:
        """Return the figures of an evaluation.

        Args:
            evaluation: scores and samples.
            settings: how they are correlated and resampled.
            progress: reports long work.
            compare: whether every pair of metrics is tested.
        """
        columns, samples = evaluation.columns, evaluation.samples
        scored = {column.label: column.oriented for column in columns if column.scores is not None}
        with progress("correlations") as report:
            table = evaluation_table(
                scored,
                samples,
                settings,
                signatures={column.label: column.signature or "" for column in columns},
                title=f"Agreement with human ratings: {evaluation.data}",
                progress=report,
            )
        others, comparison = {}, None
        published = published_table(evaluation.data, scored, samples) if settings.published else None
        if published:
            others["published"] = published
        if compare:
            with progress("paired tests") as report:
                comparison = compare_metrics(scored, samples, settings, progress=report)
            table = add_ranks(table, comparison.ranks, settings.correlation)
            others["comparison"] = comparison.table
        errors = {column.label: column.error for column in columns if column.error}
        return Measured(add_failed(table, errors, [column.label for column in columns]), others, comparison)


class VatexProtocol(Protocol):
    """Correlation, and tau-b and Spearman's rho with each annotator at 0, 1 and 9 references."""

    def further_columns(
        self,
        plans: Sequence[MetricPlan],
        columns: Sequence[ScoreColumn],
        samples: Sequence[CaptionSample],
        score: Score,
    ) -> tuple[Mapping[int | None, Sequence[ScoreColumn]], list[str]]:
        """Score every metric with fewer references."""
        return columns_by_references(plans, columns, samples, score)

    def measure(
        self, evaluation: Evaluation, settings: EvaluationSettings, progress: Progress, *, compare: bool
    ) -> Measured:
        """Add the table of the protocol to that of ratings."""
        measured = super().measure(evaluation, settings, progress, compare=compare)
        columns = {**evaluation.further, None: evaluation.external}
        measured.others["protocol"] = vatex_table(columns, evaluation.samples, settings)
        return measured


class ParagraphProtocol(Protocol):
    """Accuracy over pairs of a right paragraph and its foil: there are no ratings to correlate with."""

    def check(self, data: str, settings: EvaluationSettings, *, compare: bool) -> None:
        """Refuse options that say how to correlate with ratings."""
        given = {
            "--compare": compare,
            "--averaging": settings.averaging != "pooled",
            "--raters": settings.raters != "rows",
        }
        wrong = [name for name, is_given in given.items() if is_given]
        if wrong:
            raise ConfigError(
                f"{data} has pairs and no ratings to correlate with; leave out {', '.join(wrong)}"
            )

    def plotted(self, settings: EvaluationSettings) -> str:
        """Return the accuracy's column."""
        return "accuracy"

    def measure(
        self, evaluation: Evaluation, settings: EvaluationSettings, progress: Progress, *, compare: bool
    ) -> Measured:
        """Return how often each metric prefers the right paragraph."""
        return Measured(foil_table(evaluation.columns, evaluation.samples, settings), {})


PROTOCOLS: dict[str, Protocol] = {
    "ratings": Protocol(),
    "vatex-eval": VatexProtocol(),
    "paragraph-pairs": ParagraphProtocol(),
}


def protocol_of(data: str) -> Protocol:
    """Return the protocol of a benchmark by its name; a file of ratings has that of ratings."""
    return PROTOCOLS[BENCHMARKS[data].protocol if data in BENCHMARKS else "ratings"]

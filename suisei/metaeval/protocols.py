"""How metrics are measured on a data set: by correlation with ratings, or as its authors do.

A benchmark names its protocol (:attr:`suisei.data.benchmarks.benchmark.Benchmark.protocol`); files of ratings
have the first. A new one is a subclass of :class:`~suisei.metaeval.protocol.Protocol`
and an entry of PROTOCOLS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np

from suisei.data.benchmarks import BENCHMARKS
from suisei.data.benchmarks.vatex import limit_references
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError
from suisei.metaeval import detection, pair_tables
from suisei.metaeval.detection import AVERAGE_PRECISION, detection_table
from suisei.metaeval.pair_tables import MEAN, pair_table
from suisei.metaeval.protocol import Evaluation, Measured, Progress, Protocol, Score
from suisei.metaeval.published import beside_published
from suisei.metaeval.published_figures import ONE_REFERENCE
from suisei.metaeval.scale_tables import reference_pair_table, scale_table
from suisei.metaeval.settings import EvaluationSettings
from suisei.metaeval.tables import Cell, Row, Section, Table
from suisei.metaeval.video_protocols import columns_by_references, foil_table, vatex_table
from suisei.metrics.registry import get_entry
from suisei.scoring.columns import ScoreColumn, oriented_scores
from suisei.scoring.plan import MetricPlan


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

    def measure(self, evaluation: Evaluation, settings: EvaluationSettings, progress: Progress) -> Measured:
        """Add the table of the protocol to that of ratings."""
        measured = super().measure(evaluation, settings, progress)
        columns = {**evaluation.further, None: evaluation.external}
        measured.others["protocol"] = vatex_table(columns, evaluation.samples, settings)
        return measured


class ScaleProtocol(Protocol):
    """Correlation with the mean or total rating, and with the ratings of each scale on each part."""

    def measure(self, evaluation: Evaluation, settings: EvaluationSettings, progress: Progress) -> Measured:
        """Add the table by scale to that of ratings."""
        measured = super().measure(evaluation, settings, progress)
        scored = oriented_scores(evaluation.columns)
        title = f"Agreement by scale: {Path(evaluation.data).name}"
        with progress("correlations by scale"):
            measured.others["scales"] = scale_table(scored, evaluation.samples, settings, title=title)
        return measured


class ReferencePairProtocol(Protocol):
    """Correlation with all references, and with each ordered pair of the three."""

    references = 3

    def further_columns(
        self,
        plans: Sequence[MetricPlan],
        columns: Sequence[ScoreColumn],
        samples: Sequence[CaptionSample],
        score: Score,
    ) -> tuple[Mapping[int | None, Sequence[ScoreColumn]], list[str]]:
        """Score every metric with every ordered pair of references."""
        least = min(len(sample.references) for sample in samples)
        if least < self.references:
            return {}, [f"no figures by pairs of references: a sample has {least}, not {self.references}"]
        found: dict[int | None, Sequence[ScoreColumn]] = {}
        for number, pair in enumerate(permutations(range(self.references), 2)):
            chosen = [replace(s, references=tuple(s.references[i] for i in pair)) for s in samples]
            found[number] = [score(plan, chosen, 2) for plan in plans]
        return found, []

    def measure(self, evaluation: Evaluation, settings: EvaluationSettings, progress: Progress) -> Measured:
        """Add the table by pairs of references to that of ratings."""
        measured = super().measure(evaluation, settings, progress)
        if evaluation.further:
            title = f"By pairs of references: {Path(evaluation.data).name}"
            measured.others["reference_pairs"] = reference_pair_table(
                evaluation.further, evaluation.samples, settings, title=title
            )
        return measured


class NoRatingsProtocol(Protocol):
    """What the protocols share that compare or find captions instead of correlating with ratings."""

    needs_ratings = False
    column: str
    what: str

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
                f"{data} has {self.what} and no ratings to correlate with; leave out {', '.join(wrong)}"
            )

    def plotted(self, settings: EvaluationSettings) -> str:
        """Return the protocol's own column."""
        return self.column

    def resampled_difference(
        self, a: np.ndarray, b: np.ndarray, samples: Sequence[CaptionSample], settings: EvaluationSettings
    ) -> np.ndarray | None:
        """Return None, so that no metric is called the best, unless the protocol says how to resample it."""
        return None


class ParagraphProtocol(NoRatingsProtocol):
    """Accuracy over pairs of a right paragraph and its foil, over sentences: never resampled."""

    column, what = "accuracy", "pairs"

    def measure(self, evaluation: Evaluation, settings: EvaluationSettings, progress: Progress) -> Measured:
        """Return how often each metric prefers the right paragraph."""
        return Measured(foil_table(evaluation.columns, evaluation.samples, settings), {})


class PairProtocol(NoRatingsProtocol):
    """Accuracy over pairs of captions, per kind of pair.

    Args:
        detection: whether the captions that lose are also to be found by their low scores.
    """

    column, what = MEAN, "pairs"

    def __init__(self, *, detection: bool = False) -> None:
        self._detection = self.needs_ratings = detection  # a rating says which captions are to be found

    def measure(self, evaluation: Evaluation, settings: EvaluationSettings, progress: Progress) -> Measured:
        """Return how often each metric prefers the caption that people prefer."""
        title = f"Agreement with human preferences: {Path(evaluation.data).name}"
        with progress("pairs"):
            table = pair_table(evaluation.columns, evaluation.samples, settings, title=title)
        others = _published(evaluation, table, settings)
        if self._detection:
            with progress("average precision"):
                others["detection"] = detection_table(
                    evaluation.columns,
                    evaluation.samples,
                    settings,
                    title=f"Finding hallucinated captions: {Path(evaluation.data).name}",
                )
        return Measured(table, others)

    def resampled_difference(
        self, a: np.ndarray, b: np.ndarray, samples: Sequence[CaptionSample], settings: EvaluationSettings
    ) -> np.ndarray | None:
        """Return the difference of the accuracies, mean of kinds."""
        return pair_tables.resampled_difference(a, b, samples, settings)


class FoilProtocol(PairProtocol):
    """Accuracy over pairs of captions with one reference and with four."""

    def further_columns(
        self,
        plans: Sequence[MetricPlan],
        columns: Sequence[ScoreColumn],
        samples: Sequence[CaptionSample],
        score: Score,
    ) -> tuple[Mapping[int | None, Sequence[ScoreColumn]], list[str]]:
        """Score every metric that may read references with the first one alone."""
        if not all(sample.references for sample in samples):
            return {}, ["no figures with 1 reference: samples have none (the captions of COCO are absent)"]
        fewer = limit_references(samples, 1)
        found = []
        for plan, column in zip(plans, columns, strict=True):
            needs = set(get_entry(plan.spec.partition(":")[0]).needs)
            blind = bool(needs) and "references" not in needs
            found.append(column if blind or column.scores is None else score(plan, fewer, 1))
        return {1: found}, []

    def measure(self, evaluation: Evaluation, settings: EvaluationSettings, progress: Progress) -> Measured:
        """Return the accuracies with four references and with one, side by side."""
        title = f"Agreement with human preferences: {Path(evaluation.data).name}"
        with progress("pairs"):
            four = pair_table(evaluation.columns, evaluation.samples, settings, title=title)
            one = pair_table(evaluation.further.get(1, ()), evaluation.samples, settings)
        alone = {row.label: _alone(row) for row in one.overall.rows}
        rows = [
            replace(row, cells={**row.cells, ONE_REFERENCE: alone[row.label]})
            if row.error is None and row.label in alone
            else row
            for row in four.overall.rows
        ]
        heads = {ONE_REFERENCE: "1 reference", **four.columns, MEAN: "4 references"}
        table = replace(four, columns=heads, sections=(Section("overall", tuple(rows)),))
        return Measured(table, _published(evaluation, table, settings))


def _published(evaluation: Evaluation, table: Table, settings: EvaluationSettings) -> dict[str, Table]:
    """Return the table beside published figures, under its name, where it is wanted."""
    if not settings.published:
        return {}
    return beside_published(evaluation.data, table, evaluation.backbones)


def _alone(row: Row) -> Cell:
    """Return the accuracy with one reference, or why there is none."""
    if row.error:
        return Cell(None, reason=f"with one reference: {row.error}")
    return row.cells[MEAN]


class DetectionProtocol(NoRatingsProtocol):
    """Average precision of finding bad captions, which their ratings tell, by their low scores."""

    needs_ratings = True
    column, what = AVERAGE_PRECISION, "good and bad captions"

    def measure(self, evaluation: Evaluation, settings: EvaluationSettings, progress: Progress) -> Measured:
        """Return how well each metric's low scores find the bad captions."""
        title = f"Finding hallucinated captions: {Path(evaluation.data).name}"
        with progress("average precision"):
            return Measured(
                detection_table(evaluation.columns, evaluation.samples, settings, title=title), {}
            )

    def resampled_difference(
        self, a: np.ndarray, b: np.ndarray, samples: Sequence[CaptionSample], settings: EvaluationSettings
    ) -> np.ndarray | None:
        """Return the difference of the average precisions."""
        return detection.resampled_difference(a, b, samples, settings)


PROTOCOLS: dict[str, Protocol] = {
    "ratings": Protocol(),
    "scales": ScaleProtocol(),
    "reference-pairs": ReferencePairProtocol(),
    "vatex-eval": VatexProtocol(),
    "pairs": PairProtocol(),
    "pairs-and-detection": PairProtocol(detection=True),
    "foil": FoilProtocol(),
    "detection": DetectionProtocol(),
    "paragraph-pairs": ParagraphProtocol(),
}


def protocol_of(data: str) -> Protocol:
    """Return the protocol of a benchmark by its name; a file of ratings has that of ratings."""
    return PROTOCOLS[BENCHMARKS[data].protocol if data in BENCHMARKS else "ratings"]


def measured_places(data: str, samples: Sequence[CaptionSample]) -> list[int]:
    """Return which samples are measured: the rated ones, or all where the protocol needs no ratings."""
    every = not protocol_of(data).needs_ratings
    return [place for place, sample in enumerate(samples) if every or sample.rating is not None]


def usual_settings(data: str, settings: EvaluationSettings | None = None) -> EvaluationSettings:
    """Return settings with what a benchmark's papers do with raters, and the coefficient they compare by.

    Args:
        data: the benchmark's name; a file of ratings has the defaults.
        settings: the others.
    """
    settings = settings or EvaluationSettings()
    if data not in BENCHMARKS:
        return settings
    return replace(settings, raters=BENCHMARKS[data].raters, correlation=BENCHMARKS[data].correlation)

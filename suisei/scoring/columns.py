"""Scoring one evaluation set with many metrics, so that one that fails does not lose the others."""

from __future__ import annotations

import logging
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from suisei.cli import counted
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, DataError, SuiseiError, one_line
from suisei.metrics.base import LearnsFromCaptions, Metric
from suisei.metrics.registry import get_metric
from suisei.scoring.corpus import Summands, summands
from suisei.scoring.fitting import Corpus, fit_metric
from suisei.scoring.plan import MetricPlan

_LOG = logging.getLogger(__name__)

SHOWN_PROBLEMS = 5
"""How many problems of single samples a note shows; the JSON has all."""
NEGATED = "|negated-for-correlation"
"""Ends the signature of a distance, whose figures are those of its scores with their sign turned."""

# What a metric may die of: its input, its files, its memory, Java, a server, its own defects. An
# interrupt is not among them.
FAILURES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    subprocess.SubprocessError,
)


Scores = tuple[np.ndarray, dict[int, DataError]]
"""float64 [N], and {position: why the sample was refused}."""


KnownScores = tuple[np.ndarray, dict[int, DataError], dict[int, str]]
"""The same, and {position: why there is no score} of what the metric found as it scored, perhaps earlier."""


class KeptError(DataError):
    """Scores cannot be kept: that ends the run, not the metric alone."""


class KeepsScores(Protocol):
    """Keeps the scores of metrics as they come, see :class:`suisei.scoring.kept_scores.KeptScores`."""

    def score(
        self,
        metric: Metric,
        label: str,
        signature: str,
        samples: Sequence[CaptionSample],
        *,
        batch_size: int,
        progress: bool,
    ) -> KnownScores:
        """Score samples, as far as they are not kept already."""


@dataclass(frozen=True, slots=True)
class ScoreColumn:
    """One metric's scores of an evaluation set, or why there are none.

    Attributes:
        label: the metric as the user wrote it.
        scores: float64 [N] as the metric gave them; NaN where a sample lacks what it needs; None if
            the metric failed.
        signature: the metric's signature.
        error: why it failed.
        missing: {reason: number of samples without score}.
        refused: {position: why the sample has no score}, such as a video that cannot be decoded.
        notes: what else must be known of the scores, such as where idf weights come from.
        higher_is_better: False for distances.
        largest: of a distance the largest that there is; None for no limit.
        summands: what adds up to the corpus score, where that was asked for.
        backbone: :attr:`suisei.metrics.base.Metric.backbone`; None where it is not known either.
    """

    label: str
    scores: np.ndarray | None
    signature: str | None = None
    error: str | None = None
    missing: dict[str, int] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    higher_is_better: bool = True
    largest: float | None = None
    summands: Summands | None = None
    backbone: str | None = None

    @property
    def oriented(self) -> np.ndarray:
        """The scores, negated for a distance, so that higher is better."""
        if self.scores is None:
            raise ValueError(f"{self.label} has no scores: {self.error}")
        return self.scores if self.higher_is_better else -self.scores

    @property
    def problems(self) -> list[str]:
        """What was refused and why, each problem once: a broken video has many captions."""
        return list(dict.fromkeys(self.refused.values()))


def failure_text(error: BaseException) -> str:
    """Say in one line why a metric failed."""
    text, kind = one_line(error, 500), type(error).__name__
    return text if isinstance(error, SuiseiError) or text == kind else f"{kind}: {text}"


@contextmanager
def named_failures(name: str) -> Iterator[None]:
    """Make an error of one line, with the metric's name, of what a metric may die of.

    Raises:
        DataError: it died of something else than a :class:`SuiseiError`, which passes.
    """
    try:
        yield
    except SuiseiError:
        raise
    except FAILURES as error:
        raise DataError(f"{name} failed: {failure_text(error)}") from error


def make_metric(plan: MetricPlan) -> Metric:
    """Make a metric with its options.

    Raises:
        SuiseiError: as :func:`suisei.metrics.registry.get_metric`.
        ConfigError: making it failed otherwise, most often at an option's value of a wrong type.
    """
    try:
        return get_metric(plan.spec, **plan.options)
    except SuiseiError:
        raise
    except FAILURES as error:
        chosen = ", ".join(f"{key}={value}" for key, value in plan.options.items()) or "no options"
        raise ConfigError(f"{plan.spec} cannot be made with {chosen}: {failure_text(error)}") from error


def score_column(
    plan: MetricPlan,
    samples: Sequence[CaptionSample],
    *,
    batch_size: int = 64,
    progress: bool = False,
    corpus: Corpus | None = None,
    idf_folder: Path | None = None,
    shared: Sequence[CaptionSample] | None = None,
    keep: KeepsScores | None = None,
) -> ScoreColumn:
    """Make a metric, fit it where it must be fitted, and score samples; a failure becomes the column's error.

    A metric with corpus statistics is fitted on the references of ``samples``, as is customary for
    CIDEr; its signature says so. One that learns from captions alone, as EMScore does, is fitted on
    ``corpus`` where there is one. A sample that the metric refuses costs its own score and no other.

    Args:
        plan: the metric.
        samples: N samples.
        batch_size: handed to the metric.
        progress: handed to the metric.
        corpus: the captions that the benchmark's protocol takes idf weights from.
        idf_folder: where idf weights learned from captions are saved, a file per metric.
        shared: with samples of several systems, one per image, which the metric is fitted on instead; the
            column then has its summands too.
        keep: where scores are kept as they come, and read from if they are there.

    Raises:
        KeptError: scores cannot be kept.
    """
    try:
        metric = get_metric(plan.spec, **plan.options)
        learned_from = samples if shared is None else shared
        fitted, notes = fit_metric(metric, plan.spec, learned_from, corpus) if metric.needs_fit else ("", ())
        if idf_folder is not None and isinstance(metric, LearnsFromCaptions) and metric.state():
            idf_folder.mkdir(parents=True, exist_ok=True)
            metric.save_idf(idf_folder / f"{re.sub(r'[^0-9A-Za-z.+-]+', '_', plan.label)}.json")
        signature = metric.signature + fitted
        scores, refused, found = (
            (*metric.score_each(samples, batch_size=batch_size, progress=progress), {})
            if keep is None
            else keep.score(metric, plan.label, signature, samples, batch_size=batch_size, progress=progress)
        )
        if not metric.higher_is_better and shared is None:
            signature += NEGATED
        scores, missing = _accounted(scores, refused, found | metric.missing(samples))
        parts = summands(metric, samples, scores) if shared is not None else None
        backbone = metric.backbone
    except KeptError:
        raise
    except FAILURES as error:
        _LOG.debug("metric %s failed", plan.spec, exc_info=True)
        return ScoreColumn(plan.label, None, error=failure_text(error))
    return ScoreColumn(
        plan.label,
        scores,
        signature,
        missing=dict(missing),
        refused={position: one_line(error, None) for position, error in refused.items()},
        notes=notes,
        higher_is_better=metric.higher_is_better,
        largest=metric.largest,
        summands=parts,
        backbone=backbone,
    )


def _accounted(
    scores: np.ndarray, refused: Mapping[int, DataError], missing: Mapping[int, str]
) -> tuple[np.ndarray, Counter[str]]:
    """Return scores [N] without infinities, which no figure can be made of, and why samples have none."""
    reasons = {n: why for n, why in missing.items() if n not in refused}
    scores = np.where(np.isfinite(scores), scores, np.nan)
    for position in np.flatnonzero(np.isnan(scores)).tolist():
        if position not in refused:
            reasons.setdefault(position, "no score")
    return scores, Counter(reasons.values())


def column_notes(columns: Sequence[ScoreColumn]) -> list[str]:
    """Say of which samples the columns have no score and why, and what else must be known of them."""
    notes: list[str] = []
    for column in columns:
        notes += column.notes
        notes += [
            f"{column.label}: {counted(count, 'sample')} without score ({reason}), left out of its row"
            for reason, count in column.missing.items()
        ]
        if column.refused and column.scores is not None:
            notes.append(
                f"{column.label}: {len(column.refused)} of {len(column.scores)} samples without score, left "
                f"out of its row: {shown_problems(column.problems, ', all in the JSON')}"
            )
    return notes


def oriented_scores(columns: Sequence[ScoreColumn]) -> dict[str, np.ndarray]:
    """Return {metric: its scores, float64 [N], higher is better}; metrics that failed are left out."""
    return {column.label: column.oriented for column in columns if column.scores is not None}


def distances(columns: Sequence[ScoreColumn]) -> list[str]:
    """Return the metrics with scores that are lower for the better."""
    return [column.label for column in columns if not column.higher_is_better and column.scores is not None]


def sign_notes(columns: Sequence[ScoreColumn]) -> list[str]:
    """Say which metrics are distances, whose figures are of their scores with their sign turned."""
    return turned_notes(distances(columns))


def turned_notes(names: Sequence[str]) -> list[str]:
    """Say which distances count with their sign turned; nothing where there are none."""
    return [f"{', '.join(names)}: lower is better, so scores count with their sign turned"] if names else []


def shown_problems(problems: Sequence[str], rest_in: str = "") -> str:
    """Return the first problems, and how many more there are.

    >>> shown_problems(["a", "b", "c", "d", "e", "f"], ", all in the JSON")
    'a; b; c; d; e; and 1 more problem, all in the JSON'
    """
    rest = len(problems) - SHOWN_PROBLEMS
    others = [f"and {counted(rest, 'more problem')}{rest_in}"] if rest > 0 else []
    return "; ".join([*problems[:SHOWN_PROBLEMS], *others])


def refused_samples(columns: Sequence[ScoreColumn], samples: Sequence[CaptionSample]) -> dict[str, Any]:
    """Return {"refused": {metric: samples without score, and why}} for the JSON; empty without any."""
    refused = {
        column.label: [
            {"position": position, "id": samples[position].id, "error": error}
            for position, error in column.refused.items()
        ]
        for column in columns
        if column.refused
    }
    return {"refused": refused} if refused else {}

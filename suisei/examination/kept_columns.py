"""Scores of an examination: computed once per metric and benchmark, then kept."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.examination.kept import Kept
from suisei.metrics.registry import get_metric
from suisei.scoring.columns import FAILURES, ScoreColumn, failure_text, score_column
from suisei.scoring.digest import value_digest
from suisei.scoring.fitting import Corpus
from suisei.scoring.plan import MetricPlan


@dataclass(frozen=True, slots=True)
class Candidate:
    """A metric that is examined.

    Attributes:
        plan: the metric.
        state: digest of its settings and, for a model, its weights; empty where it cannot be made.
        problem: why it cannot.
    """

    plan: MetricPlan
    state: str
    problem: str = ""

    @property
    def label(self) -> str:
        """What reports call the metric: the user's name for it, else as the user wrote it."""
        return self.plan.label


def candidate_of(plan: MetricPlan) -> Candidate:
    """Make a metric once, to learn what decides its scores before it is fitted."""
    try:
        signature = get_metric(plan.spec, **plan.options).signature
    except FAILURES as error:
        return Candidate(plan, "", failure_text(error))
    return Candidate(plan, value_digest([plan.spec, repr(sorted(plan.options.items())), signature]))


def kept_column(
    kept: Kept,
    name: str,
    candidate: Candidate,
    samples: Sequence[CaptionSample],
    digest: str,
    corpus: Corpus | None = None,
    **settings: Any,
) -> ScoreColumn:
    """Return a metric's scores of samples, from an earlier start where nothing has changed since.

    Args:
        kept: where they are kept.
        name: of the samples, such as the benchmark's.
        candidate: the metric.
        samples: N samples.
        digest: of the samples.
        corpus: the captions that the benchmark's protocol takes idf weights from.
        settings: more of :func:`suisei.scoring.columns.score_column`.
    """
    if candidate.problem:
        return ScoreColumn(candidate.label, None, error=candidate.problem)

    def score() -> dict[str, Any]:
        return _values(score_column(candidate.plan, samples, corpus=corpus, **settings))

    def refused(value: dict[str, Any]) -> Iterator[tuple[CaptionSample, str]]:
        return ((samples[place], why) for place, why in value.get("refused", ()))

    decided = [candidate.state, digest, *([corpus.decides()] if corpus else [])]
    value = kept.get(f"{name}-{candidate.label}", value_digest(decided), score, refused)
    return _column(candidate.label, value)


def _values(column: ScoreColumn) -> dict[str, Any]:
    if column.scores is None:
        return {"error": column.error or "failed"}
    return {
        "scores": [None if math.isnan(score) else score for score in column.scores.tolist()],
        "signature": column.signature,
        "missing": column.missing,
        "refused": sorted(column.refused.items()),
        "notes": list(column.notes),
        "higher_is_better": column.higher_is_better,
        "largest": column.largest,
        "backbone": column.backbone,
    }


def _column(label: str, value: dict[str, Any]) -> ScoreColumn:
    if "error" in value:
        return ScoreColumn(label, None, error=str(value["error"]))
    return ScoreColumn(
        label,
        np.array([math.nan if score is None else score for score in value["scores"]], dtype=np.float64),
        value["signature"],
        missing=dict(value["missing"]),
        refused={int(place): str(why) for place, why in value["refused"]},
        notes=tuple(value["notes"]),
        higher_is_better=bool(value["higher_is_better"]),
        largest=value.get("largest"),
        backbone=value.get("backbone"),
    )

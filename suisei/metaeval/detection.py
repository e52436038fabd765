"""Finding bad captions: the average precision of ranking them below the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from suisei.cli import counted
from suisei.data.judged import PairCaption
from suisei.data.sample import CaptionSample, mean_ratings
from suisei.data.splits import group_of
from suisei.errors import DataError
from suisei.metaeval.correlation_tables import versions
from suisei.metaeval.resampling import group_weights, with_interval
from suisei.metaeval.settings import EvaluationSettings
from suisei.metaeval.tables import Cell, Row, Section, Table
from suisei.scoring.columns import ScoreColumn

AVERAGE_PRECISION = "average-precision"


def detection_table(
    columns: Sequence[ScoreColumn],
    samples: Sequence[CaptionSample],
    settings: EvaluationSettings | None = None,
    *,
    title: str = "Finding hallucinated captions",
) -> Table:
    """Return the average precision with which each metric's lowest scores find the bad captions.

    The protocol of HAT and nocaps-FOIL (Petryk et al., NAACL 2024). Captions without score are left out of
    their metric's row, and counted. Where the samples are captions of pairs, there is a section per kind.

    Args:
        columns: the metrics' scores of the samples.
        samples: N captions, rated with the best of their scale (good) or the worst (bad).
        settings: bootstrap resamples over groups (images), seed and confidence.
        title: of the table.

    Raises:
        DataError: a rating is neither the best nor the worst, or all are the same.
    """
    settings = settings or EvaluationSettings()
    bad = _labels(samples)
    groups = np.unique([group_of(sample) for sample in samples], return_inverse=True)[1]
    sections = []
    for name, mask in _scopes(samples):
        rows = [_row(column, bad[mask], groups[mask], mask, settings) for column in columns]
        sections.append(Section(name, tuple(rows)))
    chance = chance_precision(int(bad.sum()), len(bad))
    notes = [
        "average precision of finding the bad captions by their low scores (scikit-learn); a random order of "
        f"all captions gives {chance:.3f} on average, more than the share of bad ones, {bad.mean():.3f}: on "
        "few captions the figure is too high, and its interval with it"
    ]
    notes += settings.interval_notes("images")
    heads = {AVERAGE_PRECISION: "average precision", "bad": "bad", "n": "captions"}
    meta = {
        "settings": settings.resampling(),
        "versions": versions(),
        "samples": len(samples),
    }
    return Table(title, heads, tuple(sections), tuple(notes), meta)


def chance_precision(bad: int, count: int) -> float:
    """Return the mean average precision over all orders of ``count`` captions, ``bad`` >= 1 of them bad.

    A bad caption is at place k of N as often as at any other, and the k - 1 before it are bad at a rate of
    (bad - 1) / (N - 1): the mean over k of (1 + (k - 1)(bad - 1) / (N - 1)) / k, in (0, 1].
    """
    places = np.arange(1, count + 1)
    before = (places - 1) * (bad - 1) / max(count - 1, 1)
    return float(((1 + before) / places).mean())


def _labels(samples: Sequence[CaptionSample]) -> np.ndarray:
    means = mean_ratings(samples)
    wrong = np.flatnonzero((means != 0) & (means != 1))
    if len(wrong):
        raise DataError(
            f"sample {wrong[0]} ({samples[wrong[0]].id}) is rated neither the best nor the worst; to find "
            "bad captions, each must be good or bad"
        )
    bad = means == 0
    if bad.all() or not bad.any():
        raise DataError(
            f"{counted(len(samples), 'caption')}, all {'bad' if bad.all() else 'good'}; nothing to find"
        )
    return bad


def _scopes(samples: Sequence[CaptionSample]) -> list[tuple[str, np.ndarray]]:
    """Return (title, mask) of all samples, and of each kind of pair where there are several."""
    kinds: dict[str, np.ndarray] = {}
    for position, sample in enumerate(samples):
        for kind, _ in sample.preferred if isinstance(sample, PairCaption) else ():
            kinds.setdefault(kind, np.zeros(len(samples), dtype=bool))[position] = True
    everything = np.ones(len(samples), dtype=bool)
    return [("overall", everything), *(sorted(kinds.items()) if len(kinds) > 1 else ())]


def _row(
    column: ScoreColumn, bad: np.ndarray, groups: np.ndarray, mask: np.ndarray, settings: EvaluationSettings
) -> Row:
    if column.scores is None:
        return Row(column.label, error=column.error)
    scores = column.oriented[mask]
    there = ~np.isnan(scores)
    info = {"skipped": int((~there).sum())}
    bad, scores, groups = bad[there], scores[there], groups[there]
    if not bad.any() or bad.all():
        lacking = "caption" if not len(bad) else "good caption" if bad.all() else "bad caption"
        reason = f"no {lacking} has a score"
        return Row(column.label, {AVERAGE_PRECISION: Cell(None, reason=reason)}, column.signature, info=info)
    signature = f"{AVERAGE_PRECISION}|of:bad|n:{len(bad)}"
    cell = Cell(_average_precision(bad, scores), signature=signature)
    if settings.n_resamples and len(np.unique(groups)) > 1:
        numbers = np.unique(groups, return_inverse=True)[1]
        weights = group_weights(int(numbers.max()) + 1, settings.n_resamples, settings.seed)
        values = np.array([_average_precision(bad, scores, row[numbers]) for row in weights])
        cell = with_interval(cell, values, settings.confidence)
    cells = {AVERAGE_PRECISION: cell, "bad": Cell(int(bad.sum())), "n": Cell(len(bad))}
    return Row(column.label, cells, column.signature, info=info)


def resampled_difference(
    a: np.ndarray, b: np.ndarray, samples: Sequence[CaptionSample], settings: EvaluationSettings
) -> np.ndarray | None:
    """Return how much better a metric finds bad captions than another on resamples of groups.

    Args:
        a: scores of N captions, higher is better.
        b: those of the other metric; captions without score of both are left out.
        samples: the captions.
        settings: resamples and seed.

    Returns:
        float64 [resamples], NaN where a resample has no bad or no good caption; None where there is nothing
        to resample.
    """
    there = ~np.isnan(a + b)
    bad = _labels(samples)[there]
    groups = np.array([group_of(sample) for sample in samples], dtype=object)[there]
    names, numbers = np.unique(groups, return_inverse=True)
    if not settings.n_resamples or len(names) < 2:
        return None
    weights = group_weights(len(names), settings.n_resamples, settings.seed)[:, numbers]
    values = [[_average_precision(bad, scores[there], row) for row in weights] for scores in (a, b)]
    return np.array(values[0]) - np.array(values[1])


def _average_precision(bad: np.ndarray, scores: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the average precision of low scores, NaN where the weights leave no bad or no good caption."""
    from sklearn.metrics import average_precision_score

    if weights is not None:
        drawn = weights > 0
        bad, scores, weights = bad[drawn], scores[drawn], weights[drawn]
        if bad.all() or not bad.any():
            return float("nan")
    return float(average_precision_score(bad, -scores, sample_weight=weights))

"""The protocols of the video benchmarks: their figures as tables, beside the published ones.

VATEX-EVAL correlates with each annotator, with 0, 1 and 9 references; ActivityNet-FOIL compares paragraphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from suisei.cli import counted
from suisei.data.benchmarks.vatex import limit_references
from suisei.data.sample import CaptionSample
from suisei.errors import DataError
from suisei.metaeval.agreement import AgreementData, Rows
from suisei.metaeval.correlation import CorrelationError
from suisei.metaeval.correlation_tables import measured_cell, versions
from suisei.metaeval.human import human_agreement, human_bootstrap
from suisei.metaeval.pairwise import pair_credits, signature
from suisei.metaeval.published_backbones import BACKBONE_NOTE, of_backbones, published_name
from suisei.metaeval.resampling import group_weights, percentile_interval
from suisei.metaeval.settings import EvaluationSettings
from suisei.metaeval.tables import LABELS, Cell, Row, Section, Table
from suisei.metrics.registry import get_entry
from suisei.scoring.columns import ScoreColumn
from suisei.scoring.plan import MetricPlan

DECIMALS = 4
"""Scores are rounded to so many decimals before VATEX-EVAL's correlations, which makes some of them ties."""

REFERENCE_COUNTS = (1, 9)
"""With how many references the metrics that read any are measured; the others, and those that can do
without, are measured with none."""

Scoring = Callable[[MetricPlan, Sequence[CaptionSample], int], ScoreColumn]

KINDS = ("tau-b", "spearman")

VATEX_PUBLISHED: dict[int, dict[str, tuple[float, float]]] = {
    0: {"em-score": (0.232, 0.303), "video-pac-s": (0.251, 0.326)},
    1: {
        "bleu-1": (0.122, 0.159),
        "bleu-4": (0.126, 0.164),
        "rouge-l": (0.125, 0.163),
        "meteor": (0.164, 0.215),
        "cider": (0.173, 0.226),
        "bertscore": (0.182, 0.237),
        "BERT-S++": (0.152, 0.198),
        "ref-em-score": (0.286, 0.371),
        "ref-video-pac-s": (0.314, 0.405),
    },
    9: {
        "bleu-1": (0.289, 0.370),
        "bleu-4": (0.224, 0.295),
        "rouge-l": (0.238, 0.309),
        "meteor": (0.276, 0.357),
        "cider": (0.278, 0.361),
        "bertscore": (0.293, 0.378),
        "BERT-S++": (0.244, 0.317),
        "ref-em-score": (0.368, 0.472),
        "ref-video-pac-s": (0.381, 0.488),
    },
}
"""{references: {metric: (tau-b, Spearman)}}: Sarto et al. (CVPR 2023), table 3."""

FOIL_PUBLISHED = {
    "bleu-1": 0.601,
    "bleu-4": 0.661,
    "rouge-l": 0.567,
    "meteor": 0.729,
    "cider": 0.779,
    "em-score": 0.895,
    "ref-em-score": 0.924,
    "video-pac-s": 0.901,
    "ref-video-pac-s": 0.935,
}
"""{metric: accuracy}: table 6 of the same paper."""

_SOURCE = (
    "published: Sarto et al. (CVPR 2023), tables 3 and 6, where EMScore's figures are those of Shi et al. "
    "(CVPR 2022), and BERTScore's encoder is not said; EMScore's program takes the best reference of every "
    "part separately, which --metric-option ref-em-score.aggregate=separate does here too"
)
_FRAMES = (
    "EMScore's program takes every frame of a segment that it was given features of; here "
    "--metric-option em-score.frames=null takes all frames, the default ten"
)


def columns_by_references(
    plans: Sequence[MetricPlan],
    columns: Sequence[ScoreColumn],
    samples: Sequence[CaptionSample],
    score: Scoring,
) -> tuple[dict[int | None, list[ScoreColumn]], list[str]]:
    """Return the score columns with 0, 1 and 9 references, scoring where they are not there yet.

    Args:
        plans: the metrics.
        columns: their scores with all references that the samples have, in the same order.
        samples: N samples.
        score: scores a metric on samples with so many references each.

    Returns:
        {number of references: columns}, and what could not be had.
    """
    found: dict[int | None, list[ScoreColumn]] = {}
    least = min((len(sample.references) for sample in samples), default=0)
    limited = {count: limit_references(samples, count) for count in REFERENCE_COUNTS if count <= least}
    notes = [
        f"no figures with {_references(count)}: a sample has only {least}"
        for count in REFERENCE_COUNTS
        if count > least
    ]
    for plan, column in zip(plans, columns, strict=True):
        needs = set(get_entry(plan.spec.partition(":")[0]).needs)
        if "references" not in needs:
            alone = column if needs else _without_references(plan, samples, score)
            found.setdefault(0, []).append(alone)
            if needs or _same(alone, column):
                continue
        for count, fewer in limited.items():
            there = column.scores is None or all(len(sample.references) == count for sample in samples)
            found.setdefault(count, []).append(column if there else score(plan, fewer, count))
    return found, notes


def _without_references(plan: MetricPlan, samples: Sequence[CaptionSample], score: Scoring) -> ScoreColumn:
    return score(plan, limit_references(samples, 0), 0)


def _same(first: ScoreColumn, second: ScoreColumn) -> bool:
    """Return whether a metric scores alike with and without references, so that it does not read them."""
    if first.scores is None or second.scores is None:
        return first.scores is second.scores
    return np.array_equal(first.scores, second.scores, equal_nan=True)


def annotator_rows(
    samples: Sequence[CaptionSample], scores: np.ndarray, missing: str = "raise"
) -> tuple[Rows, ...]:
    """Return the rounded scores beside the ratings of one annotator after the other.

    Args:
        samples: N samples, all with the same number of ratings, in the same order of annotators.
        scores: float [N].
        missing: "raise" refuses NaN scores, "drop" leaves those samples out and counts them.

    Raises:
        DataError: unrated samples or different numbers of ratings; NaN under "raise", or nothing else.
    """
    counts = {len(sample.rating.values) if sample.rating else 0 for sample in samples}
    if len(counts) != 1 or 0 in counts:
        raise DataError(
            f"every sample needs a rating by each annotator; there are {sorted(counts)} per sample"
        )
    data = AgreementData.from_samples(np.around(np.asarray(scores, dtype=np.float64), DECIMALS), samples)
    alone = [
        replace(data, ratings=tuple((values[annotator],) for values in data.ratings))
        for annotator in range(counts.pop())
    ]
    return tuple(replace(own.rows(missing=missing), raters="each-annotator") for own in alone)


def vatex_table(
    columns: Mapping[int | None, Sequence[ScoreColumn]],
    samples: Sequence[CaptionSample],
    settings: EvaluationSettings | None = None,
) -> Table:
    """Return tau-b and Spearman's rho with each annotator, averaged over annotators, as published.

    Args:
        columns: {number of references: score columns}; None where the number is not known.
        samples: N samples, all rated by the same number of annotators.
        settings: bootstrap resamples over videos, seed, and whether published figures stand beside these.

    Returns:
        A table with a section per number of references; a row says how many captions it is over.

    Raises:
        DataError: unrated samples or different numbers of ratings.
    """
    settings = replace(settings or EvaluationSettings(), averaging="pooled")
    published = settings.published
    annotator_rows(samples, np.zeros(len(samples)))  # what is wrong with the ratings is no metric's fault
    counts = sorted(
        {*columns, *(VATEX_PUBLISHED if published else ())}, key=lambda count: (count is None, count)
    )
    sections = []
    for count in counts:
        own = columns.get(count, ())
        known = VATEX_PUBLISHED.get(count, {}) if published and count is not None else {}
        rows = [_vatex_row(column, samples, settings, _vatex_figures(count, known)) for column in own]
        told = {published_name(column.label, column.backbone, known) for column in own}
        rows += [Row(name, _vatex_published(known, name)) for name in known if name not in told]
        if rows:
            sections.append(Section(_references(count), tuple(rows)))
    heads: dict[str, str] = {}
    for kind in KINDS:
        heads[kind] = LABELS[kind]
        if published:
            heads[f"{kind}-published"] = f"{LABELS[kind]} published"
    notes = [
        "correlated with each annotator's ratings, then averaged over the annotators; scores are rounded to "
        "4 decimals first",
        *([_SOURCE, BACKBONE_NOTE] if published else []),
    ]
    return Table(
        "Protocol of VATEX-EVAL",
        {**heads, "n": "captions", "videos": "videos"},
        tuple(sections),
        (*notes, *settings.interval_notes("videos")),
        {"settings": {"averaging": settings.averaging, **settings.resampling()}, "versions": versions()},
    )


def _vatex_row(
    column: ScoreColumn,
    samples: Sequence[CaptionSample],
    settings: EvaluationSettings,
    known: Mapping[str, tuple[float, ...]],
) -> Row:
    cells = _vatex_published(known, published_name(column.label, column.backbone, known))
    if column.scores is None:
        return Row(column.label, cells, error=column.error)
    try:
        rounds = annotator_rows(samples, column.oriented, missing="drop")
    except CorrelationError as error:
        return Row(
            column.label,
            {**{kind: Cell(None, reason=str(error)) for kind in KINDS}, **cells},
            column.signature,
        )
    for kind in KINDS:
        cells[kind] = measured_cell(rounds, kind, settings, human_agreement, human_bootstrap)
    cells |= {"n": Cell(len(rounds[0].x)), "videos": Cell(len(rounds[0].group_names))}
    return Row(column.label, cells, column.signature, info={"skipped": rounds[0].dropped})


def _vatex_figures(
    count: int | None, known: Mapping[str, tuple[float, ...]]
) -> Mapping[str, tuple[float, ...]]:
    """Return the published figures with those of other backbones, which are printed without references."""
    return {**known, **_fractions("vatex-eval", KINDS)} if known and count == 0 else known


def _fractions(data: str, kinds: Sequence[str]) -> dict[str, tuple[float, ...]]:
    percentages = of_backbones(data, kinds)
    return {
        name: tuple(value / 100 for value in values if value is not None)
        for name, values in percentages.items()
    }


def _vatex_published(known: Mapping[str, tuple[float, ...]], name: str | None) -> dict[str, Cell]:
    values = zip(KINDS, known.get(name, ()) if name else (), strict=False)
    return {f"{kind}-published": Cell(value) for kind, value in values}


def _references(count: int | None) -> str:
    if count is None:
        return "scores from a file"
    return counted(count, "reference")


def paragraph_scores(
    samples: Sequence[CaptionSample], scores: np.ndarray
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return the videos, and the scores of the right and of the foil paragraph of each.

    A paragraph's score is the mean over its sentences, and NaN where one of them has no score or where
    there is none.

    Args:
        samples: N sentences; ``group`` is the video and ``system`` "right" or "foil".
        scores: float [N].

    Raises:
        DataError: lengths that differ, or another ``system``.
    """
    if len(samples) != len(scores):
        raise DataError(f"{len(samples)} samples and {len(scores)} scores; they must match")
    paragraphs: dict[str, dict[str, list[float]]] = {}
    for sample, score in zip(samples, scores, strict=True):
        sides = paragraphs.setdefault(str(sample.group), {"right": [], "foil": []})
        if sample.system not in sides:
            raise DataError(f"system is {sample.system!r} ({sample.id}); expected 'right' or 'foil'")
        sides[sample.system].append(float(score))
    right, foil = (
        np.array([np.mean(s[side]) if s[side] else np.nan for s in paragraphs.values()])
        for side in ("right", "foil")
    )
    return list(paragraphs), right, foil


def foil_table(
    columns: Sequence[ScoreColumn],
    samples: Sequence[CaptionSample],
    settings: EvaluationSettings | None = None,
) -> Table:
    """Return how often each metric prefers the right paragraph to its foil twin.

    A video of which any sentence has no score, or one paragraph no sentence, is left out of its metric's
    row, and counted.

    Args:
        columns: the metrics' scores of the sentences.
        samples: N sentences; ``group`` is the video and ``system`` "right" or "foil".
        settings: bootstrap resamples over videos, seed, and whether published figures stand beside these.

    Raises:
        DataError: a ``system`` that is neither.
    """
    settings = settings or EvaluationSettings()
    published = settings.published
    rows = [_foil_row(column, samples, settings) for column in columns]
    told = {published_name(column.label, column.backbone, FOIL_PUBLISHED) for column in columns}
    if published:
        rows += [Row(name, _foil_published(name)) for name in FOIL_PUBLISHED if name not in told]
    heads = {"accuracy": "accuracy", **({"published": "published"} if published else {})}
    notes = [
        "share of videos whose right paragraph scores above its foil twin; a paragraph's score is the mean "
        "of its sentences', and a tie counts as wrong",
        *([_SOURCE, BACKBONE_NOTE, _FRAMES] if published else []),
    ]
    left_out = [row for row in rows if row.info.get("videos_skipped")]
    notes += [
        f"{row.label}: {counted(row.info['videos_skipped'], 'video')} without score left out"
        for row in left_out
    ]
    return Table(
        "Protocol of ActivityNet-FOIL",
        {**heads, "ties": "ties", "n": "videos"},
        (Section("overall", tuple(rows)),),
        (*notes, *settings.interval_notes("videos")),
        {"settings": settings.resampling(), "versions": versions(), "samples": len(samples)},
    )


def _foil_row(column: ScoreColumn, samples: Sequence[CaptionSample], settings: EvaluationSettings) -> Row:
    cells = _foil_published(column.label, column.backbone) if settings.published else {}
    if column.scores is None:
        return Row(column.label, cells, error=column.error)
    _, right, foil = paragraph_scores(samples, column.oriented)
    there = ~(np.isnan(right) | np.isnan(foil))
    info = {"videos_skipped": int((~there).sum())}
    right, foil = right[there], foil[there]
    if not len(right):
        reason = Cell(None, reason="no video has a score for every sentence")
        return Row(column.label, {**cells, "accuracy": reason}, column.signature, info=info)
    credit = pair_credits(right, foil, np.ones(len(right)), ties="wrong")
    low = high = None
    if settings.n_resamples and len(right) > 1:
        weights = group_weights(len(right), settings.n_resamples, settings.seed)
        interval = percentile_interval(weights @ credit / len(credit), settings.confidence)
        low, high = interval.low, interval.high
    cells |= {
        "accuracy": Cell(float(credit.mean()), low, high, signature=f"{signature('wrong')}|n:{len(credit)}"),
        "ties": Cell(int((right == foil).sum())),
        "n": Cell(len(credit)),
    }
    return Row(column.label, cells, column.signature, info=info)


def _foil_published(label: str, backbone: str | None = None) -> dict[str, Cell]:
    others = {name: value for name, (value,) in _fractions("activitynet-foil", ("accuracy",)).items()}
    known = {**FOIL_PUBLISHED, **others}
    name = published_name(label, backbone, known)
    return {} if name is None else {"published": Cell(known[name])}

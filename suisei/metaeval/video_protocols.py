"""The protocols of the video benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.errors import DataError
from suisei.metaeval.agreement import AgreementData, Rows
from suisei.metaeval.human import human_agreement
from suisei.metaeval.pairwise import PairwiseAccuracy, pairwise_accuracy

DECIMALS = 4
"""Scores are rounded to so many decimals before VATEX-EVAL's correlations, which makes some of them ties."""


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


def vatex_correlations(samples: Sequence[CaptionSample], scores: np.ndarray) -> dict[str, float]:
    """Return agreement with each annotator, averaged over annotators, as published for VATEX-EVAL.

    Args:
        samples: N samples, all with the same number of ratings, in the same order of annotators.
        scores: float [N].

    Returns:
        {"tau-b", "spearman"}, each in [-1, 1].

    Raises:
        DataError: unrated samples or different numbers of ratings; a correlation that is undefined.
    """
    rows = annotator_rows(samples, scores)
    return {kind: human_agreement(rows, kind, "pooled").value for kind in ("tau-b", "spearman")}


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


def foil_accuracy(samples: Sequence[CaptionSample], scores: np.ndarray) -> PairwiseAccuracy:
    """Return how often the right paragraph scores above its foil twin; a tie counts as wrong.

    Args:
        samples: N sentences; ``group`` is the video and ``system`` "right" or "foil".
        scores: float [N].

    Raises:
        DataError: a video with only one of the two, or a score that is NaN.
    """
    videos, right, foil = paragraph_scores(samples, np.nan_to_num(scores))
    single = [video for video, *pair in zip(videos, right, foil, strict=True) if np.isnan(pair).any()]
    if single:
        raise DataError(f"{len(single)} videos lack the right or the foil paragraph, such as {single[0]!r}")
    _, right, foil = paragraph_scores(samples, scores)
    return pairwise_accuracy(right, foil, np.ones(len(right)), ties="wrong")

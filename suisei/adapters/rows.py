"""What the adapters share: a metric from its name, and one sample from what a library has of a row."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from functools import cache
from threading import Lock
from typing import Any

import numpy as np

from suisei.cli import counted
from suisei.data.caption_cells import refuse_list, refuse_lists
from suisei.data.given_columns import listed
from suisei.data.sample import CaptionSample, is_blank
from suisei.errors import ConfigError, DataError
from suisei.metrics.base import Metric
from suisei.metrics.refused import unreadable_images
from suisei.metrics.registry import get_metric
from suisei.scoring.fitting import fit_unrated

EMPTY = 0.0
"""Score of a caption without a visible character on a leaderboard: leaving it out would reward silence."""


def metric_of(metric: Metric | str) -> Metric:
    """Return a metric, made from its name (``suisei:DIR``, ``bleu-4``, ...) where it is one.

    Raises:
        ConfigError: an unknown name, or something that is neither.
        UnavailableError: the metric cannot run on this machine.
    """
    if isinstance(metric, str):
        return get_metric(metric)
    if not isinstance(metric, Metric):
        raise ConfigError(f"metric must be a name or a suisei.Metric, got {type(metric).__name__}")
    return metric


def made_once(make: Callable[..., Metric]) -> Callable[..., Metric]:
    """Return a function that makes a metric when it is first asked for it, and remembers it.

    Threads that ask at one time wait for the one that makes it: functools.cache would let each make its own.

    Args:
        make: a function of hashable arguments; what it raises is not remembered.
    """
    known, lock = cache(make), Lock()

    def get(*arguments: Any) -> Metric:
        with lock:
            return known(*arguments)

    return get


def row_metric(metric: Metric | str, where: str) -> Metric:
    """Return a metric that scores a row before the others are known.

    Raises:
        ConfigError: it must be fitted on a whole corpus first and is not.
    """
    made = metric_of(metric)
    if made.needs_fit:
        raise ConfigError(
            f"{made.name} learns weights from a corpus, and {where} scores row by row; make it with "
            f"suisei.get_metric({made.name!r}), fit it on a corpus of samples, and give that"
        )
    return made


def fitted(metric: Metric, samples: Sequence[CaptionSample]) -> Metric:
    """Return the metric, or a copy fitted on what is scored where it lacks corpus statistics."""
    if not metric.needs_fit:
        return metric
    own = copy.copy(metric)
    fit_unrated(own, samples)
    return own


def make_row(candidate: Any, references: Any = None, image: Any = None) -> CaptionSample | None:
    """Return a sample, None where the candidate has no visible character.

    Args:
        candidate: the caption.
        references: a caption, a list of captions, or None.
        image: an image as CaptionSample takes it, a list of one, or None.

    Raises:
        DataError: a value of the wrong type, a blank reference, a list as text, more than one image.
    """
    own: Any = () if references is None else _listed_alone(references)
    if isinstance(image, list | tuple):
        if len(image) > 1:
            raise DataError(f"the row has {len(image)} images; a caption is scored beside one")
        image = image[0] if image else None
    if isinstance(candidate, str) and is_blank(candidate):
        return None
    sample = CaptionSample(candidate, own, image)
    refuse_lists(sample.references)
    return sample


def reference_lists(column: Any) -> Any:
    """Return a column of references as a list in which a caption alone, as some libraries give it, is a list.

    Args:
        column: a list, tuple, array, Series or generator, or None for no references.

    Raises:
        DataError: it is a single value, or has no order, or one of it is a list as text.
    """
    if column is None:
        return None
    rows = []
    for number, own in enumerate(listed("references", column)):
        try:
            rows.append(_listed_alone(own))
        except DataError as error:
            raise DataError(f"sample {number}: {error}") from None
    return rows


def _listed_alone(references: Any) -> Any:
    """Return a caption alone as a list of one, and other references as they are.

    Raises:
        DataError: a text that is a list written out, as a CSV file has lists: it would count as one caption.
    """
    if not isinstance(references, str):
        return references
    refuse_list("references are", references)
    return [references]


def empty_score(metric: Metric) -> float:
    """Return what a caption without a visible character gets: the worst score, NaN of unlimited distances."""
    if metric.higher_is_better:
        return EMPTY
    return math.nan if metric.largest is None else metric.largest


def score_rows(
    metric: Metric,
    rows: Sequence[CaptionSample | None],
    batch_size: int = 64,
    *,
    names: Sequence[str] = (),
) -> np.ndarray:
    """Score rows for a leaderboard.

    Args:
        metric: fitted where it must be.
        rows: what :func:`make_row` made.
        batch_size: handed to the metric.
        names: N names of the rows for messages, or none.

    Returns:
        float64 [N]; for a blank candidate :func:`empty_score`, or the worst score of all where that is below
        0; NaN where the row lacks what the metric needs.

    Raises:
        DataError: an image cannot be read; the row is named where names are given.
    """
    scores = np.full(len(rows), empty_score(metric))
    there = [position for position, row in enumerate(rows) if row is not None]
    if there:
        own = [names[position] for position in there] if names else []
        found = _scored(metric, [row for row in rows if row is not None], batch_size, own)
        if metric.higher_is_better:
            scores[:] = np.nanmin(found, initial=EMPTY)
        scores[there] = found
    return scores


def _scored(
    metric: Metric, samples: Sequence[CaptionSample], batch_size: int, names: Sequence[str]
) -> np.ndarray:
    try:
        return metric.score(samples, batch_size=batch_size)
    except DataError:
        problems = unreadable_images(metric, samples) if names else {}
        if not problems:
            raise
        first = min(problems)
        raise DataError(f"{names[first]}: {problems[first]}") from None


def corpus_mean(name: str, scores: Sequence[float]) -> float:
    """Return the mean of the scores that there are.

    Raises:
        DataError: there are none.
    """
    values = np.asarray(scores, dtype=np.float64)
    if not np.isfinite(values).any():
        raise DataError(
            f"{name} has no score for any of {counted(len(values), 'row')}: what it needs is lacking"
        )
    return float(np.nanmean(values))

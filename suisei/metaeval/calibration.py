"""Whether a score means what people mean by it: predicted scores beside mean ratings, bin by bin."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from suisei.data.sample import LANGUAGE_NAMES, CaptionSample, language_of, mean_ratings
from suisei.data.splits import group_of
from suisei.errors import DataError
from suisei.metaeval.agreement import mean_rating
from suisei.metaeval.resampling import Interval, group_weights, percentile_interval
from suisei.metaeval.tables import Cell, Row, Section, Table

_VERDICTS = 2


@dataclass(frozen=True, slots=True)
class Bin:
    """The samples whose predicted score is in one stretch of [0, 1].

    Attributes:
        start: lower edge.
        stop: upper edge.
        predicted: mean predicted score.
        human: mean rating.
        low: lower end of the rating's 95 % interval; None where there is none.
        high: upper end of it.
        n: number of samples.
    """

    start: float
    stop: float
    predicted: float
    human: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """How far scores are from ratings.

    Attributes:
        bins: those with samples, in order.
        error: expected calibration error: the mean over samples of |mean predicted - mean rating| of
            their bin (Naeini et al., 2015, with ratings in place of outcomes).
        interval: of the error, corrected for its noise. Noise makes the error too large rather than too
            small, most in small samples and near 0; the interval can lie below it.
        bias: mean predicted score minus mean rating.
        rmse: root of the mean squared difference.
        slope: of the least-squares line of ratings over scores; 1 if differences of scores mean as much
            as differences of ratings, below 1 if scores are spread too far. None for constant scores.
        n: number of samples.
    """

    bins: tuple[Bin, ...]
    error: float
    interval: Interval
    bias: float
    rmse: float
    slope: float | None
    n: int


def calibrate(
    predicted: np.ndarray,
    human: np.ndarray,
    groups: Sequence[str] | np.ndarray,
    *,
    bins: int = 10,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Calibration:
    """Compare scores with ratings in bins of equal width.

    Args:
        predicted: scores in [0, 1], float64 [N].
        human: mean ratings in [0, 1], float64 [N].
        groups: what is resampled as a whole, [N].
        bins: number of bins over [0, 1].
        n_resamples: bootstrap resamples; 0 for no intervals.
        seed: of the bootstrap.

    Raises:
        DataError: no sample, a NaN, or a score outside [0, 1].
    """
    _check(predicted, human)
    place = np.clip((predicted * bins).astype(np.int64), 0, bins - 1)
    names, group = np.unique(np.asarray(groups, dtype=object), return_inverse=True)
    weights = np.ones((1, len(names)), dtype=np.int64)
    if n_resamples and len(names) > 1:
        weights = np.concatenate([weights, group_weights(len(names), n_resamples, seed)])
    # What each group adds to each bin, so that a resample is one product of matrices.
    cell = group * bins + place
    counts, scores, ratings = (
        weights @ np.bincount(cell, weights=values, minlength=len(names) * bins).reshape(len(names), bins)
        for values in (np.ones(len(predicted)), predicted, human)
    )
    errors = np.abs(scores - ratings).sum(axis=1) / counts.sum(axis=1)
    resampled = len(weights) > 1
    means = np.divide(ratings, counts, out=np.full(counts.shape, np.nan), where=counts > 0)
    return Calibration(
        bins=tuple(
            _bin(n, bins, counts[0], scores[0], means[:, n], resampled)
            for n in np.flatnonzero(counts[0]).tolist()
        ),
        error=float(errors[0]),
        interval=_around(float(errors[0]), errors[1:]) if resampled else Interval(None, None),
        bias=float((predicted - human).mean()),
        rmse=float(np.sqrt(((predicted - human) ** 2).mean())),
        slope=_slope(predicted, human),
        n=len(predicted),
    )


def _around(error: float, resampled: np.ndarray) -> Interval:
    """Return the basic bootstrap interval of a calibration error, cut at 0.

    Resamples add noise to the noise of the sample, and their errors lie as far above the error as that lies
    above the truth: mirrored at the error, they lie around the truth.
    """
    return percentile_interval(np.maximum(2 * error - resampled, 0.0))


def _check(predicted: np.ndarray, human: np.ndarray) -> None:
    if not len(predicted):
        raise DataError("no sample has both a score and a rating")
    if np.isnan(predicted).any() or np.isnan(human).any():
        raise DataError(f"calibration needs scores and ratings of all of its {len(predicted)} samples")
    if not on_human_scale(predicted):
        raise DataError(
            f"scores from {predicted.min():z.3g} to {predicted.max():z.3g} are not on the human scale, 0 to 1"
        )


def on_human_scale(scores: np.ndarray) -> bool:
    """Say whether all scores, at least one and none of them NaN, lie in [0, 1] but for rounding."""
    return bool(scores.min() >= -1e-9 and scores.max() <= 1 + 1e-9)


def _slope(predicted: np.ndarray, human: np.ndarray) -> float | None:
    """Return the slope of the least-squares line of ratings over scores; None for constant scores."""
    variance = float(predicted.var())
    if variance <= 1e-18:
        return None
    return float(((predicted - predicted.mean()) * (human - human.mean())).mean() / variance)


def _bin(
    number: int, bins: int, counts: np.ndarray, scores: np.ndarray, means: np.ndarray, resampled: bool
) -> Bin:
    """Return one bin; means [1 + resamples] are its mean ratings, the first that of the data itself."""
    interval, defined = Interval(None, None), ~np.isnan(means[1:])
    if resampled and 2 * defined.sum() > len(means) - 1:
        interval = percentile_interval(means[1:])
    return Bin(
        start=number / bins,
        stop=(number + 1) / bins,
        predicted=float(scores[number] / counts[number]),
        human=float(means[0]),
        low=interval.low,
        high=interval.high,
        n=int(counts[number]),
    )


def calibrate_by_language(
    scores: np.ndarray,
    samples: Sequence[CaptionSample],
    *,
    bins: int = 10,
    n_resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Calibration]:
    """Return the calibration of all samples and, where there are two languages, of each.

    Args:
        scores: float64 [N]; samples with NaN are left out.
        samples: N rated samples.
        bins: number of bins over [0, 1].
        n_resamples: bootstrap resamples.
        seed: of the bootstrap.

    Raises:
        DataError: no sample has a score, or scores leave [0, 1].
    """
    human = mean_ratings(samples)
    languages = np.array([language_of(sample) for sample in samples], dtype=object)
    groups = np.array([group_of(sample) for sample in samples], dtype=object)
    known = ~np.isnan(scores) & ~np.isnan(human)
    masks = {"all": known}
    found = [language for language in LANGUAGE_NAMES if (known & (languages == language)).any()]
    if len(found) > 1:
        masks |= {LANGUAGE_NAMES[language]: known & (languages == language) for language in found}
    return {
        name: calibrate(
            scores[mask], human[mask], groups[mask], bins=bins, n_resamples=n_resamples, seed=seed
        )
        for name, mask in masks.items()
    }


def calibrate_metrics(
    named_scores: Mapping[str, np.ndarray],
    samples: Sequence[CaptionSample],
    *,
    distances: Collection[str] = (),
    bins: int = 10,
    n_resamples: int = 1000,
    seed: int = 0,
) -> dict[str, dict[str, Calibration] | str]:
    """Return the calibrations of each metric by language, or why it has none.

    Args:
        named_scores: {metric: float64 [N]}; samples with NaN are left out.
        samples: N samples, of which those with a rating count.
        distances: metrics that are lower for the better; they have none, whatever their scores.
        bins: number of bins over [0, 1].
        n_resamples: bootstrap resamples; 0 for no intervals.
        seed: of the bootstrap.
    """
    result: dict[str, dict[str, Calibration] | str] = {}
    for label, scores in named_scores.items():
        if label in distances:  # with its sign turned, one whose scores are all 0 would seem to be on it
            result[label] = "lower is better, so its scores are not on the human scale, 0 to 1"
            continue
        try:
            result[label] = calibrate_by_language(
                scores, samples, bins=bins, n_resamples=n_resamples, seed=seed
            )
        except DataError as error:
            result[label] = str(error)
    return result


def is_graded(samples: Sequence[CaptionSample]) -> bool:
    """Say whether people gave more than good or bad: of two values there is no curve."""
    means = {mean_rating(sample.rating.scaled) for sample in samples if sample.rating is not None}
    return len(means) > _VERDICTS


def calibration_table(named: Mapping[str, Mapping[str, Calibration] | str]) -> Table:
    """Return one line per metric and language.

    Args:
        named: {metric: its calibrations by language, or why it has none}.
    """
    scopes = list(
        dict.fromkeys(name for value in named.values() if not isinstance(value, str) for name in value)
    )
    sections = []
    for scope in scopes or ["all"]:
        rows = []
        for label, value in named.items():
            if isinstance(value, str):
                rows.append(Row(label, error=value))
            elif scope in value:
                rows.append(Row(label, _figures(value[scope])))
        sections.append(Section(scope, tuple(rows)))
    columns = {"error": "calibration error", "bias": "bias", "rmse": "RMSE", "slope": "slope", "n": "n"}
    notes = (
        "calibration error: mean over samples of |mean score - mean rating| of their bin of equal width; "
        "noise makes it too large on few samples, and its interval, corrected for that, can lie below it",
        "bias: mean score minus mean rating; slope: of ratings over scores, 1 is right",
    )
    return Table("Calibration to the human scale", columns, tuple(sections), notes)


def _figures(value: Calibration) -> dict[str, Cell]:
    return {
        "error": Cell(value.error, value.interval.low, value.interval.high),
        "bias": Cell(value.bias),
        "rmse": Cell(value.rmse),
        "slope": Cell(value.slope, reason=None if value.slope is not None else "all scores are equal"),
        "n": Cell(value.n),
    }


def reliability_table(label: str, calibrations: Mapping[str, Calibration]) -> Table:
    """Return a line per bin: mean score and mean rating with its interval."""
    sections = []
    for scope, value in calibrations.items():
        rows = [
            Row(
                f"{each.start:.4g} to {each.stop:.4g}",
                {
                    "predicted": Cell(each.predicted),
                    "human": Cell(each.human, each.low, each.high),
                    "n": Cell(each.n),
                },
            )
            for each in value.bins
        ]
        sections.append(Section(scope, tuple(rows)))
    columns = {"predicted": "mean score", "human": "mean rating", "n": "n"}
    return Table(f"Reliability of {label}", columns, tuple(sections), row_heading="Score")

"""Which captioning system is better by which metric, and how sure that is: resampling over images.

Corpus scores are functions of sums over images (BLEU's counts; the scores themselves where the corpus
score is their mean), so that a resample costs a matrix product, as in sacreBLEU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from suisei.cli import counted
from suisei.data.sample import CaptionSample
from suisei.errors import DataError
from suisei.metaeval.kendall import GroupSum, weight_chunks
from suisei.metaeval.resampling import Interval, percentile_interval, weight_parts
from suisei.metaeval.settings import ALPHA, CONFIDENCE, Resampling
from suisei.metaeval.significance import holm, rank_clusters
from suisei.scoring.columns import FAILURES, ScoreColumn, failure_text

TIE = 1e-9
"""Scores of two captions that differ by no more are a tie, whatever the range of scores is."""
TIES = 1000
"""Into so many parts of the range of most scores (1st to 99th percentile); what differs by no more is a tie.

As in the probes' ladders: the traces (1e-4 and less) that BLEU of a caption without a common fourgram has in
place of 0 make no caption the better one, nor do last digits of bfloat16.
"""

_ROUNDING = 1e-10


@dataclass(frozen=True, slots=True)
class SystemScore:
    """A system's corpus score by one metric.

    Attributes:
        value: the score, in the metric's own units.
        interval: of the score; without ends where there are no resamples.
        rank: the cluster, from 1, of systems that cannot be told apart; None without resamples.
    """

    value: float
    interval: Interval
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two systems by one metric.

    Attributes:
        better: the system with the better corpus score.
        worse: the other.
        difference: corpus score of the better minus that of the other.
        interval: of the difference.
        p_bootstrap: two-sided, by the paired bootstrap; None without resamples, as the next two.
        p_permutation: two-sided, by swapping the two systems' captions image by image; never below what
            swapping the images with different scores alone could give.
        p_holm: the same after Holm's correction over the pairs of the metric.
        wins: captions of the better system that score better than the other's; images, where each has one.
        ties: captions that score the same as the other's.
        losses: captions of the other system that score better.
    """

    better: str
    worse: str
    difference: float
    interval: Interval
    p_bootstrap: float | None
    p_permutation: float | None
    p_holm: float | None
    wins: int
    ties: int
    losses: int


@dataclass(frozen=True, slots=True)
class MetricOutcome:
    """What one metric says of all systems.

    Attributes:
        label: the metric as the user wrote it.
        signature: its signature.
        error: why there are no figures.
        n: captions that every system has a score of.
        images: images that they are of.
        largest_share: the most of the captions that one image has, in (0, 1]; 0 where there are no figures.
        systems: {system: its score}.
        pairs: every pair of systems, the better system first, in the order of the scores.
        scores: {system: float64 [N] per caption}, NaN where there is none.
        tie: scores of two captions that differ by no more are the same.
        higher_is_better: False for distances.
    """

    label: str
    signature: str | None = None
    error: str | None = None
    n: int = 0
    images: int = 0
    largest_share: float = 0.0
    systems: Mapping[str, SystemScore] = field(default_factory=dict)
    pairs: tuple[Pair, ...] = ()
    scores: Mapping[str, np.ndarray] = field(default_factory=dict)
    tie: float = TIE
    higher_is_better: bool = True


@dataclass(frozen=True, slots=True)
class Example:
    """An image on which two systems' captions score differently.

    Attributes:
        name: of the image; of the caption, where a system has several of an image.
        kind: "image" or "caption", which the name is of.
        scores: {system: score of its caption}.
        captions: {system: its caption}.
        references: of the image.
    """

    name: str
    kind: str
    scores: Mapping[str, float]
    captions: Mapping[str, str]
    references: tuple[str, ...]


def compare_systems(
    columns: Sequence[ScoreColumn],
    names: Sequence[str],
    settings: Resampling,
    progress: Callable[[int], Any] | None = None,
    images: Sequence[str] | None = None,
) -> list[MetricOutcome]:
    """Compare systems by each metric on the images that all of them have a score of.

    Args:
        columns: scores [S * N] with their summands, system after system.
        names: the S systems.
        settings: resamples, permutations and seed.
        progress: called with 1 after each metric.
        images: the image of each of the N captions, which is resampled and swapped as a whole; by default
            each caption is of another.

    Returns:
        An outcome per column; one whose metric failed, or has too few scores, has the reason alone.
    """
    outcomes = []
    for column in columns:
        try:
            outcomes.append(_outcome(column, names, settings, images))
        except FAILURES as error:
            outcomes.append(MetricOutcome(column.label, column.signature, error=failure_text(error)))
        if progress:
            progress(1)
    return outcomes


def _outcome(
    column: ScoreColumn, names: Sequence[str], settings: Resampling, images: Sequence[str] | None
) -> MetricOutcome:
    if column.scores is None or column.summands is None:
        return MetricOutcome(column.label, column.signature, error=column.error)
    scores = column.scores.reshape(len(names), -1)
    rows = column.summands.rows.reshape(*scores.shape, -1)
    there = ~np.isnan(rows).any(axis=(0, 2))
    units = _numbered([name for name, kept in zip(images or range(len(there)), there, strict=True) if kept])
    count = int(units.max(initial=-1)) + 1
    if count < 2:
        reasons = "; ".join([*column.missing, *column.problems[:1]])
        raise DataError(
            f"{counted(count, 'image')} with a score of every system, and it takes two ({reasons})"
        )
    sign = 1.0 if column.higher_is_better else -1.0
    sums = _Sums(_added_up(rows[:, there], units), column.summands.score)
    order = sorted(range(len(names)), key=lambda system: -sign * sums.observed[system])
    resampled = sums.bootstrap(settings.n_resamples, settings.seed)
    extreme = sums.swapped_as_extreme(list(combinations(order, 2)), settings.permutations, settings.seed)
    pairs, tie = [], _largest_tie(scores[:, there])
    for (a, b), swapped in extreme.items():
        gained = sign * (scores[a, there] - scores[b, there])
        differing = len(np.unique(units[~(np.abs(gained) <= TIE)]))
        gained[np.abs(gained) <= tie] = 0.0
        pairs.append(
            _pair(
                (names[a], names[b]),
                sums.observed[[a, b]],
                resampled[:, [a, b]],
                _swapping(swapped, differing, settings.permutations),
                gained,
            )
        )
    pairs, ranks = _ranked(pairs, [names[system] for system in order])
    return MetricOutcome(
        column.label,
        column.signature,
        n=int(there.sum()),
        images=count,
        largest_share=float(np.bincount(units).max() / len(units)),
        systems={
            name: SystemScore(float(value), _interval(values), ranks.get(name))
            for name, value, values in zip(names, sums.observed, resampled.T, strict=True)
        },
        pairs=tuple(pairs),
        scores=dict(zip(names, scores, strict=True)),
        tie=tie,
        higher_is_better=column.higher_is_better,
    )


def _numbered(names: Sequence[Any]) -> np.ndarray:
    """Return the number of each name, from 0 in their order, int64 [N].

    Not in the order of first occurrence, which is that of the system that is named first: it decides which
    images a resample or a permutation draws.
    """
    numbers = {name: number for number, name in enumerate(sorted(set(names)))}
    return np.array([numbers[name] for name in names], dtype=np.int64)


def _added_up(rows: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return the sums of the rows [S, N, K] of each unit: captions of one image are not independent."""
    systems, captions, width = rows.shape
    sums = GroupSum(units)(rows.transpose(0, 2, 1).reshape(-1, captions))
    return np.ascontiguousarray(sums.reshape(systems, width, -1).transpose(0, 2, 1))


def _largest_tie(scores: np.ndarray) -> float:
    """Return by how much scores may differ and be a tie."""
    finite = scores[np.isfinite(scores)]
    return max(TIE, float(np.diff(np.quantile(finite, (0.01, 0.99)))[0]) / TIES) if finite.size else TIE


class _Sums:
    """Corpus scores of S systems over weighted images.

    Args:
        rows: what is added up over each image, float64 [S, N, K].
        score: sums [B, K] to corpus scores [B].
    """

    def __init__(self, rows: np.ndarray, score: Callable[[np.ndarray], np.ndarray]) -> None:
        self._systems, self._images, self._width = rows.shape
        self._flat = rows.transpose(1, 0, 2).reshape(self._images, -1)
        self._totals, self._score = rows.sum(axis=1), score
        self.observed = np.asarray(score(self._totals), dtype=np.float64)

    def bootstrap(self, count: int, seed: int) -> np.ndarray:
        """Return the corpus scores on resamples that all systems share, float64 [count, S]."""
        parts = [np.empty((0, self._systems))]
        for weights in weight_parts(self._images, count, seed):
            totals = (weights.astype(np.float64) @ self._flat).reshape(-1, self._width)
            parts.append(np.asarray(self._score(totals)).reshape(-1, self._systems))
        return np.concatenate(parts)

    def swapped_as_extreme(
        self, pairs: Sequence[tuple[int, int]], count: int, seed: int
    ) -> dict[tuple[int, int], int]:
        """Return {(a, b): how many of ``count`` differences, captions swapped by chance, are as extreme}.

        They are counted as they come: of many systems, the differences themselves would fill the memory.
        """
        rng = np.random.default_rng(seed)
        found = dict.fromkeys(pairs, 0)
        for part in weight_chunks(count, self._images):
            swaps = rng.integers(0, 2, size=(part.stop - part.start, self._images)).astype(np.float64)
            moved = (swaps @ self._flat).reshape(-1, self._systems, self._width)
            for a, b in pairs:
                exchange = moved[:, b] - moved[:, a]
                difference = self._score(self._totals[a] + exchange) - self._score(self._totals[b] - exchange)
                found[a, b] += _as_extreme(difference, float(self.observed[a] - self.observed[b]))
        return found


def _pair(
    names: tuple[str, str],
    observed: np.ndarray,
    resampled: np.ndarray,
    p_permutation: float | None,
    gained: np.ndarray,
) -> Pair:
    """Return a pair; Holm's p-value follows when all pairs are there.

    Args:
        names: the better system and the other.
        observed: their corpus scores.
        resampled: their scores on each resample, [B, 2].
        p_permutation: see :class:`Pair`.
        gained: by how much the better system's caption is better, per caption; 0 for a tie.
    """
    difference = float(observed[0] - observed[1])
    differences = resampled[:, 0] - resampled[:, 1]
    return Pair(
        *names,
        difference,
        _interval(differences),
        # Centred on the observed difference: on the resamples' own mean, an image with many captions would
        # move the centre along and make a difference surer than its interval says.
        _p_value(_as_extreme(differences - difference, difference), len(differences)),
        p_permutation,
        None,
        int((gained > 0).sum()),
        int((gained == 0).sum()),
        int((gained < 0).sum()),
    )


def _as_extreme(null: np.ndarray, observed: float) -> int:
    """Return how many differences [B] are as extreme, either way; an undefined one counts against."""
    return int((~(np.abs(null) < abs(observed) - _ROUNDING)).sum())


def _p_value(extreme: int, count: int) -> float | None:
    """Return the p-value, (1 + at least as extreme) / (1 + all), which is never 0; None of none drawn."""
    return (1 + extreme) / (1 + count) if count else None


def _swapping(extreme: int, differing: int, count: int) -> float | None:
    """Return the p-value of swapping, which no more can be said than the images with different scores allow.

    They alone can be swapped to an effect, in 2**differing ways, of which those of none and of all are as
    extreme as the data. Where a corpus score is a share of all words, other images change the share all the
    same, by the lengths of their captions: one that repeats itself, among captions that are shorter than the
    other system's, would be significant.

    Args:
        extreme: of how many permutations the difference is as extreme.
        differing: images with other scores.
        count: permutations.
    """
    value = _p_value(extreme, count)
    return None if value is None else max(value, min(1.0, 2.0 ** (1 - differing)))


def _interval(values: np.ndarray) -> Interval:
    return percentile_interval(values, CONFIDENCE) if len(values) else Interval(None, None)


def _ranked(pairs: Sequence[Pair], order: Sequence[str]) -> tuple[list[Pair], dict[str, int]]:
    """Return the pairs with Holm's p-values, and {system: cluster}."""
    values = [pair.p_permutation for pair in pairs if pair.p_permutation is not None]
    if len(values) < len(pairs):
        return list(pairs), {}
    corrected = [replace(pair, p_holm=float(p)) for pair, p in zip(pairs, holm(values), strict=True)]
    matrix = np.ones((len(order), len(order)))
    for pair in corrected:
        matrix[order.index(pair.better), order.index(pair.worse)] = pair.p_holm
    return corrected, dict(zip(order, rank_clusters(matrix, ALPHA), strict=True))


def most_different(
    outcome: MetricOutcome, samples: Mapping[str, Sequence[CaptionSample]], pair: tuple[str, str], count: int
) -> list[Example]:
    """Return the images on which two systems' scores differ most, the largest difference first.

    Args:
        outcome: of the metric.
        samples: {system: N samples}, in the order of the scores.
        pair: the two systems.
        count: examples at most; images whose two scores are a tie are none.
    """
    a, b = pair
    if a not in outcome.scores or b not in outcome.scores:
        return []
    gaps = np.nan_to_num(np.abs(outcome.scores[a] - outcome.scores[b]), nan=0.0)
    order = [int(place) for place in np.argsort(-gaps, kind="stable")[:count] if gaps[place] > outcome.tie]
    kind = "caption" if outcome.n > outcome.images else "image"
    return [
        Example(
            str(samples[a][place].id),
            kind,
            {name: float(outcome.scores[name][place]) for name in pair},
            {name: samples[name][place].candidate for name in pair},
            samples[a][place].references,
        )
        for place in order
    ]

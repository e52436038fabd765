"""Which metric is better, pair by pair: differences, tests, correction, rank clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations

import numpy as np

from suisei.cli import counted
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError
from suisei.metaeval.agreement import AgreementData, Rows, agree, systemless_notes
from suisei.metaeval.correlation import CorrelationError, pearson
from suisei.metaeval.labels import VERSUS
from suisei.metaeval.resampling import (
    Interval,
    bootstrap_difference,
    bootstrap_values,
    group_weights,
    paired_rows,
    percentile_interval,
)
from suisei.metaeval.settings import ALPHA, EvaluationSettings
from suisei.metaeval.significance import (
    ROUNDING,
    TestResult,
    holm,
    permutation_test,
    rank_clusters,
    too_few_permutations,
    too_few_units,
    williams_test,
)
from suisei.metaeval.tables import LABELS, Cell, Row, Section, Table


@dataclass(frozen=True, slots=True)
class Comparison:
    """All pairs of metrics compared.

    Attributes:
        table: a row per pair, the better metric first.
        ranks: {metric: rank cluster}, from 1, the best first.
    """

    table: Table
    ranks: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Compared:
    """A pair of metrics, first that which is better on the samples of both; a row may say why no test is.

    ``units`` is how many groups or items the test swaps.
    """

    better: str
    worse: str
    test: TestResult | None
    row: Row
    units: int = 0


def compare_metrics(
    named_scores: Mapping[str, np.ndarray],
    samples: Sequence[CaptionSample],
    settings: EvaluationSettings,
    *,
    alpha: float = ALPHA,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compare every pair of metrics on the samples that both score.

    With averaging "item" a pair is compared on the groups in which the correlations of both are defined.

    Each pair has the difference of the correlations with its bootstrap interval, the one-sided
    PERM-BOTH p-value of the better one being better (two-sided, and so 1, where the two are equal), the same
    after Holm's correction over all pairs, and for pooled Pearson also Williams' p-value. Which is better the
    pair's samples say themselves, so the level of the corrected p-values is up to twice what they say.
    Clusters are built on the corrected p-values: a metric starts a new cluster when any member of the current
    one is significantly better.
    Metrics are ordered by their correlations, or where they score different samples by how many others they
    are significantly better than. Those whose correlation is undefined are left out, with a note.

    Args:
        named_scores: {name: float64 [N]}, higher is better, NaN where missing.
        samples: N rated samples.
        settings: the coefficient, averaging, raters, what a permutation swaps, resamples and seed.
        alpha: level of the clusters.
        progress: called with (pairs done, pairs in all).

    Raises:
        ConfigError: no resamples.
    """
    if settings.n_resamples < 1:
        raise ConfigError(f"a comparison needs resamples, got n_resamples {settings.n_resamples}")
    datas = {
        name: AgreementData.from_samples(scores, samples).correlated(settings.averaging)
        for name, scores in named_scores.items()
    }
    values, notes = _values(datas, settings)
    notes += systemless_notes(samples, settings.averaging)
    names = sorted(values, key=lambda name: -values[name])
    pairs, metrics = list(combinations(names, 2)), _Metrics(datas, settings)
    results: list[_Compared] = []
    for done, pair in enumerate(pairs, start=1):
        results.append(_compared(pair, metrics, settings))
        if progress:
            progress(done, len(pairs))
    p_values: dict[tuple[str, str], float] = {}
    for each, p_value in zip(results, _corrected([each.test for each in results]), strict=True):
        p_values[each.better, each.worse] = float(p_value)
        if each.row.cells:
            each.row.cells["holm"] = Cell(float(p_value), is_p_value=True)
    section = Section("pairs", tuple(each.row for each in results))
    different = [*_shared_notes(datas, results), *_group_notes(section.rows)]
    notes += _item_notes(datas, settings)
    if different:
        names = _by_wins(names, p_values, alpha)
    matrix = [[p_values.get((better, worse), 1.0) for worse in names] for better in names]
    ranks = dict(zip(names, rank_clusters(np.array(matrix), alpha), strict=True)) if names else {}
    shown = (*_notes(settings, results, alpha), *different, *notes)
    return Comparison(
        Table("Paired comparison", _columns(settings), (section,), shown, row_heading="Pair"), ranks
    )


def _by_wins(names: Sequence[str], p_values: Mapping[tuple[str, str], float], alpha: float) -> list[str]:
    """Order metrics by how many others they are significantly better than, less those that are better."""
    wins = dict.fromkeys(names, 0)
    for (better, worse), p_value in p_values.items():
        if p_value <= alpha:
            wins[better] += 1
            wins[worse] -= 1
    return sorted(names, key=lambda name: -wins[name])


class _Metrics:
    """What metrics score, on the samples that both of a pair do; what several pairs need is kept.

    Args:
        datas: {metric: its scores beside the ratings}.
        settings: how they are correlated and resampled.
    """

    def __init__(self, datas: Mapping[str, AgreementData], settings: EvaluationSettings) -> None:
        self._datas, self._settings = datas, settings
        self._rows: dict[str, Rows] = {}
        self._resampled: dict[tuple[str, bytes], np.ndarray] = {}

    def both(self, a: str, b: str) -> np.ndarray:
        """Return which samples two metrics score, bool [N].

        Raises:
            CorrelationError: none.
        """
        both = ~np.isnan(self._datas[a].scores) & ~np.isnan(self._datas[b].scores)
        if not both.any():
            raise CorrelationError("no sample has a score of both")
        return both

    def rows(self, name: str, samples: np.ndarray) -> Rows:
        """Return a metric's rows of some samples, bool [N]; those of all that it scores are kept."""
        if not np.array_equal(samples, ~np.isnan(self._datas[name].scores)):
            return self._datas[name].subset(samples).rows(self._settings.raters)
        if name not in self._rows:
            self._rows[name] = self._datas[name].subset(samples).rows(self._settings.raters)
        return self._rows[name]

    def interval(self, better: tuple[str, Rows], worse: tuple[str, Rows], samples: np.ndarray) -> Interval:
        """Return the interval of the difference of two metrics, (name, rows), on some samples, bool [N]."""
        settings = self._settings
        if settings.averaging == "item":  # on the groups of both, which each pair has its own of
            return bootstrap_difference(
                better[1], worse[1], settings.correlation, settings.averaging,
                n_resamples=settings.n_resamples, seed=settings.seed, confidence=settings.confidence,
            )  # fmt: skip
        values = self._values(*better, samples) - self._values(*worse, samples)
        return percentile_interval(values, settings.confidence)

    def _values(self, name: str, rows: Rows, samples: np.ndarray) -> np.ndarray:
        key, settings = (name, sha256(samples.tobytes()).digest()), self._settings
        if key not in self._resampled:
            weights = group_weights(len(rows.group_names), settings.n_resamples, settings.seed)
            self._resampled[key] = bootstrap_values(rows, settings.correlation, settings.averaging, weights)
        return self._resampled[key]


def _compared(pair: tuple[str, str], metrics: _Metrics, settings: EvaluationSettings) -> _Compared:
    """Return the test of one pair in the direction that its own samples show."""
    kind, averaging = settings.correlation, settings.averaging
    better, worse = pair
    try:
        both = metrics.both(better, worse)
        a, b = metrics.rows(better, both), metrics.rows(worse, both)
        groups = len(a.group_names)
        a, b = paired_rows(a, b, kind, averaging)
        gain = agree(a, kind, averaging).value - agree(b, kind, averaging).value
        if gain < 0:
            better, worse, a, b = worse, better, b, a
        interval, reason = _interval(metrics, (better, a), (worse, b), both)
        test = permutation_test(
            a, b, kind, averaging,
            unit=settings.unit, n_permutations=settings.permutations, seed=settings.seed,
            alternative="greater" if abs(gain) > ROUNDING else "two-sided",  # of equals none is better
        )  # fmt: skip
    except CorrelationError as error:
        return _Compared(better, worse, None, Row(f"{better}{VERSUS}{worse}", error=str(error)))
    cells = {
        "difference": Cell(test.difference, interval.low, interval.high, reason, test.test),
        "p": Cell(test.p_value, signature=test.test, is_p_value=True),
    }
    if _has_williams(settings):
        cells["williams"] = _williams(a, b)
    left_out = groups - len(a.group_names)
    info = {"groups": groups - left_out, "groups_left_out": left_out} if left_out else {}
    row = Row(f"{better}{VERSUS}{worse}", cells, info={"n": len(a.x), **info})
    units = len(a.group_names) if settings.unit == "group" else len(np.unique(a.item))
    return _Compared(better, worse, test, row, units)


def _interval(
    metrics: _Metrics, better: tuple[str, Rows], worse: tuple[str, Rows], both: np.ndarray
) -> tuple[Interval, str | None]:
    """Return the interval of a difference, and what it leaves out or why there is none."""
    try:
        interval = metrics.interval(better, worse, both)
    except CorrelationError as error:
        return Interval(None, None), f"no interval: {error}"
    return interval, interval.left_out


def _shared_notes(datas: Mapping[str, AgreementData], pairs: Sequence[_Compared]) -> list[str]:
    """Say of pairs that score different samples how many both score, for those alone are compared."""
    scored = {name: ~np.isnan(data.scores) for name, data in datas.items()}
    fewer = []
    for pair in pairs:
        both = int((scored[pair.better] & scored[pair.worse]).sum())
        most = int(max(scored[pair.better].sum(), scored[pair.worse].sum()))
        if both < most:
            fewer.append(f"{pair.row.label} {both:,} of {most:,}")
    if not fewer:
        return []
    return [
        "a pair is compared on the samples that both score, so differences, and which of the two is better, "
        "may be other than by the figures of each alone, and ranks follow the pairs (how many others a "
        f"metric is significantly better than): {'; '.join(fewer)}"
    ]


def _group_notes(rows: Sequence[Row]) -> list[str]:
    """Say on how many images a pair is compared where one of its metrics has no correlation in others."""
    fewer = [
        f"{row.label} {row.info['groups']:,} of {row.info['groups'] + row.info['groups_left_out']:,}"
        for row in rows
        if "groups_left_out" in row.info
    ]
    if not fewer:
        return []
    return [
        "a pair is compared on the groups (images) in which the correlations of both are defined, so "
        "differences, and which of the two is better, may be other than by the figures of each alone: "
        f"{'; '.join(fewer)}"
    ]


def _item_notes(datas: Mapping[str, AgreementData], settings: EvaluationSettings) -> list[str]:
    """Say that samples swapped one by one give too small p-values where groups have several."""
    counts = Counter(group for data in list(datas.values())[:1] for group in data.groups)
    several = sum(count > 1 for count in counts.values())
    if settings.unit != "item" or not several:
        return []
    return [
        f"samples are swapped one by one, with several in {several:,} of {counted(len(counts), 'group')} "
        "(images); a metric's errors on one image go together, so that p-values are too small: swap groups "
        "instead"
    ]


def _has_williams(settings: EvaluationSettings) -> bool:
    return settings.correlation == "pearson" and settings.averaging == "pooled"


def _columns(settings: EvaluationSettings) -> dict[str, str]:
    columns = {
        "difference": f"difference in {LABELS[settings.correlation]}",
        "p": "p (PERM-BOTH)",
        "holm": "p (Holm)",
    }
    return columns | ({"williams": "p (Williams)"} if _has_williams(settings) else {})


def _notes(settings: EvaluationSettings, results: Sequence[_Compared], alpha: float) -> list[str]:
    count, pairs = settings.permutations, sum(each.test is not None for each in results)
    notes = [
        f"PERM-BOTH, one-sided, {count} permutations, unit {settings.unit}, seed {settings.seed}; Holm over "
        f"{counted(pairs, 'pair')}; a rank cluster ends where any member is better than the next metric "
        f"(Holm p <= {alpha:g})"
    ]
    if _has_williams(settings):
        notes.append("Williams' test takes rows as independent, which several ratings of a sample are not")
    units = max((each.units for each in results), default=0)
    what = "groups (images)" if settings.unit == "group" else "samples"
    few = too_few_units(pairs, units, alpha, two_sided=False, what=what)
    return [*notes, *few, *too_few_permutations(pairs, count, alpha)]


def _values(
    datas: Mapping[str, AgreementData], settings: EvaluationSettings
) -> tuple[dict[str, float], list[str]]:
    values, notes = {}, []
    for name, data in datas.items():
        try:
            values[name] = agree(
                data.rows(settings.raters, "drop"), settings.correlation, settings.averaging
            ).value
        except CorrelationError as error:
            notes.append(f"{name} is not compared: {error}")
    return values, notes


def _williams(a: Rows, b: Rows) -> Cell:
    try:
        result = williams_test(pearson(a.x, a.y), pearson(b.x, b.y), pearson(a.x, b.x), len(a.x))
    except CorrelationError as error:
        return Cell(None, reason=str(error))
    return Cell(result.p_value, signature=result.test, is_p_value=True)


def _corrected(tests: Sequence[TestResult | None]) -> np.ndarray:
    """Return Holm's p-values; a pair without test is not significant and not counted."""
    there = [i for i, test in enumerate(tests) if test is not None]
    corrected = np.ones(len(tests))
    corrected[there] = holm([test.p_value for test in tests if test is not None])
    return corrected

"""Which metric is better, pair by pair: differences, tests, correction, rank clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.metaeval.agreement import AgreementData, Rows, agree
from suisei.metaeval.correlation import CorrelationError, pearson
from suisei.metaeval.significance import (
    TestResult,
    bootstrap_difference,
    holm,
    permutation_test,
    rank_clusters,
    williams_test,
)
from suisei.metaeval.tables import LABELS, Cell, Row, Section, Table


@dataclass(frozen=True, slots=True)
class Comparison:
    """All pairs of metrics compared.

    Attributes:
        table: a row per pair, the better metric first.
        ranks: {metric: rank cluster}, from 1, in order of decreasing correlation.
    """

    table: Table
    ranks: dict[str, int]


def compare_metrics(
    named_scores: Mapping[str, np.ndarray],
    samples: Sequence[CaptionSample],
    *,
    correlation: str = "tau-c",
    averaging: str = "pooled",
    raters: str = "rows",
    unit: str = "item",
    n_resamples: int = 1000,
    seed: int = 0,
    alpha: float = 0.05,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compare every pair of metrics on the samples that both score.

    Each pair has the difference of the correlations with its 95 % bootstrap interval, the one-sided
    PERM-BOTH p-value of the better one being better, the same after Holm's correction over all pairs,
    and for pooled Pearson also Williams' p-value. Clusters are built on the corrected p-values: a
    metric starts a new cluster when any member of the current one is significantly better.

    Args:
        named_scores: {name: float64 [N]}, higher is better, NaN where missing.
        samples: N rated samples.
        correlation: the coefficient compared.
        averaging: "pooled", "item" or "system".
        raters: "rows" or "mean".
        unit: what a permutation swaps, "item" or "group".
        n_resamples: of the bootstrap, and permutations of the test.
        seed: of both.
        alpha: level of the clusters.
        progress: called with (pairs done, pairs in all).

    Metrics whose correlation is undefined are left out, with a note.
    """
    datas = {name: AgreementData.from_samples(scores, samples) for name, scores in named_scores.items()}
    values, notes = _values(datas, correlation, averaging, raters)
    names = sorted(values, key=lambda name: -values[name])
    pairs = list(combinations(range(len(names)), 2))
    results: list[tuple[TestResult | None, Row]] = []
    for done, (i, j) in enumerate(pairs, start=1):
        label = f"{names[i]} > {names[j]}"
        try:
            a, b = _common_rows(datas[names[i]], datas[names[j]], raters)
            settings = {"n_resamples": n_resamples, "seed": seed}
            interval = bootstrap_difference(a, b, correlation, averaging, **settings)
            test = permutation_test(
                a, b, correlation, averaging, unit=unit, n_permutations=n_resamples, seed=seed
            )
        except CorrelationError as error:
            results.append((None, Row(label, error=str(error))))
        else:
            cells = {"difference": Cell(test.difference, interval.low, interval.high, signature=test.test)}
            cells["p"] = Cell(test.p_value, signature=test.test, is_p_value=True)
            if correlation == "pearson" and averaging == "pooled":
                cells["williams"] = _williams(a, b)
            results.append((test, Row(label, cells, info={"n": len(a.x)})))
        if progress:
            progress(done, len(pairs))
    p_values = _corrected([test for test, _ in results])
    matrix = np.ones((len(names), len(names)))
    for (i, j), (_, row), p_value in zip(pairs, results, p_values, strict=True):
        matrix[i, j] = p_value
        if row.cells:
            row.cells["holm"] = Cell(float(p_value), is_p_value=True)
    ranks = dict(zip(names, rank_clusters(matrix, alpha), strict=True))
    columns = {"difference": f"difference in {LABELS[correlation]}", "p": "p (PERM-BOTH)", "holm": "p (Holm)"}
    if correlation == "pearson" and averaging == "pooled":
        columns["williams"] = "p (Williams)"
        notes.append("Williams' test takes rows as independent, which several ratings of a sample are not")
    notes.insert(
        0,
        f"PERM-BOTH, one-sided, {n_resamples} permutations, unit {unit}, seed {seed}; Holm over "
        f"{len(pairs)} pairs; a rank cluster ends where any member is better than the next metric "
        f"(Holm p <= {alpha:g})",
    )
    if len(pairs) / (n_resamples + 1) > alpha:
        notes.append(
            f"{n_resamples} permutations are too few for {len(pairs)} pairs: after Holm's correction none "
            f"can reach {alpha:g}; use at least {int(2 * len(pairs) / alpha)}"
        )
    section = Section("pairs", tuple(row for _, row in results))
    table = Table("Paired comparison", columns, (section,), tuple(notes), row_heading="Pair")
    return Comparison(table, ranks)


def _values(
    datas: Mapping[str, AgreementData], correlation: str, averaging: str, raters: str
) -> tuple[dict[str, float], list[str]]:
    values, notes = {}, []
    for name, data in datas.items():
        try:
            values[name] = agree(data.rows(raters, "drop"), correlation, averaging).value
        except CorrelationError as error:
            notes.append(f"{name} is not compared: {error}")
    return values, notes


def _common_rows(a: AgreementData, b: AgreementData, raters: str) -> tuple[Rows, Rows]:
    both = ~np.isnan(a.scores) & ~np.isnan(b.scores)
    if not both.any():
        raise CorrelationError("no sample has a score of both")
    return a.subset(both).rows(raters), b.subset(both).rows(raters)


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

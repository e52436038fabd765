"""What each part of a model is worth: correlations without it, and how sure the difference is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from suisei.cli import counted
from suisei.data.sample import CaptionSample
from suisei.errors import DataError
from suisei.metaeval.agreement import AgreementData, Rows, agree
from suisei.metaeval.best import too_few_resamples
from suisei.metaeval.correlation import CORRELATIONS, CorrelationError
from suisei.metaeval.correlation_tables import versions
from suisei.metaeval.resampling import bootstrap_values, check_paired, group_weights, with_interval
from suisei.metaeval.significance import holm
from suisei.metaeval.tables import LABELS, Cell, Row, Section, Table
from suisei.scoring.run_scores import read_scores, samples_of_run

_SHOWN = {kind: LABELS[kind] for kind in CORRELATIONS}
MODEL = "suisei"
"""Name of the model's column in a run's scores."""
_ANEW = "delete the folder, and the same command trains that run anew"
_SEED = 0
"""Of the bootstrap; ``--seeds`` are those of the trainings."""
_ENOUGH_SEEDS = 5
"""With fewer, a test takes chance for a difference much more often than it says."""
_DAMAGE = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError),
    *(OverflowError, RecursionError),  # a number beyond any float, lists within lists
)


@dataclass(frozen=True, slots=True)
class RunResult:
    """The test samples of one training, its scores of them, and what it took.

    Attributes:
        samples: N test samples, all folds together where there are folds.
        scores: float64 [N].
        raters: "rows" or "mean", as in the run's own report.
        minutes: of training.
        learned_from: digests of its data, {} of a training by an earlier version.
        encoders: {folder or file: its digest} of those that it started from.
    """

    samples: tuple[CaptionSample, ...]
    scores: np.ndarray
    raters: str
    minutes: float
    learned_from: Mapping[str, str] = field(default_factory=dict)
    encoders: Mapping[str, str] = field(default_factory=dict)


def read_result(folder: Path) -> RunResult:
    """Read what ``suisei train`` left in a run's folder.

    Raises:
        DataError: a file is missing, or scores and samples do not belong together.
    """
    try:
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        return _result_of(folder, report, read_scores(folder)[MODEL])
    except DataError:
        raise
    except _DAMAGE as error:
        what = f"{type(error).__name__}: {error}"
        raise DataError(f"{folder}: not a finished run ({what[:200]}); {_ANEW}") from None


def _result_of(folder: Path, report: Mapping[str, Any], scores: np.ndarray) -> RunResult:
    parts = report.get("folds", [report])
    samples = tuple(samples_of_run(folder, len(parts) if "folds" in report else 0))
    if len(scores) != len(samples):
        raise DataError(f"{folder}: {len(scores)} scores for {len(samples)} test samples; {_ANEW}")
    return RunResult(
        samples,
        scores,
        report["results"]["settings"]["raters"],
        sum(part["training"]["minutes"] for part in parts),
        {
            f"{fold} {name}": str(digest)
            for fold, part in enumerate(parts)
            for name, digest in part["training"].get("data_digests", {}).items()
        },
        dict(parts[-1]["training"].get("encoders", {})),  # the folds have the same
    )


def check_same_data(trained: Mapping[Path, RunResult]) -> None:
    """Refuse runs whose settings name the same data, and which learned from other content of it.

    Args:
        trained: {folder: result} of runs that have the same settings of data.

    Raises:
        DataError: the files were changed between two of the trainings.
    """
    known = {folder: result.learned_from for folder, result in trained.items() if result.learned_from}
    _check_same(known, "learned from other data than")


def check_same_encoders(trained: Mapping[Path, RunResult]) -> None:
    """Refuse runs that started from other content of the same folder or file of an encoder.

    Args:
        trained: {folder: result} of runs with any settings.

    Raises:
        DataError: it was changed between two of the trainings.
    """
    for name in dict.fromkeys(name for result in trained.values() for name in result.encoders):
        own = {folder: result.encoders[name] for folder, result in trained.items() if name in result.encoders}
        _check_same(own, f"started from another {name} than")


def _check_same(found: Mapping[Path, Any], what: str) -> None:
    if not found:
        return
    last = max(found, key=lambda folder: (folder / "report.json").stat().st_mtime_ns)
    others = [folder for folder in found if found[folder] != found[last]]
    if others:
        named = ", ".join(map(str, others[:3])) + (", ..." if len(others) > 3 else "")
        raise DataError(
            f"{len(others)} of the runs {what} {last}, which was trained last: files have changed since. "
            f"Delete {named}, and the same command trains anew what is missing"
        )


def ablation_tables(
    results: Mapping[str, Mapping[int, RunResult]],
    *,
    correlation: str = "pearson",
    n_resamples: int = 1000,
    notes: Sequence[str] = (),
    progress: Callable[[int], Any] | None = None,
) -> tuple[Table, Table]:
    """Return correlations by variant, and their differences to the full model.

    The figures are means over seeds. A difference is the variant's mean minus the full model's, so it
    is below 0 where the part that is left out helps. Its 95 % interval resamples images, the same ones
    for both, and each model's seeds; the p-value is two-sided, from the same resamples, and corrected
    over all variants by Holm's method. There is none where a model has a single seed.

    Args:
        results: {variant: {seed: result}}, the full model first.
        correlation: the coefficient of the p-values.
        n_resamples: bootstrap resamples; 0 for no intervals and no p-values.
        notes: further lines below the first table.
        progress: called with 1 for each variant that is resampled.

    Raises:
        DataError: two runs were tested on different samples, or the full model has no result.
    """
    (full, first), *others = results.items()
    if not first:
        raise DataError(f"no run of {full!r} is finished: there is nothing to compare with")
    _check_same_samples(results)
    rows = {name: [_rows(result) for result in runs.values()] for name, runs in results.items()}
    figures = [_figures(name, rows[name], results[name], correlation) for name in results]
    differences = []
    full_values = _bootstrapped(rows[full], n_resamples, stream=0)
    for number, (name, _) in enumerate(others, start=1):
        if rows[name]:
            values = _bootstrapped(rows[name], n_resamples, stream=number)
            differences.append(_difference(name, rows[name], rows[full], values, full_values, correlation))
        if progress:
            progress(1)
    settings = {"n_resamples": n_resamples, "seed": _SEED}
    main = _main_table(figures, correlation, settings, (*_unscored(results), *notes))
    tested = sum("p" in row.cells for row in differences)
    second = Table(
        f"Differences to {full}",
        {**_SHOWN, "p": f"p of {LABELS[correlation]}", "holm": "p (Holm)"},
        (Section("overall", tuple(_corrected(differences))),),
        (_how(full, tested, n_resamples), *_few_seeds(results), *_few_resamples(tested, n_resamples)),
        {"plotted": correlation},
        row_heading="Model",
    )
    return main, second


def _how(full: str, tested: int, n_resamples: int) -> str:
    if not n_resamples:
        return f"variant minus {full}"
    what, corrected = (
        (" and two-sided p", f"; Holm over {counted(tested, 'variant')}") if tested else ("", "")
    )
    return (
        f"variant minus {full}; 95% intervals{what}: bootstrap over images (the same for both) and over "
        f"seeds, {n_resamples} resamples, seed {_SEED}{corrected}"
    )


def _main_table(
    figures: Sequence[Row], correlation: str, settings: dict[str, Any], notes: Sequence[str]
) -> Table:
    return Table(
        "Ablation",
        {**_SHOWN, "sd": f"sd of {LABELS[correlation]}", "seeds": "seeds"},
        (Section("overall", tuple(figures)),),
        ("means over seeds; sd: standard deviation over seeds", *notes),
        {"versions": versions(), "settings": settings, "plotted": correlation},
        row_heading="Model",
    )


def _unscored(results: Mapping[str, Mapping[int, RunResult]]) -> list[str]:
    """Return a line for each variant whose figures are of fewer samples than those of the others."""
    lines = []
    for name, runs in results.items():
        most = max((int(np.isnan(run.scores).sum()) for run in runs.values()), default=0)
        if most:
            lines.append(
                f"{name} has no score of {most:,} of {len(next(iter(runs.values())).scores):,} samples; its "
                "figures are of the others"
            )
    return lines


def _few_seeds(results: Mapping[str, Mapping[int, RunResult]]) -> list[str]:
    fewest = min(len(runs) for runs in results.values() if runs)
    if fewest >= _ENOUGH_SEEDS:
        return []
    if fewest > 1:
        return [
            f"{fewest} seeds say little of how much training varies: intervals are somewhat too narrow and "
            f"p-values too small; use at least {_ENOUGH_SEEDS}"
        ]
    return [
        "a single seed says nothing of how much training varies: such a difference may be chance, its "
        "interval leaves that out, and it has no p-value"
    ]


def _few_resamples(tested: int, n_resamples: int) -> list[str]:
    """Return a note if no variant can be significant after Holm's correction, however clear it is."""
    wanted = too_few_resamples(tested + 1, n_resamples) if tested else 0
    if not wanted:
        return []
    return [
        f"{n_resamples} resamples are too few for {counted(tested, 'variant')}: after Holm's correction none "
        f"can reach 0.05; use at least {wanted} (--bootstrap)"
    ]


def _check_same_samples(results: Mapping[str, Mapping[int, RunResult]]) -> None:
    """Refuse runs of different splits: their correlations could not be compared."""
    named = [
        (f"{name}, seed {number}", run) for name, runs in results.items() for number, run in runs.items()
    ]
    name, first = named[0]
    expected = [(s.candidate, s.references, s.rating, s.group) for s in first.samples]
    for other, run in named[1:]:
        if [(s.candidate, s.references, s.rating, s.group) for s in run.samples] != expected:
            raise DataError(
                f"{other} was tested on other samples than {name}; use the same data, data.split_seed and "
                "data.fractions (or data.folds) for all"
            )


def _rows(result: RunResult) -> Rows:
    return AgreementData.from_samples(result.scores, result.samples).rows(result.raters, "drop")


def _figures(name: str, rows: list[Rows], runs: Mapping[int, RunResult], correlation: str) -> Row:
    if not rows:
        return Row(name, {"seeds": Cell(0)})
    cells, info = {}, {"minutes": {str(number): run.minutes for number, run in runs.items()}}
    by_seed: dict[str, dict[str, float]] = {}
    for kind in CORRELATIONS:
        try:
            values = [agree(each, kind).value for each in rows]
        except CorrelationError as error:
            cells[kind] = Cell(None, reason=str(error))
            continue
        cells[kind] = Cell(float(np.mean(values)))
        by_seed[kind] = {str(number): value for number, value in zip(runs, values, strict=True)}
        if kind == correlation and len(values) > 1:
            cells["sd"] = Cell(float(np.std(values, ddof=1)))
    cells["seeds"] = Cell(len(rows))
    return Row(name, cells, info={**info, "by_seed": by_seed})


def _bootstrapped(rows: list[Rows], n_resamples: int, stream: int) -> dict[str, np.ndarray]:
    """Return resampled means over seeds of every coefficient, float64 [resamples] each.

    Images are drawn by one seed, the same for all variants, so that differences are paired. Seeds are
    drawn by ``stream`` as well: nothing pairs the seeds of two variants. Means of S drawn seeds have
    (S - 1)/S of the variance of means of S trainings: their deviations are spread by the root of S/(S - 1).
    """
    if not n_resamples:
        return {}
    weights = group_weights(len(rows[0].group_names), n_resamples, _SEED)
    drawn = np.random.default_rng((_SEED, stream)).multinomial(
        len(rows), np.full(len(rows), 1 / len(rows)), size=n_resamples
    )
    spread = np.sqrt(len(rows) / max(len(rows) - 1, 1))
    values = {}
    for kind in CORRELATIONS:
        try:
            by_seed = np.stack([bootstrap_values(each, kind, "pooled", weights) for each in rows], axis=1)
        except CorrelationError:
            continue
        mean = by_seed.mean(axis=1)
        values[kind] = mean + spread * ((drawn * by_seed).mean(axis=1) - mean)
    return values


def _difference(
    name: str,
    rows: list[Rows],
    full: list[Rows],
    values: Mapping[str, np.ndarray],
    full_values: Mapping[str, np.ndarray],
    correlation: str,
) -> Row:
    cells: dict[str, Cell] = {}
    for kind in CORRELATIONS:
        try:
            check_paired(rows[0], full[0])
            ours, theirs = ([agree(each, kind).value for each in side] for side in (rows, full))
            cells[kind] = Cell(float(np.mean(ours) - np.mean(theirs)))
            if kind in values and kind in full_values:
                resampled = values[kind] - full_values[kind]
                cells[kind] = with_interval(cells[kind], resampled, 0.95)
                tested = kind == correlation and min(len(rows), len(full)) > 1
                if tested and cells[kind].low is not None:
                    cells["p"] = Cell(_two_sided(resampled), is_p_value=True)
        except CorrelationError as error:
            cells[kind] = Cell(None, reason=str(error))
    return Row(name, cells)


def _two_sided(resampled: np.ndarray) -> float:
    """Return the two-sided p-value of no difference, never 0."""
    defined = resampled[~np.isnan(resampled)]
    fewer = min((defined <= 0).sum(), (defined >= 0).sum())
    return min(1.0, 2 * (1 + int(fewer)) / (1 + len(defined)))


def _corrected(rows: Sequence[Row]) -> list[Row]:
    tested = [row for row in rows if "p" in row.cells]
    adjusted = holm([float(row.cells["p"].value or 0.0) for row in tested])
    corrected: dict[str, Any] = dict(zip((row.label for row in tested), adjusted, strict=True))
    return [
        replace(row, cells={**row.cells, "holm": Cell(float(corrected[row.label]), is_p_value=True)})
        if row.label in corrected
        else row
        for row in rows
    ]

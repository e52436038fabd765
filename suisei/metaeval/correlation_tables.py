"""From score arrays to a table of correlations: overall, by language and by system."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.metaeval.agreement import Agreement, AgreementData, Rows, agree, systemless_notes
from suisei.metaeval.correlation import CORRELATIONS, MINIMUM, CorrelationError
from suisei.metaeval.human import LEFT_ONE_OUT, human_agreement, human_bootstrap, human_rounds
from suisei.metaeval.labels import HUMAN
from suisei.metaeval.resampling import Interval, bootstrap
from suisei.metaeval.settings import EvaluationSettings
from suisei.metaeval.tables import LABELS, Cell, Row, Section, Table
from suisei.version import __version__

_RATERS_NOTE = {
    "rows": "each rating is a row of its own beside its sample's score",
    "mean": "a sample's ratings are averaged first",
}
_AVERAGING_NOTE = {
    "pooled": "all rows are correlated at once",
    "item": "correlated inside each group (image), then averaged",
    "system": "means per system are correlated",
}


_HUMAN_NOTE = (
    "human: a rating of each sample against the mean of its others, averaged over the raters; that mean "
    "has few levels, and their ties lower tau-c beside a real-valued metric's; ratings of samples with fewer "
    "raters than others come round again, and n counts them again"
)


def evaluation_table(
    named_scores: Mapping[str, np.ndarray],
    samples: Sequence[CaptionSample],
    settings: EvaluationSettings | None = None,
    *,
    human: bool = True,
    by_scope: bool = True,
    signatures: Mapping[str, str] | None = None,
    title: str = "Agreement with human ratings",
    progress: Callable[[int, int], None] | None = None,
) -> Table:
    """Return Pearson, Spearman, Kendall tau-b and tau-c, and n, for each named score array.

    Args:
        named_scores: {name: float64 [N]}, higher is better; NaN where a sample has no score.
        samples: N samples, all rated.
        settings: raters, averaging, what missing scores do, and resamples for intervals.
        human: whether to add the human row, each rating against the mean of the others.
        by_scope: whether to add sections by language and by system where there is more than one.
        signatures: {name: metric signature}.
        title: of the table.
        progress: called with (rows done, rows in all).

    Raises:
        CorrelationError: lengths differ, a sample is unrated, or scores may not be missing and one is
            NaN. A correlation that is undefined is not an error: its cell is empty and says why.
        ConfigError: an unknown choice.
    """
    settings = settings or EvaluationSettings()
    nothing = np.full(len(samples), np.nan)
    base = _correlated(nothing, samples, settings)  # the ratings, even if every metric failed
    datas = {name: _correlated(scores, samples, settings) for name, scores in named_scores.items()}
    scopes = list(_scopes(base, by_scope, settings.averaging))
    done = itertools.count(1)
    sections = []
    for scope, keep in scopes:
        rows = []
        for name, data in [*datas.items(), *([(HUMAN, base)] if human else [])]:
            scoped = data if keep is None else data.subset(keep)
            is_human = data is base
            row = _human_row(scoped, settings) if is_human else _metric_row(name, scoped, settings)
            rows.append(row if is_human else _signed(row, (signatures or {}).get(name)))
            if progress:
                progress(next(done), len(scopes) * (len(datas) + human))
        sections.append(Section(scope, tuple(rows)))
    columns = {**{kind: LABELS[kind] for kind in CORRELATIONS}, "n": "n"}
    if settings.averaging == "system":
        columns |= {"n": "rows", "systems": "systems"}
    meta: dict[str, Any] = {"settings": _described(settings), "versions": versions()}
    meta |= {"samples": len(samples), "groups": len(set(base.groups))}
    notes = (*_notes(settings, _has_human(sections)), *systemless_notes(samples, settings.averaging))
    return Table(title, columns, tuple(sections), notes, meta)


def _correlated(
    scores: np.ndarray, samples: Sequence[CaptionSample], settings: EvaluationSettings
) -> AgreementData:
    return AgreementData.from_samples(scores, samples).correlated(settings.averaging)


def _has_human(sections: Sequence[Section]) -> bool:
    rows = (row for section in sections for row in section.rows if row.label == HUMAN)
    return any(cell.value is not None for row in rows for cell in row.cells.values())


def _described(settings: EvaluationSettings) -> dict[str, Any]:
    names = ("averaging", "n_resamples", "seed", "confidence", "raters", "missing")
    return {name: getattr(settings, name) for name in names}


def _notes(settings: EvaluationSettings, human: bool) -> list[str]:
    notes = [rows_note(settings.averaging, settings.raters)]
    if human:
        notes.append(_HUMAN_NOTE)
    notes += settings.interval_notes("groups")
    return notes


def rows_note(averaging: str = "pooled", raters: str = "rows") -> str:
    """Return the line under a table that says what was correlated."""
    return f"{_AVERAGING_NOTE[averaging]}; {_RATERS_NOTE[raters]}"


def _metric_row(name: str, data: AgreementData, settings: EvaluationSettings) -> Row:
    if settings.missing == "raise":
        data.rows(settings.raters, "raise")  # a missing score is the caller's error, not a cell's reason
    row = _row(name, lambda: data.rows(settings.raters, settings.missing), settings)
    row.info["skipped"] = int(np.isnan(data.scores).sum())
    return row


def _signed(row: Row, signature: str | None) -> Row:
    return Row(row.label, row.cells, signature, row.error, row.info)


def _scopes(data: AgreementData, by_scope: bool, averaging: str) -> Iterator[tuple[str, np.ndarray | None]]:
    """Yield (title, mask) per scope; system-level figures have no scope by system."""
    yield "overall", None
    if not by_scope:
        return
    for title, column in (("language", data.languages), ("system", data.systems)):
        names = sorted({name for name in column if name})
        if len(names) > 1 and not (title == "system" and averaging == "system"):
            for name in names:
                yield f"{title}: {name}", np.array([value == name for value in column])


def _row(name: str, make_rows: Callable[[], Rows], settings: EvaluationSettings) -> Row:
    try:
        rows = make_rows()
    except CorrelationError as error:
        return Row(name, {kind: Cell(None, reason=str(error)) for kind in CORRELATIONS})
    cells = {}
    constant = _constant(rows)
    for kind in CORRELATIONS:
        if constant:
            cells[kind] = Cell(None, reason=constant)
            continue
        cells[kind] = measured_cell(rows, kind, settings)
    cells |= _counts(len(rows.x), rows, settings)
    info = {"raters": rows.raters, "samples": len(np.unique(rows.item)), "groups": len(rows.group_names)}
    return Row(name, cells, info=info)


def _constant(rows: Rows) -> str | None:
    """Return why no coefficient is defined at all, once for the row instead of once per coefficient."""
    if len(rows.x) > 1 and (rows.x == rows.x[0]).all():
        return f"undefined: all {len(rows.x)} scores are {rows.x[0]:zg}"
    return _equal_ratings(rows)


def _equal_ratings(rows: Rows) -> str | None:
    """Return why ratings correlate with nothing; without their value, which is scaled to [0, 1] here."""
    alike = len(rows.y) > 1 and (rows.y == rows.y[0]).all()
    return f"undefined: all {len(rows.y)} ratings are equal" if alike else None


def _human_row(data: AgreementData, settings: EvaluationSettings) -> Row:
    try:
        rounds = human_rounds(data, settings.seed)
    except CorrelationError as error:
        return Row(HUMAN, {kind: Cell(None, reason=str(error)) for kind in CORRELATIONS})
    first = rounds[0]
    equal = _equal_ratings(first)
    cells = {
        kind: Cell(None, reason=equal)
        if equal
        else measured_cell(rounds, kind, settings, human_agreement, human_bootstrap)
        for kind in CORRELATIONS
    }
    cells |= _counts(sum(len(rows.x) for rows in rounds), first, settings)
    info = {"raters": first.raters, "samples": len(first.x), "groups": len(first.group_names)}
    return Row(HUMAN, cells, info={**info, "skipped": first.dropped})


def _counts(count: int, rows: Rows, settings: EvaluationSettings) -> dict[str, Cell]:
    """Return how many rows there are, and of how many systems where their means are what is correlated."""
    cells = {"n": Cell(count)}
    if settings.averaging == "system":
        cells["systems"] = Cell(len(rows.system_names))
    return cells


def measured_cell(
    rows: Any,
    kind: str,
    settings: EvaluationSettings,
    measure: Callable[..., Agreement] = agree,
    resample: Callable[..., Interval] = bootstrap,
) -> Cell:
    """Return a correlation with its interval, or the reason why there is none.

    What either leaves out, undefined groups and resamples, is in the reason as well; so is what to think of a
    correlation that lies outside its interval.

    Args:
        rows: what ``measure`` takes.
        kind: the coefficient.
        settings: averaging, resamples (0 for no interval), seed and confidence.
        measure: computes it.
        resample: computes its interval.
    """
    try:
        result = measure(rows, kind, settings.averaging)
    except CorrelationError as error:
        return Cell(None, reason=str(error))
    reason = None
    if result.undefined:
        named = ", ".join(result.undefined[:3]) + (", ..." if len(result.undefined) > 3 else "")
        why = f"fewer than {MINIMUM[kind]} rows, or all equal"
        by = " by one rater or more" if result.raters == LEFT_ONE_OUT else ""  # not always the same groups
        count = f"{len(result.undefined)} of {result.groups} groups{by}"
        reason = f"undefined in {count} ({why}), left out: {named}"
    interval = Interval(None, None)
    if settings.n_resamples:
        try:
            interval = resample(
                rows,
                kind,
                settings.averaging,
                n_resamples=settings.n_resamples,
                seed=settings.seed,
                confidence=settings.confidence,
            )
        except CorrelationError as error:
            reason = "; ".join(filter(None, (reason, f"no interval: {error}")))
        reason = "; ".join(filter(None, (reason, interval.left_out, interval.outside(result.value)))) or None
    return Cell(result.value, interval.low, interval.high, reason, result.signature)


def versions() -> dict[str, str]:
    """Return the versions of what computed the numbers."""
    import platform

    return {"suisei": __version__, "numpy": np.__version__, "python": platform.python_version()}


def add_failed(table: Table, errors: Mapping[str, str], order: Sequence[str]) -> Table:
    """Return the table with a row for each metric that failed, in the order the user asked for.

    Args:
        table: from :func:`evaluation_table`.
        errors: {metric: why it failed}.
        order: all metrics, failed ones included.
    """
    if not errors:
        return table
    rows = {row.label: row for row in table.overall.rows}
    rows |= {name: Row(name, error=error) for name, error in errors.items()}
    ordered = [rows.pop(name) for name in order if name in rows]
    overall = Section(table.overall.title, (*ordered, *rows.values()))
    return replace(table, sections=(overall, *table.sections[1:]))


def add_ranks(table: Table, ranks: Mapping[str, int], correlation: str) -> Table:
    """Return the table with a column of rank clusters in its overall section."""
    rows = []
    for row in table.overall.rows:
        cells = {**row.cells, "rank": Cell(ranks[row.label])} if row.label in ranks else row.cells
        rows.append(replace(row, cells=cells))
    sections = (Section(table.overall.title, tuple(rows)), *table.sections[1:])
    return replace(
        table, columns={**table.columns, "rank": f"rank by {LABELS[correlation]}"}, sections=sections
    )

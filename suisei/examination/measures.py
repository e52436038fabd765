"""One benchmark measured for all metrics of an examination, by its own protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from suisei.cli import counted
from suisei.data.sample import CaptionSample
from suisei.errors import DataError
from suisei.examination.kept import Kept, samples_digest
from suisei.examination.kept_columns import Candidate, kept_column
from suisei.examination.places import Place
from suisei.metaeval.best import significantly_best
from suisei.metaeval.protocol import Evaluation
from suisei.metaeval.protocols import protocol_of, usual_settings
from suisei.metaeval.settings import EvaluationSettings
from suisei.metaeval.table_reading import read_table
from suisei.metaeval.tables import Cell, Table
from suisei.metrics.registry import get_entry
from suisei.metrics.training_data import seen_notes
from suisei.scoring.columns import ScoreColumn, column_notes, oriented_scores, sign_notes
from suisei.scoring.digest import value_digest
from suisei.scoring.fitting import Corpus, protocol_corpus
from suisei.scoring.plan import MetricPlan
from suisei.version import __version__


@dataclass(frozen=True, slots=True)
class Measure:
    """What came of one benchmark or probe.

    Attributes:
        name: of the benchmark or probe.
        heading: of its column in the overview.
        tables: {name: table}.
        figures: {metric: its cell in the overview}.
        best: the metric that is significantly better than each of the others, if there is one.
        samples: the samples.
        columns: the metrics' scores of them.
        notes: what else must be known.
        failed: metrics that failed; one that needs what the samples do not have is none of them.
        seen: metrics that learned from ratings that they are measured on, which are never the best.
        errors: {metric: why it has no figure}.
    """

    name: str
    heading: str
    tables: Mapping[str, Table]
    figures: Mapping[str, Cell]
    best: str | None = None
    samples: Sequence[CaptionSample] = ()
    columns: Sequence[ScoreColumn] = ()
    notes: Sequence[str] = ()
    failed: Sequence[str] = ()
    seen: Sequence[str] = ()
    errors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Means:
    """What measuring takes beside metrics and data.

    Attributes:
        kept: where finished work is kept.
        settings: how metrics are resampled, and correlated where a benchmark does not say.
        batch_size: handed to the metrics.
        say: says what is being done.
        warn: says what failed.
    """

    kept: Kept
    settings: EvaluationSettings
    batch_size: int = 64
    say: Callable[[str], None] = field(default=lambda _: None)
    warn: Callable[[str], None] = field(default=lambda _: None)

    def tell_failed(self, name: str, candidates: Sequence[Candidate], errors: Mapping[str, str]) -> None:
        """Say which metrics failed with a benchmark or probe; not those that cannot even be made."""
        for candidate in candidates:
            if candidate.label in errors and not candidate.problem:
                self.warn(f"{name}: {candidate.label} failed: {errors[candidate.label]}")


def measure_benchmark(place: Place, candidates: Sequence[Candidate], means: Means) -> Measure:
    """Score a benchmark with every metric and measure it by the benchmark's protocol.

    Args:
        place: a benchmark with samples.
        candidates: the metrics.
        means: where work is kept, and how it is measured.

    Raises:
        DataError: the benchmark has nothing that any of the metrics needs.
    """
    samples, name = list(place.samples or ()), place.name
    means = replace(means, settings=usual_settings(name, means.settings))
    digest, protocol = samples_digest(samples), protocol_of(name)
    corpus = protocol_corpus(name, place.root, [candidate.plan for candidate in candidates])
    evaluation, notes = _scored(name, samples, digest, candidates, corpus, means)
    columns = evaluation.columns
    metrics = [[candidate.label, candidate.state] for candidate in candidates]
    decided: list[Any] = [digest, metrics, repr(means.settings), __version__]
    decided += [corpus.decides()] if corpus else []
    every = [*columns, *(column for own in evaluation.further.values() for column in own)]
    # What was refused may have a score by the next start: images are mended.
    decided += [[column.label, sorted(column.refused)] for column in every if column.refused]
    failures = _failures(evaluation, candidates)
    failed = list(failures)
    means.tell_failed(name, candidates, failures)
    errors = {column.label: column.error for column in columns if column.error}
    if len(errors) == len(columns):
        told = [f"{label}: {error}" for label, error in errors.items()]
        if failed:
            return Measure(name, name, {}, {}, notes=told, failed=failed, errors=errors)
        raise DataError("; ".join(told))
    make = partial(_measured, evaluation, means, failed)
    found = means.kept.get(f"{name}-measures", value_digest(decided), make)
    tables = {key: read_table(value) for key, value in found["tables"].items()}
    column = protocol.plotted(means.settings)
    main = replace(tables["results"], meta={**tables["results"].meta, "plotted": column})
    tables["results"] = main  # not kept: what an earlier start measured shall be drawn as well
    figures = {row.label: row.cells[column] for row in main.overall.rows if column in row.cells}
    labels = {each.label for each in columns}
    seen = seen_notes({each.plan.label: each.plan.spec for each in candidates}, name)
    return Measure(
        name,
        f"{name}: {main.columns[column]}",
        tables,
        {label: cell for label, cell in figures.items() if label in labels},
        None if found["best"] in seen else found["best"],
        samples,
        columns,
        [*notes, *seen.values(), *column_notes(columns), *sign_notes(columns), *filter(None, [place.note])],
        failed,
        list(seen),
        errors,
    )


def _scored(
    name: str,
    samples: Sequence[CaptionSample],
    digest: str,
    candidates: Sequence[Candidate],
    corpus: Corpus | None,
    means: Means,
) -> tuple[Evaluation, list[str]]:
    """Score a benchmark as its protocol wants it, or take what is kept; returns the scores and notes."""
    plans = [candidate.plan for candidate in candidates]
    known = {candidate.label: candidate for candidate in candidates}
    settings: dict[str, Any] = {"batch_size": means.batch_size, "corpus": corpus}

    def score(plan: MetricPlan, some: Sequence[CaptionSample], count: int | None = None) -> ScoreColumn:
        part = name if count is None else f"{name}-{count}-references-{samples_digest(some)}"
        what = digest if count is None else samples_digest(some)
        problem = lacking(plan, some)
        if problem:
            return ScoreColumn(plan.label, None, error=problem)
        means.say(f"{name}: {counted(len(some), 'caption')} with {plan.spec}")
        return kept_column(means.kept, part, known[plan.label], some, what, **settings)

    columns = [score(plan, samples) for plan in plans]
    further, notes = protocol_of(name).further_columns(plans, columns, samples, score)
    return Evaluation(name, samples, columns, (), further), notes


def _failures(evaluation: Evaluation, candidates: Sequence[Candidate]) -> dict[str, str]:
    """Return {metric that failed: why}; one that lacks what it needs in the samples is none of them."""
    every = [*evaluation.columns, *(column for own in evaluation.further.values() for column in own)]
    broken = {each.label: each.error for each in reversed(every) if each.error}
    return {
        candidate.label: broken[candidate.label]
        for candidate in candidates
        if candidate.label in broken and not lacking(candidate.plan, evaluation.samples)
    }


def lacking(plan: MetricPlan, samples: Sequence[CaptionSample]) -> str:
    """Say what a metric needs that none of the samples has; nothing where it can read them."""
    needs = get_entry(plan.spec.partition(":")[0]).needs
    there = {
        "references": any(sample.references for sample in samples),
        "image": any(sample.image is not None for sample in samples),
        "video": any(getattr(sample, "video", None) is not None for sample in samples),
    }
    absent = [name for name in needs if not there.get(name, True)]
    return f"needs {' and '.join(sorted(absent))}, of which there is nothing here" if absent else ""


def _measured(evaluation: Evaluation, means: Means, failed: Sequence[str]) -> dict[str, Any]:
    protocol = protocol_of(evaluation.data)
    means.say(f"{evaluation.data}: measuring")
    measured = protocol.measure(evaluation, means.settings, _silent)
    column = protocol.plotted(means.settings)
    tables = {"results": measured.table, **measured.others}
    scores = oriented_scores(evaluation.columns)
    values = {
        row.label: value
        for row in measured.table.overall.rows
        if row.label in scores and (value := row.value(column)) is not None
    }
    best = significantly_best(values, scores, evaluation.samples, protocol, means.settings)
    error = {"error": "a metric failed"} if failed else {}  # not kept: the next start may have it
    return {"tables": {name: table.as_dict() for name, table in tables.items()}, "best": best, **error}


@contextmanager
def _silent(_description: str) -> Iterator[Callable[[int, int], None]]:
    yield lambda _done, _total: None

"""Scoring one evaluation set with many metrics, so that one that fails does not lose the others."""

from __future__ import annotations

import inspect
import json
import logging
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, SuiseiError
from suisei.metrics.base import Metric
from suisei.metrics.registry import get_entry, get_metric

_LOG = logging.getLogger(__name__)

SHOWN_PROBLEMS = 5
"""How many problems of single samples a note shows; the JSON has all."""

# What a metric may die of: its input, its files, its memory, Java, a server, its own defects. An
# interrupt is not among them.
FAILURES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    subprocess.SubprocessError,
)


@dataclass(frozen=True, slots=True)
class MetricPlan:
    """A metric to be made: ``NAME`` or ``NAME:ARGUMENT``, and its options."""

    spec: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScoreColumn:
    """One metric's scores of an evaluation set, or why there are none.

    Attributes:
        label: the metric as the user wrote it.
        scores: float64 [N] as the metric gave them; NaN where a sample lacks what it needs; None if
            the metric failed.
        signature: the metric's signature.
        error: why it failed.
        missing: {reason: number of samples without score}.
        refused: {position: why the sample has no score}, such as a video that cannot be decoded.
        notes: what else must be known of the scores, such as where idf weights come from.
        higher_is_better: False for distances.
    """

    label: str
    scores: np.ndarray | None
    signature: str | None = None
    error: str | None = None
    missing: dict[str, int] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    higher_is_better: bool = True

    @property
    def oriented(self) -> np.ndarray:
        """The scores, negated for a distance, so that higher is better."""
        if self.scores is None:
            raise ValueError(f"{self.label} has no scores: {self.error}")
        return self.scores if self.higher_is_better else -self.scores

    @property
    def problems(self) -> list[str]:
        """What was refused and why, each problem once: a broken video has many captions."""
        return list(dict.fromkeys(self.refused.values()))


def failure_text(error: BaseException) -> str:
    """Say in one line why a metric failed."""
    text = " ".join(str(error).split())[:500]
    return text if isinstance(error, SuiseiError) else f"{type(error).__name__}: {text}"


def plan_metrics(
    specs: Sequence[str],
    tokenizer: str | None = None,
    options: Sequence[str] = (),
    common: Mapping[str, Any] | None = None,
) -> list[MetricPlan]:
    """Check metric names and options before any work is done.

    Args:
        specs: ``NAME`` or ``NAME:ARGUMENT``, each once.
        tokenizer: given to every metric that takes one.
        options: ``NAME.KEY=VALUE``; the value is JSON where it parses as such, else text.
        common: options such as "device", given to every metric that takes them.

    Raises:
        ConfigError: an unknown or repeated metric, an option that its metric does not take, an option
            of a metric that is not asked for, or a tokenizer that no metric takes.
    """
    repeated = [spec for spec, count in Counter(specs).items() if count > 1]
    if repeated:
        raise ConfigError(f"metric {repeated[0]!r} is given twice")
    given = _parse_options(options)
    plans, tokenizer_taken = [], tokenizer is None
    for spec in specs:
        name = spec.partition(":")[0]
        get_entry(name)
        chosen = dict(given.get(name, {}))
        taken, open_ended = _parameters(name) if (chosen or tokenizer or common) else (set(), True)
        unknown = [key for key in chosen if key not in taken and not open_ended]
        if unknown:
            raise ConfigError(
                f"metric {name!r} has no option {unknown[0]!r}; it takes {', '.join(sorted(taken)) or 'none'}"
            )
        if tokenizer is not None and "tokenizer" in taken:
            chosen.setdefault("tokenizer", tokenizer)
            tokenizer_taken = True
        for key, value in (common or {}).items():
            if key in taken or open_ended:
                chosen.setdefault(key, value)
        plans.append(MetricPlan(spec, chosen))
    unused = sorted(set(given) - {plan.spec.partition(":")[0] for plan in plans})
    if unused:
        raise ConfigError(f"an option is given for metric {unused[0]!r}, which is not asked for")
    if not tokenizer_taken:
        raise ConfigError(f"none of the metrics takes a tokenizer, got tokenizer {tokenizer!r}")
    return plans


@dataclass(frozen=True, slots=True)
class Corpus:
    """Captions that metrics with idf weights learn from, other than those that are evaluated.

    Attributes:
        name: for signatures, such as "vatex-train".
        captions: the captions; None where their file is absent.
        problem: why there are none.
        learned: {metric: what it learned from them}, so that it learns once.
    """

    name: str
    captions: Sequence[str] | None
    problem: str = ""
    learned: dict[str, dict[str, Any]] = field(default_factory=dict)


@runtime_checkable
class LearnsFromCaptions(Protocol):
    """A metric whose idf weights come from a corpus of captions, and can be saved."""

    def fit_captions(self, captions: Iterable[str], *, corpus: str) -> None:
        """Learn from captions of the corpus with that name."""

    def save_idf(self, path: Path) -> None:
        """Write what was learned."""


def score_column(
    plan: MetricPlan,
    samples: Sequence[CaptionSample],
    *,
    batch_size: int = 64,
    progress: bool = False,
    corpus: Corpus | None = None,
    idf_folder: Path | None = None,
) -> ScoreColumn:
    """Make a metric, fit it where it must be fitted, and score samples; a failure becomes the column's error.

    A metric with corpus statistics is fitted on the references of ``samples``, as is customary for
    CIDEr; its signature says so. One that learns from captions alone, as EMScore does, is fitted on
    ``corpus`` where there is one. A sample that the metric refuses costs its own score and no other.

    Args:
        plan: the metric.
        samples: N samples.
        batch_size: handed to the metric.
        progress: handed to the metric.
        corpus: the captions that the benchmark's protocol takes idf weights from.
        idf_folder: where idf weights learned from captions are saved, a file per metric.
    """
    try:
        metric = get_metric(plan.spec, **plan.options)
        fitted, notes = _fit(metric, plan.spec, samples, corpus) if metric.needs_fit else ("", ())
        if idf_folder is not None and isinstance(metric, LearnsFromCaptions) and metric.state():
            idf_folder.mkdir(parents=True, exist_ok=True)
            metric.save_idf(idf_folder / f"{re.sub(r'[^0-9A-Za-z.+-]+', '_', plan.spec)}.json")
        scores, refused = metric.score_each(samples, batch_size=batch_size, progress=progress)
        signature = metric.signature + fitted
        if not metric.higher_is_better:
            signature += "|negated-for-correlation"
        missing = Counter(metric.missing(samples).values())
    except FAILURES as error:
        _LOG.debug("metric %s failed", plan.spec, exc_info=True)
        return ScoreColumn(plan.spec, None, error=failure_text(error))
    return ScoreColumn(
        plan.spec,
        scores,
        signature,
        missing=dict(missing),
        refused={position: " ".join(str(error).split()) for position, error in refused.items()},
        notes=notes,
        higher_is_better=metric.higher_is_better,
    )


def _fit(
    metric: Metric, spec: str, samples: Sequence[CaptionSample], corpus: Corpus | None
) -> tuple[str, tuple[str, ...]]:
    """Fit a metric; returns what its signature says of that beyond its own settings, and notes."""
    if corpus is not None and isinstance(metric, LearnsFromCaptions):
        if corpus.captions is not None:
            if spec not in corpus.learned:
                metric.fit_captions(corpus.captions, corpus=corpus.name)
                corpus.learned[spec] = metric.state()
            metric.load_state(corpus.learned[spec])
            return "", (f"{spec}: idf weights from {len(corpus.captions):,} captions of {corpus.name}",)
        note = (
            f"{spec}: idf weights from the references of the {len(samples):,} evaluated samples, not from "
            f"{corpus.name} as published ({corpus.problem})"
        )
    else:
        note = ""
    fit_unrated(metric, samples)
    return f"|fit:references-of-{len(samples)}-evaluated", (note,) if note else ()


def fit_unrated(metric: Metric, samples: Sequence[CaptionSample]) -> None:
    """Fit a metric's corpus statistics on what is being scored, with the ratings taken away.

    A metric that learned from the ratings it is then compared with would look better than it is.
    """
    metric.fit([replace(sample, rating=None) for sample in samples])


def protocol_corpus(data: str, root: Path | str | None, plans: Sequence[MetricPlan]) -> Corpus | None:
    """Return the captions that a benchmark's protocol learns idf weights from, where a metric may need them.

    Args:
        data: the benchmark's name; there is no corpus for other data.
        root: where its files are.
        plans: the metrics.

    Raises:
        DataError: the file of captions is laid out otherwise; one that is absent is the corpus's problem.
    """
    from suisei.data.benchmarks import BENCHMARKS
    from suisei.data.benchmarks.base import LayoutError

    benchmark = BENCHMARKS.get(data)
    if benchmark is None or benchmark.idf_corpus is None or root is None:
        return None
    if not any("video" in get_entry(plan.spec.partition(":")[0]).needs for plan in plans):
        return None
    name, read = benchmark.idf_corpus
    try:
        return Corpus(name, read(root))
    except LayoutError as error:
        return Corpus(name, None, str(error))


def column_notes(columns: Sequence[ScoreColumn]) -> list[str]:
    """Say of which samples the columns have no score and why, and what else must be known of them."""
    notes: list[str] = []
    for column in columns:
        notes += column.notes
        notes += [
            f"{column.label}: {count} samples without score ({reason}), left out of its row"
            for reason, count in column.missing.items()
        ]
        if column.refused and column.scores is not None:
            shown = "; ".join(column.problems[:SHOWN_PROBLEMS])
            rest = len(column.problems) - SHOWN_PROBLEMS
            more = f"; and {rest} more problems, all in the JSON" if rest > 0 else ""
            notes.append(
                f"{column.label}: {len(column.refused)} of {len(column.scores)} samples without score, left "
                f"out of its row: {shown}{more}"
            )
    return notes


def refused_samples(columns: Sequence[ScoreColumn], samples: Sequence[CaptionSample]) -> dict[str, Any]:
    """Return {"refused": {metric: samples without score, and why}} for the JSON; empty without any."""
    refused = {
        column.label: [
            {"position": position, "id": samples[position].id, "error": error}
            for position, error in column.refused.items()
        ]
        for column in columns
        if column.refused
    }
    return {"refused": refused} if refused else {}


def _parse_options(options: Sequence[str]) -> Mapping[str, dict[str, Any]]:
    parsed: dict[str, dict[str, Any]] = {}
    for option in options:
        target, equals, value = option.partition("=")
        name, dot, key = target.rpartition(".")
        if not (equals and dot and name and key):
            raise ConfigError(f"metric option {option!r} must be NAME.KEY=VALUE, such as bertscore.idf=true")
        try:
            parsed.setdefault(name, {})[key] = json.loads(value)
        except (ValueError, RecursionError):
            parsed.setdefault(name, {})[key] = value
    return parsed


def _parameters(name: str) -> tuple[set[str], bool]:
    """Return the options that a metric's factory names, and whether it takes any others."""
    entry = get_entry(name)
    module, _, attribute = entry.target.partition(":")
    parameters = inspect.signature(getattr(import_module(module), attribute)).parameters.values()
    named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return named, any(p.kind is p.VAR_KEYWORD for p in parameters)

"""Fitting corpus statistics such as idf weights: on the captions of a protocol, or on what is scored."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from suisei.cli import counted
from suisei.data.sample import CaptionSample, detect_language, language_of
from suisei.metrics.base import LearnsFromCaptions, Metric, StreamFit
from suisei.metrics.registry import get_entry
from suisei.scoring.digest import value_digest
from suisei.scoring.plan import MetricPlan

_FIT = "|fit:references-of-"
_COUNT = re.compile(r"\|idf:(\d+-documents|fitted-\d+)")


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

    def decides(self) -> str:
        """Return a digest of what metrics learn from it, and say where they cannot."""
        return value_digest([self.name, None if self.captions is None else list(self.captions), self.problem])


def fit_metric(
    metric: Metric, spec: str, samples: Sequence[CaptionSample], corpus: Corpus | None
) -> tuple[str, tuple[str, ...]]:
    """Fit a metric; returns what its signature says of that beyond its own settings, and notes."""
    if corpus is not None and isinstance(metric, LearnsFromCaptions):
        if corpus.captions is not None:
            if spec not in corpus.learned:
                metric.fit_captions(corpus.captions, corpus=corpus.name)
                corpus.learned[spec] = metric.state()
            metric.load_state(corpus.learned[spec])
            return "", (
                f"{spec}: idf weights from {counted(len(corpus.captions), 'caption')} of {corpus.name}",
            )
        note = (
            f"{spec}: idf weights from the references of the {len(samples):,} evaluated samples, not from "
            f"{corpus.name} as published ({corpus.problem})"
        )
    else:
        note = ""
    return fit_unrated(metric, samples), (note,) if note else ()


def fitted_signature(samples: int) -> str:
    """Return what a signature says of a metric that learned from the references of what is scored."""
    return f"{_FIT}{samples}-samples"


def is_fitted(signature: str) -> bool:
    """Say whether the metric learned from the references of what is scored."""
    return _FIT in signature


def without_counts(signature: str) -> str:
    """Return a signature without how many samples of what is scored a metric learned from."""
    if not is_fitted(signature):
        return signature
    return f"{_COUNT.sub('|idf:fitted', signature.partition(_FIT)[0])}{_FIT}the-input"


def fit_unrated(metric: Metric, samples: Sequence[CaptionSample]) -> str:
    """Fit a metric's corpus statistics on what is being scored, with the ratings taken away.

    Returns what the signature of its scores then says of that.

    A metric that learned from the ratings it is then compared with would look better than it is.
    """
    metric.fit([replace(sample, rating=None) for sample in samples])
    return fitted_signature(len(samples))


def documents(systems: Iterable[Sequence[CaptionSample]]) -> list[CaptionSample]:
    """Return a sample of each caption's place to fit on, the same whichever system comes first.

    Its references are read in the language that most of the systems' captions there are in; where as many
    are in the other, in their own.

    Args:
        systems: N samples of each, with the same references.
    """
    return [_document(samples) for samples in zip(*systems, strict=True)]


def _document(samples: Sequence[CaptionSample]) -> CaptionSample:
    first = samples[0]
    (most, count), *others = Counter(map(language_of, samples)).most_common()
    if others and others[0][1] == count:
        most = detect_language(" ".join(first.references))
    return first if language_of(first) == most else replace(first, language=most)


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
    from suisei.data.benchmarks.benchmark import LayoutError

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


def fit_metrics(metrics: Iterable[Metric], read: Callable[[], Iterable[CaptionSample]]) -> int:
    """Fit metrics, each in a pass of its own; ratings are taken away, and whatever cannot stream is listed.

    Args:
        metrics: the metrics.
        read: gives all samples once more at every call.

    Returns:
        The number of samples.
    """
    count = 0
    for metric in metrics:
        count = 0

        def counted() -> Iterator[CaptionSample]:
            nonlocal count
            for sample in read():
                count += 1
                yield sample if sample.rating is None else replace(sample, rating=None)

        if isinstance(metric, StreamFit):
            metric.fit_stream(counted())
        else:
            fit_unrated(metric, list(counted()))
    return count

"""What people expect of a metric, measured: worse captions score lower, more references do not hurt.

Each function takes metrics as :class:`Scored` and returns a :class:`~suisei.metaeval.tables.Table` with a
section per metric and language. Intervals are 95 % bootstrap intervals over groups (images).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from suisei.data.sample import LANGUAGE_NAMES, CaptionSample
from suisei.data.splits import group_of
from suisei.errors import ConfigError, DataError
from suisei.metaeval.agreement import AgreementData, agree
from suisei.metaeval.correlation import CorrelationError, pearson
from suisei.metaeval.significance import (
    Interval,
    bootstrap_difference,
    group_weights,
    percentile_interval,
)
from suisei.metaeval.tables import HUMAN, Cell, Row, Section, Table
from suisei.probes.degrade import WELL_RATED, degrade_samples, language_of, seeded_key

SOURCES = ("rated", "references")
_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_NOTICED = 0.9
_TIE = 1e-6
"""Scores that are nearer to each other than this are a tie: rounding may differ with a caption's words."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A metric that is ready to score.

    Attributes:
        label: as the user wrote it.
        score: gives scores for samples, float64 [N], higher is better, NaN where it needs what is missing.
        signature: of the metric.
    """

    label: str
    score: Callable[[Sequence[CaptionSample]], np.ndarray]
    signature: str = ""


def good_samples(
    samples: Sequence[CaptionSample],
    source: str,
    *,
    good: float = WELL_RATED,
    limit: int = 1000,
    seed: int = 0,
) -> list[CaptionSample]:
    """Return samples whose candidate is good, up to ``limit`` per language in a seeded order.

    Args:
        samples: what there is.
        source: "rated" takes candidates that people rated at least ``good``; "references" takes one
            reference of each image as candidate and scores it against its others.
        good: mean rating on [0, 1].
        limit: samples per language.
        seed: decides which reference is held out and which samples are kept.

    Raises:
        ConfigError: an unknown source.
        DataError: there is no such sample.
    """
    if source not in SOURCES:
        raise ConfigError(f"originals {source!r}; expected one of {', '.join(SOURCES)}")
    if source == "rated":
        found = [s for s in samples if s.rating is not None and s.rating.mean >= good]
        why = f"none of {len(samples)} samples is rated {good:g} or better (of 1)"
    else:
        found = _held_out(samples, seed)
        why = f"none of {len(samples)} samples has two references"
    if not found:
        raise DataError(f"no good caption to degrade: {why}")
    return some_of_each(found, limit, seed)


def some_of_each(samples: Sequence[CaptionSample], limit: int, seed: int = 0) -> list[CaptionSample]:
    """Return up to ``limit`` samples per language, in an order that the seed decides and rows do not."""
    kept: Counter[str] = Counter()
    chosen = []
    for sample in sorted(samples, key=lambda s: seeded_key(seed, group_of(s), s.candidate, *s.references)):
        language = language_of(sample)
        kept[language] += 1
        if kept[language] <= limit:
            chosen.append(sample)
    return chosen


def _held_out(samples: Sequence[CaptionSample], seed: int) -> list[CaptionSample]:
    """Return one sample per image and language: a reference against the image's other references."""
    references: dict[tuple[str, str], dict[str, None]] = {}
    first: dict[tuple[str, str], CaptionSample] = {}
    for position, sample in enumerate(samples):
        key = (group_of(sample, position), language_of(sample))
        references.setdefault(key, {}).update(dict.fromkeys(sample.references))
        first.setdefault(key, sample)
    found = []
    for key, captions in references.items():
        ordered = sorted(captions, key=lambda text: seeded_key(seed, "held out", text))
        if len(ordered) > 1:
            found.append(
                replace(
                    first[key], candidate=ordered[0], references=tuple(ordered[1:]), rating=None,
                    group=key[0], system=None,
                )
            )  # fmt: skip
    return found


def degradation_table(
    metrics: Sequence[Scored],
    originals: Sequence[CaptionSample],
    names: Sequence[str],
    *,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Table:
    """Return how often, and by how much, each degradation scores lower than the original.

    Args:
        metrics: what is tested.
        originals: N good samples, from :func:`good_samples`.
        names: keys of :data:`suisei.probes.degrade.DEGRADATIONS`.
        n_resamples: bootstrap resamples; 0 for no intervals.
        seed: of the degradations and of the bootstrap.

    A tie is not lower. A caption that leaves no room for a degradation does not count in its row.
    """
    worse = {name: degrade_samples(originals, name, seed=seed) for name in names}
    flat = [sample for name in names for sample in worse[name] if sample is not None]
    groups = np.array([group_of(sample, n) for n, sample in enumerate(originals)], dtype=object)
    sections, notes = [], []
    for metric in metrics:
        scores = metric.score([*originals, *flat])
        base, columns = scores[: len(originals)], _unflatten(worse, scores[len(originals) :])
        for language, keep in _by_language(originals):
            rows = []
            for name in names:
                used = keep & ~np.isnan(base) & ~np.isnan(columns[name])
                rows.append(
                    _degradation_row(name, base[used], columns[name][used], groups[used], n_resamples, seed)
                )
            sections.append(Section(_title(metrics, metric, language), tuple(rows)))
            notes += _unnoticed(sections[-1])
    notes = [
        "scores lower: share of captions whose degraded version scores lower; a tie is not lower",
        f"{len(originals)} originals; intervals: bootstrap over images, {n_resamples} resamples, seed {seed}",
        *notes,
    ]
    columns_shown = {"lower": "scores lower", "drop": "mean drop", "original": "original", "n": "n"}
    title = "Degraded captions against their originals"
    return Table(title, columns_shown, tuple(sections), tuple(notes), row_heading="Degradation")


def _unnoticed(section: Section) -> list[str]:
    """Return a note that names the degradations that a metric does not see reliably."""
    shares = {row.label: row.cells["lower"].value for row in section.rows}
    rare = [f"{name} {share:.1%}" for name, share in shares.items() if share is not None and share < _NOTICED]
    return [f"{section.title}: scores lower in less than {_NOTICED:.0%}: {', '.join(rare)}"] if rare else []


def _unflatten(worse: dict[str, list[CaptionSample | None]], scores: np.ndarray) -> dict[str, np.ndarray]:
    """Return scores [N] per degradation, NaN where there is no degraded caption."""
    columns, start = {}, 0
    for name, samples in worse.items():
        there = np.array([sample is not None for sample in samples], dtype=bool)
        columns[name] = np.full(len(samples), np.nan)
        columns[name][there] = scores[start : start + int(there.sum())]
        start += int(there.sum())
    return columns


def _degradation_row(
    name: str, original: np.ndarray, worse: np.ndarray, groups: np.ndarray, n_resamples: int, seed: int
) -> Row:
    if not len(original):
        return Row(name, {"lower": Cell(None, reason="no caption to which it applies")})
    return Row(
        name,
        {
            "lower": mean_cell((worse < original - _TIE).astype(np.float64), groups, n_resamples, seed),
            "drop": mean_cell(original - worse, groups, n_resamples, seed),
            "original": Cell(float(original.mean())),
            "n": Cell(len(original)),
        },
    )


def mean_cell(values: np.ndarray, groups: np.ndarray, n_resamples: int, seed: int) -> Cell:
    """Return the mean of values [N] with its bootstrap interval over groups [N]."""
    mean, interval = float(values.mean()), Interval(None, None)
    names, group = np.unique(groups, return_inverse=True)
    if n_resamples and len(names) > 1:
        weights = group_weights(len(names), n_resamples, seed)
        sums = np.bincount(group, weights=values, minlength=len(names))
        counts = np.bincount(group, minlength=len(names))
        interval = percentile_interval(weights @ sums / (weights @ counts))
    return Cell(mean, interval.low, interval.high)


def reference_table(
    metrics: Sequence[Scored],
    samples: Sequence[CaptionSample],
    *,
    most: int = 5,
    n_resamples: int = 1000,
    seed: int = 0,
) -> Table:
    """Return how agreement with people and the mean score change with the number of references.

    Every sample's references are put in a seeded order, and its candidate is scored against the first
    0, 1, 2, ... of them. Samples with fewer than the largest number are left out, so that all rows are
    about the same samples.

    Args:
        metrics: what is tested.
        samples: rated samples.
        most: the largest number of references; lowered, by language, to what half of the samples have.
        n_resamples: bootstrap resamples of the differences; 0 for no intervals.
        seed: of the order of references and of the bootstrap.

    Raises:
        DataError: half of the samples have no reference.
    """
    prepared = {}
    for language, keep in _by_language(samples):
        own = [sample for sample, there in zip(samples, keep, strict=True) if there]
        used = _with_growing_references(own, most, seed)
        if used:
            prepared[language] = used
    if not prepared:
        raise DataError("at least half of the samples have no reference")
    sections = []
    for metric in metrics:
        for language, versions in prepared.items():
            flat = metric.score([sample for version in versions for sample in version])
            rows = _reference_rows(flat.reshape(len(versions), -1), versions[0], n_resamples, seed)
            sections.append(Section(_title(metrics, metric, language), tuple(rows)))
    notes = (
        "the same samples in every row, with the first references of a seeded order",
        f"change in Pearson: to the row above; bootstrap over images, {n_resamples} resamples, seed {seed}",
    )
    shown = {"pearson": "Pearson", "tau-c": "Kendall tau-c", "change": "change in Pearson"}
    shown |= {"mean": "mean score", "n": "n"}
    return Table("More references", shown, tuple(sections), notes, row_heading="References")


def _with_growing_references(
    samples: Sequence[CaptionSample], most: int, seed: int
) -> list[list[CaptionSample]]:
    """Return the samples with 0, 1, 2, ... of their references; nothing where most have none."""
    counts = [len(sample.references) for sample in samples]
    largest = min(most, int(np.median(counts)))
    used = [sample for sample, count in zip(samples, counts, strict=True) if count >= largest > 0]
    ordered = [sorted(s.references, key=lambda text: seeded_key(seed, s.candidate, text)) for s in used]
    return [
        [replace(s, references=tuple(texts[:k])) for s, texts in zip(used, ordered, strict=True)]
        for k in range(largest + 1)
        if used
    ]


def _reference_rows(
    columns: np.ndarray, samples: Sequence[CaptionSample], n_resamples: int, seed: int
) -> Iterator[Row]:
    previous = None
    for number, scores in enumerate(columns):
        if np.isnan(scores).any():
            yield Row(str(number), {"pearson": Cell(None, reason="needs a reference")})
            continue
        rows = AgreementData.from_samples(scores, samples).rows("rows")
        cells = {"mean": Cell(float(scores.mean())), "n": Cell(len(scores))}
        try:
            cells |= {kind: Cell(agree(rows, kind).value) for kind in ("pearson", "tau-c")}
            if previous is not None:
                change = cells["pearson"].value - agree(previous, "pearson").value  # type: ignore[operator]
                interval = Interval(None, None)
                if n_resamples:
                    interval = bootstrap_difference(
                        rows, previous, "pearson", n_resamples=n_resamples, seed=seed
                    )
                cells["change"] = Cell(change, interval.low, interval.high)
        except CorrelationError as error:
            cells["pearson"] = Cell(None, reason=str(error))
        previous = rows if "tau-c" in cells else None
        yield Row(str(number), cells)


def spread_table(
    metrics: Sequence[Scored], scores: Sequence[np.ndarray], samples: Sequence[CaptionSample]
) -> Table:
    """Return quantiles of scores and of ratings, by language.

    Args:
        metrics: M metrics.
        scores: M arrays of float64 [N].
        samples: N samples.
    """
    human = np.array([np.nan if s.rating is None else s.rating.mean for s in samples])
    columns = {f"q{q:g}": {0: "least", 0.5: "median", 1: "most"}.get(q, f"{q:.0%}") for q in _QUANTILES}
    columns |= {"mean": "mean", "sd": "sd", "n": "n"}
    sections = []
    for language, keep in _by_language(samples):
        named = [(metric.label, column) for metric, column in zip(metrics, scores, strict=True)]
        rows = [_spread_row(label, column[keep]) for label, column in [*named, (HUMAN, human)]]
        sections.append(Section(LANGUAGE_NAMES[language], tuple(rows)))
    return Table("Spread of the scores", columns, tuple(sections), digits=2)


def _spread_row(label: str, values: np.ndarray) -> Row:
    values = values[~np.isnan(values)]
    if not len(values):
        return Row(label, {"mean": Cell(None, reason="no score")})
    cells = {f"q{q:g}": Cell(float(np.quantile(values, q))) for q in _QUANTILES}
    return Row(
        label,
        {
            **cells,
            "mean": Cell(float(values.mean())),
            "sd": Cell(float(values.std())),
            "n": Cell(len(values)),
        },
    )


def language_table(
    metrics: Sequence[Scored], samples: Sequence[CaptionSample], *, n_resamples: int = 1000, seed: int = 0
) -> Table | None:
    """Return how Japanese and English scores of the same images compare, or None without such images.

    A pair is an image, or with systems an image and a system that captioned it in both languages; its
    scores are averaged over its samples in each language.
    """
    pairs: dict[tuple[str, str], dict[str, list[int]]] = {}
    for position, sample in enumerate(samples):
        sides = pairs.setdefault((group_of(sample, position), sample.system or ""), {"ja": [], "en": []})
        sides[language_of(sample)].append(position)
    both = {key: sides for key, sides in pairs.items() if sides["ja"] and sides["en"]}
    if len(both) < 2:
        return None
    groups = np.array([group for group, _ in both], dtype=object)
    human = np.array([np.nan if s.rating is None else s.rating.mean for s in samples])
    columns = [*((metric.label, metric.score(samples)) for metric in metrics), (HUMAN, human)]
    rows = []
    for label, scores in columns:
        japanese, english = (
            np.array([scores[sides[language]].mean() for sides in both.values()]) for language in ("ja", "en")
        )
        rows.append(_language_row(label, japanese, english, groups, n_resamples, seed))
    notes = (
        f"{len(both)} pairs of a Japanese and an English caption of one image (and one kind of fault)",
        "difference: Japanese minus English; intervals: bootstrap over images",
    )
    shown = {"ja": "Japanese", "en": "English", "difference": "difference", "pearson": "Pearson", "n": "n"}
    return Table("Japanese against English", shown, (Section("overall", tuple(rows)),), notes)


def _language_row(
    label: str, japanese: np.ndarray, english: np.ndarray, groups: np.ndarray, n_resamples: int, seed: int
) -> Row:
    there = ~np.isnan(japanese) & ~np.isnan(english)
    if not there.any():
        return Row(label, {"ja": Cell(None, reason="no score")})
    japanese, english = japanese[there], english[there]
    try:
        correlation = Cell(pearson(japanese, english))
    except CorrelationError as error:
        correlation = Cell(None, reason=str(error))
    return Row(
        label,
        {
            "ja": Cell(float(japanese.mean())),
            "en": Cell(float(english.mean())),
            "difference": mean_cell(japanese - english, groups[there], n_resamples, seed),
            "pearson": correlation,
            "n": Cell(int(there.sum())),
        },
    )


def _by_language(samples: Sequence[CaptionSample]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each language that occurs, Japanese first, with the mask of its samples."""
    languages = np.array([language_of(sample) for sample in samples])
    for language in LANGUAGE_NAMES:
        if (languages == language).any():
            yield language, languages == language


def _title(metrics: Sequence[Scored], metric: Scored, language: str) -> str:
    name = LANGUAGE_NAMES[language]
    return f"{metric.label}, {name}" if len(metrics) > 1 else name

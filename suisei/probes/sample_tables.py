"""What else people expect of a metric: more references do not hurt, scores spread, languages agree.

Each function returns a :class:`~suisei.metaeval.tables.Table`. Intervals are 95 % bootstrap intervals over
groups (images).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from suisei.cli import counted
from suisei.data.sample import LANGUAGE_NAMES, CaptionSample, language_of, mean_ratings
from suisei.data.splits import group_of
from suisei.data.spoken import beside_references_in
from suisei.errors import DataError
from suisei.metaeval.agreement import AgreementData, Rows, agree
from suisei.metaeval.correlation import CorrelationError, pearson
from suisei.metaeval.correlation_tables import rows_note
from suisei.metaeval.labels import HUMAN
from suisei.metaeval.resampling import bootstrap_difference
from suisei.metaeval.tables import Cell, Row, Section, Table
from suisei.probes.degrade import by_language, seeded_key
from suisei.probes.outcomes import QUANTILES, Scored, mean_cell


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
    0, 1, 2, ... of them. Samples with fewer than the largest number are left out, and those that a metric
    has no score of with all of these, so that all rows of a metric are about the same samples.

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
    for language, keep in by_language(samples):
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
    drawn = f"; bootstrap over images, {n_resamples} resamples, seed {seed}" if n_resamples else ""
    notes = (
        "the same samples in every row, with the first references of a seeded order",
        f"{rows_note()}; n counts samples",
        f"change in Pearson: to the row above{drawn}",
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
    there = ~np.isnan(columns[-1])
    if not there.any():  # it has no image, or is in another language, than the metric wants
        yield Row(str(len(columns) - 1), {"pearson": Cell(None, reason="no score")})
        return
    columns, samples = columns[:, there], [samples[place] for place in np.flatnonzero(there).tolist()]
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
                cells["change"] = _change(rows, previous, n_resamples, seed)
        except CorrelationError as error:
            cells["pearson"] = Cell(None, reason=str(error))
        previous = rows if "tau-c" in cells else None
        yield Row(str(number), cells)


def _change(rows: Rows, previous: Rows, n_resamples: int, seed: int) -> Cell:
    """Return by how much Pearson's r is higher than that of the previous rows, with its interval."""
    change = agree(rows, "pearson").value - agree(previous, "pearson").value
    if not n_resamples:
        return Cell(change)
    try:
        interval = bootstrap_difference(rows, previous, "pearson", n_resamples=n_resamples, seed=seed)
    except CorrelationError as error:  # such as captions of one image alone
        return Cell(change, reason=f"no interval: {error}")
    return Cell(change, interval.low, interval.high, interval.left_out)


def spread_table(
    metrics: Sequence[Scored], scores: Sequence[np.ndarray], samples: Sequence[CaptionSample]
) -> Table:
    """Return quantiles of scores and of ratings, by language.

    Args:
        metrics: M metrics.
        scores: M arrays of float64 [N].
        samples: N samples.
    """
    human = mean_ratings(samples)
    columns = {f"q{q:g}": {0: "least", 0.5: "median", 1: "most"}.get(q, f"{q:.0%}") for q in QUANTILES}
    columns |= {"mean": "mean", "sd": "sd", "n": "n"}
    sections = []
    for language, keep in by_language(samples):
        named = [(metric.label, column) for metric, column in zip(metrics, scores, strict=True)]
        rows = [_spread_row(label, column[keep]) for label, column in [*named, (HUMAN, human)]]
        sections.append(Section(LANGUAGE_NAMES[language], tuple(rows)))
    return Table("Spread of the scores", columns, tuple(sections), digits=2)


def _spread_row(label: str, values: np.ndarray) -> Row:
    values = values[~np.isnan(values)]
    if not len(values):
        return Row(label, {"mean": Cell(None, reason="no score")})
    cells = {f"q{q:g}": Cell(float(np.quantile(values, q))) for q in QUANTILES}
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

    A pair is an image, or with systems an image and a system that captioned it in both languages; where each
    system wrote in one, an image. Its scores are averaged over its samples in each language. Captions are
    scored as they are, and then all beside the Japanese references of their image, and all beside the English
    ones. A pair of which a metric has no score of some sample is left out of its row.
    """
    both, told = _in_both_languages(samples, [sample.system or "" for sample in samples]), "if named"
    if len(both) < 2:  # as where every system writes one language
        both, told = _in_both_languages(samples, [""] * len(samples)), "or two that wrote one language each"
    if len(both) < 2:
        return None
    human = mean_ratings(samples)

    def section(title: str, columns: Sequence[tuple[str, np.ndarray]]) -> Section:
        rows = (_language_row(label, *_sides(scores, both), n_resamples, seed) for label, scores in columns)
        return Section(title, tuple(rows))

    sections = [section("overall", [*((m.label, m.score(samples)) for m in metrics), (HUMAN, human)])]
    for language, name in LANGUAGE_NAMES.items():
        beside = beside_references_in(samples, language)
        if beside:
            columns = [(metric.label, _scores_of(metric, beside, len(samples))) for metric in metrics]
            sections.append(section(f"all beside {name} references", columns))
    notes = (
        f"{counted(len(both), 'pair')} of a Japanese and an English caption of one image (and one "
        f"system, {told})",
        "difference: Japanese minus English" + ("; intervals: bootstrap over images" if n_resamples else ""),
    )
    shown = {"ja": "Japanese", "en": "English", "difference": "difference", "pearson": "Pearson", "n": "n"}
    return Table("Japanese against English", shown, tuple(sections), notes)


def _in_both_languages(
    samples: Sequence[CaptionSample], systems: Sequence[str]
) -> dict[tuple[str, str], dict[str, list[int]]]:
    """Return {(image, system): {language: positions}} of those that have captions in both languages."""
    pairs: dict[tuple[str, str], dict[str, list[int]]] = {}
    for position, (sample, system) in enumerate(zip(samples, systems, strict=True)):
        sides = pairs.setdefault((group_of(sample), system), {"ja": [], "en": []})
        sides.setdefault(language_of(sample), []).append(position)
    return {key: sides for key, sides in pairs.items() if sides["ja"] and sides["en"]}


def _scores_of(metric: Scored, some: Mapping[int, CaptionSample], count: int) -> np.ndarray:
    """Return scores of some samples by position, float64 [count], NaN elsewhere."""
    scores = np.full(count, np.nan)
    scores[list(some)] = metric.score(list(some.values()))
    return scores


def _sides(
    scores: np.ndarray, pairs: Mapping[tuple[str, str], Mapping[str, list[int]]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean score of each pair's Japanese and English samples, and its group."""
    japanese, english = (
        np.array([scores[sides[language]].mean() for sides in pairs.values()]) for language in ("ja", "en")
    )
    return japanese, english, np.array([group for group, _ in pairs], dtype=object)


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


def _title(metrics: Sequence[Scored], metric: Scored, language: str) -> str:
    name = LANGUAGE_NAMES[language]
    return f"{metric.label}, {name}" if len(metrics) > 1 else name

"""What people expect of a metric, in tables: worse captions score lower, more references do not hurt.

Each function returns a :class:`~suisei.metaeval.tables.Table`, most with a section per metric and language.
Intervals are 95 % bootstrap intervals over groups (images).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from suisei.data.sample import LANGUAGE_NAMES, CaptionSample, language_of
from suisei.data.splits import group_of
from suisei.errors import ConfigError, DataError
from suisei.metaeval.agreement import AgreementData, agree
from suisei.metaeval.correlation import CorrelationError, pearson, spearman
from suisei.metaeval.significance import Interval, bootstrap_difference
from suisei.metaeval.tables import HUMAN, Cell, Row, Section, Table
from suisei.probes.curves import SHARES, UNNOTICED, Curve
from suisei.probes.degrade import CHANGES, WELL_RATED, by_language, seeded_key
from suisei.probes.ladders import LadderOutcome, published_rho
from suisei.probes.outcomes import ChangeOutcome, Example, Scored, change_outcomes, mean_cell

SOURCES = ("rated", "references")
_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_NOTICED = 0.9
_MINDED = 0.1
_BERTSCORE_NOTE = "BERTScore's is of the encoder that the paper used, RoBERTa-large by default"


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


def change_table(outcomes: Sequence[ChangeOutcome], expects: str, notes: Sequence[str] = ()) -> Table | None:
    """Return a table of the changes that should lower the score, or of those that should not matter.

    Args:
        outcomes: from :func:`suisei.probes.outcomes.change_outcomes`.
        expects: "lower" or "same".
        notes: lines for below the table.

    Returns:
        The table, a section per metric and language; None where there is no such outcome.
    """
    chosen = [o for o in outcomes if CHANGES[o.change].expects == expects]
    if not chosen:
        return None
    alone = len({outcome.metric for outcome in chosen}) == 1
    blocks: dict[str, list[Row]] = {}
    for outcome in chosen:
        name = LANGUAGE_NAMES[outcome.language]
        title = name if alone else f"{outcome.metric}, {name}"
        blocks.setdefault(title, []).append(_change_row(outcome))
    sections = tuple(Section(title, tuple(rows)) for title, rows in blocks.items())
    lower = expects == "lower"
    told = [note for section in sections for note in (_unnoticed if lower else _minded)(section)]
    columns = {"lower": "scores lower", "higher": "scores higher", "drop": "mean drop"}
    columns |= {"relative": "of another image's", "original": "original", "n": "n"}
    if lower:
        del columns["higher"]
    title = "Degraded captions against their originals" if lower else "The same said otherwise"
    heading = "Degradation" if lower else "Change"
    return Table(title, columns, sections, (*notes, *told), row_heading=heading)


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
        originals: good samples, from :func:`good_samples`.
        names: keys of :data:`suisei.probes.degrade.DEGRADATIONS`.
        n_resamples: bootstrap resamples; 0 for no intervals.
        seed: of the degradations and of the bootstrap.

    Raises:
        ConfigError: there is no degradation among the names.
    """
    settings = {"n_resamples": n_resamples, "seed": seed}
    outcomes = change_outcomes(metrics, originals, names, **settings)
    table = change_table(outcomes, "lower", change_notes(len(originals), **settings))
    if table is None:
        raise ConfigError(f"no degradation among {', '.join(names) or 'no names'}")
    return table


def change_notes(n_originals: int, n_resamples: int, seed: int) -> list[str]:
    """Return what the tables of changes say of themselves."""
    return [
        "scores lower: share of captions whose changed version scores lower; a tie is not lower",
        "of another image's: the mean drop as a share of the drop to another image's caption",
        f"{n_originals} originals; intervals: bootstrap over images, {n_resamples} resamples, seed {seed}",
    ]


def _change_row(outcome: ChangeOutcome) -> Row:
    change = CHANGES[outcome.change]
    info: dict[str, Any] = {"expects": change.expects, "summary": change.summary}
    if not len(outcome.before):
        return Row(outcome.change, {"lower": outcome.lower}, info=info)
    info |= outcome.distribution()
    info["examples"] = {name: example.as_dict() for name, example in outcome.examples.items()}
    cells = {"lower": outcome.lower, "higher": outcome.higher, "drop": outcome.drop}
    if outcome.relative is not None:
        cells["relative"] = Cell(outcome.relative)
    cells |= {"original": Cell(float(outcome.before.mean())), "n": Cell(len(outcome.before))}
    return Row(outcome.change, cells, info=info)


def _unnoticed(section: Section) -> list[str]:
    """Return a note that names the degradations that a metric does not see reliably."""
    shares = {row.label: row.cells["lower"].value for row in section.rows}
    rare = [f"{name} {share:.1%}" for name, share in shares.items() if share is not None and share < _NOTICED]
    return [f"{section.title}: scores lower in less than {_NOTICED:.0%}: {', '.join(rare)}"] if rare else []


def _minded(section: Section) -> list[str]:
    """Return a note that names the changes that cost much though they change no meaning."""
    shares = {row.label: row.cells["relative"].value for row in section.rows if "relative" in row.cells}
    dear = [f"{name} {share:.1%}" for name, share in shares.items() if share is not None and share > _MINDED]
    if not dear:
        return []
    return [f"{section.title}: costs more than {_MINDED:.0%} of another image's drop: {', '.join(dear)}"]


def example_lines(outcomes: Sequence[ChangeOutcome], *, markdown: bool = True) -> list[str]:
    """Return the typical example of every change and language, with the scores of metrics.

    Args:
        outcomes: from :func:`suisei.probes.outcomes.change_outcomes`; the first metric chooses the example,
            and another's scores are shown where it chooses the same.
        markdown: whether for a Markdown file, or else as plain text.
    """
    shown: dict[tuple[str, str], tuple[Example, list[str]]] = {}
    for outcome in outcomes:
        example = outcome.examples.get("typical")
        if example is not None:
            key = (outcome.language, outcome.change)
            text = f"{outcome.metric} {example.before:.3f} → {example.after:.3f}"
            first, scores = shown.setdefault(key, (example, []))
            if example.original == first.original:
                scores.append(text)
    lines = ["## Examples", ""] if markdown else ["Examples"]
    for (language, change), (example, scores) in shown.items():
        name = f"- **{change}**" if markdown else f"  {change}"
        lines.append(f"{name} ({LANGUAGE_NAMES[language]}): {_line(example.original)}")
        lines.append(f"  {'' if markdown else '  '}→ {_line(example.changed)} ({', '.join(scores)})")
    return [*lines, ""] if shown else []


def _line(text: str) -> str:
    return " ".join(text.split())


def ladder_table(outcomes: Sequence[LadderOutcome], notes: Sequence[str] = ()) -> Table | None:
    """Return one protocol's correlations, a section per language, beside the published ones.

    Args:
        outcomes: of one protocol, from :func:`suisei.probes.ladders.ladder_outcomes`.
        notes: lines for below the table.

    Returns:
        The table; None without outcomes.
    """
    if not outcomes:
        return None
    protocol, names = outcomes[0].protocol, outcomes[0].names
    columns = {"rho": "rho", "published": "published (COCO)"}
    columns |= {f"step{n}": f"{b} > {a}" for n, (a, b) in enumerate(pairwise(names), start=1)}
    columns["n"] = "images"
    blocks: dict[str, list[Row]] = {}
    for outcome in outcomes:
        cells = {"rho": outcome.rho, "n": Cell(outcome.scores.shape[1])}
        cells |= {f"step{n}": replace(cell, digits=2) for n, cell in enumerate(outcome.steps, start=1)}
        known = published_rho(outcome.metric, protocol)
        if known is not None:
            cells["published"] = Cell(known)
        row = Row(outcome.metric, cells, info=outcome.as_dict())
        blocks.setdefault(LANGUAGE_NAMES[outcome.language], []).append(row)
    sections = tuple(Section(title, tuple(rows)) for title, rows in blocks.items())
    told = (
        "rho: set labels along the captions sorted by score against those of the right order, 1 is perfect; "
        "ties count as all their orders do on average; then the share of images whose caption beats that "
        "of the next worse set",
        f"published: González-Chávez et al. (2022), table 2, on COCO's val2017; {_BERTSCORE_NOTE}",
    )
    return Table(protocol.capitalize(), columns, sections, (*told, *_beside_published(sections), *notes))


def _beside_published(sections: Sequence[Section]) -> list[str]:
    """Return how the order of metrics agrees with the published one, where three metrics have both."""
    for section in sections:
        both = [row for row in section.rows if "published" in row.cells]
        pairs = {
            row.label.partition(":")[0]: [row.cells[k].value or 0.0 for k in ("rho", "published")]
            for row in both
        }
        if section.title == LANGUAGE_NAMES["en"] and len(pairs) >= 3:
            try:
                rho = spearman(*zip(*pairs.values(), strict=True))
            except CorrelationError:
                continue
            return [f"rank correlation with the published column: {rho:.3f} over {len(pairs)} metrics"]
    return []


def curve_table(found: Sequence[Curve], notes: Sequence[str] = ()) -> Table | None:
    """Return the degradation curves as a table, a section per kind and language; None without any."""
    if not found:
        return None
    columns = {f"at{share:g}": f"{share:.0%}" for share in SHARES}
    columns |= {"area": "area from ideal", "original": "untouched", "n": "n"}
    blocks: dict[str, list[Row]] = {}
    for curve in found:
        cells = {f"at{share:g}": cell for share, cell in zip(SHARES, curve.values, strict=True)}
        cells |= {"area": curve.area, "original": Cell(curve.original), "n": Cell(curve.n)}
        title = f"{curve.kind}, {LANGUAGE_NAMES[curve.language]}"
        blocks.setdefault(title, []).append(Row(curve.metric, cells, info={"curve": curve.as_dict()}))
    told = (
        "corpus score with so many of the captions changed, as a share of that of the untouched ones; ideal "
        "is 1 minus the share (RECAP, section 4); of a distance, the untouched one as a share of it",
        f"area between the curve and the ideal line: 0 is ideal, {UNNOTICED:.3f} notices nothing",
    )
    sections = tuple(Section(title, tuple(rows)) for title, rows in sorted(blocks.items()))
    return Table("Degradation curves", columns, sections, (*told, *notes))


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
    for language, keep in by_language(samples):
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


def _title(metrics: Sequence[Scored], metric: Scored, language: str) -> str:
    name = LANGUAGE_NAMES[language]
    return f"{metric.label}, {name}" if len(metrics) > 1 else name

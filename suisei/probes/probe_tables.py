"""What people expect of a metric, in tables: worse captions score lower.

Each function returns a :class:`~suisei.metaeval.tables.Table`, most with a section per metric and language.
Intervals are 95 % bootstrap intervals over groups (images).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from suisei.cli import counted
from suisei.data.sample import LANGUAGE_NAMES
from suisei.metaeval.correlation import CorrelationError, spearman
from suisei.metaeval.markdown import markdown_text
from suisei.metaeval.tables import Cell, Row, Section, Table
from suisei.probes.curves import SHARES, UNNOTICED, Curve
from suisei.probes.degrade import CHANGES
from suisei.probes.ladders import LadderOutcome, published_rho
from suisei.probes.outcomes import ChangeOutcome, Example

_NOTICED = 0.9
_MINDED = 0.1
_UNCHANGED = "captions too short or too alike for it, which stay as they are and count as changed"
_BERTSCORE_NOTE = "BERTScore's is of the encoder that the paper used, RoBERTa-large by default"


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


def change_notes(n_originals: int, n_resamples: int, seed: int) -> list[str]:
    """Return what the tables of changes say of themselves."""
    drawn = f"; intervals: bootstrap over images, {n_resamples} resamples, seed {seed}" if n_resamples else ""
    return [
        "scores lower: share of captions whose changed version scores lower; a tie is not lower",
        "of another image's: the mean drop as a share of that of the same captions to another image's",
        f"{counted(n_originals, 'original')}{drawn}",
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
        cells["relative"] = outcome.relative
    cells |= {"original": Cell(float(outcome.before.mean())), "n": Cell(len(outcome.before))}
    return Row(outcome.change, cells, info=info)


def _per_cent(section: Section, column: str) -> dict[str, float]:
    """Return the rows' shares in per cent, rounded as a note prints them, so that it never denies itself."""
    values = {row.label: row.value(column) for row in section.rows}
    return {name: round(100 * share, 1) for name, share in values.items() if share is not None}


def _unnoticed(section: Section) -> list[str]:
    """Return a note that names the degradations that a metric does not see reliably."""
    shares = _per_cent(section, "lower")
    rare = [f"{name} {share:.1f}%" for name, share in shares.items() if share < 100 * _NOTICED]
    return [f"{section.title}: scores lower in less than {_NOTICED:.0%}: {', '.join(rare)}"] if rare else []


def _minded(section: Section) -> list[str]:
    """Return a note that names the changes that cost much though they change no meaning."""
    shares = _per_cent(section, "relative")
    dear = [f"{name} {share:.1f}%" for name, share in shares.items() if share > 100 * _MINDED]
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
            text = f"{outcome.metric} {example.before:z.3f} → {example.after:z.3f}"
            first, scores = shown.setdefault(key, (example, []))
            if example.original == first.original:
                scores.append(text)
    lines, line = (["## Examples", ""], markdown_text) if markdown else (["Examples"], _line)
    for (language, change), (example, scores) in shown.items():
        name = f"- **{change}**" if markdown else f"  {change}"
        lines.append(f"{name} ({LANGUAGE_NAMES[language]}): {line(example.original)}")
        lines.append(f"  {'' if markdown else '  '}→ {line(example.changed)} ({line(', '.join(scores))})")
    return [*lines, ""] if shown else []


def _line(text: str) -> str:
    return " ".join(text.split())


def ladder_table(outcomes: Sequence[LadderOutcome]) -> Table | None:
    """Return one protocol's correlations, a section per language, beside the published ones.

    Args:
        outcomes: of one protocol, from :func:`suisei.probes.ladders.ladder_outcomes`.

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
    own = (*_beside_published(sections), *_unchanged_in_sets(outcomes))
    return Table(protocol.capitalize(), columns, sections, (*told, *own))


def beside_people_table(outcomes: Sequence[LadderOutcome]) -> Table | None:
    """Return how well metrics tell systems' captions from people's, a section per system and language.

    Args:
        outcomes: of ladders from :func:`suisei.probes.beside_people.ladders_beside_people`.

    Returns:
        The table; None without outcomes.
    """
    if not outcomes:
        return None
    several = len({outcome.language for outcome in outcomes}) > 1
    blocks: dict[str, list[Row]] = {}
    for outcome in outcomes:
        cells = {"rho": outcome.rho, "beats": replace(outcome.steps[0], digits=2)}
        means = zip(("system", "people"), outcome.scores.mean(axis=1).tolist(), strict=True)
        cells |= {name: Cell(mean) for name, mean in means}
        cells["n"] = Cell(outcome.scores.shape[1])
        title = outcome.names[0] + (f", {LANGUAGE_NAMES[outcome.language]}" if several else "")
        blocks.setdefault(title, []).append(Row(outcome.metric, cells, info=outcome.as_dict()))
    columns = {"rho": "rho", "beats": "people beat it", "system": "its mean", "people": "people's mean"}
    told = (
        "rho: whose a caption is, the system's or people's, along the captions sorted by score: 1 where all "
        "of people's score higher, 0 where they cannot be told apart, below 0 where the system's score "
        "higher (González-Chávez et al., 2022, section 4.2)",
        "one caption of a person and that of the system per image, both against the image's other captions; "
        "people beat it: share of images where the person's scores higher, a tie counts half",
    )
    sections = tuple(Section(title, tuple(rows)) for title, rows in blocks.items())
    return Table("Systems beside people", {**columns, "n": "images"}, sections, told)


def _unchanged_in_sets(outcomes: Sequence[LadderOutcome]) -> list[str]:
    """Say how many captions stay as they are though their set is a worse one."""
    found = []
    for outcome in outcomes:
        sets = zip(outcome.names, outcome.unchanged, strict=False)  # the best set is the originals
        counts = [f"{name} {count:,}" for name, count in sets if count]
        if counts:
            found.append(f"{LANGUAGE_NAMES[outcome.language]}: {_UNCHANGED}: {', '.join(counts)}")
    return list(dict.fromkeys(found))


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


def curve_table(found: Sequence[Curve]) -> Table | None:
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
    kept = {
        f"{curve.kind}, {LANGUAGE_NAMES[curve.language]}: {_UNCHANGED}: {curve.unchanged:,}": None
        for curve in found
        if curve.unchanged
    }
    sections = tuple(Section(title, tuple(rows)) for title, rows in sorted(blocks.items()))
    return Table("Degradation curves", columns, sections, (*told, *kept))

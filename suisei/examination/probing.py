"""The probes of one language, for all metrics of an examination."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from suisei.cli import counted
from suisei.data.sample import CaptionSample
from suisei.data.splits import group_of
from suisei.examination.kept import samples_digest
from suisei.examination.kept_columns import Candidate
from suisei.examination.measures import Means, Measure, lacking
from suisei.metaeval.table_reading import read_table
from suisei.metaeval.tables import Cell, Section, Table
from suisei.probes.curves import curves
from suisei.probes.degrade import CHANGES
from suisei.probes.ladders import ladder_outcomes, ladders_of
from suisei.probes.outcomes import NO_CAPTION, NO_SCORE, Scored, change_outcomes, sign_notes
from suisei.probes.probe_tables import change_notes, change_table, curve_table, ladder_table
from suisei.probes.ready import ready_metric, refused_notes
from suisei.scoring.columns import FAILURES, failure_text
from suisei.scoring.digest import value_digest
from suisei.version import __version__

LADDERS = ("replacing", "shuffling")


@dataclass(frozen=True, slots=True)
class Probed:
    """What is probed in one language.

    Attributes:
        language: "ja" or "en".
        title: the language's name.
        originals: good captions, which are changed.
        humans: one human caption of each image against its others, for the protocols of papers.
        data: the benchmark that they are of.
    """

    language: str
    title: str
    originals: Sequence[CaptionSample]
    humans: Sequence[CaptionSample] = ()
    data: str = ""


def measure_probes(probed: Probed, candidates: Sequence[Candidate], means: Means) -> list[Measure]:
    """Measure what each metric notices; returns a measure of all changes and one per protocol.

    Args:
        probed: the captions.
        candidates: the metrics.
        means: where work is kept, and how it is measured.
    """
    name, digest = f"probes, {probed.title}", samples_digest([*probed.originals, *probed.humans])
    found: dict[str, Mapping[str, Table]] = {}
    errors: dict[str, str] = {}
    lost: dict[str, dict[str, str]] = {}
    notes = [f"the captions are of {probed.data}"] if probed.data else []
    failed: list[str] = []
    of_group = {group_of(sample): sample for sample in [*probed.originals, *probed.humans]}

    def refused(value: dict[str, Any]) -> Iterator[tuple[CaptionSample, str]]:
        reasons = value.get("refused", {})
        return ((sample, reasons[group]) for group, sample in of_group.items() if group in reasons)

    for candidate in candidates:
        decided = [digest, len(probed.originals), candidate.state, repr(means.settings), __version__]
        means.say(f"{name}: {counted(len(probed.originals), 'caption')} with {candidate.label}")
        make = partial(_probe, candidate, probed, means)
        value = means.kept.get(f"{name}-{candidate.label}", value_digest(decided), make, refused)
        if value.get("error"):
            errors[candidate.label] = value["error"]
            notes.append(f"{candidate.label}: {value['error']}")
            if not lacking(candidate.plan, probed.originals):
                failed.append(candidate.label)
            continue
        lost[candidate.label] = value.get("lost", {})
        notes += [*value.get("notes", ()), *lost[candidate.label].values()]
        found[candidate.label] = {kind: read_table(table) for kind, table in value["tables"].items()}
    means.tell_failed(name, candidates, {label: errors[label] for label in failed})
    tables = {
        kind: _joined(kind, found) for kind in dict.fromkeys(k for each in found.values() for k in each)
    }
    shares = {label: _share(each["degradations"]) for label, each in found.items() if "degradations" in each}
    heading, told = f"{name}: mean share noticed", list(dict.fromkeys(notes))
    measures = [Measure(name, heading, tables, shares, notes=told, failed=failed, errors=errors)]
    for kind in LADDERS:
        if kind in tables:
            ranks = {row.label: row.cells["rho"] for row in tables[kind].overall.rows if "rho" in row.cells}
            name = f"{kind}, {probed.title}"
            why = {
                label: own[kind].removeprefix(f"{label}, {name}: ")
                for label, own in lost.items()
                if kind in own
            }
            measures.append(Measure(name, f"{name}: rho", {}, ranks, errors=errors | why))
    return measures


def _share(table: Table) -> Cell:
    """Return how often the score falls, the mean over degradations."""
    known = [value for row in table.overall.rows if (value := row.value("lower")) is not None]
    if known:
        return Cell(float(np.mean(known)))
    reasons = {row.cells["lower"].reason for row in table.overall.rows if "lower" in row.cells}
    return Cell(None, reason=NO_SCORE if NO_SCORE in reasons else NO_CAPTION)


def _joined(kind: str, found: Mapping[str, Mapping[str, Table]]) -> Table:
    """Return one table of those of all metrics: a section per metric, or their rows in common sections."""
    own = {label: each[kind] for label, each in found.items() if kind in each}
    first = next(iter(own.values()))
    notes = tuple(dict.fromkeys(note for label, table in own.items() for note in _notes_of(label, table)))
    if "lower" in first.columns:
        sections = [
            Section(label, section.rows) for label, table in own.items() for section in table.sections
        ]
    else:
        rows: dict[str, list[Any]] = {}
        for table in own.values():
            for section in table.sections:
                rows.setdefault(section.title, []).extend(section.rows)
        sections = [Section(title, tuple(each)) for title, each in rows.items()]
    return replace(first, sections=tuple(sections), notes=notes)


def _notes_of(label: str, table: Table) -> list[str]:
    """Return a table's notes; those on one of its sections, which are of one metric, name it."""
    titles = tuple(f"{section.title}: " for section in table.sections if "lower" in table.columns)
    return [f"{label}, {note}" if note.startswith(titles) else note for note in table.notes]


def _probe(candidate: Candidate, probed: Probed, means: Means) -> dict[str, Any]:
    if candidate.problem:
        return {"error": candidate.problem}
    absent = lacking(candidate.plan, probed.originals)
    if absent:
        return {"error": absent}
    settings = {"n_resamples": means.settings.n_resamples, "seed": means.settings.seed}
    try:
        scored = ready_metric(candidate.plan, probed.originals, batch_size=means.batch_size)
        outcomes = change_outcomes([scored], probed.originals, list(CHANGES), **settings)
        notes = [*change_notes(len(probed.originals), **settings), *sign_notes([scored])]
        tables = {
            "degradations": change_table(outcomes, "lower", notes),
            "invariances": change_table(outcomes, "same", notes),
        }
        lost: dict[str, str] = {}
        if probed.humans:
            own = ready_metric(
                candidate.plan, probed.humans, batch_size=means.batch_size, refused=scored.refused
            )
            protocols, lost = _protocols(own, probed, settings)
            tables |= protocols
    except FAILURES as error:
        return {"error": failure_text(error)}
    found = {kind: table.as_dict() for kind, table in tables.items() if table is not None}
    refused = {group: why for (group, _), why in scored.refused.items()}
    return {"tables": found, "notes": refused_notes([scored]), "lost": lost, "refused": refused}


def _protocols(
    own: Scored, probed: Probed, settings: dict[str, int]
) -> tuple[dict[str, Table | None], dict[str, str]]:
    """Return the tables of the papers' protocols, and why others cannot be made."""
    tables: dict[str, Table | None] = {}
    lost: dict[str, str] = {}
    for (protocol, language), ladder in ladders_of(probed.humans, settings["seed"], LADDERS).items():
        ranked = [ladder] if isinstance(ladder, str) else ladder_outcomes([own], ladder, language, **settings)
        tables[protocol] = ladder_table([each for each in ranked if not isinstance(each, str)])
        lost[protocol] = "; ".join(each for each in ranked if isinstance(each, str))
    drawn = curves([own], probed.humans, probed.language, **settings)
    tables["curves"] = curve_table([each for each in drawn if not isinstance(each, str)])
    lost["curves"] = "; ".join(each for each in drawn if isinstance(each, str))
    return tables, {kind: why for kind, why in lost.items() if why}

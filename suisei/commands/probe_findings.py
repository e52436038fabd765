"""What ``suisei probe`` finds: the probes run one after the other, and their tables."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from suisei.cli import counted, say
from suisei.commands.probe_metrics import fitted_on
from suisei.commands.steps import keeper
from suisei.data.sample import LANGUAGE_NAMES
from suisei.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from suisei.data.sample import CaptionSample
    from suisei.metaeval.calibration import Calibration
    from suisei.metaeval.tables import Table
    from suisei.probes.curves import Curve
    from suisei.probes.ladders import Ladder, LadderOutcome
    from suisei.probes.outcomes import Scored
    from suisei.scoring.plan import MetricPlan


@dataclass
class Findings:
    """What the probes have found so far.

    Attributes:
        tables: by their name in the JSON.
        notes: what else must be known.
        ending: examples, as Markdown.
        lines: the same as plain text.
        ladders: of replacing and shuffling.
        beside_people: of systems' captions below people's.
        curves: of degradation.
        failed: {metric: why it gives no scores any more}.
        changed: the metrics of the tables of changed captions, in their order.
    """

    tables: dict[str, Table] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    ending: str = ""
    lines: list[str] = field(default_factory=list)
    ladders: list[LadderOutcome] = field(default_factory=list)
    beside_people: list[LadderOutcome] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)

    def add(self, kept: list[Any], outcomes: Sequence[Any]) -> None:
        """Keep outcomes; what could not be measured is a reason, and goes into the notes."""
        kept += [each for each in outcomes if not isinstance(each, str)]
        self.notes += [each for each in outcomes if isinstance(each, str)]


def probe_changes(
    options: argparse.Namespace,
    metrics: list[Scored],
    samples: list[CaptionSample],
    found: Findings,
    console: Console,
) -> None:
    """Change good captions one way at a time, and see what scores do."""
    from suisei.probes import originals, probe_tables
    from suisei.probes.outcomes import change_outcomes

    settings = {"n_resamples": options.bootstrap, "seed": options.seed}
    rated = any(sample.rating is not None for sample in samples)
    source = options.originals or ("rated" if rated else "references")
    kept = {"limit": options.limit, "seed": options.seed, "which": options.held_out}
    good = originals.good_samples(samples, source, good=options.good, **kept)
    say(console, f"changing {counted(len(good), 'caption')}")
    outcomes = change_outcomes(metrics, good, options.degradations, **settings)
    outcomes = [each for each in outcomes if each.metric not in found.failed]
    found.changed = list(dict.fromkeys(each.metric for each in outcomes))
    notes = probe_tables.change_notes(len(good), **settings)
    for name, expects in (("degradations", "lower"), ("invariances", "same")):
        table = probe_tables.change_table(outcomes, expects, notes)
        if table is not None:
            found.tables[name] = table
    found.ending = "\n".join(probe_tables.example_lines(outcomes))
    found.lines = probe_tables.example_lines(outcomes, markdown=False)


def probe_protocols(
    options: argparse.Namespace,
    plans: Sequence[MetricPlan],
    metrics: list[Scored],
    samples: list[CaptionSample],
    found: Findings,
    console: Console,
) -> None:
    """Run the papers' protocols on one human caption of each image against its others."""
    from suisei.probes import originals, probe_tables
    from suisei.probes.ladders import ladder_outcomes, ladders_of

    if not options.protocols:
        return
    settings = {"n_resamples": options.bootstrap, "seed": options.seed}
    try:
        kept = {"limit": options.limit, "seed": options.seed, "which": options.held_out}
        humans = originals.good_samples(samples, "references", **kept)
    except DataError as error:
        found.notes.append(f"no {', '.join(options.protocols)}: {error}")
        return
    own, lost = fitted_on(humans, plans, metrics, options.batch_size, found.failed, console, keeper(options))
    found.notes += lost
    ladders = [name for name in options.protocols if name != "curves"]
    for (protocol, language), ladder in ladders_of(humans, options.seed, ladders).items():
        if isinstance(ladder, str):
            found.notes.append(f"{LANGUAGE_NAMES[language]}: {ladder}")
            continue
        say(console, f"{protocol}, {LANGUAGE_NAMES[language]}: {counted(len(ladder.sets[0]), 'image')}")
        found.add(found.ladders, ladder_outcomes(own, ladder, language, **settings))
    for protocol in ladders:
        table = probe_tables.ladder_table([each for each in found.ladders if each.protocol == protocol])
        if table is not None:
            found.tables[protocol] = table
    if "curves" in options.protocols:
        _probe_curves(own, humans, settings, found, console)


def _probe_curves(
    metrics: list[Scored],
    humans: list[CaptionSample],
    settings: dict[str, int],
    found: Findings,
    console: Console,
) -> None:
    """Make more and more captions bad, and see how corpus scores fall."""
    from suisei.probes.curves import curves
    from suisei.probes.degrade import by_language
    from suisei.probes.probe_tables import curve_table

    for language, keep in by_language(humans):
        some = [sample for sample, there in zip(humans, keep, strict=True) if there]
        say(console, f"degradation curves, {LANGUAGE_NAMES[language]}: {counted(len(some), 'caption')}")
        found.add(found.curves, curves(metrics, some, language, **settings))
    table = curve_table(found.curves)
    if table is not None:
        found.tables["curves"] = table


def probe_systems(
    options: argparse.Namespace,
    ladders: Sequence[tuple[str, Ladder]],
    plans: Sequence[MetricPlan],
    metrics: list[Scored],
    found: Findings,
    console: Console,
) -> None:
    """See whether metrics tell systems' captions from those of people."""
    from suisei.probes.ladders import ladder_outcomes
    from suisei.probes.probe_tables import beside_people_table

    if not ladders:
        return
    people = list({id(sample): sample for _, ladder in ladders for sample in ladder.sets[-1]}.values())
    own, lost = fitted_on(people, plans, metrics, options.batch_size, found.failed, console, keeper(options))
    found.notes += [note for note in lost if note not in found.notes]
    for language, ladder in ladders:
        size = counted(len(ladder.sets[0]), "image")
        say(console, f"{ladder.names[0]} beside people, {LANGUAGE_NAMES[language]}: {size}")
        settings = {"n_resamples": options.bootstrap, "seed": options.seed}
        found.add(found.beside_people, ladder_outcomes(own, ladder, language, **settings))
    table = beside_people_table(found.beside_people)
    if table is not None:
        found.tables["systems"] = table


def tables_of_samples(
    options: argparse.Namespace,
    metrics: list[Scored],
    scores: list[np.ndarray],
    samples: list[CaptionSample],
    console: Console,
) -> dict[str, Table]:
    """Return the tables of more references, spread and languages."""
    from suisei.data.load import load_data
    from suisei.probes import originals, sample_tables

    settings = {"n_resamples": options.bootstrap, "seed": options.seed}
    rated = [sample for sample in samples if sample.rating is not None]
    tables = {}
    if rated:
        some = originals.some_of_each(rated, options.limit, options.seed)
        say(console, f"varying the references of {counted(len(some), 'caption')}")
        with suppress(DataError):  # no references, no table
            tables["references"] = sample_tables.reference_table(
                metrics, some, most=options.max_references, **settings
            )
    tables["spread"] = sample_tables.spread_table(metrics, scores, samples)
    say(console, "comparing Japanese and English")
    languages = sample_tables.language_table(metrics, samples, **settings)
    if languages is None:
        languages = _of_the_scenes(sample_tables.language_table(metrics, load_data("scenes"), **settings))
    if languages is not None:
        tables["languages"] = languages
    return tables


def _of_the_scenes(table: Table | None) -> Table | None:
    """Return a table of the bundled sample that says so: the rest of the report is of other data."""
    if table is None:
        return None
    note = (
        "of the bundled sample 'scenes', whose ratings are simulated: no two images of the data here have "
        "captions in both languages"
    )
    return replace(table, title=f"{table.title} (bundled sample)", notes=(note, *table.notes))


def calibrations_of(
    options: argparse.Namespace,
    metrics: list[Scored],
    scores: list[np.ndarray],
    samples: list[CaptionSample],
) -> dict[str, dict[str, Calibration] | str]:
    """Return the calibrations of each metric, or why it has none; nothing without ratings."""
    from suisei.metaeval.calibration import calibrate_metrics

    if all(sample.rating is None for sample in samples):
        return {}
    named = {metric.label: column for metric, column in zip(metrics, scores, strict=True)}
    return calibrate_metrics(
        named,
        samples,
        distances=[metric.label for metric in metrics if metric.distance],
        bins=options.bins,
        n_resamples=options.bootstrap,
        seed=options.seed,
    )


def calibration_tables(calibrations: dict[str, dict[str, Calibration] | str]) -> dict[str, Table]:
    """Return the table of calibrations, and one of reliability for each metric that has one."""
    from suisei.metaeval.calibration import calibration_table, reliability_table

    if not calibrations:
        return {}
    tables = {"calibration": calibration_table(calibrations)}
    for label, value in calibrations.items():
        if not isinstance(value, str):
            tables[f"reliability {label}"] = reliability_table(label, value)
    return tables

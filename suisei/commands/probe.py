"""``suisei probe``: whether a metric notices what it should, and minds nothing else."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.cli import say
from suisei.commands.command_parser import Add, CommandParser
from suisei.commands.metric_options import add_metric_options, metric_plans, take_default_model
from suisei.commands.option_values import filled, positive, real, whole
from suisei.commands.options import add_data_options, add_log_options, add_resampling_options
from suisei.commands.reports import Files, Report, Shown, add_report_options, check_report, report_files
from suisei.commands.steps import read_samples
from suisei.data.outputs import check_media, given
from suisei.data.sample import LANGUAGE_NAMES
from suisei.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from suisei.data.sample import CaptionSample
    from suisei.metaeval.calibration import Calibration
    from suisei.metaeval.tables import Table
    from suisei.probes.curves import Curve
    from suisei.probes.ladders import LadderOutcome
    from suisei.probes.outcomes import Scored
    from suisei.report.parts import Rated
    from suisei.scoring.plan import MetricPlan

PROTOCOLS = ("replacing", "shuffling", "curves")

_COMMON = (
    "--model", "--metrics", "--data", "--root", "--images", "--rating-scale", "--degradations", "--protocols",
    "--json", "--plots",
)  # fmt: skip
_EPILOG = """examples:
  suisei probe --model runs/scenes/model --data runs/scenes/test.jsonl --plots plots
  suisei probe --metrics bleu-4,cider,chrf --data flickr8k-expert --root DIR --markdown probes.md
  suisei probe --metrics meteor --data captions.jsonl --protocols replacing,shuffling --degradations negate

Without --model and --metrics it tests the model that suisei.load() gives without a name.

Exit status: 0, or 1 if a metric failed (the others are complete), or 2 for a wrong option or unusable
data. A metric that fails people's expectations is no error: the tables say so."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    _check(options)
    from rich.console import Console

    console = Console(stderr=True)
    plans = _plans(options)
    samples, notes = _load(options)
    check_media(report_files(options), samples)
    metrics, scores, failed = _metrics(plans, samples, options.batch_size, console)
    found = _Findings()
    _probe_changes(options, metrics, samples, found, console)
    _probe_protocols(options, plans, metrics, samples, found, console)
    found.tables |= _tables(options, metrics, scores, samples, console)
    calibrations = _calibrations(options, metrics, scores, samples)
    found.tables |= _calibration_tables(calibrations)
    told = [*notes, *found.notes]
    facts = {"notes": told, "failed": failed, "metrics": _signatures(metrics)}
    plot = partial(_plot, options.plots, metrics, found, calibrations)
    report = _report(options, found, facts, plot if options.plots else None)
    shown = Shown("Probes", report.content, _rated(samples, metrics, scores), notes=told, plans=plans)
    page = shown.writer(options, argv, "probe", found.tables)
    replace(report, page=page).conclude(Files.of(options))
    return 1 if failed else 0


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="suisei probe",
        description="Test that degraded captions score lower and rephrased ones do not, that sets of\n"
        "captions are put in their order (replacing, shuffling, degradation curves), that more references\n"
        "do not hurt, and that scores spread over and are calibrated to the human scale.",
        epilog=_EPILOG,
        common=_COMMON,
    )
    add_metric_options(parser.add_argument_group("metrics").add_argument)
    add = parser.add_argument_group("data").add_argument
    add(
        "--data", metavar="NAME_OR_FILE", type=filled, default="scenes",
        help="a benchmark's name, or a file of samples (default scenes)",
    )  # fmt: skip
    add_data_options(add)
    _add_test_options(parser.add_argument_group("tests").add_argument)
    add = parser.add_argument_group("output").add_argument
    add_report_options(add)
    add("--plots", metavar="DIR", type=filled, help="PNGs: degradations and reliability of each metric")
    add_log_options(add)
    return parser


def _add_test_options(add: Add) -> None:
    add(
        "--originals", choices=("rated", "references"),
        help="good captions to degrade: candidates that people rated well, or one reference of each image "
        "against its others (default: rated where there are ratings)",
    )  # fmt: skip
    add(
        "--good", type=real(0, 1), default=0.75, metavar="SHARE",
        help="mean rating, on 0 to 1, from which a candidate is good (default 0.75)",
    )  # fmt: skip
    add(
        "--degradations", metavar="A,B", type=filled,
        help="changes to captions (default all): object, attribute, negate, ..., and those that should not "
        "matter: synonym, order, ...",
    )  # fmt: skip
    add(
        "--protocols", metavar="A,B", type=filled, default=",".join(PROTOCOLS),
        help=f"of papers, on one reference of each image against its others: {', '.join(PROTOCOLS)} (default "
        "all), or none",
    )  # fmt: skip
    add(
        "--limit", type=positive, default=1000, metavar="N",
        help="captions per language to degrade, and to vary the references of (default 1000)",
    )  # fmt: skip
    add("--max-references", type=whole(1, 1000), default=5, metavar="N", help="at most (default 5)")
    add("--bins", type=whole(1, 1000), default=10, metavar="N", help="of the reliability table (default 10)")
    add_resampling_options(add, seeded="degradations and resampling")


def _check(options: argparse.Namespace) -> None:
    """Refuse what would fail only after all scoring."""
    from suisei.probes.degrade import CHANGES, check_names

    options.degradations = _listed(options.degradations) if options.degradations else list(CHANGES)
    check_names(options.degradations)
    options.protocols = [] if options.protocols.strip() == "none" else _listed(options.protocols)
    for name in options.protocols:
        if name not in PROTOCOLS:
            raise ConfigError(f"no protocol {name!r}; there are: {', '.join(PROTOCOLS)}, or none")
    check_report(
        options, given(vars(options), "data", "references"), folders=["plots"], sealed=["model", "root"]
    )


def _listed(names: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))


def _load(options: argparse.Namespace) -> tuple[list[CaptionSample], list[str]]:
    samples, notes = read_samples(options)
    if not samples:
        raise DataError(f"{options.data}: no sample")
    return samples, [f"data: {options.data}, {len(samples):,} samples", *notes]


def _metrics(
    plans: Sequence[MetricPlan], samples: list[CaptionSample], batch_size: int, console: Console
) -> tuple[list[Scored], list[np.ndarray], dict[str, str]]:
    """Return the metrics that can score, their scores of all samples, and why the others cannot."""
    from suisei.scoring.columns import FAILURES, failure_text

    metrics, scores, failed = [], [], {}
    for plan in plans:
        say(console, f"scoring with {plan.spec}")
        try:
            metric = _scored(plan, samples, batch_size)
            scores.append(metric.score(samples))
            metrics.append(metric)
        except FAILURES as error:
            failed[plan.label] = failure_text(error)
            say(console, f"{plan.spec} failed: {failed[plan.label]}", "red")
    if not metrics:
        raise ConfigError("no metric could score: " + "; ".join(f"{k}: {v}" for k, v in failed.items()))
    return metrics, scores, failed


def _plans(options: argparse.Namespace) -> list[MetricPlan]:
    """Return the metrics asked for, or the model that suisei.load() gives without a name."""
    take_default_model(options)
    return metric_plans(options)


def _scored(plan: MetricPlan, samples: list[CaptionSample], batch_size: int) -> Scored:
    """Make a metric and fit it, once, on what is not degraded."""
    from suisei.metrics.base import SummableCorpus
    from suisei.metrics.registry import get_metric
    from suisei.probes.outcomes import Scored as NewScored
    from suisei.scoring.corpus import summands
    from suisei.scoring.fitting import fit_unrated

    metric = get_metric(plan.spec, **plan.options)
    if metric.needs_fit:
        fit_unrated(metric, samples)
    sign = 1.0 if metric.higher_is_better else -1.0

    def score(wanted: Sequence[CaptionSample]) -> np.ndarray:
        return sign * metric.score(wanted, batch_size=batch_size, progress=True)

    counts = partial(summands, metric) if isinstance(metric, SummableCorpus) else None
    return NewScored(
        plan.label, score, metric.signature, counts,
        learned=metric.needs_fit, distance=not metric.higher_is_better,
    )  # fmt: skip


@dataclass
class _Findings:
    """What the probes have found so far.

    Attributes:
        tables: by their name in the JSON.
        notes: what else must be known.
        ending: examples, as Markdown.
        lines: the same as plain text.
        ladders: of replacing and shuffling.
        curves: of degradation.
    """

    tables: dict[str, Table] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    ending: str = ""
    lines: list[str] = field(default_factory=list)
    ladders: list[LadderOutcome] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)

    def add(self, kept: list[Any], outcomes: Sequence[Any]) -> None:
        """Keep outcomes; what could not be measured is a reason, and goes into the notes."""
        kept += [each for each in outcomes if not isinstance(each, str)]
        self.notes += [each for each in outcomes if isinstance(each, str)]


def _probe_changes(
    options: argparse.Namespace,
    metrics: list[Scored],
    samples: list[CaptionSample],
    found: _Findings,
    console: Console,
) -> None:
    """Change good captions one way at a time, and see what scores do."""
    from suisei.probes import originals, probe_tables
    from suisei.probes.outcomes import change_outcomes

    settings = {"n_resamples": options.bootstrap, "seed": options.seed}
    rated = any(sample.rating is not None for sample in samples)
    source = options.originals or ("rated" if rated else "references")
    good = originals.good_samples(samples, source, good=options.good, limit=options.limit, seed=options.seed)
    say(console, f"changing {len(good):,} captions")
    outcomes = change_outcomes(metrics, good, options.degradations, **settings)
    notes = probe_tables.change_notes(len(good), **settings)
    for name, expects in (("degradations", "lower"), ("invariances", "same")):
        table = probe_tables.change_table(outcomes, expects, notes)
        if table is not None:
            found.tables[name] = table
    found.ending = "\n".join(probe_tables.example_lines(outcomes))
    found.lines = probe_tables.example_lines(outcomes, markdown=False)


def _probe_protocols(
    options: argparse.Namespace,
    plans: Sequence[MetricPlan],
    metrics: list[Scored],
    samples: list[CaptionSample],
    found: _Findings,
    console: Console,
) -> None:
    """Run the papers' protocols on one human caption of each image against its others."""
    from suisei.probes import originals, probe_tables
    from suisei.probes.ladders import ladder_outcomes, ladders_of

    if not options.protocols:
        return
    settings = {"n_resamples": options.bootstrap, "seed": options.seed}
    try:
        humans = originals.good_samples(samples, "references", limit=options.limit, seed=options.seed)
    except DataError as error:
        found.notes.append(f"no {', '.join(options.protocols)}: {error}")
        return
    own = _fitted_on(humans, plans, metrics, options.batch_size)
    ladders = [name for name in options.protocols if name != "curves"]
    for (protocol, language), ladder in ladders_of(humans, options.seed, ladders).items():
        if isinstance(ladder, str):
            found.notes.append(f"{LANGUAGE_NAMES[language]}: {ladder}")
            continue
        say(console, f"{protocol}, {LANGUAGE_NAMES[language]}: {len(ladder.sets[0]):,} images")
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
    found: _Findings,
    console: Console,
) -> None:
    """Make more and more captions bad, and see how corpus scores fall."""
    from suisei.probes.curves import curves
    from suisei.probes.degrade import by_language
    from suisei.probes.probe_tables import curve_table

    for language, keep in by_language(humans):
        some = [sample for sample, there in zip(humans, keep, strict=True) if there]
        say(console, f"degradation curves, {LANGUAGE_NAMES[language]}: {len(some):,} captions")
        found.add(found.curves, curves(metrics, some, language, **settings))
    table = curve_table(found.curves)
    if table is not None:
        found.tables["curves"] = table


def _fitted_on(
    humans: list[CaptionSample],
    plans: Sequence[MetricPlan],
    metrics: list[Scored],
    batch_size: int,
) -> list[Scored]:
    """Return the metrics, those with corpus statistics fitted on the references of these samples alone."""
    by_label = {plan.label: plan for plan in plans}
    return [
        _scored(by_label[metric.label], humans, batch_size) if metric.learned else metric
        for metric in metrics
    ]


def _tables(
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
        say(console, f"varying the references of {len(some):,} captions")
        with suppress(DataError):  # no references, no table
            tables["references"] = sample_tables.reference_table(
                metrics, some, most=options.max_references, **settings
            )
    tables["spread"] = sample_tables.spread_table(metrics, scores, samples)
    say(console, "comparing Japanese and English")
    languages = sample_tables.language_table(metrics, samples, **settings)
    if languages is None:  # no image has captions in both: the bundled scenes have
        languages = sample_tables.language_table(metrics, load_data("scenes"), **settings)
    if languages is not None:
        tables["languages"] = languages
    return tables


def _calibrations(
    options: argparse.Namespace,
    metrics: list[Scored],
    scores: list[np.ndarray],
    samples: list[CaptionSample],
) -> dict[str, dict[str, Calibration] | str]:
    """Return the calibrations of each metric, or why it has none; nothing without ratings."""
    from suisei.metaeval.calibration import calibrate_by_language

    result: dict[str, dict[str, Calibration] | str] = {}
    if all(sample.rating is None for sample in samples):
        return result
    for metric, column in zip(metrics, scores, strict=True):
        try:
            result[metric.label] = calibrate_by_language(
                column, samples, bins=options.bins, n_resamples=options.bootstrap, seed=options.seed
            )
        except DataError as error:
            result[metric.label] = str(error)
    return result


def _calibration_tables(calibrations: dict[str, dict[str, Calibration] | str]) -> dict[str, Table]:
    from suisei.metaeval.calibration import calibration_table, reliability_table

    if not calibrations:
        return {}
    tables = {"calibration": calibration_table(calibrations)}
    for label, value in calibrations.items():
        if not isinstance(value, str):
            tables[f"reliability {label}"] = reliability_table(label, value)
    return tables


def _signatures(metrics: list[Scored]) -> dict[str, str]:
    return {metric.label: metric.signature for metric in metrics}


def _rated(
    samples: Sequence[CaptionSample], metrics: Sequence[Scored], scores: Sequence[np.ndarray]
) -> Rated | None:
    """Return samples and scores for a page, where there are ratings."""
    from suisei.report.parts import Rated

    if all(sample.rating is None for sample in samples):
        return None
    return Rated(samples, {metric.label: column for metric, column in zip(metrics, scores, strict=True)})


def _report(
    options: argparse.Namespace,
    found: _Findings,
    facts: dict[str, Any],
    plot: Callable[[], None] | None,
) -> Report:
    settings = {name: value for name, value in vars(options).items() if value not in (None, [])}
    tables = {name: table.as_dict() for name, table in found.tables.items()}
    content = {**facts, "command": settings, **tables}
    lines = [f"- {note}" for note in facts["notes"]]
    lines += [f"- signature: `{signature}`" for signature in facts["metrics"].values()]
    heading = "\n".join(["# Probes", "", *lines, "", ""])
    shown = list(found.tables.values())
    return Report(
        content,
        shown,
        heading=heading,
        ending=found.ending,
        lines=found.lines,
        notes=facts["notes"],
        plot=plot,
    )


def _plot(
    path: str,
    metrics: list[Scored],
    found: _Findings,
    calibrations: dict[str, dict[str, Calibration] | str],
) -> None:
    """Write the plots of each metric, and the curves of all, into a folder.

    Raises:
        DataError: it cannot be written to.
    """
    from suisei.metaeval.plots import plot_degradation, plot_dots, plot_reliability
    from suisei.probes.curves import SHARES

    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be written to: {error.strerror or error}") from None
    for number, (metric, name) in enumerate(zip(metrics, _file_names(metrics), strict=True)):
        for kind in ("degradations", "invariances"):
            if kind in found.tables:
                own = _of_metric(found.tables[kind], metric, number, len(metrics))
                file, heading = folder / f"{name}-{kind}.png", "share that scores lower"
                plot_dots(file, own, "lower", line=0.5, limits=(-0.03, 1.03), heading=heading)
        value = calibrations.get(metric.label)
        if value is not None and not isinstance(value, str):
            title = f"Reliability of {metric.label}"
            plot_reliability(folder / f"{name}-reliability.png", value, title=title)
    if found.curves:
        panels: dict[str, dict[str, Any]] = {}
        for curve in found.curves:
            panel = panels.setdefault(f"{curve.kind}, {LANGUAGE_NAMES[curve.language]}", {})
            panel[curve.metric] = (SHARES, [cell.value for cell in curve.values])
        plot_degradation(folder / "curves.png", panels, title="Degradation curves")


def _of_metric(table: Table, metric: Scored, number: int, count: int) -> Table:
    """Return one metric's part of a table whose sections are by metric, then by language."""
    width = len(table.sections) // count
    own = table.sections[number * width : (number + 1) * width]
    return replace(table, title=f"{table.title}: {metric.label}", sections=own)


def _file_names(metrics: Sequence[Scored]) -> list[str]:
    """Return what the metrics' files are called, no two alike and none too long."""
    names: list[str] = []
    for metric in metrics:
        name = re.sub(r"[/:\\\s]+", "-", metric.label.strip("/"))[-60:]
        names.append(name if name not in names else f"{name}-{len(names) + 1}")
    return names

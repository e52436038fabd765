"""``suisei sanity``: whether a metric does what people expect of one."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.cli import say
from suisei.commands.options import (
    Add,
    CommandParser,
    add_data_options,
    add_metric_options,
    add_resampling_options,
    filled,
    metric_plans,
    positive,
    real,
    whole,
)
from suisei.commands.reports import Files, Report, Shown, add_report_options, check_report, report_files
from suisei.commands.steps import read_samples
from suisei.data.outputs import check_media, given
from suisei.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from suisei.data.sample import CaptionSample
    from suisei.metaeval.calibration import Calibration
    from suisei.metaeval.tables import Table
    from suisei.probes.probe_tables import Scored
    from suisei.report.parts import Rated
    from suisei.scoring.plan import MetricPlan

_EPILOG = """examples:
  suisei sanity --model runs/scenes/model --data runs/scenes/test.jsonl --plots plots
  suisei sanity --metrics bleu-4,cider,chrf --data flickr8k-expert --root DIR --markdown sanity.md

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
    tables = _tables(options, metrics, scores, samples, console)
    calibrations = _calibrations(options, metrics, scores, samples)
    tables |= _calibration_tables(calibrations)
    facts = {"notes": notes, "failed": failed, "metrics": _signatures(metrics)}
    plot = partial(_plot, options.plots, metrics, tables["degradations"], calibrations)
    report = _report(options, tables, facts, plot if options.plots else None)
    rated = _rated(samples, metrics, scores)
    page = Shown("Probes", report.content, rated, notes=notes).writer(options, argv, "sanity", tables)
    replace(report, page=page).conclude(Files.of(options))
    return 1 if failed else 0


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="suisei sanity",
        description="Test that degraded captions score lower, that more references do not hurt, and that "
        "scores spread over and are calibrated to the human scale.",
        epilog=_EPILOG,
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
        help="which (default all): swap, negate, shuffle, repeat, ...",
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
    from suisei.probes.degrade import DEGRADATIONS, check_names

    names = options.degradations
    options.degradations = [name.strip() for name in names.split(",")] if names else list(DEGRADATIONS)
    check_names(options.degradations)
    check_report(options, given(vars(options), "data"), folders=["plots"], sealed=["model", "root"])


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
            metric = _scored(plan, samples, batch_size, console)
            scores.append(metric.score(samples))
            metrics.append(metric)
        except FAILURES as error:
            failed[plan.spec] = failure_text(error)
            say(console, f"{plan.spec} failed: {failed[plan.spec]}", "red")
    if not metrics:
        raise ConfigError("no metric could score: " + "; ".join(f"{k}: {v}" for k, v in failed.items()))
    return metrics, scores, failed


def _plans(options: argparse.Namespace) -> list[MetricPlan]:
    """Return the metrics asked for, or the model that suisei.load() gives without a name."""
    if not (options.model or options.metrics):
        options.metrics = ["suisei"]
    return metric_plans(options)


def _scored(plan: MetricPlan, samples: list[CaptionSample], batch_size: int, console: Console) -> Scored:
    """Make a metric and fit it, once, on what is not degraded."""
    from suisei.metrics.registry import get_metric
    from suisei.probes.probe_tables import Scored as NewScored
    from suisei.scoring.fitting import fit_unrated

    metric = get_metric(plan.spec, **plan.options)
    if metric.needs_fit:
        fit_unrated(metric, samples)
    sign = 1.0 if metric.higher_is_better else -1.0

    def score(wanted: Sequence[CaptionSample]) -> np.ndarray:
        return sign * metric.score(wanted, batch_size=batch_size, progress=console.is_terminal)

    return NewScored(plan.spec, score, metric.signature)


def _tables(
    options: argparse.Namespace,
    metrics: list[Scored],
    scores: list[np.ndarray],
    samples: list[CaptionSample],
    console: Console,
) -> dict[str, Table]:
    """Return the tables that need no ratings, and that on references where there are some."""
    from suisei.data.load import load_data
    from suisei.probes import probe_tables as sanity

    settings = {"n_resamples": options.bootstrap, "seed": options.seed}
    rated = [sample for sample in samples if sample.rating is not None]
    source = options.originals or ("rated" if rated else "references")
    good = sanity.good_samples(samples, source, good=options.good, limit=options.limit, seed=options.seed)
    say(console, f"degrading {len(good):,} captions")
    tables = {"degradations": sanity.degradation_table(metrics, good, options.degradations, **settings)}
    if rated:
        some = sanity.some_of_each(rated, options.limit, options.seed)
        say(console, f"varying the references of {len(some):,} captions")
        with suppress(DataError):  # no references, no table
            tables["references"] = sanity.reference_table(
                metrics, some, most=options.max_references, **settings
            )
    tables["spread"] = sanity.spread_table(metrics, scores, samples)
    say(console, "comparing Japanese and English")
    languages = sanity.language_table(metrics, samples, **settings)
    if languages is None:  # no image has captions in both: the bundled scenes have
        languages = sanity.language_table(metrics, load_data("scenes"), **settings)
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
    tables: dict[str, Table],
    facts: dict[str, Any],
    plot: Callable[[], None] | None,
) -> Report:
    settings = {name: value for name, value in vars(options).items() if value not in (None, [])}
    content = {**facts, "command": settings, **{name: table.as_dict() for name, table in tables.items()}}
    lines = [f"- {note}" for note in facts["notes"]]
    lines += [f"- signature: `{signature}`" for signature in facts["metrics"].values()]
    heading = "\n".join(["# Sanity", "", *lines, "", ""])
    return Report(content, list(tables.values()), heading=heading, notes=facts["notes"], plot=plot)


def _plot(
    path: str, metrics: list[Scored], table: Table, calibrations: dict[str, dict[str, Calibration] | str]
) -> None:
    """Write the plots of each metric into a folder.

    Raises:
        DataError: it cannot be written to.
    """
    from suisei.metaeval.plots import plot_dots, plot_reliability

    width = len(table.sections) // len(metrics)  # sections are by metric, then by language
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be written to: {error.strerror or error}") from None
    for number, (metric, name) in enumerate(zip(metrics, _file_names(metrics), strict=True)):
        title = f"{table.title}: {metric.label}"
        own = replace(table, title=title, sections=table.sections[number * width : (number + 1) * width])
        file, heading = folder / f"{name}-degradations.png", "share that scores lower"
        plot_dots(file, own, "lower", line=0.5, limits=(-0.03, 1.03), heading=heading)
        value = calibrations.get(metric.label)
        if value is not None and not isinstance(value, str):
            title = f"Reliability of {metric.label}"
            plot_reliability(folder / f"{name}-reliability.png", value, title=title)


def _file_names(metrics: Sequence[Scored]) -> list[str]:
    """Return what the metrics' files are called, no two alike and none too long."""
    names: list[str] = []
    for metric in metrics:
        name = re.sub(r"[/:\\\s]+", "-", metric.label.strip("/"))[-60:]
        names.append(name if name not in names else f"{name}-{len(names) + 1}")
    return names

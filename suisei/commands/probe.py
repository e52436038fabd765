"""``suisei probe``: whether a metric notices what it should, and minds nothing else."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from suisei.cli import counted, say
from suisei.commands.allowances import allowed
from suisei.commands.command_parser import Add, CommandParser
from suisei.commands.metric_options import add_metric_options, metric_plans, take_default_model
from suisei.commands.option_values import filled, positive, real, whole
from suisei.commands.options import add_data_options, add_log_options, add_resampling_options, named_columns
from suisei.commands.probe_findings import (
    Findings,
    calibration_tables,
    calibrations_of,
    probe_changes,
    probe_protocols,
    probe_systems,
    tables_of_samples,
)
from suisei.commands.probe_metrics import probed_metrics
from suisei.commands.probe_plots import plot_findings
from suisei.commands.reports import Files, Report, Shown, add_report_options, check_report, report_files
from suisei.commands.steps import add_keep_option, keeper, read_samples, told_when_interrupted
from suisei.data.outputs import check_media, given
from suisei.errors import ConfigError, DataError
from suisei.metaeval.markdown import markdown_code, markdown_text

if TYPE_CHECKING:
    import numpy as np

    from suisei.data.sample import CaptionSample
    from suisei.probes.ladders import Ladder
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
  suisei probe --metrics bleu-4,cider --data captions_val2017.json --held-out first --limit 5000
  suisei probe --metrics cider --data captions_val2017.json --systems ours=run7/results.json --held-out first

Without --model and --metrics it tests the model that suisei.load() gives without a name.

Exit status: 0, or 1 if a metric failed (the others are complete), or 2 for a wrong option or unusable
data. A metric that fails people's expectations is no error: the tables say so."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    _check(options)
    from rich.console import Console

    from suisei.probes.outcomes import sign_notes
    from suisei.probes.ready import refused_notes

    console = Console(stderr=True)
    plans = _plans(options)
    samples, people, notes = _load(options)
    ladders, told = _beside_people(options, people)
    notes += told
    check_media(report_files(options), samples)
    with told_when_interrupted(options):
        metrics, scores, failed = probed_metrics(plans, samples, options.batch_size, console, keeper(options))
        found = Findings(failed=failed)
        probe_changes(options, metrics, people, found, console)
        probe_protocols(options, plans, metrics, people, found, console)
        probe_systems(options, ladders, plans, metrics, found, console)
        found.tables |= tables_of_samples(options, metrics, scores, samples, console)
    calibrations = calibrations_of(options, metrics, scores, samples)
    found.tables |= calibration_tables(calibrations)
    lost = [f"{label} failed: {reason}" for label, reason in failed.items()]
    told = [*notes, *sign_notes(metrics), *found.notes, *refused_notes(metrics), *lost]
    facts = {"notes": told, "failed": failed, "metrics": _signatures(metrics)}
    plot = partial(plot_findings, options.plots, metrics, found, calibrations)
    report = _report(options, found, facts, plot if options.plots else None)
    shown = Shown("Probes", report.content, _rated(samples, metrics, scores), notes=told, plans=plans)
    page = shown.writer(options, argv, "probe", found.tables)
    replace(report, page=page).conclude(Files.of(options))
    return 1 if failed else 0


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="suisei probe",
        description="Test that degraded captions score lower and rephrased ones do not, that sets of\n"
        "captions are put in their order (replacing, shuffling, degradation curves, systems beside people),\n"
        "that more references do not hurt, and that scores spread over and are calibrated to the human\n"
        "scale.",
        epilog=_EPILOG,
        common=_COMMON,
    )
    add_metric_options(parser.add_argument_group("metrics").add_argument)
    add = parser.add_argument_group("data").add_argument
    add(
        "--data", metavar="NAME_OR_FILE", type=filled, default="scenes",
        help="a benchmark's name, a file of samples, or captions of people alone: COCO annotations, a "
        "Karpathy split as dataset_coco.json:test, JSON of several captions by image id (default scenes)",
    )  # fmt: skip
    add_data_options(add)
    add(
        "--systems", metavar="[NAME=]FILE", type=filled, nargs="+", action="extend", default=[],
        help="captions of systems of the same images, as for 'suisei compare': are they told from people's?",
    )  # fmt: skip
    _add_test_options(parser.add_argument_group("tests").add_argument)
    add = parser.add_argument_group("output").add_argument
    add_report_options(add)
    add("--plots", metavar="DIR", type=filled, help="PNGs: degradations and reliability of each metric")
    add_keep_option(add)
    add_log_options(add)
    return parser


def _add_test_options(add: Add) -> None:
    add(
        "--originals", choices=("rated", "references"),
        help="good captions to degrade: candidates that people rated well, or one reference of each image "
        "against its others (default: rated where there are ratings)",
    )  # fmt: skip
    add(
        "--held-out", choices=("random", "first"), default="random",
        help="which reference of an image stands for a person's caption: a seeded draw, or its first "
        "(default random)",
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
        help="captions per language to degrade, to vary the references of, and of the protocols and "
        "--systems (default 1000)",
    )  # fmt: skip
    add(
        "--max-references",
        type=whole(1, 1000),
        default=5,
        metavar="N",
        help="references per caption at most, where they are varied (default 5)",
    )
    add("--bins", type=whole(1, 1000), default=10, metavar="N", help="of the reliability table (default 10)")
    add_resampling_options(add, seeded="degradations and resampling")


def _check(options: argparse.Namespace) -> None:
    """Refuse what would fail only after all scoring."""
    from suisei.data.karpathy import named_parts
    from suisei.data.system_files import named_files
    from suisei.probes.degrade import CHANGES, check_names

    options.degradations = _listed(options.degradations) if options.degradations else list(CHANGES)
    check_names(options.degradations)
    options.protocols = [] if options.protocols.strip() == "none" else _listed(options.protocols)
    for name in options.protocols:
        if name not in PROTOCOLS:
            raise ConfigError(f"no protocol {name!r}; there are: {', '.join(PROTOCOLS)}, or none")
    inputs = [*given(vars(options), "references"), ("--data", named_parts(options.data)[0])]
    inputs += [("--systems", path) for _, path in named_files(options.systems)]
    check_report(options, inputs, folders=["plots"], sealed=["model", "root"])


def _listed(names: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))


def _load(options: argparse.Namespace) -> tuple[list[CaptionSample], list[CaptionSample], list[str]]:
    """Return the samples, those whose references people's captions are taken from, and notes.

    They are the same, but for a file of people's captions alone: its samples are one caption of each image
    against the others.
    """
    from suisei.data.raters import raters_joined
    from suisei.probes.originals import held_out

    people = _people_alone(options)
    if people is None:
        read, notes = read_samples(options)
        if not read:
            raise DataError(f"{options.data}: no sample")
        joined = raters_joined(options.data, read)  # or a caption counts as often as it was rated
        samples, notes = joined.samples, [*notes, *filter(None, [joined.note])]
        return samples, samples, [f"data: {options.data}, {counted(len(samples), 'sample')}", *notes]
    samples = held_out(people, options.seed, options.held_out)
    if not samples:
        raise DataError(
            f"{options.data}: none of its {counted(len(people), 'image')} has two captions in one language"
        )
    count = sum(len(sample.references) for sample in people)
    told = f"data: {options.data}, {counted(count, 'caption')} of people; {len(samples):,} of them, one per"
    return samples, people, [f"{told} image and language, are scored against the image's others"]


def _people_alone(options: argparse.Namespace) -> list[CaptionSample] | None:
    """Return the captions of a file that holds nothing but people's, None of other data."""
    from rich.console import Console

    from suisei.data.human_captions import human_captions

    messages = Console(stderr=True)
    people = human_captions(
        options.data,
        images=options.images,
        joined=bool(options.systems),
        allowed=allowed(options),
        note=lambda text: say(messages, text),
    )
    if people is not None:
        columns = [] if options.systems else ["column"]  # which may be those of the systems
        for name, value in given(vars(options), "references", *columns, "root", "rating_scale"):
            if value:
                raise ConfigError(
                    f"{options.data} holds captions of people and nothing else; leave out {name}"
                )
    return people


def _beside_people(
    options: argparse.Namespace, samples: Sequence[CaptionSample]
) -> tuple[list[tuple[str, Ladder]], list[str]]:
    """Return (language, ladder) of each system of ``--systems`` below people, and notes on their files."""
    if not options.systems:
        return [], []
    from suisei.data.system_files import Reading
    from suisei.data.system_outputs import read_systems
    from suisei.probes.beside_people import ladders_beside_people
    from suisei.probes.originals import held_out

    humans = held_out(samples, options.seed, options.held_out)
    if not humans:
        raise DataError(
            f"--systems: none of {counted(len(samples), 'sample')} of {options.data} has two references"
        )
    notes: list[str] = []
    how = Reading(options.images, named_columns(options), options.on_error, allowed(options), notes)
    files = read_systems(options.systems, how, alone=True)
    limits = {"limit": options.limit, "seed": options.seed}
    ladders, told = ladders_beside_people(humans, files, options.data, **limits)
    return ladders, [f"systems: {note}" for note in (*notes, *told)]


def _plans(options: argparse.Namespace) -> list[MetricPlan]:
    """Return the metrics asked for, or the model that suisei.load() gives without a name."""
    take_default_model(options)
    return metric_plans(options)


def _signatures(metrics: list[Scored]) -> dict[str, str]:
    return {metric.label: metric.signature for metric in metrics}


def _rated(
    samples: Sequence[CaptionSample], metrics: Sequence[Scored], scores: Sequence[np.ndarray]
) -> Rated | None:
    """Return samples and scores for a page, where there are ratings."""
    from suisei.report.parts import Rated

    if all(sample.rating is None for sample in samples):
        return None
    named = {metric.label: column for metric, column in zip(metrics, scores, strict=True)}
    return Rated(samples, named, [metric.label for metric in metrics if metric.distance])


def _report(
    options: argparse.Namespace,
    found: Findings,
    facts: dict[str, Any],
    plot: Callable[[], None] | None,
) -> Report:
    chosen = {name: value for name, value in vars(options).items() if name != "keep"}  # decides nothing
    settings = {name: value for name, value in chosen.items() if value not in (None, [])}
    tables = {name: table.as_dict() for name, table in found.tables.items()}
    content = {**facts, "command": settings, **tables}
    lines = [f"- {markdown_text(note)}" for note in facts["notes"]]
    lines += [f"- signature: {markdown_code(signature)}" for signature in facts["metrics"].values()]
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

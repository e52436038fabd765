"""``suisei explain``: why a caption has its score."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.cli import counted, say, table_console
from suisei.commands.allowances import allowed
from suisei.commands.command_parser import CommandParser
from suisei.commands.metric_options import add_metric_options, metric_plans
from suisei.commands.option_values import caption_text, filled, positive
from suisei.commands.options import add_root_option, add_row_options, named_columns, note_text
from suisei.commands.reports import check_report, json_text, report_files
from suisei.data.outputs import check_media, given, raise_first, write_texts
from suisei.errors import ConfigError, DataError

if TYPE_CHECKING:
    from suisei.data.formats import Row
    from suisei.data.sample import CaptionSample
    from suisei.explain.explanation import Explanation
    from suisei.metrics.base import Metric
    from suisei.scoring.plan import MetricPlan

_COMMON = (
    "--reference", "--image", "--input", "--references", "--images", "--row", "--model", "--metrics",
    "--json", "--plot",
)  # fmt: skip
_EPILOG = """examples:
  suisei explain "a dog runs on grass" --reference "a brown dog running" --image dog.jpg
  suisei explain --input captions.jsonl --images DIR --row 3 --json why.json --plot why.svg
  suisei explain --model runs/scenes/model --input captions.jsonl --id 0007 --metrics cider

It says what the score would be without the image, without references, with each reference alone (nearest
first), without each word (Japanese is cut by MeCab), and for a SuiSei model with each of the numbers that it
reads put at a typical value: scores of other metrics at their mean over the training data, cosines at what
the model counts them from, which may be a constant. CIDEr and other metrics that learn from a corpus are
fitted on the references of the whole --input.

Without --model and --metrics it explains the model that suisei.load() gives without a name.

Exit status: 0, or 2 for a wrong option, unusable data or a metric that cannot score the caption."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    _check(options)
    plans = metric_plans(options)
    samples, chosen, bad = _load(options)
    if options.plot and len(chosen) * len(plans) > 1:
        raise ConfigError("--plot draws one caption by one metric; ask for one row and one metric")
    check_media(report_files(options), samples)
    from suisei.encoders.sharing import shared_encoders

    with shared_encoders():
        metrics = [_metric(plan, samples, bad, options) for plan in plans]
        found, problems = _explained(metrics, chosen, options.batch_size)
    if not found:
        raise_first(problems)
    _conclude(found, problems, options)
    return 0


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="suisei explain",
        description="Say why a caption has its score: what it would be without each thing it is made of.",
        epilog=_EPILOG,
        common=_COMMON,
    )
    parser.add_argument("candidate", nargs="?", type=caption_text, metavar="CAPTION", help="what to explain")
    add = parser.add_argument_group("the caption").add_argument
    add(
        "--reference",
        metavar="TEXT",
        type=caption_text,
        action="append",
        default=[],
        help="once per reference",
    )
    add("--image", metavar="FILE", type=filled, help="of the caption")
    add("--language", choices=("ja", "en"), help="of the caption (default: as its characters show)")
    add = parser.add_argument_group("or rows of a file").add_argument
    add("--input", metavar="NAME_OR_FILE", type=filled, help="a file of samples, or a benchmark's name")
    add_root_option(add)
    add_row_options(add, images="where relative image paths start (default: beside the input)")
    add("--row", metavar="N", type=positive, action="append", default=[], help="which, from 1 (default 1)")
    add("--id", metavar="ID", type=filled, action="append", default=[], help="which, by its id")
    add_metric_options(parser.add_argument_group("metrics").add_argument)
    add = parser.add_argument_group("output").add_argument
    add("--json", metavar="FILE", type=filled, help="everything, at full precision")
    add("--plot", metavar="FILE", type=filled, help="a chart, as .png, .pdf or .svg")
    return parser


def _check(options: argparse.Namespace) -> None:
    if not (options.model or options.metrics):
        options.metrics = ["suisei"]
    if (options.candidate is None) == (options.input is None):
        raise ConfigError("give a caption, or --input FILE (see suisei explain --help)")
    mine = {"--reference": options.reference, "--image": options.image, "--language": options.language}
    names = ("row", "id", "images", "any_path", "root", "references", "column")
    theirs = {f"--{name}": getattr(options, name) for name in names}
    unused = [name for name, value in (mine if options.input else theirs).items() if value]
    if unused:
        belongs = "a caption on the command line" if options.input else "--input"
        raise ConfigError(f"{unused[0]} belongs to {belongs}")
    check_report(options, given(vars(options), "input", "image", "references"), sealed=["model", "root"])


def _load(
    options: argparse.Namespace,
) -> tuple[list[CaptionSample], list[CaptionSample], DataError | None]:
    """Return all samples, those to be explained, and the first bad row, which fails a metric that learns."""
    from suisei.data.sample import CaptionSample

    if options.input is None:
        image = None if options.image is None else Path(options.image)
        own = CaptionSample(options.candidate, tuple(options.reference), image, language=options.language)
        return [own], [own], None
    samples, skipped = _read(options)
    rows = options.row or ([] if options.id else [1])
    chosen = [_sample_of(row, samples, skipped, options.input) for row in rows]
    by_id = {sample.id: sample for sample in samples}
    for row in skipped:
        if row.error is not None and row.id in options.id and row.id not in by_id:
            raise row.error
    unknown = [wanted for wanted in options.id if wanted not in by_id]
    if unknown:
        raise DataError(f"{options.input}: no sample has the id {unknown[0]!r}; --row N counts from 1")
    chosen += [by_id[wanted] for wanted in options.id]
    bad = next((one.error for one in skipped if one.error is not None), None)
    return samples, chosen, bad if options.on_error == "raise" else None


def _read(options: argparse.Namespace) -> tuple[list[CaptionSample], list[Row]]:
    """Return the samples of the input, and the rows of a file that were left out."""
    from rich.console import Console

    from suisei.data.benchmarks import BENCHMARKS
    from suisei.data.formats import UNRATED
    from suisei.data.load import load_data

    messages = Console(stderr=True)
    skipped: list[Row] = []
    columns: dict[str, Any] = named_columns(options)
    own = options.input not in BENCHMARKS
    if own:
        columns = {**UNRATED, **columns}
    samples = load_data(
        options.input,
        root=options.root,
        images=options.images,
        columns=columns,
        references=options.references,
        note=lambda text: say(messages, note_text(text)),
        on_error="skip"
        if own
        else options.on_error,  # a bad row matters where it is asked for or learned from
        skipped=skipped,
        allowed=allowed(options),
    )
    return samples, skipped if own else []  # a benchmark's rows are numbered in files of their own


def _sample_of(
    row: int, samples: Sequence[CaptionSample], skipped: Sequence[Row], source: str
) -> CaptionSample:
    """Return the sample of a row, counted with the bad rows that were left out.

    Raises:
        DataError: it is one of those, or there is none.
    """
    bad = next((one for one in skipped if one.number == row), None)
    if bad is not None and bad.error is not None:
        raise bad.error
    place = row - sum(one.number < row for one in skipped)
    if place > len(samples):
        raise DataError(f"{source}: --row {row}, but it has {counted(len(samples) + len(skipped), 'row')}")
    return samples[place - 1]


def _metric(
    plan: MetricPlan, samples: list[CaptionSample], bad: DataError | None, options: argparse.Namespace
) -> tuple[Metric, str]:
    """Return a metric, and what its signature says of what it was fitted on."""
    from suisei.scoring.columns import make_metric
    from suisei.scoring.fitting import fit_unrated

    metric = make_metric(plan)
    if metric.needs_fit:
        if options.input is None:
            raise ConfigError(f"{plan.spec} learns from many references: give --input FILE and --row N")
        if bad is not None:
            raise bad
        return metric, fit_unrated(metric, samples)
    return metric, ""


def _explained(
    metrics: Sequence[tuple[Metric, str]], samples: Sequence[CaptionSample], batch_size: int
) -> tuple[list[Explanation], list[DataError]]:
    """Return the explanations, and why there is none where a metric cannot score a caption."""
    from suisei.scoring.columns import named_failures

    found, problems = [], []
    for sample in samples:
        for metric, fitted in metrics:
            try:
                with named_failures(metric.name):
                    own = metric.explain(sample, batch_size=batch_size)
                found.append(replace(own, signature=own.signature + fitted))
            except DataError as error:
                problems.append(error)
    return found, problems


def _conclude(
    found: Sequence[Explanation], missing: Sequence[DataError], options: argparse.Namespace
) -> None:
    """Write the files, show the explanations, and then say what is missing or could not be written."""
    from suisei.explain.wording import terminal_parts
    from suisei.version import __version__

    content: dict[str, Any] = {"suisei": __version__, "explanations": [each.as_dict() for each in found]}
    problems = [*missing, *write_texts([(options.json, json_text(content))])]
    if options.plot:
        from suisei.explain.chart import plot_explanation

        try:
            plot_explanation(options.plot, found[0])
        except DataError as error:
            problems.append(error)
    console = table_console(100)
    for number, each in enumerate(found):
        if number:
            console.rule()
        for part in terminal_parts(each):
            console.print(part)
    raise_first(problems)

"""``suisei score``: a score for every caption of a file, streamed, with any set of metrics."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from suisei.cli import safe_console, say, usable_cores
from suisei.commands.allowances import add_web_option, allowed
from suisei.commands.options import (
    CommandParser,
    add_log_options,
    add_metric_options,
    add_row_options,
    filled,
    metric_plans,
    named_columns,
    note_text,
    positive,
    processes,
    rating_scale,
    take_default_model,
)
from suisei.commands.reports import json_text
from suisei.commands.score_shards import (
    add_shard_options,
    check_shards,
    in_shards,
    rows_to_fit,
    score_shards,
)
from suisei.errors import ConfigError, DataError, SuiseiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from suisei.data.formats import Row
    from suisei.data.joins import References
    from suisei.data.sample import CaptionSample
    from suisei.metrics.base import Metric
    from suisei.scoring.failed_rows import FailedRows
    from suisei.scoring.output import FileOutput, StreamOutput
    from suisei.scoring.plan import MetricPlan
    from suisei.scoring.stream import Job, ScoredRow, Scorer
    from suisei.scoring.summary import RowCounts

WINDOW = 4096
"""Rows held and scored together; captions that occur twice among them are encoded once."""
PARALLEL_WINDOW = 1024
"""The same with several processes, which are to have work from shorter inputs too."""

_FIT = "|fit:references-of-"
_COMMON = (
    "--model", "--metrics", "--device", "--input", "--references", "--column", "--images", "--on-error",
    "--output", "--summary",
)  # fmt: skip
_EPILOG = """examples:
  suisei score --model runs/scenes/model --input captions.jsonl --images DIR --output scores.jsonl
  suisei score --metrics bleu-4,cider,clip-s,suisei:DIR --input captions.csv --output scores.csv
  suisei score --metrics cider,meteor --input captions.jsonl --output scores.jsonl --processes 4
  suisei score --metrics em-score --input videos.jsonl --images VIDEOS --output scores.jsonl
  suisei score --input results.json --references captions_val2014.json --images val2014 --output scores.csv
  suisei score --metrics sacrebleu --input hyp.txt --references ref1.txt ref2.txt
  cat captions.jsonl | suisei score --model DIR --input - | head
  suisei score --metrics clip-s --input 'shards/{00000..00999}.tar' --output scores --devices all

The output has a row per input row, in the same order: the row's id (its number where it has none), a
column per metric, and the error of a row or metric that has no score. It is called NAME.part until it
is complete; --resume goes on with the part file of a run that was cut off, if no finished row and no
metric has changed since. With --on-error skip the rows without every score are also in NAME.failed.jsonl,
with their reasons. Input and output may be pipes. CIDEr and other metrics that
learn from a corpus are fitted on the references of the whole input first, in a pass of their own. With
--processes or --devices every process holds models of its own; scores and order are the same.

Exit status: 0, or 1 if a metric failed or no row could be scored, or 2 for a wrong option, unusable
data or a disk that is full (what was scored is kept in NAME.part), or 130 for Ctrl-C."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    if in_shards(options):
        return _in_shards(options)
    _check(options)
    devices = _devices(options)
    plans = metric_plans(options)
    console = safe_console(stderr=True)
    options.note = _once(console)
    from suisei.scoring.output import tidy

    if options.resume and _is_complete(options.output):
        _check_not_older(options)
        tidy(Path(options.output))
        say(console, f"{options.output} is complete; nothing to resume (without --resume it is scored anew)")
        return 0
    options.window = _window(options, len(devices))
    from suisei.encoders.sharing import shared_encoders

    with _each_warning_once(console), shared_encoders():
        metrics, labelled, signatures = _make_metrics(plans, options, console)
        scorer = _scorer(metrics, labelled, devices, options)
        output = _output(signatures, _basis(metrics, labelled, signatures), options)
        return _run(scorer, output, signatures, options, console)


def _window(options: argparse.Namespace, devices: int) -> int:
    """Return how many rows are scored together; a run that goes on takes the blocks of the one before."""
    from suisei.scoring.output import noted_window

    if options.window is not None:
        return int(options.window)
    noted = noted_window(Path(options.output)) if options.resume else None
    return noted or (WINDOW if devices == 1 else PARALLEL_WINDOW)


def _in_shards(options: argparse.Namespace) -> int:
    """Score a set in shards."""
    take_default_model(options)
    if options.processes and options.devices:
        raise ConfigError("--processes is for the CPU and --devices for GPUs; give one of them")
    check_shards(options)
    options.once = False
    devices = [None] if options.engine == "ray" else _devices(options)
    plans = metric_plans(options)

    from suisei.encoders.sharing import shared_encoders

    console = safe_console(stderr=True)
    with _each_warning_once(console), shared_encoders():
        metrics, labelled, signatures = _make_metrics(plans, options, console)
        return score_shards(metrics, labelled, signatures, devices, options, console)


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="suisei score",
        description="Score captions with a model or with any set of metrics.",
        epilog=_EPILOG,
        common=_COMMON,
    )
    add_metric_options(parser.add_argument_group("metrics").add_argument)
    add = parser.add_argument_group("data").add_argument
    add(
        "--input", metavar="FILE", type=filled, required=True,
        help=".jsonl, .csv, .tsv, .parquet, .json (COCO results) or .txt (a caption a line), also .gz; - is "
        "standard input; shards of a large set: 'shards/{00000..00999}.tar', of rows too, or '*.parquet'",
    )  # fmt: skip
    kinds = ("jsonl", "csv", "tsv", "parquet", "json", "text")
    add("--format", choices=kinds, help="of the input (default: by its name; JSONL for standard input)")
    add_row_options(
        add,
        images="where relative image and video paths start (default: beside the input)",
        ratings="of ratings in the input, which are checked and not used",
    )
    add_web_option(add)
    add(
        "--window", type=positive, metavar="N",
        help=f"rows in memory (default {WINDOW}, with several processes {PARALLEL_WINDOW} each)",
    )  # fmt: skip
    add = parser.add_argument_group("machine").add_argument
    add("--processes", type=processes, metavar="N", help="CPU processes that score side by side (default 1)")
    add("--devices", metavar="N|all", type=filled, help="GPUs, each with a process of its own (default 1)")
    add_shard_options(parser.add_argument_group("shards").add_argument)
    add = parser.add_argument_group("output").add_argument
    add(
        "--output",
        metavar="FILE",
        type=filled,
        default="-",
        help=".jsonl, .csv, .tsv (also .gz) or .parquet; - (default): JSONL to stdout; of shards: a folder",
    )
    add("--resume", action="store_true", help="go on with the part file of a run that was cut off")
    add("--summary", metavar="FILE", type=filled, help="JSON of counts, means, corpus scores and signatures")
    add_log_options(add)
    return parser


def _check(options: argparse.Namespace) -> None:
    """Refuse what would fail only after hours of scoring."""
    take_default_model(options)
    if options.images and not Path(options.images).is_dir():
        raise ConfigError(f"--images {options.images}: no such folder")
    if options.processes and options.devices:
        raise ConfigError("--processes is for the CPU and --devices for GPUs; give one of them")
    _check_input(options)
    named_columns(options)
    options.references_read = _references(options)
    _check_output(options)


def _check_input(options: argparse.Namespace) -> None:
    from suisei.data.formats import format_of
    from suisei.data.paths import descriptor_of, is_stream

    if descriptor_of(options.input) == 0:
        options.input = "-"
    path = Path(options.input)
    options.once = options.input == "-" or is_stream(path)
    if options.input != "-" and not os.path.exists(path):  # noqa: PTH110 - a name that is too long, too
        raise DataError(f"{path}: no such file")
    if options.once:
        if options.format == "parquet" or (not options.format and path.suffix.lower() == ".parquet"):
            raise ConfigError("Parquet cannot be read from standard input or a pipe; give a file")
    elif path.is_dir():
        raise DataError(f"{path}: is a folder; give a file")
    elif not options.format:
        try:
            format_of(path)
        except ConfigError as error:
            raise ConfigError(f"{error}, or say which it is: --format NAME") from None


def _references(options: argparse.Namespace) -> References | None:
    """Return the files of references, which are read once however often the rows are."""
    from suisei.data.joins import References

    return References(options.references) if options.references else None


def _check_output(options: argparse.Namespace) -> None:
    from suisei.data.outputs import Named, check_outputs, given
    from suisei.data.paths import descriptor_of, is_stream
    from suisei.scoring.failed_rows import failed_file
    from suisei.scoring.output import output_format, part_files

    if descriptor_of(options.output) == 1:
        options.output = "-"
    path = Path(options.output)
    options.streams = options.output == "-" or is_stream(path)
    target = "/dev/stdout" if options.output == "-" else options.output
    outputs: list[Named] = [("--output", target), *given(vars(options), "summary")]
    outputs += [("--log-json", options.log_json)] if options.log_json != "-" else []
    if options.streams:
        if options.resume:
            raise ConfigError("--resume needs an --output file")
    elif not path.is_dir():
        output_format(path)
        outputs += [("--output's part file", part) for part in part_files(path)]
        outputs += [("--output's failed rows", failed_file(path))] if options.on_error == "skip" else []
    models = [("--model", folder) for folder in options.model]
    check_outputs(outputs, given(vars(options), "input", "model", "references"), sealed=models)


def _devices(options: argparse.Namespace) -> list[str | None]:
    """Return the device of every scoring process, None for the one that ``--device`` names.

    With GPUs to count, ``options.device`` becomes the first of them.
    """
    if options.processes:
        return [None] * int(options.processes)
    if options.devices is None:
        return [None]
    if options.device:
        raise ConfigError("--device names one device and --devices counts GPUs; give one of them")
    import torch

    there = torch.cuda.device_count()
    if options.devices != "all" and not (options.devices.isdecimal() and int(options.devices)):
        raise ConfigError(f"--devices is {options.devices!r}; expected a number of GPUs, or all")
    wanted = max(there, 1) if options.devices == "all" else int(options.devices)
    if wanted > there:
        raise ConfigError(f"--devices {options.devices}: {there} GPUs here; --processes N is for the CPU")
    options.device = "cuda:0"
    return [f"cuda:{number}" for number in range(wanted)]


def _scorer(
    metrics: dict[str, Metric],
    plans: dict[str, MetricPlan],
    devices: list[str | None],
    options: argparse.Namespace,
) -> Scorer:
    from suisei.scoring.stream import Scorer

    name = "standard input" if options.input == "-" else options.input
    if len(devices) == 1:
        return Scorer(metrics, name, options.batch_size)
    from suisei.scoring.parallel import ParallelScorer, WorkerSettings

    cores = int(os.environ.get("OMP_NUM_THREADS") or usable_cores())
    states = {label: state for label, metric in metrics.items() if (state := metric.state())}
    threads = max(1, cores // len(devices))
    return ParallelScorer(metrics, WorkerSettings(plans, states, name, options.batch_size, threads), devices)


def _is_complete(output: str) -> bool:
    from suisei.scoring.output import part_files

    return Path(output).is_file() and not part_files(Path(output))[0].exists()


def _check_not_older(options: argparse.Namespace) -> None:
    """Refuse to call an output complete that was written before its input or its model.

    A finished output holds no digests any more; its age is what tells that it is of other captions.
    """
    sources = [
        options.input,
        *options.references,
        *(Path(folder) / "config.json" for folder in options.model),
    ]
    written = Path(options.output).stat().st_mtime_ns
    for source in map(Path, sources):
        if source.is_file() and source.stat().st_mtime_ns > written:
            raise ConfigError(
                f"--output {options.output} is complete, but {source} was changed after it; score anew "
                "without --resume, or give another output"
            )


def _make_metrics(
    plans: Sequence[MetricPlan], options: argparse.Namespace, console: Console
) -> tuple[dict[str, Metric], dict[str, MetricPlan], dict[str, str]]:
    """Make and fit the metrics; one that cannot be had ends the run before anything is scored.

    Returns:
        {label: metric}, {label: plan} and {label: signature}.
    """
    from suisei.scoring.plan import short_labels

    labelled = dict(zip(short_labels(plans), plans, strict=True))
    metrics = {label: _make(plan) for label, plan in labelled.items()}
    unfitted = [label for label, metric in metrics.items() if metric.needs_fit]
    documents = _fit({label: metrics[label] for label in unfitted}, options, console) if unfitted else 0
    signatures = {}
    for label, metric in metrics.items():
        fitted = f"{_FIT}{documents}-scored" if label in unfitted else ""
        signatures[label] = metric.signature + fitted
    return metrics, labelled, signatures


def _make(plan: MetricPlan) -> Metric:
    from suisei.metrics.registry import get_metric
    from suisei.scoring.columns import FAILURES, failure_text

    try:
        return get_metric(plan.spec, **plan.options)
    except SuiseiError:
        raise
    except FAILURES as error:  # most often an option's value of a wrong type
        chosen = ", ".join(f"{key}={value}" for key, value in plan.options.items()) or "no options"
        raise ConfigError(f"{plan.spec} cannot be made with {chosen}: {failure_text(error)}") from error


def _fit(metrics: dict[str, Metric], options: argparse.Namespace, console: Console) -> int:
    """Fit metrics on the whole input's references, in a pass of its own; returns how many samples."""
    names = ", ".join(metrics)
    start = 0
    if options.once and not (options.input == "-" and _standard_input().seekable()):
        what = "standard input" if options.input == "-" else options.input
        raise ConfigError(
            f"{names} must see all references before the first score, and {what} can be read "
            "only once; save it to a file and pass that"
        )
    if options.input == "-":
        start = sys.stdin.buffer.tell()
    from suisei.scoring.fitting import fit_metrics

    def read() -> Iterator[CaptionSample]:
        if getattr(options, "shards", None):
            return rows_to_fit(options)
        if options.input == "-":
            sys.stdin.buffer.seek(start)
        return (row.sample for row in _rows(options) if row.sample is not None)

    say(console, f"fitting {names} on the references of the whole input")
    documents = fit_metrics(metrics.values(), read)
    if options.input == "-":
        sys.stdin.buffer.seek(start)
    return documents


def _rows(options: argparse.Namespace) -> Iterator[Row]:
    from suisei.data.formats import iter_rows

    source = _standard_input() if options.input == "-" else Path(options.input)
    return iter_rows(
        source,
        format=options.format,
        images=options.images,
        rating_scale=rating_scale(options),
        columns={"rating": "rating", **named_columns(options)},  # none is guessed that is not used
        references=options.references_read,
        note=options.note,
        allowed=allowed(options),
    )


def _once(console: Console) -> Callable[[str], None]:
    """Return what says a note the first time alone: for metrics that are fitted, rows are read twice."""
    said: set[str] = set()

    def note(text: str) -> None:
        if text not in said:
            said.add(text)
            say(console, note_text(text))

    return note


def _standard_input() -> TextIO:
    if sys.stdin is None:
        raise DataError("standard input is closed; give a file, or something that writes rows")
    return sys.stdin


def _basis(
    metrics: dict[str, Metric], plans: dict[str, MetricPlan], signatures: dict[str, str]
) -> dict[str, Any]:
    """Return what decides scores beside the signatures, for a later ``--resume`` to compare."""
    from suisei.scoring.digest import value_digest

    machine = ("device", "precision", "compile", "cache", "python")  # the signature has what matters of these
    chosen = {
        label: {key: value for key, value in plan.options.items() if key not in machine}
        for label, plan in plans.items()
    }
    learned = {
        label: value_digest(metrics[label].state()) for label, text in signatures.items() if _FIT in text
    }
    return {"options of the metrics": chosen, "references in the input, which decide weights": learned}


def _output(
    signatures: dict[str, str], basis: dict[str, Any], options: argparse.Namespace
) -> FileOutput | StreamOutput:
    from suisei.scoring.output import FileOutput, StreamOutput

    if options.output == "-":
        return StreamOutput(list(signatures))
    path = Path(options.output)
    if options.streams:
        return StreamOutput(list(signatures), path)
    return FileOutput(path, signatures, resume=options.resume, basis=basis, window=options.window)


def _run(
    scorer: Scorer,
    output: FileOutput | StreamOutput,
    signatures: dict[str, str],
    options: argparse.Namespace,
    console: Console,
) -> int:
    from suisei.progress import progress_bar
    from suisei.scoring.failed_rows import FailedRows
    from suisei.scoring.summary import RowCounts

    counts = RowCounts()
    keeps = options.on_error == "skip" and not options.streams
    failed = FailedRows(Path(options.output)) if keeps else None
    started = time.perf_counter()
    try:
        total = _quick_count(options) if options.log_json or options.loudness != "quiet" else None
        with progress_bar("scoring", total, unit="rows") as advance:
            for scored in _score_windows(scorer, output, counts, failed, options, console):
                advance(scored)
        content = _content(scorer, counts, signatures, options, time.perf_counter() - started)
        problems = _write_beside(failed, content, options)
        output.complete()  # last: what has its own name has all that belongs to it
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_finished_so_far(output, counts.rows, options)) from None
    finally:
        output.close()
        if failed is not None:
            failed.close()
    return _show(content, problems, console)


def _finished_so_far(output: FileOutput | StreamOutput, rows: int, options: argparse.Namespace) -> str:
    """Say what a run that is interrupted leaves, and how to go on."""
    if options.streams:
        return f"{rows:,} rows were written"
    finished = getattr(output, "rows", 0)
    if not finished:
        return "no row was finished"
    return f"{finished:,} rows are finished, in {options.output}.part; the same with --resume goes on"


def _score_windows(
    scorer: Scorer,
    output: FileOutput | StreamOutput,
    counts: RowCounts,
    failed: FailedRows | None,
    options: argparse.Namespace,
    console: Console,
) -> Iterator[int]:
    """Score window after window and write each; yields the number of rows of each."""
    finished = output.finished()
    told: set[str] = set()
    for job, scored in scorer.score_all(_jobs(finished, list(scorer.metrics), options)):
        stop = job.stop
        if stop is not None or any(row.error for row in scored):
            _check_images(job, scored, counts.rows, options)
        if options.on_error == "raise":
            good, refused = _before_first([row.stop for row in scored])
            scored, stop = scored[:good], refused or stop
        output.write(scored)
        every = [*job.known, *scored]
        if failed is not None:
            failed.add(job.window[: len(every)], every)
        scorer.add_to_corpora(job.window[: len(every)], every)
        counts.add(every)
        for label, reason in scorer.failed.items():
            if label not in told:
                told.add(label)
                say(console, f"{label} failed: {reason}", "red")
        if stop is not None:
            raise DataError(f"{stop}{_kept(counts.rows, options)}") from None
        yield len(every)
    extra = sum(1 for _ in finished)
    if extra:
        raise DataError(
            f"{options.output}.part has {extra:,} rows more than {options.input}; it belongs to another "
            "input: resume with that, or score this one to another --output"
        )


def _jobs(
    finished: Iterator[dict[str, Any]], labels: list[str], options: argparse.Namespace
) -> Iterator[Job]:
    """Yield window after window; the last one is that of the first bad row, where none is accepted."""
    from suisei.scoring.resume import match_finished
    from suisei.scoring.stream import Job as NewJob
    from suisei.scoring.stream import windows

    for window in windows(_rows(options), options.window):
        known = match_finished(window, finished, labels)
        job = NewJob(window, known, window[len(known) :])
        if options.on_error == "raise":
            good, job.stop = _before_first([row.error for row in job.new])
            job.new = job.new[:good]
        yield job
        if job.stop is not None:
            return


def _check_images(job: Job, scored: Sequence[ScoredRow], rows: int, options: argparse.Namespace) -> None:
    """Stop where rows fail because images went away, as those on a network may.

    Raises:
        DataError: they did.
    """
    from suisei.scoring.digest import vanished

    gone = options.images if options.images and not Path(options.images).is_dir() else None
    failed = (row.sample for row, result in zip(job.new, scored, strict=False) if result.error)
    gone = gone or next((name for sample in failed if sample and (name := vanished(sample))), None)
    if gone:
        raise DataError(f"{gone} is not there any more{_kept(rows, options, 'once it is back')}")


def _before_first(errors: Sequence[DataError | None]) -> tuple[int, DataError | None]:
    """Return how many rows come before the first error, and that error."""
    for position, error in enumerate(errors):
        if error is not None:
            return position, error
    return len(errors), None


def _kept(rows: int, options: argparse.Namespace, advice: str = "") -> str:
    advice = advice or "--on-error skip leaves bad rows out"
    if options.streams or not rows:
        return f" ({advice})"
    return f" ({rows:,} rows before it are in {options.output}.part; --resume goes on after them, {advice})"


def _quick_count(options: argparse.Namespace) -> int | None:
    """Count the input's rows for the progress bar; None where that is not cheap."""
    from suisei.data.compressed import is_gzip
    from suisei.data.formats import FORMATS
    from suisei.data.lines import count_lines

    path = Path(options.input)
    kind = options.format or FORMATS.get(path.suffix.lower())
    if options.input == "-" or not path.is_file() or is_gzip(path) or kind in ("parquet", "json"):
        return None
    table = kind in ("csv", "tsv")
    return max(0, count_lines(path, quoted=table) - table)


def _content(
    scorer: Scorer,
    counts: RowCounts,
    signatures: dict[str, str],
    options: argparse.Namespace,
    seconds: float,
) -> dict[str, Any]:
    """Return what is said of the run at its end."""
    from suisei.scoring.summary import summary

    content = summary(counts, scorer.corpora, signatures, scorer.failed)
    return {"input": options.input, "output": options.output, "seconds": round(seconds, 3), **content}


def _write_beside(
    failed: FailedRows | None, content: dict[str, Any], options: argparse.Namespace
) -> list[DataError]:
    """Write the summary and the failed rows; what cannot be written keeps nothing else from it."""
    from suisei.data.outputs import write_texts

    problems = write_texts([(options.summary, json_text(content))])
    try:
        if failed is not None:
            failed.complete()
    except DataError as error:
        problems.append(error)
    return problems


def _show(content: dict[str, Any], problems: list[DataError], console: Console) -> int:
    """Show what came of the run; returns the exit status."""
    from suisei.data.outputs import raise_first
    from suisei.runlog.events import current
    from suisei.scoring.summary import summary_notes, summary_table

    if not console.is_terminal:  # a log has no width: let lines be as long as they are
        console.width = 200
    current().tell("summary", **content)
    if not (current().quiet or current().replaces_messages):
        console.print(summary_table(content))
    for note in summary_notes(content):
        say(console, f"· {note}", "dim")
    raise_first(problems)
    metrics = content["metrics"].values()
    failed = any(entry["error"] is not None for entry in metrics)
    return 1 if failed or not any(entry["n"] for entry in metrics) else 0


@contextmanager
def _each_warning_once(console: Console) -> Iterator[None]:
    """Show each kind of warning once, not once a window."""
    import logging

    from suisei.runlog.events import current

    seen: set[str] = set()

    class Once(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.msg not in seen and not current().takes_warnings:
                seen.add(record.msg)
                say(console, f"suisei: {record.getMessage()}")

    handler, logger = Once(logging.WARNING), logging.getLogger("suisei")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)

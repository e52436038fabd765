"""``suisei score``: a score for every caption of a file, streamed, with any set of metrics.

This file is the way through; the steps stand beside it, in files called ``score_STEP.py``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.cli import safe_console, say
from suisei.commands.metric_options import metric_plans, take_default_model
from suisei.commands.said_once import each_warning_once, note_once
from suisei.commands.score_checks import (
    check,
    check_not_older,
    check_same_columns,
    check_summary_is_there,
    chosen_devices,
    chosen_window,
    not_both_kinds,
)
from suisei.commands.score_ending import content_of_run, finished_so_far, show, write_beside
from suisei.commands.score_metrics import basis_of, learned_of, make_metrics, make_scorer
from suisei.commands.score_options import parser
from suisei.commands.score_rows import quick_count
from suisei.commands.score_shards import deciding, in_shards, score_shards
from suisei.commands.score_windows import score_windows
from suisei.commands.shard_tasks import check_shards
from suisei.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from suisei.scoring.output import FileOutput, StreamOutput
    from suisei.scoring.stream import Scorer


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = parser().parse_args(argv)
    take_default_model(options)
    return _score_shards(options) if in_shards(options) else _score_file(options)


def _score_file(options: argparse.Namespace) -> int:
    """Score a file, a pipe or standard input; returns the exit status."""
    check(options)
    devices = chosen_devices(options)
    plans = metric_plans(options)
    console = safe_console(stderr=True)
    options.note = note_once(console)
    from suisei.data.part_files import is_complete
    from suisei.scoring.output import tidy
    from suisei.scoring.plan import short_labels
    from suisei.scoring.seen_images import SeenImages

    options.seen = SeenImages(options.images)
    if options.resume and is_complete(options.output):
        check_not_older(options)
        check_same_columns(options.output, short_labels(plans))
        check_summary_is_there(options)
        tidy(Path(options.output))
        said = f"{options.output} is complete, newer than its input and models, and has these columns"
        say(console, f"{said}: nothing to resume; what had other options is scored anew without --resume")
        return 0
    options.window = chosen_window(options, len(devices))
    from suisei.encoders.sharing import shared_encoders

    with each_warning_once(console), shared_encoders():
        metrics, labelled, signatures = make_metrics(plans, options, console)
        scorer = make_scorer(metrics, labelled, devices, options)
        output = _output(signatures, basis_of(metrics, labelled, signatures), options)
        return _run(scorer, output, signatures, options, console)


def _score_shards(options: argparse.Namespace) -> int:
    """Score a set in shards; returns the exit status."""
    not_both_kinds(options)
    check_shards(options)
    options.once = False
    devices = [None] if options.engine == "ray" else chosen_devices(options)
    plans = metric_plans(options)

    from suisei.encoders.sharing import shared_encoders
    from suisei.scoring.plan import short_labels

    options.decides = deciding(short_labels(plans), options)  # before models are loaded
    console = safe_console(stderr=True)
    with each_warning_once(console), shared_encoders():
        metrics, labelled, signatures = make_metrics(plans, options, console)
        options.learned = learned_of(metrics, signatures)
        return score_shards(metrics, labelled, signatures, devices, options, console)


def _output(
    signatures: dict[str, str], basis: dict[str, Any], options: argparse.Namespace
) -> FileOutput | StreamOutput:
    """Return what writes the scores: a file that can be gone on with, or a stream."""
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
    """Score all windows, write what belongs beside the scores, and say what came of it."""
    from suisei.progress import progress_bar
    from suisei.scoring.failed_rows import FailedRows
    from suisei.scoring.summary import RowCounts

    counts = RowCounts()
    failed = None if options.streams else FailedRows(Path(options.output))
    kept = failed if options.on_error == "skip" else None  # others stop at the first, and an older file goes
    started = time.perf_counter()
    try:
        total = quick_count(options) if options.log_json or options.loudness != "quiet" else None
        with progress_bar("scoring", total, unit="rows") as advance:
            for scored in score_windows(scorer, output, counts, kept, options, console):
                advance(scored)
        content = content_of_run(scorer, counts, signatures, options, time.perf_counter() - started)
        problems = write_beside(failed, content, options)
        if options.streams or not problems:
            output.complete()  # last: what has its own name has all that belongs to it
        else:
            problems.append(DataError(f"the scores are in {options.output}.part; --resume goes on"))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(finished_so_far(output, counts.rows, options)) from None
    finally:
        output.close()
        if failed is not None:
            failed.close()
    return show(content, problems, console)

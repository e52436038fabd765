"""Scores window after window of rows, and writes each as soon as it is scored."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from suisei.cli import counted, say
from suisei.commands.score_rows import read_rows
from suisei.data.file_rows import LEFT_OUT
from suisei.errors import DataError

if TYPE_CHECKING:
    from rich.console import Console

    from suisei.scoring.failed_rows import FailedRows
    from suisei.scoring.output import FileOutput, StreamOutput
    from suisei.scoring.stream import Job, ScoredRow, Scorer
    from suisei.scoring.summary import RowCounts


def score_windows(
    scorer: Scorer,
    output: FileOutput | StreamOutput,
    counts: RowCounts,
    failed: FailedRows | None,
    options: argparse.Namespace,
    console: Console,
) -> Iterator[int]:
    """Score window after window and write each; yields the number of rows of each.

    Raises:
        DataError: a row that stops the run, images that went away, an output that cannot be written, or one
            with more rows than the input.
    """
    finished = output.finished()
    told: set[str] = set()
    for job, scored in scorer.score_all(_jobs(finished, list(scorer.metrics), options)):
        stop = job.stop
        _check_images(job, scored, counts.rows, options)
        if options.on_error == "raise":
            good, refused = _before_first([row.stop for row in scored])
            scored, stop = scored[:good], refused or stop
        every = [*job.known, *scored]
        try:
            output.write(scored)
            if failed is not None:
                failed.add(job.window[: len(every)], every)
        except DataError as error:
            kept = getattr(output, "rows", 0)
            raise DataError(f"{error}{_kept(kept, options, 'once there is room')}") from None
        done = job.window[: len(every)]
        scorer.add_to_corpora(done, every)
        counts.add(every, (row.sample for row in done if row.sample is not None))
        for label, reason in scorer.failed.items():
            if label not in told:
                told.add(label)
                say(console, f"{label} failed: {reason}", "red")
        if stop is not None:
            said = str(stop).removesuffix(LEFT_OUT)
            raise DataError(f"{said}{_kept(counts.rows, options)}") from None
        yield len(every)
    extra = sum(1 for _ in finished)
    if extra:
        raise DataError(
            f"{options.output}.part has {counted(extra, 'row')} more than {options.input}; it belongs to "
            "another input: resume with that, or score this one to another --output"
        )


def _jobs(
    finished: Iterator[dict[str, Any]], labels: list[str], options: argparse.Namespace
) -> Iterator[Job]:
    """Yield window after window; the last one is that of the first bad row, where none is accepted."""
    from suisei.scoring.resume import match_finished
    from suisei.scoring.stream import Job as NewJob
    from suisei.scoring.stream import windows

    for window in windows(read_rows(options), options.window):
        known = match_finished(window, finished, labels)
        job = NewJob(window, known, window[len(known) :])
        if options.on_error == "raise":
            good, job.stop = _before_first([row.error for row in job.new])
            job.new = job.new[:good]
        yield job
        if job.stop is not None:
            return


def _check_images(job: Job, scored: Sequence[ScoredRow], rows: int, options: argparse.Namespace) -> None:
    """Stop where images went away, as those on a network may: rows failed for it, or lack an image now.

    Raises:
        DataError: they did.
    """
    failed = [row for row, result in zip(job.new, scored, strict=False) if result.error]
    if job.stop is not None:
        failed.append(job.window[len(job.known) + len(job.new)])
    gone = options.seen.gone(failed)
    if gone:
        raise DataError(f"{gone} is not there any more{_kept(rows, options, 'once it is back')}")


def _before_first(errors: Sequence[DataError | None]) -> tuple[int, DataError | None]:
    """Return how many rows come before the first error, and that error."""
    for position, error in enumerate(errors):
        if error is not None:
            return position, error
    return len(errors), None


def _kept(rows: int, options: argparse.Namespace, once: str = "") -> str:
    advice = once or "--on-error skip leaves bad rows out"
    if not (rows or once or options.format) and options.input == "-":
        advice += "; standard input is read as JSON Lines, or as --format says"
    if options.streams or not rows:
        return f" ({'start again ' if once else ''}{advice})"
    is_in, them = ("is", "it") if rows == 1 else ("are", "them")
    kept = f"{counted(rows, 'row')} before it {is_in} in {options.output}.part"
    return f" ({kept}; --resume goes on after {them}, {advice})"

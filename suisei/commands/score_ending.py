"""What ``suisei score`` says and writes at the end: summary, failed rows, exit status."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from suisei.cli import counted, say
from suisei.commands.reports import json_text
from suisei.errors import DataError

if TYPE_CHECKING:
    from rich.console import Console

    from suisei.scoring.failed_rows import FailedRows
    from suisei.scoring.output import FileOutput, StreamOutput
    from suisei.scoring.stream import Scorer
    from suisei.scoring.summary import RowCounts


def content_of_run(
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


def write_beside(
    failed: FailedRows | None, content: dict[str, Any], options: argparse.Namespace
) -> list[DataError]:
    """Write the summary and the failed rows; returns why one of them, or both, cannot be written."""
    from suisei.data.outputs import write_texts

    problems = write_texts([(options.summary, json_text(content))])
    try:
        if failed is not None:
            failed.complete()
    except DataError as error:
        problems.append(error)
    return problems


def show(content: dict[str, Any], problems: list[DataError], console: Console) -> int:
    """Show what came of the run; returns the exit status."""
    from suisei.data.outputs import raise_first
    from suisei.runlog.events import current
    from suisei.scoring.summary import summary_notes, summary_table

    if not console.is_terminal:  # a log has no width: let lines be as long as they are
        console.width = 200
    current().tell("summary", **content)
    if not (current().quiet or current().replaces_messages):
        console.print(summary_table(content))
    metrics = content["metrics"].values()
    scored = any(entry["n"] for entry in metrics)
    for note in summary_notes(content):
        say(console, f"· {note}", "dim", warns=not scored)
    raise_first(problems)
    failed = any(entry["error"] is not None for entry in metrics)
    return 1 if failed or not scored else 0


def finished_so_far(output: FileOutput | StreamOutput, rows: int, options: argparse.Namespace) -> str:
    """Say what a run that is interrupted leaves, and how to go on."""
    if options.streams:
        begun = getattr(output, "under_way", 0)
        some = f", and some of the next {begun:,}, of which the last may be cut off" if begun else ""
        return f"{counted(rows, 'row')} written{some}"
    finished = getattr(output, "rows", 0)
    if not finished:
        return "no row was finished"
    are = "is" if finished == 1 else "are"
    return (
        f"{counted(finished, 'row')} {are} finished, in {options.output}.part; the same with --resume goes on"
    )

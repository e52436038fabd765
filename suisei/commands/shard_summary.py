"""What ``suisei score`` says of a set in shards: how far it is, what stopped it, and a summary at the end."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.cli import counted, say
from suisei.commands.reports import json_text
from suisei.errors import DataError, UnavailableError

if TYPE_CHECKING:
    from rich.console import Console

    from suisei.scoring.shard_pool import Run
    from suisei.scoring.shard_scores import ShardReport, ShardTask

SHOWN = 10
"""So many shards and reasons are shown; the summary has all."""


def finished_of(done: int, total: int) -> str:
    """Return how many shards of how many are finished, in words."""
    return f"{done:,} of {counted(total, 'shard')} {'is' if total == 1 else 'are'} finished"


@contextmanager
def said_on_stopping(reports: Mapping[ShardTask, ShardReport], total: int, folder: Path) -> Iterator[None]:
    """Let what stops the run say what is finished, and how to go on."""

    def finished() -> str:
        done = sum(not report.failed for report in reports.values())
        return f"{finished_of(done, total)}, in {folder}; the same command goes on"

    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(finished()) from None
    except (DataError, UnavailableError) as error:
        raise type(error)(f"{error} ({finished()} once that is mended)") from None


def shown(run: Run, tasks: Sequence[ShardTask], console: Console) -> Iterator[tuple[ShardTask, ShardReport]]:
    """Yield reports, and show how far it is, as every long command does."""
    from suisei.progress import progress_bar

    lines = _Lines(console)
    with progress_bar("scoring", len(tasks), unit="shards") as advance:
        for task, report in run(tasks):
            advance(1)
            lines.add(report)
            yield task, report


class _Lines:
    """Says what happens to shards, where somebody should know."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._known: set[str] = set()

    def add(self, report: ShardReport) -> None:
        for note in report.notes:
            text = note.removeprefix(f"{report.shard}: ")
            if text not in self._known and len(self._known) < SHOWN:
                self._known.add(text)
                say(self._console, f"{report.shard}: {text}")
        if report.failed:
            say(self._console, f"failed: {report.failed}", "red")


def tell(
    content: dict[str, Any],
    options: argparse.Namespace,
    console: Console,
    problems: Sequence[DataError] = (),
) -> int:
    """Write the summary of a set in shards, show it, and return the exit status.

    Args:
        content: the summary.
        options: the command's.
        console: for what is said.
        problems: what went wrong after scoring, which is raised at the end.

    Raises:
        DataError: such a problem, or the summary cannot be written.
    """
    from suisei.data.outputs import raise_first, write_texts
    from suisei.runlog.events import current

    problems = [*problems, *write_texts([(options.summary, json_text(content))])]
    current().tell("summary", **content)
    _show(content, options.output, console)
    raise_first(problems)
    nothing = not any(entry["n"] for entry in content["metrics"].values())
    incomplete = content["unread_uids"] if options.uids else {}
    return 1 if content["failed_shards"] or content["broken_shards"] or incomplete or nothing else 0


def _show(content: Mapping[str, Any], output: str, console: Console) -> None:
    from suisei.scoring.summary import kind_notes

    pace = content["scored_now"] / max(1e-9, content["seconds"])
    say(
        console,
        f"{counted(content['shards'], 'shard')}, {counted(content['rows'], 'row')}; "
        f"{content['scored_now']:,} scored now, {pace:,.0f} a second",
    )
    for label, entry in content["metrics"].items():
        mean = "-" if entry["mean"] is None else f"{entry['mean']:.4f}"
        without = content["rows"] - entry["n"]  # bad ones, which no metric scores, included
        say(
            console,
            f"{label}: {counted(entry['n'], 'score')}, mean {mean}; {counted(without, 'row')} without "
            f"({entry['signature']})",
        )
    for note in kind_notes(content):
        say(console, f"· {note}", "dim")
    _list(content["bad_rows"], content["examples"], console)
    for entry in content["metrics"].values():
        _list(entry["skipped"], content["examples"], console)
    again = "the same command tries again"
    _name(content["unread_uids"], "scored without the uids beside them", console)
    _name(content["broken_shards"], f"broken, and scored as far as can be read; {again}", console)
    _name(content["failed_shards"], f"failed; {again}", console)
    if others := content["other_scores"]:
        say(
            console,
            f"{output} has scores of shards that --input does not name: {len(others):,}, such as "
            f"{others[0]}; they stay",
            "dim",
        )


def _list(reasons: Mapping[str, int], examples: Mapping[str, str], console: Console) -> None:
    for reason, count in list(reasons.items())[:SHOWN]:
        example = examples.get(reason, "")
        say(
            console, f"· {count:,} without score: {reason}{f' (such as {example})' if example else ''}", "dim"
        )


def _name(shards: Mapping[str, str], what: str, console: Console) -> None:
    if not shards:
        return
    say(console, f"{counted(len(shards), 'shard')} {what}:", "yellow", warns=True)
    for name, problem in list(shards.items())[:SHOWN]:
        say(console, f"· {problem}" if problem.startswith(name) else f"· {name}: {problem}", warns=True)
    if len(shards) > SHOWN:
        say(console, f"· and {len(shards) - SHOWN:,} more (--summary FILE names all)", warns=True)

"""How far long work is, on standard error: a bar on a terminal, else a line every so often; and in the log.

``--quiet`` and ``--log-json`` of a command decide with :mod:`suisei.runlog.events` what is told.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from suisei.runlog.events import current, memory

if TYPE_CHECKING:
    from rich.progress import Progress

EVERY = 30.0
"""Seconds between two lines for people."""
LOGGED = 10.0
"""Seconds between two events of the log; with --verbose also between lines."""


@contextmanager
def progress_bar(
    description: str, total: int | None, *, shown: bool = True, unit: str = ""
) -> Iterator[Callable[[int], Any]]:
    """Tell of progress and give what is called with each advance.

    Args:
        description: what is being done.
        total: number of items, or None where it is not known.
        shown: False for nothing.
        unit: what the items are, such as "rows".
    """
    if not shown:
        yield lambda _: None
        return
    with _told(description, total, unit) as told:
        yield told.advance


def in_parts(advance: Callable[[int], Any], total: int, parts: int) -> Callable[[int], Any]:
    """Return what is called with parts of some work that are done, and advances by whole items of it.

    Args:
        advance: called with items, ``total`` of them once all parts are done.
        total: number of items.
        parts: number of parts; what is said beyond it counts for nothing.
    """
    done = told = 0

    def step(count: int) -> None:
        nonlocal done, told
        done = min(done + count, parts)
        now = total * done // parts if parts else total
        advance(now - told)
        told = now

    return step


@contextmanager
def reported(*, told: bool = True) -> Iterator[Callable[[str, int], Callable[[int], Any]]]:
    """Give what reports long work: a bar each on a terminal, else a line when it begins; nothing untold."""
    with ExitStack() as stack:

        def progress(description: str, total: int) -> Callable[[int], Any]:
            if not told:
                return lambda _: None
            if not (sys.stderr.isatty() or current().quiet or current().replaces_messages):
                sys.stderr.write(f"{description}: {total:,}\n")
                sys.stderr.flush()
            return stack.enter_context(progress_bar(description, total))

        yield progress


@contextmanager
def counting_bar(description: str) -> Iterator[Callable[[int, int], Any]]:
    """Tell of progress and give what is called with how many items are done, and of how many.

    Args:
        description: what is being done.
    """
    with _told(description, None, "") as told:
        yield told.set


class Lines:
    """Tells of one piece of work in lines and in the log, not more often than it should.

    Args:
        description: what is being done.
        total: number of items, or None where it is not known.
        unit: what the items are.
        lines: whether people are to see lines, for want of a bar.
    """

    def __init__(self, description: str, total: int | None, unit: str = "", *, lines: bool = True) -> None:
        self.description, self.total, self.unit = description, total, unit
        self.done = 0
        self._lines = lines and not current().quiet and not current().replaces_messages
        self._every = LOGGED if current().verbose else EVERY
        self._started = self._line = self._event = time.monotonic()
        current().tell("stage", stage=description, total=total)

    def advance(self, count: int) -> None:
        """Take that so many more are done."""
        self.set(self.done + count, self.total)

    def set(self, done: int, total: int | None) -> None:
        """Take how many are done, and of how many."""
        self.done, self.total = done, total
        now = time.monotonic()
        if now - self._event >= LOGGED:
            self._event = now
            current().tell("progress", **self._facts())
        if self._lines and now - self._line >= self._every:
            self._line = now
            self._say()

    def finish(self) -> None:
        """Say what came of it."""
        current().tell("done", **self._facts())
        if self._lines and current().verbose:
            self._say()

    def _pace(self) -> float:
        return self.done / max(1e-9, time.monotonic() - self._started)

    def _facts(self) -> dict[str, Any]:
        seconds = round(time.monotonic() - self._started, 3)
        facts: dict[str, Any] = {"stage": self.description, "done": self.done, "total": self.total}
        return {**facts, "seconds": seconds, "per_second": round(self._pace(), 3), **memory()}

    def _say(self) -> None:
        pace = self._pace()
        of = "" if self.total is None else f" of {self.total:,}"
        unit = f" {self.unit}" if self.unit else ""
        text = f"{self.description}: {self.done:,}{of}{unit}, {pace:.3g} a second"
        if self.total is not None and self.done and self.total > self.done:
            text += f", {duration((self.total - self.done) / pace)} left"
        if current().verbose and (used := memory().get("memory_mb")):
            text += f", {used:,} MB"
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def duration(seconds: float) -> str:
    """Return a time as people tell it: minutes, from an hour on hours and minutes."""
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


class _Bar(Lines):
    """The same with a bar on a terminal in the place of lines."""

    def __init__(self, bar: Progress, description: str, total: int | None, unit: str) -> None:
        super().__init__(description, total, unit, lines=False)
        self._bar = bar
        self._task = bar.add_task(description, total=total)

    def set(self, done: int, total: int | None) -> None:
        super().set(done, total)
        self._bar.update(self._task, completed=done, total=total)


@contextmanager
def _told(description: str, total: int | None, unit: str) -> Iterator[Lines]:
    if current().quiet or current().replaces_messages or not sys.stderr.isatty():
        lines = Lines(description, total, unit)
        yield lines
        lines.finish()
        return
    with _bar() as progress:
        bar = _Bar(progress, description, total, unit)
        yield bar
        bar.finish()


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)

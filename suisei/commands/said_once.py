"""Notes and warnings that come again with every window of rows, said the first time alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from suisei.cli import say
from suisei.commands.options import note_text

if TYPE_CHECKING:
    from rich.console import Console


def note_once(console: Console) -> Callable[[str], None]:
    """Return what says a note the first time alone: for metrics that are fitted, rows are read twice."""
    said: set[str] = set()

    def note(text: str) -> None:
        if text not in said:
            said.add(text)
            say(console, note_text(text))

    return note


@contextmanager
def each_warning_once(console: Console) -> Iterator[None]:
    """Show each kind of warning once, not once a window."""
    import logging

    from suisei.runlog.events import current

    seen: set[str] = set()

    class Once(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.msg not in seen and not current().takes_warnings:
                seen.add(record.msg)
                say(console, f"suisei: {record.getMessage()}", warns=True)

    handler, logger = Once(logging.WARNING), logging.getLogger("suisei")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)

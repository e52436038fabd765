"""Progress bars on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def progress_bar(
    description: str, total: int | None, *, shown: bool = True
) -> Iterator[Callable[[int], Any]]:
    """Show a progress bar and give what is called with each advance.

    Args:
        description: what is being done.
        total: number of items, or None where it is not known.
        shown: False for no bar.
    """
    if not shown:
        yield lambda _: None
        return
    with _bar() as progress:
        task = progress.add_task(description, total=total)
        yield lambda count: progress.advance(task, count)


@contextmanager
def counting_bar(description: str, *, shown: bool = True) -> Iterator[Callable[[int, int], Any]]:
    """Show a progress bar and give what is called with how many items are done, and of how many.

    Args:
        description: what is being done.
        shown: False for no bar.
    """
    if not shown:
        yield lambda _, __: None
        return
    with _bar() as progress:
        task = progress.add_task(description, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


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

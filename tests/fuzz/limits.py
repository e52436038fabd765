"""What one input may take: seconds of computing, and memory beyond what the program has anyway."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECONDS = 2.0
"""Of computing, not of waiting: others use the machine too."""
BYTES = 1 << 30


class TooSlow(BaseException):
    """An input took more than its time."""


def limit_memory(more: int = BYTES) -> None:
    """Let this process take so many bytes beyond those it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    taken = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + more, resource.RLIM_INFINITY))


@contextmanager
def limited_time(seconds: float = SECONDS) -> Iterator[None]:
    """Raise TooSlow in what computes for longer."""

    def stop(*_: Any) -> None:
        raise TooSlow(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)

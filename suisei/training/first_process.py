"""The processes that a training starts for itself end with it, wherever they are.

The trainer starts the others as the same command, and they wait for half an hour for a first one that is
gone before all have met.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_NUMBER = "SUISEI_FIRST_PROCESS"
"""Variable that tells those that are started which process started them."""
_PAUSE = 0.5
"""Seconds between two looks."""


@contextmanager
def known_to_those_it_starts() -> Iterator[None]:
    """Let the processes that are started meanwhile end with this one."""
    os.environ[_NUMBER] = str(os.getpid())
    try:
        yield
    finally:
        os.environ.pop(_NUMBER, None)


def started_by_another() -> bool:
    """Say, before it ends with that one, whether a training started this process for itself."""
    return _NUMBER in os.environ


def end_with_first_process() -> None:
    """Let this process, if a training started it for itself, end as soon as that one is gone."""
    first = os.environ.pop(_NUMBER, None)
    if first is not None:
        threading.Thread(target=_end_with, args=(int(first),), daemon=True, name="first-process").start()


def _end_with(first: int) -> None:
    while os.getppid() == first:
        time.sleep(_PAUSE)
    os._exit(2)  # the main thread may be waiting where nothing wakes it

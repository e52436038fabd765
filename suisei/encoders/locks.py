"""A lock for objects that several threads use and that are pickled."""

from __future__ import annotations

import threading
from types import TracebackType


class Lock:
    """A re-entrant lock, whose copies and pickles are new locks that nobody holds."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Lock], tuple[()]]:
        return Lock, ()

"""How many threads small work takes."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any


def one_thread() -> AbstractContextManager[Any]:
    """Return a context in which the calling thread computes alone; other threads are left as they are.

    For many short operations, such as the unpacking of weights: threads meet after every one of them, and
    where another process has a core, each meeting waits for its turn there, seconds in all.
    """
    return _openmp().limit(limits=1)


@cache
def _openmp() -> Any:
    from threadpoolctl import ThreadpoolController

    class OpenMP(ThreadpoolController):
        """Knows no other libraries: following a hundred paths takes as long as reading a small model."""

        def _make_controller_from_path(self, filepath: str) -> None:
            if "omp" in Path(filepath).name:
                super()._make_controller_from_path(filepath)

    return OpenMP().select(user_api="openmp")

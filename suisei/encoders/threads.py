"""How many threads small work takes, and work in a forked process."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

import torch

_with_threads: list[int] = []
"""The first process in which several threads computed together: this one, or one that it was forked from."""


def compute_alone_if_forked() -> None:
    """Have this thread compute alone where its process was forked from one that computed in several threads.

    Those are not in it, and OpenMP of GCC, which does not know, waits for them without end. Every thread asks
    anew, for each has a number of its own.
    """
    if torch.get_num_threads() == 1:
        return
    if not _with_threads:
        _with_threads.append(os.getpid())
    elif os.getpid() != _with_threads[0]:
        torch.set_num_threads(1)


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

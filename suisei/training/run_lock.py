"""One training at a time in a run's folder."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from suisei.data.paths import try_lock
from suisei.errors import ConfigError, DataError

PATIENCE = 8.0
"""Seconds for which the processes that prepare batches may outlive a training that was killed."""


@contextmanager
def alone_in(folder: Path, *, fresh: bool, first: bool = True) -> Iterator[None]:
    """Keep other trainings out of a folder while one writes there; a folder that stays empty is taken away.

    Args:
        folder: of the run; made if it is not there.
        fresh: whether the run is started, and not gone on with: then no run may be there.
        first: whether this is the first process of its training, behind whose lock the others are.

    Raises:
        ConfigError: another training is at work there, or one has been started there since this one looked.
        DataError: the folder cannot be made.
    """
    if not first:
        yield
        return
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {error.strerror or error}") from None
    handle = os.open(folder, os.O_RDONLY) if os.name == "posix" else None  # elsewhere no folder can be locked
    try:
        if handle is not None and not _waited_for(handle):
            raise ConfigError(
                f"another training is writing {folder}; wait for it, or choose another --output"
            )
        if fresh:
            refuse_started(folder)
        yield
    finally:
        if handle is not None:
            os.close(handle)
        remove_empty(made)


def refuse_started(folder: Path) -> None:
    """Refuse a folder that holds a run, finished or not.

    Raises:
        ConfigError: it holds one.
    """
    if (folder / "config.yaml").exists():
        raise ConfigError(
            f"{folder} holds a run already; choose another --output, or go on with it: --ckpt_path last"
        )


def _waited_for(handle: int) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not try_lock(handle):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def remove_empty(folders: list[Path]) -> None:
    """Remove folders that are empty, the innermost first."""
    for path in folders:
        try:
            path.rmdir()
        except OSError:
            return

"""What a path stands for: the file behind links, or something that is no file, such as a pipe."""

from __future__ import annotations

import io
import os
import re
import stat
from pathlib import Path
from typing import IO, Any

from suisei.errors import ConfigError

ANY_PATH = "SUISEI_ANY_PATH"
"""Set to 0, files of rows may name images and videos in their folder alone; else anywhere."""
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://|data:[^,]*,", re.IGNORECASE)
_NAMED = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_NUMBERED = re.compile(r"(?:/dev/fd|/proc/self/fd)/(\d{1,9})")
_MAX_LINKS = 40


def descriptor_of(path: Path | str) -> int | None:
    """Return the open file that a path such as /dev/stdout or /dev/fd/3 stands for, None for other paths."""
    name = os.path.abspath(path)  # noqa: PTH100 - resolve() would follow the links to their end
    for _ in range(_MAX_LINKS):
        if name in _NAMED:
            return _NAMED[name]
        found = _NUMBERED.fullmatch(name)
        if found:
            return int(found[1])
        try:
            link = os.readlink(name)  # noqa: PTH115
        except (OSError, ValueError):  # a NUL in it
            return None
        name = os.path.normpath(os.path.join(os.path.dirname(name), link))  # noqa: PTH118, PTH120
    return None


def is_stream(path: Path | str) -> bool:
    """Say whether a path is a pipe, a device or an open descriptor: read once, written to, never replaced."""
    if descriptor_of(path) is not None:
        return True
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def real_path(path: Path | str) -> Path:
    """Return the path behind all links, whether it is there or not; a circle of links is left as it is."""
    return Path(os.path.realpath(path))


def any_path() -> bool:
    """Say whether files of rows may name images and videos that lie elsewhere.

    Raises:
        ConfigError: SUISEI_ANY_PATH is neither 1 nor 0.
    """
    given = os.environ.get(ANY_PATH, "")
    if given not in ("", "0", "1"):
        raise ConfigError(f"{ANY_PATH} is {given!r}; it must be 1, for images anywhere, or 0")
    return given != "0"


def is_address(name: str) -> bool:
    """Say whether a name is an address, of the web or otherwise: https://..., s3://..., data:...,..."""
    return _ADDRESS.match(name) is not None


def is_share(name: str) -> bool:
    """Say whether a name begins as that of another machine's folder does."""
    return name.startswith((r"\\", "//", r"\/", "/\\"))


def is_inside(folder: Path | str, path: Path | str) -> bool:
    """Say whether a path, all links followed, lies in a folder; a path that cannot be one does not."""
    try:
        where, real = os.path.realpath(folder), os.path.realpath(path)
    except (OSError, ValueError):  # a NUL, or half a surrogate pair
        return False
    return real == where or real.startswith(where if where.endswith(os.sep) else where + os.sep)


def try_lock(stream: IO[Any] | io.FileIO | int) -> bool:
    """Lock an open file, or a folder that is open as a descriptor, until the last process closes it.

    The lock is this process's and that of those that inherit it.

    Returns:
        False where another process has it; True also on a file system that has no locks.
    """
    from filelock import lock_descriptor

    try:
        number = stream if isinstance(stream, int) else stream.fileno()
        return lock_descriptor(number, blocking=False)
    except OSError:
        return True

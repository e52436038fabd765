"""Files that are called ``.part`` until they are whole: one run writes them, and a later one goes on."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from pathlib import Path

from suisei.data.paths import real_path, try_lock
from suisei.errors import ConfigError


def part_of(path: Path) -> Path:
    """Return what a file is called while it is written; of a link, the file that it names."""
    target = real_path(path)
    return target.with_name(f"{target.name}.part")


def is_left(part: Path, *, resume: bool) -> bool:
    """Say whether a run that was cut off has left a part file to go on with.

    Raises:
        ConfigError: it has, and nobody asks to go on; or a run is writing it; or what is there is no file.
    """
    if not part.is_symlink() and not part.exists():
        return False
    if part.is_symlink() or not part.is_file():
        raise ConfigError(f"{part} is not a file that an earlier run left; move it away")
    if not part.stat().st_size:
        return False
    if not resume:
        if _is_written(part):
            raise ConfigError(f"another run is writing {part}; wait for it, or use another name")
        raise ConfigError(f"{part} is left from a run that was cut off; go on with --resume, or delete it")
    return True


def _is_written(part: Path) -> bool:
    """Say whether a run holds the lock of a part file."""
    if os.name == "nt":
        return False
    try:
        with part.open("rb") as stream:
            return not try_lock(stream)
    except OSError:  # it was finished in between, or cannot be read
        return False


def is_complete(output: Path | str) -> bool:
    """Say whether an output is there and no part of it is left to do."""
    return Path(output).is_file() and not part_of(Path(output)).exists()


def check_newer(output: Path | str, sources: Iterable[Path | str | None], anew: str) -> None:
    """Refuse to call an output complete that was written before what it is made of.

    A finished output holds no digests any more; its age is what tells that it is of something else.

    Args:
        output: the file.
        sources: what it is made of; what is no file does not count.
        anew: how to make it anew, for the message.

    Raises:
        ConfigError: one of the sources was changed later.
    """
    written = Path(output).stat().st_mtime_ns
    for source in sources:
        if source is not None and os.path.isfile(source) and Path(source).stat().st_mtime_ns > written:  # noqa: PTH113
            raise ConfigError(
                f"--output {output} is complete, but {source} was changed after it; {anew} without --resume, "
                "or give another output"
            )


def locked(part: Path, option: str) -> io.FileIO:
    """Open a part file to append to, for this run alone.

    Raises:
        ConfigError: another run is writing it, or has just finished it.
    """
    handle = io.FileIO(part, "ab")
    try:
        free = os.name == "nt" or try_lock(handle)  # on Windows nobody could read what is locked
        there = free and os.path.samestat(os.fstat(handle.fileno()), part.stat())
    except FileNotFoundError:  # it was finished in between
        there = False
    if not there:
        handle.close()
        raise ConfigError(f"another run is writing {part}; wait for it, or use another {option}")
    return handle


def write_all(stream: io.FileIO, text: str) -> None:
    """Write all of a text to an unbuffered file, so that a full disk shows here and nowhere later."""
    content = memoryview(text.encode("utf-8", "backslashreplace"))
    while content:
        content = content[stream.write(content) or 0 :]

"""What a path stands for: the file behind links, or something that is no file, such as a pipe."""

from __future__ import annotations

import io
import os
import re
import stat
import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from suisei.errors import ConfigError, DataError

ANY_PATH = "SUISEI_ANY_PATH"
"""Set to 1, files of rows may name images and videos anywhere; else in their folder or that of the images."""
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://|data:[^,]*,", re.IGNORECASE)
_NAMED = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_NUMBERED = re.compile(r"(?:/dev/fd|/proc/self/fd)/(\d{1,9})")
_MAX_LINKS = 40


def descriptor_of(path: Path | str) -> int | None:
    """Return the open file that a path such as /dev/stdout or /dev/fd/3 stands for, None for other paths."""
    name = full_path(path)
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


def full_path(path: Path | str) -> str:
    """Return a path from the root on, as it is named: links stay, which ``resolve()`` would follow."""
    return os.path.abspath(path)  # noqa: PTH100


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
    return given == "1"


@dataclass(frozen=True, slots=True)
class Allowed:
    """What files of rows may name beside images and videos in their own folder or that of the images.

    Attributes:
        anywhere: files that lie elsewhere, by absolute paths, ``..`` or links; None: as SUISEI_ANY_PATH says,
            which is no, unless it is 1.
        web: images on the web, by their addresses.
    """

    anywhere: bool | None = None
    web: bool = False

    @property
    def everywhere(self) -> bool:
        """Whether files may lie elsewhere, by the attribute or by SUISEI_ANY_PATH."""
        return any_path() if self.anywhere is None else self.anywhere


DEFAULT = Allowed()
ANYWHERE = Allowed(anywhere=True)
"""For files of one's own, such as those that a run has written."""


_Path: Any = type(Path())


class FetchedImage(_Path):
    """Path of an image that was fetched, or will be; its folder is called by a digest of the address."""

    @property
    def key(self) -> str:
        """What stands for the image in another run too, where the temporary folder is another one."""
        return str(self.parent.name)


class RealPaths:
    """Paths behind all links; that of a folder is looked up once, for many files share theirs."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def of(self, path: Path | str) -> str:
        """Return the path behind all links, whether it is there or not."""
        parent, name = os.path.split(path)
        if name in ("", ".", ".."):
            return os.path.realpath(path)
        if parent not in self._parents:
            if len(self._parents) > _MOST_PARENTS:
                self._parents.clear()
            self._parents[parent] = os.path.realpath(parent)
        full = os.path.join(self._parents[parent], name)  # noqa: PTH118
        return os.path.realpath(full) if os.path.islink(full) else full  # noqa: PTH114


class Root:
    """Where the files may lie that a file of rows names; suisei's own sample may always be named.

    Args:
        folder: where relative paths start.
        others: folders that are as good, such as that of the file of rows.
        allowed: what else may be named.
    """

    def __init__(self, folder: Path | str, *others: Path | str, allowed: Allowed | None = None) -> None:
        self.folder, self._others = Path(folder), others
        allowed = allowed or DEFAULT
        self.anywhere = allowed.everywhere
        self.web = allowed.web
        self._inside: tuple[str, ...] | None = None
        self._real = RealPaths()

    def file(
        self, name: str, *, what: str = "image", column: str | None = None, place: str | None = None
    ) -> Path:
        """Return the path that a name stands for, whether there is a file or not.

        Args:
            name: the name.
            what: it names, an image or a video.
            column: where it stands, for the message.
            place: the file and row that name it, which the message then begins with.

        Raises:
            DataError: it leads to where it must not.
        """
        path = self.folder / name
        if self.anywhere or (not is_share(name) and self.holds(path)):
            return path
        error = self._outside(path, name, what, column or what)
        raise error if place is None else DataError(f"{place}: {error}")

    def found(self, name: str, *, place: str | None = None) -> Path:
        """Return the path that an image's name stands for; as its file is spelt, where only the marks differ.

        Args:
            name: the name.
            place: see :meth:`file`.

        Raises:
            DataError: see :meth:`file`.
        """
        paths = (self.file(each, place=place) for each in spellings(name))
        first = next(paths)
        if name.isascii() or os.path.isfile(first):  # noqa: PTH113 - whatever its name
            return first
        return next((path for path in paths if os.path.isfile(path)), first)  # noqa: PTH113

    def holds(self, path: Path) -> bool:
        """Say whether a path, all links followed, lies where it may; a share is not looked for."""
        if is_share(str(path)):  # Windows would log in
            return False
        try:
            real = self._real.of(path)
            if self._inside is None:
                self._inside = tuple(
                    os.path.join(os.path.realpath(folder), "")  # noqa: PTH118
                    for folder in (self.folder, *self._others, _own_sample())
                )
        except (OSError, ValueError):  # a NUL, or half a surrogate pair
            return False
        return os.path.join(real, "").startswith(self._inside)  # noqa: PTH118

    def _outside(self, path: Path, name: str, what: str, column: str) -> DataError:
        end = ""
        if not (is_share(name) or is_share(str(path))):
            try:
                end = f", to {os.path.realpath(path)!r:.400}"
            except (OSError, ValueError) as error:
                return DataError(f"{column} {name[:60]!r} cannot be a file name: {error}")
        return DataError(
            f"{column} {name[:200]!r} leads out of the folder {str(self.folder)[:200]!r}{end}; pass the "
            f"folder that holds the {what}s (--images DIR) or, if you trust the file, pass --any-path"
        )


_MOST_PARENTS = 10_000


@cache
def _own_sample() -> str:
    """Return the folder of the sample that comes with suisei, whose images files of runs name."""
    from suisei.resources import resource_path

    return str(resource_path("data/scenes"))


def spellings(name: str) -> tuple[str, ...]:
    """Return a file's name as written, and what looks the same: composed, and taken apart as macOS does."""
    if name.isascii():
        return (name,)
    return tuple(dict.fromkeys((name, *(unicodedata.normalize(form, name) for form in ("NFC", "NFD")))))


def is_address(name: str) -> bool:
    """Say whether a name is an address, of the web or otherwise: https://..., s3://..., data:...,..."""
    return _ADDRESS.match(name) is not None


def address_error(column: str, address: str, what: str = "image") -> DataError:
    """Return why an address is refused where nothing is fetched, and what to do.

    Args:
        column: where it stands.
        address: the address.
        what: it names, an image or a video.
    """
    if address[:5].lower() == "data:":
        return DataError(
            f"{column} holds the {what} itself ({address[:30]}...); save it to a file and name that"
        )
    fetched = "; suisei score and suisei evaluate fetch them with --web-images" if what == "image" else ""
    return DataError(
        f"{column} {address[:200]!r} is an address, and nothing is fetched; download the {what}s into a "
        f"folder, name them as they are called there, and pass the folder (--images DIR){fetched}"
    )


def refuse_address(path: Path, what: str) -> None:
    """Make sure that the path of a file that is not there is no address, which nothing here fetches.

    Args:
        path: what was given, an image itself perhaps (data:...), so that only its start is shown.
        what: it should be, an image or a video.

    Raises:
        DataError: it is one.
    """
    name = str(path).replace(":/", "://", 1)  # a Path keeps one of two slashes
    if is_address(name):
        raise DataError(
            f"{name[:200]!r}: no such {what} file; addresses are not fetched, give the path of a file"
        ) from None


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

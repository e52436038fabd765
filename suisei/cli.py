"""What every command shares: one-line errors and warnings, exit statuses, quiet libraries."""

from __future__ import annotations

import errno
import io
import math
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import category

from suisei.errors import DataError, SuiseiError
from suisei.runlog.events import current, end

if TYPE_CHECKING:
    from rich.console import Console

Command = Callable[[Sequence[str] | None], int]
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # of glibc's malloc.h


def counted(count: int, thing: str) -> str:
    """Return a number and what it counts, which has an s unless there is one.

    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def usable_cores(files: str | Path = "/") -> int:
    """Return how many cores this process may use: those it may run on, within its container's share.

    Args:
        files: where /proc and /sys are.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    shares = [math.ceil(share - 0.01) for share in _container_shares(Path(files))]
    return max(1, min([cores, *shares]))


def _container_shares(files: Path) -> Iterator[float]:
    """Yield the cores that this process's control group, and those above it, may use."""
    groups = files / "sys/fs/cgroup"
    try:
        own = (files / "proc/self/cgroup").read_text(encoding="utf-8")
    except OSError:
        return
    for line in own.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        root = groups / controllers if controllers else groups  # the first version has a tree for each
        place = root / name.strip("/")
        for folder in (place, *place.parents):
            if folder.is_relative_to(root) and (share := _share(folder)):
                yield share


def _share(folder: Path) -> float | None:
    try:
        if (folder / "cpu.max").is_file():
            quota, period = map(float, (folder / "cpu.max").read_text(encoding="utf-8").split())
        else:
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            quota, period = (float((folder / name).read_text(encoding="utf-8")) for name in names)
        return quota / period if quota > 0 and period > 0 else None
    except (OSError, ValueError):  # "max", or no such limit
        return None


def spare_cores() -> None:
    """Take no more threads than there are cores, and let waiting ones sleep; before torch is imported.

    By default waiting threads spin, which on a machine that others use too doubles the time of a training and
    of all else. Neither changes a figure with the load of the machine. Whoever set ``OMP_WAIT_POLICY`` or
    ``OMP_NUM_THREADS`` keeps it.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    cores = usable_cores()
    if cores < (os.cpu_count() or 1):
        os.environ.setdefault("OMP_NUM_THREADS", str(cores))


def keep_memory() -> None:
    """Have glibc keep the memory that is freed for what is allocated next; elsewhere nothing happens.

    By default large blocks go back to the system as soon as they are freed, and every batch waits for pages
    anew: on a CPU up to half of the time of a step. Whoever set glibc's variables, ``MALLOC_..._`` or
    ``GLIBC_TUNABLES``, keeps them.
    """
    if sys.platform != "linux" or any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return
    import ctypes

    with suppress(OSError, AttributeError):  # another C library, which has no such function
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def threads_each(processes: int) -> int:
    """Return how many threads each of so many processes side by side takes, at least 1.

    It is its share of the cores, or of ``OMP_NUM_THREADS``: of a list, one for each level of threads within
    threads, the first counts. What is no number is passed over, as OpenMP does.
    """
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    cores = int(given) if given.isdecimal() else usable_cores()
    return max(1, cores // processes)


def run_command(command: Command, argv: Sequence[str] | None = None) -> int:
    """Run a command's ``main`` and turn an expected error into one line and exit status 2.

    A warning of this package is one line too, without the place in the source. A reader of standard output
    that goes away, such as ``| head``, ends the command with status 0, Ctrl-C with 130.
    """
    status: int | None = None
    try:
        status = _run(command, argv)
    finally:
        with suppress(SuiseiError):  # a log that cannot be written to was complained of already
            end(status)
    return status


def _run(command: Command, argv: Sequence[str] | None) -> int:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # silences a warning after a fork
    _open_standard_streams()
    usual = warnings.formatwarning
    warnings.formatwarning = _one_line(usual)
    try:
        try:
            return command(argv)
        finally:  # what cannot be written shows here, and not when the interpreter ends
            write_output("")
    except SuiseiError as error:
        _complain(str(error))
        return 2
    except BrokenPipeError:
        return 0
    except OSError as error:
        if error.filename is None and _has_no_folder():
            _complain("the current folder was removed; go to another one (cd) and start again")
            return 2
        where = f"{error.filename}: " if error.filename is not None else ""
        _complain(f"{where}{error.strerror or error}")
        return 2
    except UnicodeEncodeError as error:
        if not (problem := unspelt(error.object)):
            raise
        _complain(f"{error.object}: cannot be opened{problem}")
        return 2
    except MemoryError as error:
        said = f" ({error})" if str(error) else ""
        _complain(f"out of memory; let the process have more, or give it less to do{said}")
        return 2
    except ImportError as error:
        if "failed to map segment" not in str(error):
            raise
        _complain(f"{error}: too little memory, or a file system from which no program may be run")
        return 2
    except KeyboardInterrupt as interrupt:  # which says what is finished, where somebody knows
        _complain("; ".join(["interrupted", *map(str, interrupt.args)]))
        return 130
    finally:
        warnings.formatwarning = usual


def unspelt(name: Path | str) -> str:
    """Return what to do about a name that the locale's file names have no letters for; "" for any other."""
    encoding = sys.getfilesystemencoding()
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        if encoding != "utf-8":  # where half a surrogate pair has no bytes
            return f" (file names are {encoding} here, which cannot spell this one: set PYTHONUTF8=1)"
    return ""


def _has_no_folder() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Let a request to terminate end what is done here as Ctrl-C does."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not in the main thread, where alone handlers can be set
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def write_output(text: str) -> None:
    """Write text to standard output, at once.

    Raises:
        BrokenPipeError: its reader went away.
        DataError: it cannot be written, as on a full disk.
    """
    with _checked_output():
        sys.stdout.write(text)
        sys.stdout.flush()


@contextmanager
def _checked_output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        _discard_output()
        raise
    except OSError as error:
        _discard_output()
        raise DataError(f"standard output cannot be written: {error.strerror or error}") from None


class _NoOutput(io.TextIOBase):
    """Stands for a standard output that was closed when the program started."""

    def __init__(self) -> None:
        super().__init__()
        self._lost = False

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._lost = True
        self.flush()
        return len(text)

    def flush(self) -> None:
        if self._lost:
            raise OSError(errno.EBADF, "it is closed")

    def close(self) -> None:
        """Close without a last flush: its error has been told, and newer Pythons print it at the end."""
        self._lost = False
        super().close()


def _open_standard_streams() -> None:
    """Put something in the place of standard streams that are closed.

    Otherwise the next file to be opened would get their number, and what a library prints.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdout is None:
        sys.stdout = _NoOutput()
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name of a file may hold what is no text
        sys.stdout.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """Let what is left in the buffer go somewhere when the interpreter flushes it at its end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115


def _complain(message: str) -> None:
    """Write a line to standard error; line ends and control characters, of a file's name, are escaped."""
    line = printable(" ".join(part.strip() for part in message.splitlines()))
    with suppress(SuiseiError):
        current().tell("error", text=line)
    if current().replaces_messages:
        return
    with suppress(OSError):
        sys.stderr.write(f"suisei: {line}\n")
        sys.stderr.flush()


def is_of_pillows_limit(category: type[Warning]) -> bool:
    """Return whether a warning is Pillow's of large images; which are too large we say by their row."""
    return category.__name__ == "DecompressionBombWarning"


def _one_line(usual: Callable[..., str]) -> Callable[..., str]:
    package = str(Path(__file__).parent)

    def format_warning(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        own = category is UserWarning and filename.startswith(package)
        if own:
            current().tell("warning", text=str(message))
        if current().replaces_messages or is_of_pillows_limit(category):
            return ""
        if own:
            return f"suisei: {printable(str(message))}\n"
        return usual(message, category, filename, lineno, line)

    return format_warning


def say(console: Console, text: str, style: str | None = None, *, warns: bool = False) -> None:
    """Print a line as it is: nothing in it is markup, and it is as long as it is.

    What goes to standard error is an event of the log too; with --quiet it is shown if it is red, a failure,
    or if it warns.
    """
    if console.stderr:
        warns = warns or style == "red"
        current().tell("warning" if warns else "note", text=text)
        if current().replaces_messages or (current().quiet and not warns):
            return
    console.print(printable(text), style=style, markup=False, highlight=False, soft_wrap=True)


DIRECTION_MARKS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Marks that let text be shown in another order than it has."""


def printable(text: str) -> str:
    """Return text from data as a terminal may show it.

    Control characters, which terminals obey, marks of direction and halves of surrogate pairs are written as
    escapes; ends of lines and tabs stay.
    """
    if text.isprintable():  # nearly always; marks of direction are not printable
        return text
    return "".join(map(_shown, text))


def _shown(char: str) -> str:
    if char in "\n\t" or not (category(char) in ("Cc", "Cs") or char in DIRECTION_MARKS):
        return char
    return repr(char)[1:-1]


def safe_console(**options: Any) -> Console:
    """Return a rich console that shows data as :func:`printable` has it, in tables too."""
    from rich.console import Console
    from rich.segment import Segment

    class SafeConsole(Console):
        def render(self, *args: Any, **settings: Any) -> Iterator[Segment]:
            for segment in super().render(*args, **settings):
                text, style, control = segment
                yield segment if control or text.isprintable() else Segment(printable(text), style, control)

        def print(self, *objects: Any, **settings: Any) -> None:
            if self.stderr:
                super().print(*objects, **settings)
                return
            with _checked_output():
                super().print(*objects, **settings)

        def on_broken_pipe(self) -> None:
            if self.stderr:
                super().on_broken_pipe()
            raise  # run_command knows what to do

    return SafeConsole(**options)


def table_console(width: int = 200) -> Console:
    """Return the console for tables on standard output; without a terminal it has ``width`` columns."""
    console = safe_console()
    if not console.is_terminal:  # a pipe has no width: let lines be as long as they are
        console = safe_console(width=width)
    return console

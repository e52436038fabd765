"""How loud a command is, and its log for machines: one JSON object per line.

Every event has ``time`` (UTC, ISO 8601), ``event`` and ``elapsed`` (seconds since the command started):

* ``start``: command, arguments, version, process id.
* ``stage``: a piece of long work begins; stage, total.
* ``progress``: how far it is; stage, done, total, per_second, memory_mb, memory_peak_mb.
* ``done``: it is over; the same fields.
* ``note``, ``warning``, ``error``: a line that people are shown; text. With --verbose also ``debug``.
* ``summary``: what ``suisei score`` says at its end, as in its ``--summary``.
* ``epoch``: of a training; epoch, step, figures.
* ``end``: status (the exit status), memory_peak_mb.
"""

from __future__ import annotations

import json
import logging
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from suisei.errors import ConfigError, DataError
from suisei.version import __version__

STANDARD_ERROR = "-"
_BEGINS = b'{"time": "'
_MEGABYTE = 1024


class RunLog:
    """What one command tells: its loudness, and the log that it writes if one was asked for.

    Args:
        path: of the log, "-" for standard error, None for none. A file is appended to.
        loudness: "quiet", "normal" or "verbose".
        command: name of the command.
        arguments: what was typed.

    Raises:
        ConfigError: the file holds something that is no log.
    """

    def __init__(
        self,
        path: str | None = None,
        loudness: str = "normal",
        command: str = "",
        arguments: Sequence[str] = (),
    ) -> None:
        self.loudness = loudness
        self.path = path
        self._started = time.monotonic()
        self._first: dict[str, Any] | None = {
            "command": command,
            "arguments": list(arguments),
            "suisei": __version__,
            "process": os.getpid(),
        }
        self._stream: TextIO | None = None
        if path is not None and path != STANDARD_ERROR:
            _refuse_other_content(Path(path))

    @property
    def quiet(self) -> bool:
        """Whether only results, warnings and errors are shown."""
        return self.loudness == "quiet"

    @property
    def verbose(self) -> bool:
        """Whether more is said, and more often."""
        return self.loudness == "verbose"

    @property
    def replaces_messages(self) -> bool:
        """Whether standard error belongs to the log, so that messages are events of it."""
        return self.path == STANDARD_ERROR

    @property
    def takes_warnings(self) -> bool:
        """Whether warnings of the package come here, and are shown by it."""
        return self.path is not None or self.verbose

    def tell(self, event: str, **fields: Any) -> None:
        """Write an event, if there is a log; a number that is none becomes null.

        Raises:
            DataError: it cannot be written.
        """
        if self.path is None:
            return
        if self._first is not None:
            first, self._first = self._first, None
            self._write("start", first)
        self._write(event, fields)

    def close(self) -> None:
        """End the log; what could not be written was complained of when it was written."""
        stream, self._stream, self.path = self._stream, None, None
        if stream is not None and stream is not sys.stderr:
            with suppress(OSError):  # what is left in the buffer is tried again
                stream.close()

    def _write(self, event: str, fields: Mapping[str, Any]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        elapsed = round(time.monotonic() - self._started, 3)
        content = {"time": now, "event": event, "elapsed": elapsed, **_finite(dict(fields))}
        try:
            if self._stream is None:
                self._stream = self._open()
            self._stream.write(json.dumps(content, ensure_ascii=False, default=str) + "\n")
            self._stream.flush()
        except OSError as error:
            path = self.path
            self.close()  # nothing more is written, not even why
            raise DataError(f"--log-json {path}: cannot be written: {error.strerror or error}") from None

    def _open(self) -> TextIO:
        assert self.path is not None
        if self.path == STANDARD_ERROR:
            return sys.stderr
        return Path(self.path).open("a", encoding="utf-8", errors="backslashreplace", newline="\n")


_current = RunLog()


def current() -> RunLog:
    """Return what the command that runs tells."""
    return _current


def begin(
    path: str | None, loudness: str = "normal", command: str = "", arguments: Sequence[str] = ()
) -> RunLog:
    """Start to tell of a command, in the place of the one before.

    Arguments and errors as of :class:`RunLog`.
    """
    global _current
    _current.close()
    _current = RunLog(path, loudness, command, arguments)
    _hear(_current)
    return _current


def end(status: int | None) -> None:
    """Say that the command is over, with its exit status; None for one that was never begun."""
    global _current
    if status is not None:
        _current.tell("end", status=status, **memory())
    _current.close()
    _current = RunLog()
    _hear(_current)


class _Warnings(logging.Handler):
    """Warnings of the package become events, and with --verbose what helps to find a defect too."""

    def __init__(self, log: RunLog) -> None:
        super().__init__(logging.DEBUG if log.verbose else logging.WARNING)
        self._log = log
        self._seen: set[object] = set()

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg in self._seen:  # not once a window
            return
        self._seen.add(record.msg)
        text = self.format(record)
        self._log.tell("warning" if record.levelno >= logging.WARNING else "debug", text=text)
        if not self._log.replaces_messages:
            sys.stderr.write(f"suisei: {text}\n")


def _hear(log: RunLog) -> None:
    """Let warnings go to a log that takes them, and to no earlier one."""
    logger = logging.getLogger("suisei")
    for handler in [handler for handler in logger.handlers if isinstance(handler, _Warnings)]:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    if log.takes_warnings:
        logger.addHandler(_Warnings(log))
        if log.verbose:
            logger.setLevel(logging.DEBUG)


def memory() -> dict[str, int]:
    """Return the memory of this process in MB, now and at its peak, and that of a GPU at its peak."""
    found = _memory_of_process()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        found["device_memory_peak_mb"] = round(torch.cuda.max_memory_allocated() / _MEGABYTE**2)
    return found


def _memory_of_process() -> dict[str, int]:
    status = Path("/proc/self/status")
    if status.exists():
        text = status.read_text(encoding="utf-8")
        names = {"memory_mb": "VmRSS:", "memory_peak_mb": "VmHWM:"}
        return {
            name: round(int(text.partition(key)[2].split()[0]) / _MEGABYTE) for name, key in names.items()
        }
    try:
        import resource
    except ImportError:  # Windows
        return {}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = _MEGABYTE**2 if sys.platform == "darwin" else _MEGABYTE
    return {"memory_peak_mb": round(peak / unit)}


def _refuse_other_content(path: Path) -> None:
    """Refuse to append to a file that is somebody's work."""
    try:
        if path.is_dir():
            raise ConfigError(f"--log-json {path}: is a folder; give the name of a file")
        if not path.parent.is_dir():
            raise ConfigError(f"--log-json {path}: its folder does not exist")
        if not path.is_file():
            return
        with path.open("rb") as stream:
            beginning = stream.read(len(_BEGINS))
    except OSError as error:
        raise ConfigError(f"--log-json {path}: cannot be written: {error.strerror or error}") from None
    if beginning and beginning != _BEGINS:
        raise ConfigError(f"--log-json {path}: holds something else than a log; give another name")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value

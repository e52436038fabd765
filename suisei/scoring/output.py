"""Where scores go: a file that is whole or marked as unfinished, or standard output.

While a run lasts, ``scores.jsonl`` is called ``scores.jsonl.part``, and every finished block of rows is in
it. Beside it ``scores.jsonl.part.json`` says what is being written: in its first line with which metrics,
then a line per block with a digest of what each of its rows was scored from. The end of the run takes the
marks away, so a file under its own name is complete. A run that was cut off leaves the part file, with which
``--resume`` goes on: a block that is whole is never scored again, one that was being written is scored
again as a whole, so that its rows meet in the same batches as without the interruption.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from suisei.cli import printable, write_output
from suisei.data.compressed import is_gzip, plain_suffix
from suisei.data.parquet import import_pyarrow
from suisei.data.part_files import is_left, locked, part_of, write_all
from suisei.data.paths import real_path
from suisei.data.writers import open_stream
from suisei.errors import ConfigError, DataError
from suisei.scoring.digest import BAD_ROW, DIGEST_CHARACTERS
from suisei.scoring.publish import publish
from suisei.scoring.row_format import RowFormat
from suisei.scoring.stream import ScoredRow

FORMATS = {".jsonl": "jsonl", ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}
"""Of a finished file; while it is written, a Parquet file's rows are JSONL, and nothing is compressed."""
_LAYOUT = 2
_NOTE_CHARACTERS = DIGEST_CHARACTERS + 1
_BLOCK_ENDS = b"\n"
"""After the digest of a block's last row; after the others stands a space."""
_UNKNOWN = "nothing says what the part file was scored from; delete both and start again"


class StreamOutput:
    """Scores on standard output, or in a pipe or device, which are written to as they are.

    Args:
        labels: the score columns.
        path: of a pipe or device; standard output by default.

    Attributes:
        under_way: rows of a write that has not come to its end, as into a pipe that takes them slowly.
    """

    def __init__(self, labels: Sequence[str], path: Path | None = None) -> None:
        suffix = "" if path is None else path.suffix.lower()
        self._name = str(path)
        kind = FORMATS.get(suffix, "jsonl")
        self._format = RowFormat("jsonl" if kind == "parquet" else kind, labels)
        self._stream: TextIO
        try:
            self._stream = sys.stdout if path is None else _text(open_stream(path))
        except OSError as error:
            raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None
        self._own = path is not None
        if not self._own and isinstance(self._stream, io.TextIOWrapper):
            self._stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # data, whatever the locale
        self._begun = False
        self.under_way = 0

    def finished(self) -> Iterator[dict[str, Any]]:
        """Yield nothing: what went out is gone."""
        return iter(())

    def write(self, rows: Sequence[ScoredRow]) -> None:
        """Write rows, at once.

        Raises:
            BrokenPipeError: the reader went away.
            DataError: they cannot be written.
        """
        text = ("" if self._begun else self._format.header()) + self._format.lines(rows)
        self._begun = True
        self.under_way = len(rows)
        self._send(text)
        self.under_way = 0

    def _send(self, text: str) -> None:
        if self._stream is sys.stdout:
            write_output(printable(text) if sys.stdout.isatty() else text)
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise DataError(f"{self._name}: cannot be written: {error.strerror or error}") from None

    def complete(self) -> None:
        """Do nothing: an output stream has no end mark."""

    def close(self) -> None:
        """Close a pipe or device; standard output stays open."""
        if self._own:
            with suppress(OSError):  # what could not be written was said when it was written
                self._stream.close()


class FileOutput:
    """Scores in a file, called ``.part`` until it is complete.

    A part file that was there before is never removed, and nothing of it is changed before the first new row.

    Args:
        path: a .jsonl, .csv, .tsv or .parquet file, the first three also with .gz; of a link, the file that
            it names is written.
        signatures: {label: signature} of the score columns.
        resume: whether to go on after the rows of a part file.
        basis: what else decides the scores, as {what it is: a value that JSON can hold}.
        window: rows of a block, noted for the run that goes on.
        option, again: for messages: what the command calls the file's place, and how it goes on.

    Raises:
        ConfigError: an unknown suffix, a part file without ``resume`` or in use, or one of other metrics.
        DataError: the file cannot be written.
    """

    def __init__(
        self,
        path: Path,
        signatures: Mapping[str, str],
        *,
        resume: bool = False,
        basis: Mapping[str, Any] | None = None,
        window: int | None = None,
        option: str = "--output",
        again: str = "--resume goes on",
    ) -> None:
        self.path = real_path(path)
        self._option, self._again = option, again
        self.part, self.note = part_files(path)
        self._kind = output_format(path)
        self._format = RowFormat("jsonl" if self._kind == "parquet" else self._kind, list(signatures))
        self._settings: dict[str, Any] = {
            "part": _LAYOUT,
            "signatures": dict(signatures),
            "basis": dict(basis or {}),
            **({} if window is None else {"window": window}),
        }
        self._rows = self._end = 0
        self._cut = False
        try:
            self._found = is_left(self.part, resume=resume)
            if self._found:
                self._check_note()
            self._handle = locked(self.part, option)
            if not self._found:
                self._begin_note()
        except OSError as error:
            raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None

    @property
    def rows(self) -> int:
        """How many rows of the part file are finished, as far as they were read or written."""
        return self._rows

    def finished(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of the blocks that are there already: id, error, scores by label and digest.

        Raises:
            DataError: a row of the part file is damaged.
            ConfigError: the note beside it is missing or damaged.
        """
        if not self._found:
            return
        stop = _complete_end(self.part, quoted=self._format.kind != "jsonl")
        block: list[dict[str, Any]] = []
        try:
            with self.part.open("rb") as rows, self.note.open("rb") as notes:
                notes.readline()
                for record, end in self._records(rows, stop):
                    noted = notes.read(_NOTE_CHARACTERS)
                    if len(noted) < _NOTE_CHARACTERS and self._rows:
                        break  # the machine went down before it was on the disk: these are scored again
                    if len(noted) < _NOTE_CHARACTERS:
                        raise ConfigError(f"{self.note} is missing or damaged, so {_UNKNOWN}")
                    block.append({**record, "digest": noted[:-1].decode("ascii", "replace")})
                    if noted[-1:] == _BLOCK_ENDS:  # else it is not known yet whether the block is whole
                        self._rows, self._end = self._rows + len(block), end
                        yield from block
                        block = []
        except DataError as error:
            raise DataError(f"{self.part}: {error}; delete the file and start again") from None

    def write(self, rows: Sequence[ScoredRow]) -> None:
        """Append a block of rows; they are in the file when this returns.

        Raises:
            DataError: they cannot be written, such as on a full disk.
        """
        if not rows:
            return
        try:
            self._cut_rest()
            with self._open_note("ab") as note:
                write_all(note, " ".join(row.digest or BAD_ROW for row in rows) + "\n")
            write_all(self._handle, self._format.lines(rows))
        except OSError as error:
            raise DataError(f"{self.part}: cannot be written: {error.strerror or error}") from None
        self._rows += len(rows)

    def complete(self) -> None:
        """Give the file its own name.

        Raises:
            DataError: that cannot be done.
        """
        try:
            self._cut_rest()
            os.fsync(self._handle.fileno())
            if os.name == "nt":  # where no open file can be renamed
                self._handle.close()
            if not self.part.exists():
                raise DataError(f"{self.part} was taken away while it was written, and its rows with it")
            publish(self.part, self.path, self._kind, self._read_part, self._format.labels)
        except OSError as error:
            raise DataError(
                f"{self.path}: cannot be written: {error.strerror or error}; its rows are in {self.part}; "
                f"{self._again}"
            ) from None
        self._found = True  # nothing to tidy up any more
        self.close()
        for left in (self.part, self.note):
            with suppress(OSError):
                left.unlink()

    def close(self) -> None:
        """Close the part file; one that this run began and wrote no row to is removed."""
        if not (self._found or self._rows or self._handle.closed):
            with suppress(OSError):
                self.part.unlink()
                self.note.unlink()
        self._handle.close()

    def _read_part(self) -> Iterator[dict[str, Any]]:
        with self.part.open(encoding="utf-8", newline="") as rows:
            yield from self._format.parse(rows)

    def _records(self, rows: BinaryIO, stop: int) -> Iterator[tuple[dict[str, Any], int]]:
        """Yield the records before the position ``stop``, each with the position after it."""
        position = 0

        def lines() -> Iterator[str]:
            nonlocal position
            for line in rows:
                if position >= stop:
                    return
                position += len(line)
                yield line.decode("utf-8")

        for record in self._format.parse(lines()):
            yield record, position

    def _cut_rest(self) -> None:
        """Before the first new row: cut off what a killed run left after the last complete row."""
        if self._cut:
            return
        self._handle.truncate(self._end)
        if not self._end:
            write_all(self._handle, self._format.header())
        if self._found:
            with self._open_note("r+b") as note:
                note.truncate(len(note.readline()) + self._rows * _NOTE_CHARACTERS)
        self._cut = True

    def _begin_note(self) -> None:
        try:
            with self._open_note("wb") as note:
                write_all(note, json.dumps(self._settings) + "\n")
        except OSError:
            self.close()
            raise

    def _open_note(self, mode: str) -> io.FileIO:
        return io.FileIO(self.note, mode)

    def _check_note(self) -> None:
        try:
            with self.note.open(encoding="utf-8") as stream:
                noted = json.loads(stream.readline())
        except (OSError, ValueError, RecursionError):
            raise ConfigError(f"{self.note} is missing or damaged, so {_UNKNOWN}") from None
        parts = (noted.get(key) for key in ("signatures", "basis")) if isinstance(noted, dict) else [None]
        if not all(isinstance(part, dict) for part in parts) or noted.get("part") != _LAYOUT:
            raise ConfigError(f"{self.note} is of another version of suisei, so {_UNKNOWN}")
        signatures: dict[str, str] = noted["signatures"]
        now: dict[str, str] = self._settings["signatures"]
        if list(signatures.items()) != list(now.items()):
            before, wanted = list(signatures.values()), list(now.values())
            if before == wanted:  # the columns have other names, and their metrics are the same
                before, wanted = list(signatures), list(now)
            raise ConfigError(
                f"{self.part} was scored with {', '.join(map(str, before))}; this run has "
                f"{', '.join(wanted)}; use the same metrics and data, or another {self._option}"
            )
        for what, value in self._settings["basis"].items():
            if noted["basis"].get(what) != value:
                raise ConfigError(
                    f"{self.part} was scored with other {what}; give the same, or another {self._option}"
                )


def part_files(path: Path) -> tuple[Path, Path]:
    """Return what a file of scores is called while it is written, and the note beside that."""
    part = part_of(path)
    return part, part.with_name(f"{part.name}.json")


def tidy(path: Path) -> None:
    """Take away the note of a part file that is gone: its run was killed right after it was complete."""
    part, note = part_files(path)
    if not part.exists():
        with suppress(OSError):
            note.unlink(missing_ok=True)


def noted_window(path: Path) -> int | None:
    """Return how many rows are in a block of the part file that a run left; None where nothing says so."""
    try:
        with part_files(path)[1].open(encoding="utf-8") as stream:
            window = json.loads(stream.readline()).get("window")
    except (OSError, ValueError, AttributeError):
        return None
    return window if isinstance(window, int) and window > 0 else None


def output_format(path: Path) -> str:
    """Return the format that an output file's name stands for, looking through ``.gz``.

    Raises:
        ConfigError: an unknown suffix; the valid ones are listed.
    """
    kind = FORMATS.get(plain_suffix(path))
    if kind is None or (kind == "parquet" and is_gzip(path)):
        suffix = "".join(path.suffixes[-2:]) if is_gzip(path) else path.suffix.lower()
        raise ConfigError(
            f"{path}: scores are written to {', '.join(FORMATS)}, the first three also with .gz, got "
            f"{suffix or 'no suffix'!r}"
        )
    if kind == "parquet":
        import_pyarrow(path)
    return kind


def _complete_end(path: Path, *, quoted: bool) -> int:
    """Return where the last complete row ends; a line end inside quotation marks is no row's end."""
    end = position = 0
    open_quote = False
    with path.open("rb") as stream:
        for line in stream:
            position += len(line)
            if quoted and line.count(b'"') % 2:
                open_quote = not open_quote
            if line.endswith(b"\n") and not open_quote:
                end = position
    return end


def _text(stream: BinaryIO) -> TextIO:
    return io.TextIOWrapper(stream, encoding="utf-8", errors="backslashreplace", newline="")

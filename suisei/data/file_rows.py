"""A row of a file, before and after it becomes a sample, and what makes a whole file unusable."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suisei.cli import counted
from suisei.data.sample import CaptionSample
from suisei.errors import DataError

NOT_UTF8 = "the row is not valid UTF-8; save the file as UTF-8 (Excel: 'CSV UTF-8')"

LEFT_OUT = "; --on-error skip leaves it out"
"""Advice at the end of what is said of a row that its writer marked as failed."""

Note = Callable[[str], None]
"""What is told in a line: a guess, and what is left out."""


@dataclass(frozen=True, slots=True)
class Row:
    """One data row of a file.

    Attributes:
        number: counted from 1, without the header.
        id: the row's own id, None where it has none or cannot be parsed.
        sample: the sample, or None for a bad row.
        error: what is wrong with a bad row, beginning with the file and the row's number.
        absent: the image or video that a bad row names and that is not there.
        uid: what DataComp's tools call the row, where it says so.
    """

    number: int
    id: str | None
    sample: CaptionSample | None
    error: DataError | None
    absent: str | None = None
    uid: str | None = None


@dataclass(frozen=True, slots=True)
class RawRow:
    """A row before its fields are checked: a record, or the problem that kept it from being one."""

    record: Mapping[str, Any] | None
    problem: str = ""
    line: int | None = None


class FileProblem(Exception):  # noqa: N818 - never leaves the readers
    """The file as a whole is unusable; ``place`` is put after its name."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.place = place


def uid_text(value: object) -> str | None:
    """Return a uid as text, None of what is none; 16 bytes are the 32 hexadecimal digits of one."""
    if isinstance(value, bytes):
        value = value.hex() if len(value) == 16 else value.decode("utf-8", "backslashreplace")
    return value if isinstance(value, str) and value else None


def skipped_note(errors: Sequence[object]) -> str:
    """Return how many bad rows were left out, and what is wrong with the first."""
    return f"{counted(len(errors), 'bad row')} skipped, the first: {errors[0]}"


def none_usable(rows: int, first: object) -> DataError:
    """Return the error of a file of bad rows alone, which says what is wrong with the first."""
    return DataError(f"none of the {counted(rows, 'row')} is usable; the first problem: {first}")


def warn(text: str) -> None:
    """Tell a note as a warning, which commands show as one line and Python once."""
    warnings.warn(text, UserWarning, stacklevel=1)

"""The rows that have no score, or not every one, and why: a file beside the output."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from suisei.data.formats import Row
from suisei.data.paths import real_path
from suisei.errors import DataError
from suisei.scoring.stream import ScoredRow


def failed_files(output: Path) -> tuple[Path, Path]:
    """Return where the failed rows of an output are, and what that file is called while it is written.

    Of ``scores.jsonl`` they are ``scores.jsonl.failed.jsonl``, with ``.part`` at the end for the second.
    """
    target = real_path(output)
    name = f"{target.name}.failed.jsonl"
    return target.with_name(name), target.with_name(f"{name}.part")


class FailedRows:
    """Writes a line of JSON per row that failed: its number, id and error, and what there is of its content.

    The errors stand in the output too, so a run that goes on writes the whole file anew. It has ``.part`` at
    the end of its name until :meth:`complete`; without any failed row there is no file, nor an older one.

    Args:
        output: of the scores.
    """

    def __init__(self, output: Path) -> None:
        self.path, self.part = failed_files(output)
        self.count = 0
        self._stream: TextIO | None = None

    def add(self, rows: Sequence[Row], scored: Sequence[ScoredRow]) -> None:
        """Take the failed ones of some rows.

        Raises:
            DataError: they cannot be written.
        """
        failed = [(row, result) for row, result in zip(rows, scored, strict=True) if result.error]
        if not failed:
            return
        lines = (json.dumps(_record(row, result), ensure_ascii=False) + "\n" for row, result in failed)
        try:
            if self._stream is None:
                self._stream = self.part.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")
            self._stream.writelines(lines)
            self._stream.flush()
        except OSError as error:
            raise DataError(f"{self.part}: cannot be written: {error.strerror or error}") from None
        self.count += len(failed)

    def complete(self) -> None:
        """Give the file its name; of a run without failed rows, take away what an earlier one left.

        Raises:
            DataError: that cannot be done.
        """
        self.close()
        try:
            if self.count:
                self.part.replace(self.path)
            else:
                self.path.unlink(missing_ok=True)
                self.part.unlink(missing_ok=True)
        except OSError as error:
            raise DataError(f"{self.path}: cannot be written: {error.strerror or error}") from None

    def close(self) -> None:
        """Close the file; what could not be written was said when it was written."""
        if self._stream is not None:
            with suppress(OSError):
                self._stream.close()


def _record(row: Row, result: ScoredRow) -> dict[str, Any]:
    content: dict[str, Any] = {"row": result.number, "id": result.id, "error": result.error}
    sample = row.sample
    if sample is not None:
        content["candidate"] = sample.candidate
        content["references"] = list(sample.references)
        if isinstance(sample.image, str | Path):
            content["image"] = str(sample.image)
    return content

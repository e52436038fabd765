"""Scores of an evaluation, kept as they come, so that a run that was killed does not begin anew."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from suisei.data.formats import Row
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, DataError, one_line
from suisei.metrics.base import Metric
from suisei.progress import progress_bar
from suisei.scoring.columns import KeptError, KnownScores
from suisei.scoring.digest import row_digest, value_digest
from suisei.scoring.output import FileOutput, tidy
from suisei.scoring.row_format import RowFormat
from suisei.scoring.seen_images import readable_again, vanished
from suisei.scoring.stream import ScoredRow

BLOCK = 1024
"""Samples that are scored and written together."""

_Kept = tuple[float, str | None]
"""A score, and what the file says where there is none: with the metric's name, if the sample was refused."""


class KeptScores:
    """A folder with a file of scores per metric and set of samples, written as ``suisei score`` writes.

    A file's name has a digest of all that decides the scores: the metric's signature, what it was fitted to,
    every sample. So a finished file is what was asked for, and other work in the folder is in other files.
    What was refused for an image that can be read by now is scored again, with its block.

    Args:
        folder: made if it is not there.

    Raises:
        DataError: it cannot be written to.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"{folder}: cannot be written to: {error.strerror or error}") from None

    def score(
        self,
        metric: Metric,
        label: str,
        signature: str,
        samples: Sequence[CaptionSample],
        *,
        batch_size: int = 64,
        progress: bool = False,
    ) -> KnownScores:
        """Score samples block by block; what is in the folder already is read and not scored.

        Args:
            metric: fitted where it must be.
            label: what it is called.
            signature: its signature, with what it was fitted on.
            samples: N samples.
            batch_size: handed to the metric.
            progress: whether to tell how far it is.

        Raises:
            KeptError: another run is writing the file, or it cannot be written, or is damaged.
        """
        rows = [Row(number, sample.id, sample, None) for number, sample in enumerate(samples, start=1)]
        digests = [row_digest(row) for row in rows]
        path = self.folder / _name(label, [signature, metric.state(), digests])
        score = partial(
            self._scored, path, {label: signature}, list(zip(rows, digests, strict=True)), metric, batch_size,
            progress,
        )  # fmt: skip
        lacking = metric.missing(samples)  # before it scores: what it finds then is in the file
        kept, found = _whole(path, label, len(rows)), len(rows)
        if kept is None:
            kept, found = score()
        if mended := _mended(kept[:found], samples):
            kept, _ = score(kept, {row - row % BLOCK for row in mended})
        return _columns(kept, label, lacking)

    def _scored(
        self,
        path: Path,
        signatures: dict[str, str],
        rows: Sequence[tuple[Row, str]],
        metric: Metric,
        batch_size: int,
        progress: bool,
        before: Sequence[_Kept] = (),
        anew: Container[int] = (),
    ) -> tuple[list[_Kept], int]:
        """Score rows, or only the blocks that begin at ``anew`` of a finished file whose rows are ``before``.

        Returns all rows, and how many a part file had.
        """
        (label,) = signatures
        with _ending():
            output = FileOutput(
                path, signatures, resume=True, window=BLOCK, option="--keep", again="the same command goes on"
            )
        try:
            kept: list[_Kept] = []
            with _ending():
                if not before:
                    kept = [(record["scores"][label], record["error"]) for record in output.finished()]
            found = len(kept)
            with progress_bar(f"scoring with {label}", len(rows), shown=progress, unit="samples") as advance:
                advance(found)
                while len(kept) < len(rows):
                    start, end = len(kept), len(kept) + BLOCK
                    if before and start not in anew:
                        scored = _known_block(label, rows[start:end], before[start:end])
                    else:
                        scored = _score_block(metric, label, rows[start:end], batch_size)
                    with _ending():
                        output.write(scored)
                    kept += [(row.scores[label], row.error) for row in scored]
                    advance(len(scored))
            with _ending():
                output.complete()
        finally:
            output.close()
        return kept, found


@contextmanager
def _ending() -> Iterator[None]:
    """Let what goes wrong with a file end the run."""
    try:
        yield
    except (ConfigError, DataError) as error:
        raise KeptError(str(error)) from None


def _score_block(
    metric: Metric, label: str, block: Sequence[tuple[Row, str]], batch_size: int
) -> list[ScoredRow]:
    samples = [row.sample for row, _ in block if row.sample is not None]
    lacking = metric.missing(samples)
    scores, refused = metric.score_each(samples, batch_size=batch_size)
    for position in refused:
        if gone := vanished(samples[position]):
            raise KeptError(f"{gone} is not there any more; the same command goes on once it is back")
    found = {position: why for position, why in metric.missing(samples).items() if position not in lacking}
    errors = found | {position: f"{label}: {one_line(error, None)}" for position, error in refused.items()}
    return [
        _scored_row(row, digest, label, float(score), errors.get(position))
        for position, ((row, digest), score) in enumerate(zip(block, scores, strict=True))
    ]


def _known_block(label: str, block: Sequence[tuple[Row, str]], before: Sequence[_Kept]) -> list[ScoredRow]:
    return [
        _scored_row(row, digest, label, score, error)
        for (row, digest), (score, error) in zip(block, before, strict=True)
    ]


def _scored_row(row: Row, digest: str, label: str, score: float, error: str | None) -> ScoredRow:
    return ScoredRow(row.number, row.id or row.number, {label: score}, bad=error, digest=digest)


def _mended(kept: Sequence[_Kept], samples: Sequence[CaptionSample]) -> list[int]:
    """Return the positions of samples that were refused for an image that can be read now."""
    return [
        position
        for position, (_, error) in enumerate(kept)
        if error is not None and readable_again(samples[position], error)
    ]


def _whole(path: Path, label: str, count: int) -> list[_Kept] | None:
    """Return the scores of a finished file; None where there is none with as many rows."""
    if not path.is_file():
        return None
    tidy(path)

    def lines() -> Iterator[str]:
        with path.open(encoding="utf-8", newline="") as stream:
            yield from stream

    try:
        found = [(row["scores"][label], row["error"]) for row in RowFormat("jsonl", [label]).parse(lines())]
    except (OSError, UnicodeDecodeError, DataError):
        return None
    return found if len(found) == count else None


def _columns(kept: Sequence[_Kept], label: str, lacking: Container[int]) -> KnownScores:
    refused, found, head = {}, {}, f"{label}: "
    for position, (score, error) in enumerate(kept):
        if error is None or not math.isnan(score) or position in lacking:
            continue
        if error.startswith(head):
            refused[position] = DataError(error.removeprefix(head))
        else:
            found[position] = error
    return np.array([score for score, _ in kept], dtype=np.float64), refused, found


def _name(label: str, decides: list[Any]) -> str:
    return f"{re.sub(r'[^0-9A-Za-z.+-]+', '_', label)[:60]}-{value_digest([label, *decides])}.jsonl"

"""Scores of an evaluation, kept as they come, so that a run that was killed does not begin anew."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from suisei.data.formats import Row
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, DataError, one_line
from suisei.metrics.base import Metric
from suisei.progress import progress_bar
from suisei.scoring.columns import KeptError, Scores
from suisei.scoring.digest import row_digest, value_digest
from suisei.scoring.output import FileOutput, tidy
from suisei.scoring.row_format import RowFormat
from suisei.scoring.seen_images import vanished
from suisei.scoring.stream import ScoredRow

BLOCK = 1024
"""Samples that are scored and written together."""


class KeptScores:
    """A folder with a file of scores per metric and set of samples, written as ``suisei score`` writes.

    A file's name has a digest of all that decides the scores: the metric's signature, what it was fitted to,
    every sample. So a finished file is what was asked for, and other work in the folder is in other files.

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
    ) -> Scores:
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
        kept = _whole(path, label, len(rows))
        if kept is None:
            kept = self._scored(
                path, {label: signature}, list(zip(rows, digests, strict=True)), metric, batch_size, progress
            )
        return _columns(kept, label, metric, samples)

    def _scored(
        self,
        path: Path,
        signatures: dict[str, str],
        rows: Sequence[tuple[Row, str]],
        metric: Metric,
        batch_size: int,
        progress: bool,
    ) -> list[tuple[float, str | None]]:
        (label,) = signatures
        with _ending():
            output = FileOutput(path, signatures, resume=True, window=BLOCK)
        try:
            with _ending():
                kept = [(record["scores"][label], record["error"]) for record in output.finished()]
            with progress_bar(f"scoring with {label}", len(rows), shown=progress, unit="samples") as advance:
                advance(len(kept))
                while len(kept) < len(rows):
                    block = rows[len(kept) : len(kept) + BLOCK]
                    scored = _score_block(metric, label, block, batch_size)
                    with _ending():
                        output.write(scored)
                    kept += [(row.scores[label], row.error) for row in scored]
                    advance(len(block))
            with _ending():
                output.complete()
        finally:
            output.close()
        return kept


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
    scores, refused = metric.score_each(samples, batch_size=batch_size)
    for position in refused:
        if gone := vanished(samples[position]):
            raise KeptError(f"{gone} is not there any more; the same command goes on once it is back")
    return [
        ScoredRow(
            row.number,
            row.id or row.number,
            {label: float(score)},
            {label: one_line(refused[position], None)} if position in refused else {},
            digest=digest,
        )
        for position, ((row, digest), score) in enumerate(zip(block, scores, strict=True))
    ]


def _whole(path: Path, label: str, count: int) -> list[tuple[float, str | None]] | None:
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


def _columns(
    kept: Sequence[tuple[float, str | None]], label: str, metric: Metric, samples: Sequence[CaptionSample]
) -> Scores:
    lacking = metric.missing(samples)
    refused = {
        position: DataError(error.removeprefix(f"{label}: "))
        for position, (score, error) in enumerate(kept)
        if error is not None and math.isnan(score) and position not in lacking
    }
    return np.array([score for score, _ in kept], dtype=np.float64), refused


def _name(label: str, decides: list[Any]) -> str:
    return f"{re.sub(r'[^0-9A-Za-z.+-]+', '_', label)[:60]}-{value_digest([label, *decides])}.jsonl"

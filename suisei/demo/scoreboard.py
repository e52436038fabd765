"""What the page computes: metrics side by side, for one caption or a file of them."""

from __future__ import annotations

import csv
import logging
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.data.formats import Row, iter_rows
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, DataError, SuiseiError, one_line
from suisei.metrics.base import Metric
from suisei.metrics.registry import get_entry
from suisei.scoring.columns import named_failures
from suisei.scoring.stream import ScoredRow, Scorer

if TYPE_CHECKING:
    from suisei.explain.explanation import Explanation

MAX_ROWS = 2000
"""Rows of a file that the page takes."""
FORMATS = (".jsonl", ".csv", ".tsv")
MAX_CHARACTERS, MAX_REFERENCES = 1000, 20
"""Of a caption or reference, and of references, that the page takes: each word costs a score."""
UNBOUNDED = ("length", "cider", "comet")
"""Metrics without an upper end, which no bar can show."""
HUNDREDS = ("sacrebleu", "chrf")
"""Metrics from 0 to 100; the others that the page shows by a bar go from 0 to 1."""
_NOT_READ = dict.fromkeys(("image", "video", "segment", "rating", "rating_scale"))
"""Fields of a visitor's file: none may name a file of this machine, and ratings are on some scale."""
_ADVICE = (
    (re.compile(r"; say which: --column \S+"), "; rename the others"),
    (
        re.compile(r"Name the one that holds .*: --column candidate=NAME"),
        "Call that of the captions candidate",
    ),
)
"""What the readers of files advise, and what does it on a page, which has no options."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shown:
    """One metric's line on the page.

    Attributes:
        label: the metric.
        summary: what it is.
        score: the score; None where there is none.
        share: the score as a share of the metric's range, in [0, 1]; None where it has no upper end.
        reason: why there is no score.
    """

    label: str
    summary: str
    score: float | None = None
    share: float | None = None
    reason: str = ""


class Scoreboard:
    """Metrics that score what visitors of the page give.

    Args:
        metrics: {label: metric}, the one that is explained first.

    Raises:
        ConfigError: a metric that must be fitted on a corpus first.
    """

    def __init__(self, metrics: Mapping[str, Metric]) -> None:
        unfitted = [label for label, metric in metrics.items() if metric.needs_fit]
        if unfitted:
            raise ConfigError(
                f"{unfitted[0]} learns weights from a corpus, and the page scores single captions; leave it "
                "out"
            )
        self.metrics = dict(metrics)

    def one(self, candidate: str, references: str, image: str | Path | None) -> CaptionSample:
        """Return the sample that a visitor has put in; ``references`` has one a line.

        Raises:
            DataError: there is no caption, or more text than the page takes.
        """
        lines = [line.strip() for line in (references or "").splitlines() if line.strip()]
        caption = (candidate or "").strip()
        if len(lines) > MAX_REFERENCES or max(map(len, (caption, *lines))) > MAX_CHARACTERS:
            raise DataError(
                f"the page takes captions of up to {MAX_CHARACTERS:,} characters and {MAX_REFERENCES} "
                "references; 'suisei score' takes more"
            )
        return CaptionSample(caption, tuple(lines), image or None)

    def scores(self, sample: CaptionSample) -> list[Shown]:
        """Return a line per metric; of one that fails, with the reason.

        Raises:
            DataError: all of them fail.
        """
        lines, failed = [], []
        for label, metric in self.metrics.items():
            try:
                with named_failures(label):
                    lines.append(self._shown(label, metric, sample))
            except SuiseiError as error:
                failed.append(error)
                lines.append(Shown(label, _summary(metric), reason=one_line(error)))
        if len(failed) == len(lines):
            raise DataError(str(failed[0]))
        return lines

    def _shown(self, label: str, metric: Metric, sample: CaptionSample) -> Shown:
        summary = _summary(metric)
        missing = metric.missing([sample])
        if missing:
            return Shown(label, summary, reason=missing[0])
        score = float(metric.score([sample])[0])
        if not math.isfinite(score):  # RECAP says only now which captions could not be drawn
            return Shown(label, summary, reason=metric.missing([sample]).get(0, "no score"))
        if not metric.higher_is_better or metric.name in UNBOUNDED:
            return Shown(label, summary, score)
        share = score / 100 if metric.name in HUNDREDS else score
        return Shown(label, summary, score, min(max(share, 0.0), 1.0))

    def explains(self, sample: CaptionSample) -> bool:
        """Return whether the first metric has a score to explain."""
        return not next(iter(self.metrics.values())).missing([sample])

    def explanation(self, sample: CaptionSample) -> Iterator[Explanation | None]:
        """Yield why the first metric gives the sample its score, and None before each batch that it takes.

        Raises:
            DataError: it gives none.
        """
        yield from next(iter(self.metrics.values())).explain_in_steps(sample)

    def table(self, source: Path) -> tuple[list[str], list[list[Any]]]:
        """Score the rows of a file.

        Images and videos in it are not looked at: a visitor's file must not name files of this machine.

        Args:
            source: JSONL, CSV or TSV.

        Returns:
            The headings, and a row of cells per row of the file: id, caption, scores, what is wrong.

        Raises:
            ConfigError: another format.
            DataError: the file cannot be used, or has more than MAX_ROWS rows.
        """
        if source.suffix.lower() not in FORMATS:
            raise ConfigError(f"{source.name}: the page reads {', '.join(FORMATS)}")
        try:
            rows = list(islice(iter_rows(source, columns=_NOT_READ, note=_LOG.debug), MAX_ROWS + 1))
        except DataError as error:
            said = str(error).replace(str(source), source.name)
            for option, advice in _ADVICE:
                said = option.sub(advice, said)
            raise DataError(said) from None
        if len(rows) > MAX_ROWS:
            raise DataError(
                f"the file has more than {MAX_ROWS:,} rows; 'suisei score' takes any number of them"
            )
        pairs = zip(rows, Scorer(self.metrics, source.name).score(rows), strict=True)
        cells = [_cells(row, result, place=f"{source}, ") for row, result in pairs]
        return ["id", "caption", *self.metrics, "note"], cells


def _summary(metric: Metric) -> str:
    return get_entry(metric.name).summary.partition(":")[0]


def _cells(row: Row, result: ScoredRow, *, place: str) -> list[Any]:
    """Return a row of the table; messages lose the place where the file lies."""
    caption = "" if row.sample is None else row.sample.candidate
    scores = [None if value != value else round(value, 6) for value in result.scores.values()]
    return [str(result.id), caption, *scores, (result.error or "").replace(place, "")]


def write_table(path: Path, headings: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write a table as CSV that spreadsheets read, Japanese too."""
    with path.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(headings)
        writer.writerows([_harmless(cell) for cell in row] for row in rows)


def _harmless(cell: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t") else cell

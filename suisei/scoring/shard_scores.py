"""Scoring one shard of a large set: a file of (key, uid, scores), whole or not at all, and a file of counts.

``00012.tar`` becomes ``00012.parquet`` (``00012.jsonl`` without pyarrow) and, once that is whole,
``00012_stats.json``, which marks the shard as finished. A shard is scored by one process in windows that its
rows alone decide, so its scores do not depend on who scores it.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suisei.data.formats import NamedColumns
from suisei.data.paths import DEFAULT, Allowed, full_path
from suisei.data.shard_names import TAR
from suisei.data.shards import ShardRow, shard_rows
from suisei.data.writers import replacing, temporaries
from suisei.errors import DataError, one_line
from suisei.metrics.base import Metric
from suisei.scoring.seen_images import SeenImages, files_of, topmost_missing
from suisei.scoring.shard_files import scores_writer
from suisei.scoring.stream import ScoredRow, Scorer
from suisei.scoring.summary import ROW_KINDS, RowCounts

WINDOW = 1024
"""Rows of a shard that are scored together."""
MOST_WINDOW_BYTES = 128 << 20
"""Bytes of images that are held at once; a window ends where it would have more."""
STATS = "_stats.json"
_LATER = {"unread_uids": "", "across": 0, "other": 0, "quoted": 0, "compared": 0, "looked": 0}
"""What files of counts of before do not have."""


@dataclass(frozen=True, slots=True)
class ShardTask:
    """A shard to be scored.

    Attributes:
        source: the shard.
        target: where its scores go, without a suffix.
    """

    source: Path
    target: Path

    def output(self, kind: str) -> Path:
        """Return the file of scores of a kind."""
        return self.target.with_name(f"{self.target.name}.{kind}")

    @property
    def stats(self) -> Path:
        """The file of counts, whose being there says that the shard is finished."""
        return self.target.with_name(f"{self.target.name}{STATS}")


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """What is the same for all shards of a run.

    Attributes:
        columns: {field: the column that fills it}.
        kind: of the files of scores, "parquet" or "jsonl".
        digest: of what decides scores; a shard with another one is scored anew.
        window: rows that are scored together.
        images: where relative image paths of files of rows start.
        allowed: what files of rows may name beside images in these folders.
    """

    columns: NamedColumns
    kind: str
    digest: str
    window: int = WINDOW
    images: str | None = None
    allowed: Allowed | None = None


@dataclass(slots=True)
class ShardReport:
    """What became of a shard.

    Attributes:
        shard: its path.
        rows: samples that it holds, good and bad.
        across: those with references, none of them in the candidate's language.
        other: those with a caption that is neither Japanese nor English, by its letters.
        quoted: those whose candidate stands in quotation marks or others.
        compared: those with references.
        looked: those with an image alone.
        seconds: how long it took.
        counts: {label: samples with a score}.
        sums: {label: sum of their scores}.
        bad: {reason: samples} that no metric could score.
        skipped: {label: {reason: samples}} without score from one metric.
        examples: {reason: the first such sample's whole error}.
        problem: why the shard was not read, or not to its end; "" where it was.
        failed: why nothing of it is written: it is scored again by the next start.
        notes: guesses about its columns.
        unread_uids: why the uids beside it cannot be read; "" where they can, or are not asked for.
    """

    shard: str
    rows: int = 0
    across: int = 0
    other: int = 0
    quoted: int = 0
    compared: int = 0
    looked: int = 0
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    sums: dict[str, float] = field(default_factory=dict)
    bad: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, dict[str, int]] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    problem: str = ""
    failed: str = ""
    notes: list[str] = field(default_factory=list)
    unread_uids: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return values that JSON can hold."""
        return {name: getattr(self, name) for name in self.__slots__}


def reads_images(metrics: Iterable[Metric]) -> bool:
    """Say whether any of some metrics may look at an image."""
    return any("image" in metric.reads for metric in metrics)


def finished_report(task: ShardTask, settings: ShardSettings) -> ShardReport | None:
    """Return the report of a shard that is finished and has not changed since; None for any other.

    One that could not be read to its end is none: what kept it from it may have been the disk.
    """
    try:
        stored = json.loads(task.stats.read_text("utf-8"))
        size = task.output(settings.kind).stat().st_size
        stored = {**_LATER, **stored}
        own = {name: stored[name] for name in ShardReport.__slots__}
        if own["problem"]:
            return None
        if own["bad"] and _anywhere(settings) and not stored.get("any_path"):
            return None  # images that were refused may be looked at now
        same = stored["settings"] == settings.digest and stored["input"] == _identity(task.source)
        return ShardReport(**own) if same and stored["output_bytes"] == size else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _anywhere(settings: ShardSettings) -> bool:
    return (settings.allowed or DEFAULT).everywhere


def score_shard(
    scorer: Scorer,
    task: ShardTask,
    settings: ShardSettings,
    *,
    pictured: bool,
    seen: SeenImages | None = None,
) -> ShardReport:
    """Score a shard and write its two files.

    What cannot be read costs itself alone: a row, or the rest of the shard. A metric that dies costs the
    whole shard, which the next start scores again.

    Args:
        scorer: the metrics; none of them is left out of the next shard for having died in this one.
        task: which shard.
        settings: those of the run.
        pictured: whether a metric reads images.
        seen: the images that shards before it found.

    Raises:
        DataError: the files cannot be written, or images went away.
    """
    seen = seen or SeenImages(settings.images)
    report, totals = ShardReport(str(task.source)), _Totals()
    started = time.perf_counter()
    identity = _identity(task.source)
    if not identity:  # a disk that is away for a while takes no finished scores with it
        report.failed = f"{task.source}: no such file"
        return report
    rows = shard_rows(
        task.source,
        settings.columns,
        images=settings.images,
        allowed=settings.allowed,
        pictured=pictured,
        note=report.notes.append,
        uids_note=lambda text: setattr(report, "unread_uids", text),
    )
    output = task.output(settings.kind)
    _clear(task, settings.kind)
    scorer.name = str(task.source)
    windows = _windows(_watched(_guarded(rows, report), seen), settings.window)
    labels = list(scorer.metrics)
    with replacing(output) as temporary, scores_writer(temporary, settings.kind, labels) as file:
        for window in windows:
            scored = scorer.score([one.row for one in window])
            if scorer.failed:
                break
            _check_images(seen, window, scored)
            totals.add(window, scored)
            file.write(window, scored)
    failed = "; ".join(f"{label} failed: {reason}" for label, reason in scorer.failed.items())
    scorer.failed.clear()
    totals.fill(report)
    report.seconds = round(time.perf_counter() - started, 3)
    report.failed = failed or (report.problem if not report.rows else totals.without_images(task.source))
    if report.failed:
        output.unlink(missing_ok=True)
    else:
        _write_stats(task, settings, report, identity)
    return report


def _write_stats(task: ShardTask, settings: ShardSettings, report: ShardReport, identity: list[int]) -> None:
    """Write a report, and what its scores are of, which :func:`finished_report` compares."""
    written = {
        "input": identity, "output_bytes": task.output(settings.kind).stat().st_size,
        "settings": settings.digest, "any_path": _anywhere(settings),
    }  # fmt: skip
    with replacing(task.stats) as temporary:
        text = json.dumps({**report.as_dict(), **written}, ensure_ascii=False, indent=1)
        temporary.write_bytes(text.encode("utf-8", "backslashreplace"))


def _clear(task: ShardTask, kind: str) -> None:
    """Make room for a shard's files, and take away what a worker that died has left of them."""
    try:
        task.target.parent.mkdir(parents=True, exist_ok=True)
        task.stats.unlink(missing_ok=True)
        for path in (task.output(kind), task.stats):
            for part in temporaries(path):
                part.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"{task.target.parent}: cannot be written: {error.strerror or error}") from None


def _identity(path: Path) -> list[int]:
    """Return size and time of a shard, of an archive also those of the uids beside it; nothing of no file."""
    found: list[int] = []
    for each in (path, path.with_suffix(".parquet")) if path.suffix.lower() == TAR else (path,):
        try:
            status = each.stat()
        except OSError:
            return found
        found += [status.st_size, status.st_mtime_ns]
    return found


def _guarded(rows: Iterable[ShardRow], report: ShardReport) -> Iterator[ShardRow]:
    """Yield rows as far as they can be read, and note why there are no more."""
    try:
        yield from rows
    except DataError as error:
        report.problem = one_line(error, None)


def _watched(rows: Iterable[ShardRow], seen: SeenImages) -> Iterator[ShardRow]:
    for one in rows:
        seen.remember(one.row)
        yield one


def _check_images(seen: SeenImages, window: Sequence[ShardRow], scored: Sequence[ScoredRow]) -> None:
    gone = seen.gone(one.row for one, result in zip(window, scored, strict=True) if result.error)
    if gone:
        raise DataError(f"{gone} is not there any more")


def _windows(rows: Iterable[ShardRow], size: int) -> Iterator[list[ShardRow]]:
    window: list[ShardRow] = []
    held = 0
    for row in rows:
        if window and (len(window) == size or held + row.size > MOST_WINDOW_BYTES):
            yield window
            window, held = [], 0
        window.append(row)
        held += row.size
    if window:
        yield window


class _Totals:
    """Counts over the rows of a shard; the sum of scores does not depend on windows."""

    def __init__(self) -> None:
        self._counts = RowCounts()
        self._scores: dict[str, list[float]] = {}
        self._pictured = False
        self._absent: str | None = None

    def add(self, window: Sequence[ShardRow], scored: Sequence[ScoredRow]) -> None:
        """Count rows."""
        self._counts.add(scored, (one.row.sample for one in window if one.row.sample is not None))
        for one in window:
            self._absent = self._absent or one.row.absent
            self._pictured = self._pictured or bool(one.row.sample and files_of(one.row.sample))
        for row in scored:
            for label, score in row.scores.items():
                kept = self._scores.setdefault(label, [])
                if not math.isnan(score):
                    kept.append(score)

    def without_images(self, shard: Path) -> str:
        """Say that no image of the shard is there, nor their folder; "" where that is not so."""
        if self._absent is None or self._pictured:
            return ""
        folder = topmost_missing(self._absent)
        if folder == full_path(self._absent):
            return ""
        return (
            f"{shard}: none of its images is there, nor the folder {folder[:400]}; put it back, or do "
            "without images: --column image="
        )

    def fill(self, report: ShardReport) -> None:
        """Write the counts into a report."""
        for kind in ROW_KINDS:
            setattr(report, kind, getattr(self._counts, kind))
        report.counts = {label: len(scores) for label, scores in self._scores.items()}
        report.sums = {label: math.fsum(scores) for label, scores in self._scores.items()}
        report.bad, report.examples = dict(self._counts.bad), dict(self._counts.examples)
        report.skipped = {label: dict(reasons) for label, reasons in self._counts.skipped.items()}


def summed(reports: Iterable[ShardReport]) -> dict[str, Any]:
    """Return the counts of many shards together, as values that JSON can hold."""
    rows, bad, problems, failed, unread = Counter[str](), Counter[str](), {}, {}, {}
    counts, sums, skipped = Counter[str](), dict[str, list[float]](), dict[str, Counter[str]]()
    examples, shards = dict[str, str](), 0
    for report in reports:
        shards += 1
        if report.failed:
            failed[report.shard] = report.failed
            continue
        rows.update({name: getattr(report, kind) for kind, name in ROW_KINDS.items()})
        counts.update(report.counts)
        bad.update(report.bad)
        if report.problem:
            problems[report.shard] = report.problem
        if report.unread_uids:
            unread[report.shard] = report.unread_uids
        for label, value in report.sums.items():
            sums.setdefault(label, []).append(value)
        for label, reasons in report.skipped.items():
            skipped.setdefault(label, Counter()).update(reasons)
        for reason, example in report.examples.items():
            examples.setdefault(
                reason, f"{report.shard}, {example}" if example.startswith("row ") else example
            )
    means = {
        label: math.fsum(values) / counts[label] if counts[label] else None for label, values in sums.items()
    }
    return {
        "shards": shards,
        **{name: rows[name] for name in ROW_KINDS.values()},
        "bad_rows": dict(bad),
        "examples": examples,
        "broken_shards": problems,
        "failed_shards": failed,
        "unread_uids": unread,
        "metrics": {
            label: {"n": counts[label], "mean": means[label], "skipped": dict(skipped.get(label, {}))}
            for label in sums
        },
    }

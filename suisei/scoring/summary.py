"""What a scoring run says at its end: counts, means, corpus scores, reasons, signatures."""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from suisei.cli import counted
from suisei.data.plain_writing import count_quoted, quoted_note
from suisei.data.sample import CaptionSample
from suisei.data.spoken import across_note, count_across, count_other_scripts, other_scripts_note
from suisei.scoring.columns import FAILURES, failure_text
from suisei.scoring.corpus import CorpusScore
from suisei.scoring.stream import ScoredRow

if TYPE_CHECKING:
    from rich.table import Table

_LOG = logging.getLogger(__name__)

MAX_REASONS = 50
OTHER = "other reasons"
ROW_KINDS = {
    "rows": "rows",
    "across": "rows_across_languages",
    "other": "rows_in_other_scripts",
    "quoted": "rows_in_marks",
    "compared": "rows_with_references",
    "looked": "rows_with_an_image_alone",
}
"""{count of rows in ``RowCounts``: what a summary calls it}."""

_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_NUMBER = re.compile(r"(?<![\w-])-?\d[\d,.]*(?:e[+-]?\d+)?|\bnan\b|-?\binf\b")
_PLACE = re.compile(r"^.*?, row \d+: ", re.DOTALL)
_PATH = re.compile(r"^(?:\S*[/\\][^:]*|[^\s:]+\.[A-Za-z]\w{1,4}): ")


@dataclass
class RowCounts:
    """Counts over all rows, and why rows or single scores are missing.

    Attributes:
        rows: input rows.
        across: those with references, none of them in the candidate's language.
        other: those with a caption that is neither Japanese nor English, by its letters.
        quoted: those whose candidate stands in quotation marks or others.
        compared: those with references.
        looked: those with an image alone.
        bad: {reason: rows} of rows that no metric could score.
        examples: {reason: the first such row's whole error}.
        skipped: {label: {reason: samples without score}}, bad rows left out.
    """

    rows: int = 0
    across: int = 0
    other: int = 0
    quoted: int = 0
    compared: int = 0
    looked: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, rows: Sequence[ScoredRow], samples: Iterable[CaptionSample] = ()) -> None:
        """Count scored rows, given those of their samples that could be read."""
        self.rows += len(rows)
        for sample in samples:
            self.across += count_across((sample,))
            self.other += count_other_scripts((sample,))
            self.quoted += count_quoted((sample,))
            self.compared += bool(sample.references)
            self.looked += not sample.references and sample.image is not None
        for row in rows:
            if row.bad is not None:
                self._count(self.bad, row.bad, row.bad)
                continue
            for label, error in row.errors.items():
                counter = self.skipped.setdefault(label, Counter())
                self._count(counter, error, f"row {row.number}: {error}")

    def _count(self, counter: Counter[str], error: str, example: str) -> None:
        reason = general_reason(error)
        if reason not in counter and len(counter) >= MAX_REASONS:
            reason = OTHER
        counter[reason] += 1
        self.examples.setdefault(reason, example)


def general_reason(error: str) -> str:
    """Return the kind of a row's error: without its place, its values and its advice.

    >>> general_reason("a.csv, row 7: rating 9 is outside the rating scale 1 to 5; fix it")
    'rating … is outside the rating scale … to …'
    """
    text = _PLACE.sub("", error, count=1)
    text = _PATH.sub("", text, count=1)
    text = re.split(r"[;:(]", _QUOTED.sub("'…'", text), maxsplit=1)[0]
    return _NUMBER.sub("…", text).strip()[:120] or error[:120]


def summary(
    counts: RowCounts,
    corpora: Mapping[str, CorpusScore],
    signatures: Mapping[str, str],
    failed: Mapping[str, str],
) -> dict[str, Any]:
    """Return the summary as values that JSON can hold.

    ``corpus`` is the metric's corpus score, which for most is ``mean``.
    """
    return {
        **{name: getattr(counts, kind) for kind, name in ROW_KINDS.items()},
        "bad_rows": dict(counts.bad),
        "examples": counts.examples,
        "metrics": {
            label: {
                "n": corpus.count,
                "mean": corpus.mean,
                "corpus": _corpus_value(corpus),
                "skipped": dict(counts.skipped.get(label, {})),
                "error": failed.get(label),
                "signature": signatures[label],
            }
            for label, corpus in corpora.items()
        },
    }


def _corpus_value(corpus: CorpusScore) -> float | None:
    try:
        value = corpus.value()
    except FAILURES as error:  # the scores are written, and no reason to lose the summary
        _LOG.warning("%s has no corpus score: %s", corpus.metric.name, failure_text(error))
        return None
    return None if value is None or not math.isfinite(value) else value


def summary_table(content: Mapping[str, Any]) -> Table:
    """Lay the summary out for a terminal."""
    from rich.markup import escape
    from rich.table import Table

    own = any(entry["corpus"] != entry["mean"] for entry in content["metrics"].values())
    table = Table(title=counted(content["rows"], "row"), title_justify="left", title_style="bold")
    table.add_column("metric", no_wrap=True)
    for heading in ("n", "mean", *(["corpus"] if own else []), "skipped"):
        table.add_column(heading, justify="right")
    table.add_column("signature", overflow="fold")
    for label, entry in content["metrics"].items():
        figures = [_figure(entry["mean"]), *([_figure(entry["corpus"])] if own else [])]
        skipped = content["rows"] - entry["n"]
        last = entry["signature"] if entry["error"] is None else f"failed: {entry['error']}"
        table.add_row(escape(label), f"{entry['n']:,}", *figures, f"{skipped:,}", escape(last))
    return table


def summary_notes(content: Mapping[str, Any]) -> list[str]:
    """Return one line per reason for which rows or scores are missing."""
    examples, notes = content["examples"], kind_notes(content)
    notes += [
        f"{counted(count, 'row')} skipped: {reason} (the first: {examples[reason]})"
        for reason, count in content["bad_rows"].items()
    ]
    notes += [
        f"{label}: {counted(count, 'row')} without score: {reason}"
        for label, entry in content["metrics"].items()
        if entry["error"] is None
        for reason, count in entry["skipped"].items()
    ]
    return notes


def kind_notes(content: Mapping[str, Any]) -> list[str]:
    """Return a line for each kind of rows whose scores do not compare with those of others."""
    said = {
        "rows_across_languages": across_note,
        "rows_in_other_scripts": other_scripts_note,
        "rows_in_marks": quoted_note,
    }
    notes = [f"of the rows {note(content[kind])}" for kind, note in said.items() if content.get(kind)]
    return [*notes, *_mixed_notes(content)]


def _mixed_notes(content: Mapping[str, Any]) -> list[str]:
    """Say where a model scores some rows beside references and others by the image."""
    compared, looked = content.get("rows_with_references", 0), content.get("rows_with_an_image_alone", 0)
    learned = [
        label
        for label, entry in content["metrics"].items()
        if entry["signature"].startswith("suisei|") and "|image:none|" not in entry["signature"]
    ]
    if not (compared and looked and learned):
        return []
    return [
        f"of the rows {looked:,} ha{'s' if looked == 1 else 've'} an image and no references: "
        f"{', '.join(learned)} scores such by the image, which does not compare with scores beside references"
    ]


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"

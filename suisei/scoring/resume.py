"""Matching the rows of a part file with the input, so that a resumed run leaves none out."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from suisei.data.formats import Row
from suisei.errors import DataError
from suisei.scoring.digest import BAD_ROW, row_digest
from suisei.scoring.stream import ScoredRow


def match_finished(
    window: Sequence[Row], finished: Iterator[dict[str, Any]], labels: Sequence[str]
) -> list[ScoredRow]:
    """Take the finished records of the window's first rows, as far as there are any.

    Args:
        window: input rows.
        finished: the records that are left, in file order.
        labels: the score columns.

    Raises:
        DataError: a record belongs to another input row than the one it stands for, or the row's captions,
            image or video are not those that were scored, or not there.
    """
    matched = []
    for row in window:
        record = next(finished, None)
        if record is None:
            break
        if str(record["id"]) != str(row.id or row.number):
            raise DataError(
                f"row {row.number} of the input is {row.id or row.number!r}, of the part file "
                f"{record['id']!r}: the input has changed; resume with the input as it was, or score the new "
                "one to another --output"
            )
        if row.absent and record["digest"] != BAD_ROW:
            raise DataError(f"{row.absent} is not there any more; the same command goes on once it is back")
        if record["digest"] != row_digest(row):
            raise DataError(
                f"row {row.number} of the input ({row.id or row.number!r}) is not what was scored: its "
                "candidate, references, language, image or video has changed; resume with the input as it "
                "was, or score the new one to another --output"
            )
        matched.append(_scored(row, record, labels))
    return matched


def _scored(row: Row, record: dict[str, Any], labels: Sequence[str]) -> ScoredRow:
    result = ScoredRow(row.number, row.id or row.number, record["scores"], digest=record["digest"])
    error = record["error"] or ""
    lacking = [label for label in labels if math.isnan(record["scores"][label])]
    if row.sample is None:
        result.bad = error
    else:
        reasons = _reasons(error, labels)
        result.errors = {label: reasons.get(label, error) for label in lacking}
    return result


def _reasons(error: str, labels: Sequence[str]) -> dict[str, str]:
    """Take apart what ``ScoredRow.error`` put together."""
    label = "|".join(re.escape(name) for name in sorted(labels, key=len, reverse=True))
    heads = list(re.finditer(rf"(?:^|; )((?:{label})(?:, (?:{label}))*): ", error))
    reasons = {}
    ends = [head.start() for head in heads[1:]] + [len(error)]
    for head, end in zip(heads, ends[: len(heads)], strict=True):
        reasons.update(dict.fromkeys(head[1].split(", "), error[head.end() : end]))
    return reasons

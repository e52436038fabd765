"""Score rows as lines of text, and back."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from suisei.errors import DataError
from suisei.scoring.stream import ScoredRow


def null_for_nan(scores: Mapping[str, float]) -> dict[str, float | None]:
    """Return {label: score} as JSON and Parquet hold them: None where there is no score."""
    return {label: None if math.isnan(score) else score for label, score in scores.items()}


class RowFormat:
    """Score rows as lines of JSONL, CSV or TSV.

    Args:
        kind: "jsonl", "csv" or "tsv".
        labels: the score columns.
    """

    def __init__(self, kind: str, labels: Sequence[str]) -> None:
        self.kind = kind
        self.labels = list(labels)
        self.columns = ["id", *labels, "error"]
        self._dialect: dict[str, Any] = {"delimiter": "\t" if kind == "tsv" else ","}

    def header(self) -> str:
        """Return what a file begins with."""
        return "" if self.kind == "jsonl" else self._delimited([self.columns])

    def lines(self, rows: Sequence[ScoredRow]) -> str:
        """Return the text of rows; JSONL has an ``error`` only where there is one."""
        if self.kind == "jsonl":
            return "".join(json.dumps(self._record(row), ensure_ascii=False) + "\n" for row in rows)
        return self._delimited(
            [
                [row.id, *("" if math.isnan(s) else repr(s) for s in row.scores.values()), row.error or ""]
                for row in rows
            ]
        )

    def parse(self, stream: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Yield the records of lines of this format, scores as floats (NaN where there is none).

        Raises:
            DataError: a line that this class did not write.
        """
        lines = map(json.loads, stream) if self.kind == "jsonl" else csv.DictReader(stream, **self._dialect)
        records: Iterator[dict[str, Any]] = iter(lines)
        good = 0
        try:
            for record in records:
                scores = {label: record[label] for label in self.labels}
                values = {k: math.nan if v in (None, "") else float(v) for k, v in scores.items()}
                yield {"id": record["id"], "error": record.get("error") or None, "scores": values}
                good += 1
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError, csv.Error) as error:
            raise DataError(f"row {good + 1} is not a row of scores ({error})") from None

    def _record(self, row: ScoredRow) -> dict[str, Any]:
        return {"id": row.id, **null_for_nan(row.scores), **({"error": row.error} if row.error else {})}

    def _delimited(self, rows: Sequence[Sequence[Any]]) -> str:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\r\n", **self._dialect).writerows(rows)
        return text.getvalue()

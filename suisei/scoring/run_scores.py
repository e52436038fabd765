"""The test samples of a finished training and all metrics' scores of them, as they lie in its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from suisei.data.formats import read_samples
from suisei.data.paths import ANYWHERE
from suisei.data.sample import CaptionSample
from suisei.errors import DataError

SAMPLES, SCORES = "test.jsonl", "test_scores.jsonl"


def write_scores(path: Path, samples: Sequence[CaptionSample], scores: Mapping[str, np.ndarray]) -> None:
    """Write the scores of each sample, a JSON line each, with its id where every sample has one."""
    named = all(sample.id is not None for sample in samples)
    with path.open("w", encoding="utf-8") as file:
        for position, sample in enumerate(samples):
            row: dict[str, Any] = {"id": sample.id} if named else {}
            for name, column in scores.items():
                row[name] = None if np.isnan(column[position]) else float(column[position])
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def read_scores(folder: Path) -> dict[str, np.ndarray]:
    """Return {metric: float64 [N]}, NaN where there is no score, in the order of :func:`samples_of_run`.

    Raises:
        OSError: the file cannot be read.
        DataError: it is not as a training writes it.
    """
    path = folder / SCORES
    columns: dict[str, list[float]] = {}
    with path.open("rb") as file:  # decoded line by line
        for number, line in enumerate(file, start=1):
            try:
                values = json.loads(line)
                values.pop("id", None)
                for name, value in values.items():
                    columns.setdefault(name, []).append(np.nan if value is None else float(value))
            except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
                raise DataError(
                    f"{path}, line {number}: not the scores of a training ({error}); train again"
                ) from None
    if len({len(column) for column in columns.values()}) > 1:
        raise DataError(f"{path}: not the scores of a training (lines of different metrics); train again")
    return {name: np.array(column, dtype=np.float64) for name, column in columns.items()}


def samples_of_run(folder: Path, folds: int = 0) -> list[CaptionSample]:
    """Return the samples that a training was tested on; of a cross-validation those of each fold in turn.

    Raises:
        DataError: a file is not there, or not as a training writes it.
    """
    files = [folder / f"fold-{fold}" / SAMPLES for fold in range(folds)] or [folder / SAMPLES]
    return [sample for file in files for sample in read_samples(file, allowed=ANYWHERE)]

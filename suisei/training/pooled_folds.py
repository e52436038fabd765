"""The report of a cross-validation, out of those of its folds."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np

from suisei.cli import safe_console, say
from suisei.data.sample import CaptionSample
from suisei.training.cautions import cautions
from suisei.training.run_folder import staged
from suisei.training.run_report import evaluated, write_outputs, write_scores

logger = logging.getLogger(__name__)


def pool_folds(folder: Path, folds: int) -> None:
    """Write the report of a cross-validation: all folds' test samples together, and fold by fold."""
    from suisei.data.formats import read_samples
    from suisei.data.paths import ANYWHERE

    samples: list[CaptionSample] = []
    columns: dict[str, list[float]] = {}
    per_fold = []
    for fold in range(folds):
        part = folder / f"fold-{fold}"
        samples += read_samples(part / "test.jsonl", allowed=ANYWHERE)
        with (part / "test_scores.jsonl").open(encoding="utf-8") as file:
            for line in file:
                for name, value in json.loads(line).items():
                    if name != "id":
                        columns.setdefault(name, []).append(np.nan if value is None else value)
        per_fold.append(json.loads((part / "report.json").read_text(encoding="utf-8")))
    scores = {name: np.array(values) for name, values in columns.items() if len(values) == len(samples)}
    for name in sorted(set(columns) - set(scores)):  # a baseline that could not be computed somewhere
        logger.warning("%s: not compared on all folds together; the report of a fold without says why", name)
    table = evaluated(scores, samples, {}, f"Test samples of all {folds} folds")
    said = cautions(table, len(samples), "folds")
    content = {"cautions": said, "results": table.as_dict(), "folds": per_fold}
    with staged(folder) as stage:
        write_scores(stage / "test_scores.jsonl", samples, scores)
        write_outputs(stage, folder.name, content, table, samples, scores["suisei"])
    say(safe_console(), f"run: {folder}   models: {folder / 'fold-*' / 'model'}")

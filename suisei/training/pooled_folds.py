"""The report of a cross-validation, out of those of its folds."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np

from suisei.cli import safe_console, say
from suisei.scoring.run_scores import SCORES, read_scores, samples_of_run, write_scores
from suisei.training.cautions import cautions, data_cautions
from suisei.training.run_folder import staged
from suisei.training.run_report import evaluated, write_outputs

logger = logging.getLogger(__name__)


def pool_folds(folder: Path, folds: int) -> None:
    """Write the report of a cross-validation: all folds' test samples together, and fold by fold."""
    samples = samples_of_run(folder, folds)
    parts = [read_scores(folder / f"fold-{fold}") for fold in range(folds)]
    per_fold = [
        json.loads((folder / f"fold-{fold}" / "report.json").read_text(encoding="utf-8"))
        for fold in range(folds)
    ]
    names = dict.fromkeys(name for part in parts for name in part)
    scores = {
        name: np.concatenate([part[name] for part in parts])
        for name in names
        if all(name in part for part in parts)
    }
    for name in sorted(set(names) - set(scores)):  # a baseline that could not be computed somewhere
        logger.warning("%s: not compared on all folds together; the report of a fold without says why", name)
    # The same in all folds, but where some were trained before folds asked what the others have.
    rules = {str(fold["results"]["settings"]["raters"]) for fold in per_fold}
    counted = "mean" if "mean" in rules else "rows"
    table = evaluated(scores, samples, {}, f"Test samples of all {folds} folds", raters=counted)
    data = [fold.get("data", {}) for fold in per_fold]
    said = [*data_cautions(*data), *cautions(table, scores, samples, "folds")]
    content = {"cautions": said, "results": table.as_dict(), "folds": per_fold}
    with staged(folder) as stage:
        write_scores(stage / SCORES, samples, scores)
        write_outputs(stage, folder.name, content, table, samples, scores["suisei"])
    say(safe_console(), f"run: {folder}   models: {folder / 'fold-*' / 'model'}")

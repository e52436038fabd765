"""What must be said of a run before anybody relies on its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from suisei.cli import counted
from suisei.data.leaks import describe_shared
from suisei.data.sample import CaptionSample
from suisei.data.splits import group_of
from suisei.metaeval.correlation_tables import evaluation_table
from suisei.metaeval.labels import HUMAN
from suisei.metaeval.settings import FEW, EvaluationSettings
from suisei.metaeval.tables import LABELS, Row, Table
from suisei.scoring.run_scores import SAMPLES, SCORES
from suisei.training.learned_before import describe_tested_before

ADVICE = {
    "split": "--data.folds 5 tests on every rated sample",
    "files": "give more rated captions as data.test",
    "fold": "all folds together say more",
    "folds": "rate more captions",
}
"""What to do about few samples, by what was tested: a split, one beside given files, a fold, or all folds."""
COMPARED = ("pearson", "tau-c")
"""The coefficients by which a model is held against baselines."""
_OWN = "suisei"
"""The model's row."""
SIMULATED = "scenes"
"""The bundled sample, whose ratings no person gave."""


def data_cautions(*data: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each reason in the data not to rely on figures.

    Args:
        data: what the report says of the data of a run, or of each fold of a cross-validation.
    """
    shared = describe_shared(*(each.get("shared", {}) for each in data))
    named = {name for each in data for name in (*each.get("sources", ()), *each.get("given", {}).values())}
    simulated = (
        f"The ratings of `{SIMULATED}` are simulated: figures on them say that the program works, not that "
        "the model agrees with people."
    )
    before = describe_tested_before(
        dict.fromkeys(name for each in data for name in each.get("tested_before", ()))
    )
    return [own for own in (shared, before, simulated if SIMULATED in named else "") if own]


def cautions(
    table: Table,
    scores: Mapping[str, np.ndarray],
    samples: Sequence[CaptionSample],
    tested: str,
) -> list[str]:
    """Return a sentence for each reason in the figures not to rely on a model, and what to do about it.

    Args:
        table: the correlations of model and baselines with people.
        scores: {name: float64 [N]} of model and baselines, NaN where there is none.
        samples: the N samples that were tested.
        tested: what they are, a key of ADVICE.
    """
    own = table.row(_OWN)
    found = []
    different = len({(sample.candidate, group_of(sample)) for sample in samples})
    if different < FEW:
        count = counted(len(samples), "sample")
        count += f" of {different:,} captions" if different < len(samples) else ""
        little = f"Tested on {count}; figures of fewer than {FEW} say little"
        found.append(f"{little}: {ADVICE[tested]}.")
    if all(own.value(kind) is None for kind in COMPARED):
        return [*found, "No agreement of the model with people could be measured."]
    others = [row.label for row in table.overall.rows if row.label not in (_OWN, HUMAN)]
    behind = [text for other in others if (text := _ahead(table, scores, samples, (_OWN, other)))]
    if behind:
        found.append(
            f"The model agrees less with people than a baseline does: {'; '.join(behind)}. Score with the "
            f"baseline, or train on more ratings{_test_of_chance(table, samples, tested)}."
        )
    return found


def _ahead(
    table: Table, scores: Mapping[str, np.ndarray], samples: Sequence[CaptionSample], pair: tuple[str, str]
) -> str:
    """Return in which coefficients the second of a pair is ahead on the samples that both score."""
    known = [~np.isnan(scores[name]) for name in pair]
    both = known[0] & known[1]
    if not both.any():
        return ""
    own, other = (table.row(name) for name in pair)
    where = ""
    if (known[0] != known[1]).any():
        rows = [sample for sample, there in zip(samples, both, strict=True) if there]
        fewer = {name: scores[name][both] for name in pair}
        settings = EvaluationSettings(raters=_raters(table))
        own, other = evaluation_table(fewer, rows, settings, human=False, by_scope=False).overall.rows
        where = f" on the {len(rows):,} of {len(samples):,} samples that both score"
    better = ", ".join(_better(own, other))
    return f"{pair[1]} has {better}{where}" if better else ""


def _better(own: Row, other: Row) -> list[str]:
    """Return the coefficients in which another row is ahead, with both figures."""
    parts = []
    for kind in COMPARED:
        mine, theirs = own.value(kind), other.value(kind)
        if theirs is not None and (mine is None or theirs > mine):
            parts.append(f"{LABELS[kind]} {theirs:.3f} against {'none' if mine is None else f'{mine:.3f}'}")
    return parts


def _raters(table: Table) -> str:
    return str(table.meta["settings"]["raters"])


def _test_of_chance(table: Table, samples: Sequence[CaptionSample], tested: str) -> str:
    """Return how to find out whether a baseline is ahead by chance; nothing where no more can be tested."""
    if tested == "split":
        return "; --data.folds 5 shows whether that is chance"
    if tested != "files":  # which folds cannot split
        return ""
    command = f"suisei evaluate --data {SAMPLES} --scores {SCORES} --compare"
    if _raters(table) != EvaluationSettings().raters:
        command += f" --raters {_raters(table)}"
    if any(s.image is not None or getattr(s, "video", None) is not None for s in samples):  # elsewhere
        command += " --any-path"
    return f"; `{command}`, in the run's folder, tests whether that is chance"


def as_markdown(found: Sequence[str]) -> str:
    """Return cautions as a Markdown block, empty without any."""
    return "".join(f"> **Caution.** {each}\n\n" for each in found)

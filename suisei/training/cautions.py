"""What must be said of a run before anybody relies on its model."""

from __future__ import annotations

from collections.abc import Sequence

from suisei.metaeval.tables import HUMAN, LABELS, Row, Table

FEW = 50
"""Below so many tested samples, figures say little."""
ADVICE = {
    "split": "--data.folds 5 tests on every rated sample",
    "fold": "all folds together say more",
    "folds": "rate more captions",
}
"""What to do about few samples, by what was tested: one split, one of several folds, or all of them."""
COMPARED = ("pearson", "tau-c")
"""The coefficients by which a model is held against baselines."""


def cautions(table: Table, samples: int, tested: str, label: str = "suisei") -> list[str]:
    """Return a sentence for each reason not to rely on a model, and what to do about it.

    Args:
        table: the correlations of model and baselines with people.
        samples: how many were tested.
        tested: what they are, a key of ADVICE.
        label: the model's row.
    """
    own = table.row(label)
    found = []
    if samples < FEW:
        little = f"Tested on {samples:,} samples; figures of fewer than {FEW} say little"
        found.append(f"{little}: {ADVICE[tested]}.")
    if all(own.value(kind) is None for kind in COMPARED):
        return [*found, "No agreement of the model with people could be measured."]
    others = [row for row in table.overall.rows if row.label not in (label, HUMAN)]
    behind = [text for row in others if (text := _ahead(own, row))]
    if behind:
        chance = "; --data.folds 5 shows whether that is chance" if tested == "split" else ""
        found.append(
            f"The model agrees less with people than a baseline does: {'; '.join(behind)}. Score with the "
            f"baseline, or train on more ratings{chance}."
        )
    return found


def _ahead(own: Row, other: Row) -> str:
    """Return in which coefficients another row is ahead, nothing if in none."""
    parts = []
    for kind in COMPARED:
        mine, theirs = own.value(kind), other.value(kind)
        if theirs is not None and (mine is None or theirs > mine):
            parts.append(f"{LABELS[kind]} {theirs:.3f} against {'none' if mine is None else f'{mine:.3f}'}")
    return f"{other.label} has {', '.join(parts)}" if parts else ""


def as_markdown(found: Sequence[str]) -> str:
    """Return cautions as a Markdown block, empty without any."""
    return "".join(f"> **Caution.** {each}\n\n" for each in found)

"""What rows of tables are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

HUMAN = "human"
"""Label of the row that holds the ceiling: each rater against the mean of the others."""
VERSUS = " > "
"""Stands between the names of two that a row compares."""


def short_names(labels: Sequence[str]) -> dict[str, str]:
    """Return what metrics are called in papers and figures: the end of a path in place of the whole.

    >>> short_names(["cider", "suisei:runs/a/model", "suisei:runs/b/model"])
    {'cider': 'cider', 'suisei:runs/a/model': 'suisei:a', 'suisei:runs/b/model': 'suisei:b'}
    """
    names = {part: part for label in labels for part in label.split(VERSUS)}
    depth = {name: 1 for name in names if "/" in name.partition(":")[2] and "//" not in name}
    while depth:
        for name, kept in depth.items():
            metric, _, path = name.partition(":")
            steps = [step for step in path.split("/") if step]
            if len(steps) > 1 and steps[-1] == "model":  # as every run calls it
                steps = steps[:-1]
            names[name] = f"{metric}:{'/'.join(steps[-kept:])}" if kept <= len(steps) else name
        taken = Counter(names.values())
        depth = {
            name: kept + 1 for name, kept in depth.items() if taken[names[name]] > 1 and names[name] != name
        }
    return {label: VERSUS.join(names[part] for part in label.split(VERSUS)) for label in labels}

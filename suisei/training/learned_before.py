"""Which ratings a run's text encoder had learned from before, and which of them the run tests."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from suisei.data.sample import CaptionSample
from suisei.data.splits import group_of, tested_groups
from suisei.errors import DataError
from suisei.metrics.training_data import encoder_learned, ratings_named


def facts_before(text: Any, data: Any) -> dict[str, list[str]]:
    """Return what a report says of the ratings that a run's text encoder had learned from.

    Args:
        text: the run's ``model.text``.
        data: its data module, loaded.

    Returns:
        ``learned_before``: the data, as the card of the encoder's model names them; ``tested_before``: those
        of them that the run tests. Where it tests nothing else of them than the encoder's own run did, these
        are what that run had tested before.
    """
    learned = list(dict.fromkeys(encoder_learned(str(text.name), text.layers)))
    named = {source: ratings_named(source) for source in ([data.test] if data.test else data.sources)}
    again = [name for name in learned if ratings_named(name) in named.values()]
    same = [source for source, name in named.items() if name in map(ratings_named, again)]
    folder = Path(text.name)
    if again and folder.name == "model" and _was_tested(folder.parent / "splits.json", data.tested(same)):
        again = [name for name in again if name in _tested_before(folder.parent / "report.json", again)]
    return {"learned_before": learned, "tested_before": again}


def describe_tested_before(names: Collection[str]) -> str:
    """Return a sentence on tested ratings that the text encoder may have learned from; "" without any."""
    if not names:
        return ""
    listed = ", ".join(names)
    return (
        f"The text encoder had learned from ratings of {listed}, and data of that name are tested here: "
        "figures are too good unless these are others, or its training held out all that is tested."
    )


def _was_tested(split: Path, samples: Sequence[CaptionSample]) -> bool:
    """Return whether a run's saved split tests all groups of some samples."""
    with suppress(DataError):
        return {group_of(sample) for sample in samples} <= tested_groups(split)
    return False


def _tested_before(report: Path, unknown: Sequence[str]) -> Sequence[str]:
    """Return what a run says that its encoder had learned from and it tested; the unknown where none says."""
    try:
        content = json.loads(report.read_text(encoding="utf-8"))
        return list(content["data"].get("tested_before", ()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return unknown

"""What a model was trained on, as the card in its folder says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from suisei.data.benchmarks import BENCHMARKS
from suisei.errors import UnavailableError
from suisei.metrics.default_model import default_model

_SOURCES = re.compile(r"^## Data\n+(.+?): [\d,]+ training samples", re.MULTILINE)
_MOST = 1_000_000
"""Bytes of a card that are looked at: it may be somebody else's."""


def seen_notes(specs: Mapping[str, str], data: str) -> dict[str, str]:
    """Say which models learned from ratings that they are measured on, as far as their cards tell.

    Args:
        specs: {label: spec} of the metrics.
        data: name of a data set, or path of a file of rated captions.

    Returns:
        {label: what is to be said}.
    """
    name = _ratings(data)
    return {
        label: f"{label}: its card names {name} among its training data: figures on ratings that it learned "
        "from are too good"
        for label, spec in specs.items()
        if name in map(_ratings, trained_on(spec))
    }


def _ratings(data: str) -> str:
    """Return the benchmark whose ratings a data set has, else its name."""
    return (BENCHMARKS[data].ratings_of if data in BENCHMARKS else None) or Path(data).name


def trained_on(spec: str) -> tuple[str, ...]:
    """Return the data sets and files that a model learned ratings from.

    Args:
        spec: of a metric, such as ``suisei`` or ``suisei:DIR``.

    Returns:
        as the card names them, by now files without their folder; none for other metrics, for a model that is
        not on this machine, and where the card does not say.
    """
    name, _, folder = spec.partition(":")
    if name != "suisei":
        return ()
    try:
        path = (Path(folder) if folder else default_model()) / "README.md"
        with path.open("rb") as file:
            card = file.read(_MOST).decode("utf-8", "replace")
    except (OSError, ValueError, UnavailableError):
        return ()
    found = _SOURCES.search(card.replace("\r\n", "\n"))
    return tuple(found[1].split(", ")) if found else ()

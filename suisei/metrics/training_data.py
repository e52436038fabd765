"""What a model was trained on, as the card in its folder says."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suisei.data.benchmarks import BENCHMARKS
from suisei.errors import ModelError, UnavailableError
from suisei.metrics.default_model import default_model

_SOURCES = re.compile(r"^## Data\n+(.+?): [\d,]+ training samples?\b", re.MULTILINE)
BEFORE = "Its text encoder had learned from ratings of"
SECOND = "The second had learned from ratings of"
"""How a card begins to name ratings that another training than the model's own learned from."""
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
    name = ratings_named(data)
    return {
        label: f"{label}: its card names {name} among its training data: figures on ratings that it learned "
        "from are too good"
        for label, spec in specs.items()
        if name in map(ratings_named, trained_on(spec))
    }


def ratings_named(data: str) -> str:
    """Return the benchmark whose ratings a data set has, else its name, of a file without its folder."""
    return (BENCHMARKS[data].ratings_of if data in BENCHMARKS else None) or Path(data).name


def trained_on(spec: str) -> tuple[str, ...]:
    """Return the data sets and files that a model learned ratings from.

    Args:
        spec: of a metric, such as ``suisei``, ``suisei:DIR`` or ``cosine:DIR``.

    Returns:
        as the card names them, by now files without their folder: what the model learned from, what its text
        encoder had before, and what a second model beside it had. None for other metrics, for a model that is
        not on this machine, and where the card does not say.
    """
    name, _, folder = spec.partition(":")
    if name == "cosine" and folder:
        return encoder_learned(folder)
    if name != "suisei":
        return ()
    try:
        card = _card(Path(folder) if folder else default_model())
    except UnavailableError:
        return ()
    return (*_sources(card), *_named(BEFORE, card), *_named(SECOND, card))


def encoder_learned(name: str, layers: int | str = "last") -> tuple[str, ...]:
    """Return the data sets and files whose ratings a text encoder learned from, as far as its card says.

    Args:
        name: of an encoder; one that is no folder of a trained model has learned from none.
        layers: ``model.text.layers``, which of its layers are read. Those that the model's training left as
            they were have learned nothing in it.
    """
    from suisei.models.folder_checks import read_config
    from suisei.models.second import FOLDERS

    folder = Path(name)
    try:
        if not (folder / "idf.json").is_file():
            return ()
        left = _was_left(read_config(folder), layers)
    except (OSError, ValueError, KeyError, TypeError, ModelError):  # no name, or what cannot be loaded anyway
        return ()
    if folder.name in FOLDERS and not (folder / "README.md").exists():  # the card of both names its ratings
        return () if left else _named(SECOND, _card(folder.parent))
    card = _card(folder)
    return (*(() if left else _sources(card)), *_named(BEFORE, card))


def _was_left(config: Mapping[str, Any], layers: int | str) -> bool:
    """Return whether a model's training changed none of the layers of its encoder that are read."""
    from suisei.encoders.pretrained import text_config

    settings = config["settings"]["text"]
    if settings["frozen"]:
        return True
    if not settings.get("trained_layers") or not isinstance(layers, int):
        return False
    backbone = text_config(config["text_architecture"]["backbone"], "text_architecture.backbone")
    return bool(layers + settings["trained_layers"] <= backbone.num_hidden_layers)


def learned_sentence(beginning: str, names: Sequence[str]) -> str:
    """Return what a card says, and is understood above, of ratings that another training learned from.

    Args:
        beginning: ``BEFORE`` or ``SECOND``.
        names: the data, files without their folder; "" is said of none.
    """
    listed = ", ".join(f"`{name}`" for name in dict.fromkeys(names))
    return f"{beginning} {listed}." if listed else ""


def _card(folder: Path) -> str:
    """Return the beginning of a model's card, "" where there is none."""
    try:
        with (folder / "README.md").open("rb") as file:
            return file.read(_MOST).decode("utf-8", "replace").replace("\r\n", "\n")
    except (OSError, ValueError):
        return ""


def _sources(card: str) -> tuple[str, ...]:
    found = _SOURCES.search(card)
    return tuple(found[1].split(", ")) if found else ()


def _named(beginning: str, card: str) -> tuple[str, ...]:
    lists = re.findall(rf"{beginning} ((?:`[^`\n]+`(?:, )?)+)", card)
    return tuple(name for listed in lists for name in re.findall("`([^`]+)`", listed))

"""A captioner as a folder: ``config.json``, ``model.safetensors``, ``tokenizer.json``, a card; no pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from suisei.captioning.pieces import FILE as TOKENIZER
from suisei.captioning.transformer import LAYERS, TransformerConfig
from suisei.data.checksums import sha256_of
from suisei.data.sample import LANGUAGE_NAMES, LANGUAGES
from suisei.data.writers import replacing_folder
from suisei.encoders.rules import check_folder
from suisei.encoders.weights import save_weights
from suisei.errors import ModelError
from suisei.ranges import SWITCH, Of, Rule, Several, Word
from suisei.version import __version__

KIND = "captioner"
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
LARGEST_CONFIG = 2**20
_SETTINGS: dict[str, Rule] = {
    "kind": Word((KIND,)),
    "format": Word((1,)),
    "suisei": Of(str),
    "languages": Several(Word(LANGUAGES), 1, len(LANGUAGES)),
    "layers": Of(Mapping),
    "image_architecture": Of(Mapping),
    "last_norm": SWITCH,
    "sha256": Of(Mapping),
}


def is_captioner_folder(name: str | Path) -> bool:
    """Return whether a name is that of a folder that :func:`save_captioner` wrote."""
    path = Path(name) / CONFIG
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_CONFIG:
            return False
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("kind") == KIND


def save_captioner(model: Any, folder: Path, card: str = "") -> None:
    """Write a captioner; a folder that is there is replaced once the new one is whole.

    Args:
        model: the captioner, a :class:`suisei.captioning.captioner.Captioner`.
        folder: where.
        card: text of the model card; a short one of its own where empty.

    Raises:
        OSError: it cannot be written.
    """
    with replacing_folder(folder) as new:
        save_weights(model.state_dict(), new / WEIGHTS)
        model.pieces.save(new)
        (new / CARD).write_text(card or _plain_card(model), encoding="utf-8")
        content = {
            "kind": KIND,
            "format": 1,
            "suisei": __version__,
            "languages": list(model.languages),
            "layers": asdict(model.config),
            "image_architecture": model.tower.image.architecture(),
            "last_norm": model.tower.last_norm,
            "sha256": {name: sha256_of(new / name) for name in (WEIGHTS, TOKENIZER)},
        }
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        (new / CONFIG).write_text(text, encoding="utf-8")


def read_config(folder: Path) -> dict[str, Any]:
    """Return what a captioner's config.json says, of which every setting keeps its rule.

    Raises:
        ModelError: there is none, or it says what cannot be.
    """
    path = folder / CONFIG
    if not is_captioner_folder(folder):
        raise ModelError(f"{folder} is not the folder of a captioner: no {CONFIG} whose kind is {KIND!r}")
    content = json.loads(path.read_text(encoding="utf-8"))
    config = {"last_norm": True, **content}  # as folders were written before it could be left out
    config = check_folder(config, _SETTINGS, str(path), required=tuple(_SETTINGS))
    lacking = [name for name in (WEIGHTS, TOKENIZER) if name not in config["sha256"]]
    if lacking:
        raise ModelError(f"{path}: sha256 lacks {', '.join(lacking)}")
    config["layers"] = check_folder(
        config["layers"], LAYERS, f"{path}: layers", required=tuple(asdict(TransformerConfig()))
    )
    return config


def _plain_card(model: Any) -> str:
    numbers = sum(weights.numel() for weights in model.parameters())
    languages = " and ".join(LANGUAGE_NAMES[code] for code in model.languages)
    return (
        f"# A captioner\n\nWrites captions in {languages}; "
        f"{numbers:,} weights. Made by suisei {__version__}.\n"
    )

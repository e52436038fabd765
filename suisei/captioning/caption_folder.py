"""A captioner as a folder: ``config.json``, ``model.safetensors``, ``tokenizer.json``, a card; no pickle."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from suisei.captioning.captioner import Captioner
from suisei.captioning.grid_tower import GridTower
from suisei.captioning.pieces import FILE as TOKENIZER
from suisei.captioning.pieces import Pieces
from suisei.captioning.transformer import LAYERS, TransformerConfig
from suisei.data.sample import LANGUAGE_NAMES, LANGUAGES
from suisei.encoders.image import ImageEncoder
from suisei.encoders.rules import BUILD_ERRORS, check_folder, one_line
from suisei.encoders.weights import Unfilled, check_fit, read_weights, save_weights, weight_shapes
from suisei.errors import ModelError, SuiseiError
from suisei.models.folder import RESTORE
from suisei.ranges import Of, Rule, Several, Word
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


def save_captioner(model: Captioner, folder: Path, card: str = "") -> None:
    """Write a captioner; a folder that is there is replaced once the new one is whole.

    Args:
        model: the captioner.
        folder: where.
        card: text of the model card; a short one of its own where empty.

    Raises:
        OSError: it cannot be written.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as name:
        new = Path(name) / "new"
        new.mkdir()
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
            "sha256": {name: _sha256(new / name) for name in (WEIGHTS, TOKENIZER)},
        }
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        (new / CONFIG).write_text(text, encoding="utf-8")
        if folder.exists():
            folder.rename(Path(name) / "old")
        new.rename(folder)


def load_captioner(folder: str | Path) -> Captioner:
    """Read a captioner, ready to write, on the CPU in float32.

    Raises:
        ModelError: a file that is missing, damaged or altered, or settings that cannot be.
    """
    folder = Path(folder)
    config = _read_config(folder)
    for name in (WEIGHTS, TOKENIZER):
        if not (folder / name).is_file():
            raise ModelError(f"{folder}: {name} is missing; {RESTORE}")
        if _sha256(folder / name) != config["sha256"][name]:
            raise ModelError(
                f"{folder}: {name} was altered (it differs from its checksum in {CONFIG}); {RESTORE}"
            )
    try:
        return _build(folder, config)
    except SuiseiError as error:
        told = str(error) if str(folder) in str(error) else f"{folder}: {error}"
        raise ModelError(told) from None
    except BUILD_ERRORS as error:
        raise ModelError(f"{folder}: its parts do not go together: {one_line(error)}") from None


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not is_captioner_folder(folder):
        raise ModelError(f"{folder} is not the folder of a captioner: no {CONFIG} whose kind is {KIND!r}")
    content = json.loads(path.read_text(encoding="utf-8"))
    config = check_folder(content, _SETTINGS, str(path), required=tuple(_SETTINGS))
    lacking = [name for name in (WEIGHTS, TOKENIZER) if name not in config["sha256"]]
    if lacking:
        raise ModelError(f"{path}: sha256 lacks {', '.join(lacking)}")
    config["layers"] = check_folder(
        config["layers"], LAYERS, f"{path}: layers", required=tuple(asdict(TransformerConfig()))
    )
    return config


def _build(folder: Path, config: Mapping[str, Any]) -> Captioner:
    """Build the model, first without memory, to compare its size with that of its weights."""
    pieces, path = Pieces.read(folder), folder / WEIGHTS
    layers = TransformerConfig(**config["layers"])

    def made() -> Captioner:
        tower = GridTower(ImageEncoder.from_architecture(config["image_architecture"]))
        return Captioner(tower, layers, pieces, config["languages"])

    with torch.device("meta"), Unfilled():
        check_fit(made(), weight_shapes(path), str(path))
    with Unfilled():
        model = made()
    model.load_state_dict(read_weights(path))
    return model.eval()


def _plain_card(model: Captioner) -> str:
    numbers = sum(weights.numel() for weights in model.parameters())
    languages = " and ".join(LANGUAGE_NAMES[code] for code in model.languages)
    return (
        f"# A captioner\n\nWrites captions in {languages}; "
        f"{numbers:,} weights. Made by suisei {__version__}.\n"
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

"""Model folders: what a trained model is on disk, written whole and checked when read.

config.json         format, settings, architectures, extra inputs, checksums of the other files
model.safetensors   weights
idf.json            document frequencies of the training references
tokenizer/          the tokenizer's files
README.md           the model card
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from suisei.data.idf import IdfTable
from suisei.encoders.image import ImageEncoder
from suisei.encoders.text import TextEncoder
from suisei.errors import ModelError
from suisei.models.config import RegressorConfig
from suisei.models.regressor import Regressor
from suisei.version import __version__

FORMAT = 1
"""Version of the folder's layout; a reader refuses any other."""
CHECKED = ("model.safetensors", "idf.json")
RESTORE = "restore the file, or train or export the model again"


@dataclass(frozen=True)
class LoadedModel:
    """A model read from a folder.

    Attributes:
        regressor: the model in evaluation mode, on the CPU, float32.
        extras: state of every extra input's metric, {name: state}.
        checksum: hash of the weights, for the signature.
        path: the folder.
    """

    regressor: Regressor
    extras: dict[str, dict[str, Any]]
    checksum: str
    path: Path


def save_model(
    folder: Path, regressor: Regressor, *, extras: dict[str, dict[str, Any]] | None = None, card: str = ""
) -> None:
    """Write a model folder; an existing one is replaced once the new one is complete.

    Args:
        folder: where to write.
        regressor: the model.
        extras: state of every extra input's metric, {name: state}.
        card: text of the model card.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as name:
        new = Path(name) / folder.name
        new.mkdir()
        weights = {key: value.detach().cpu().contiguous() for key, value in regressor.state_dict().items()}
        save_file(weights, new / "model.safetensors")
        regressor.idf.save(new / "idf.json")
        regressor.text.tokenizer.save_pretrained(new / "tokenizer")
        (new / "README.md").write_text(card, encoding="utf-8")
        config: dict[str, Any] = {
            "format": FORMAT,
            "suisei": __version__,
            "settings": regressor.config.to_dict(),
            "text_architecture": regressor.text.architecture(),
            "image_architecture": None if regressor.image is None else regressor.image.architecture(),
            "extras": extras or {},
            "sha256": _checksums(new),
        }
        config["sha256"]["config.json"] = _own_checksum(config)
        (new / "config.json").write_text(
            json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        _put_in_place(new, folder, aside=Path(name) / "old")


def _put_in_place(new: Path, folder: Path, *, aside: Path) -> None:
    """Rename ``new`` to ``folder``; what was there goes ``aside``, and comes back if that fails."""
    replaced = folder.exists()
    if replaced:
        folder.rename(aside)
    try:
        new.rename(folder)
    except OSError:
        if replaced:
            aside.rename(folder)
        raise


def load_model(path: str | Path) -> LoadedModel:
    """Read a model folder and check every file of it. Nothing in it is executed or unpickled.

    Raises:
        ModelError: the folder, a file or a weight is missing, altered, or does not fit.
    """
    folder = Path(path)
    config = _read_config(folder)
    _verify(folder, config)
    settings = RegressorConfig.from_dict(config["settings"])
    text = TextEncoder.from_architecture(config["text_architecture"], folder / "tokenizer")
    architecture = config["image_architecture"]
    image = None if architecture is None else ImageEncoder.from_architecture(architecture)
    regressor = Regressor(settings, text, image, IdfTable.load(folder / "idf.json"))
    try:
        weights = load_file(folder / "model.safetensors")
        regressor.load_state_dict(weights)
    except (SafetensorError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"{folder}/model.safetensors does not fit config.json: {reason}") from None
    regressor.eval()
    regressor.requires_grad_(False)
    return LoadedModel(regressor, config["extras"], config["sha256"]["model.safetensors"], folder)


def _read_config(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise ModelError(f"no model folder at {folder}; give the folder that holds config.json")
    path = folder / "config.json"
    if not path.is_file():
        raise ModelError(f"{folder} is not a model folder: config.json is missing")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(
            f"{path}: not valid JSON ({error}); restore the file or export the model again"
        ) from None
    required = ("format", "settings", "text_architecture", "image_architecture", "extras", "sha256")
    absent = [key for key in required if not isinstance(config, dict) or key not in config]
    if absent:
        raise ModelError(f"{path}: lacks {', '.join(absent)}; {RESTORE}")
    if config["format"] != FORMAT:
        raise ModelError(
            f"{path}: format {config['format']!r}, this suisei reads {FORMAT}; install a matching version"
        )
    return config


def _verify(folder: Path, config: dict[str, Any]) -> None:
    expected = config["sha256"]
    problems = [f"config.json lacks the checksum of {name}" for name in CHECKED if name not in expected]
    for name, checksum in expected.items():
        if not (folder / name).is_file():
            problems.append(f"{name} is missing")
        elif checksum != (_own_checksum(config) if name == "config.json" else _sha256(folder / name)):
            problems.append(f"{name} was altered (it differs from its checksum in config.json)")
    if problems:
        raise ModelError(f"{folder}: {'; '.join(problems)}; {RESTORE}")


def _checksums(folder: Path) -> dict[str, str]:
    """Return {relative name: sha256} of every file but the model card, which people may edit."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "README.md")
    return {path.relative_to(folder).as_posix(): _sha256(path) for path in files}


def _own_checksum(config: dict[str, Any]) -> str:
    """Return the sha256 of the settings themselves, whatever the order and layout of the file."""
    checksums = {name: value for name, value in config["sha256"].items() if name != "config.json"}
    content = json.dumps({**config, "sha256": checksums}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

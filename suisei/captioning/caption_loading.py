"""Reading a captioner's folder: checked, built without memory first, then filled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from suisei.captioning.caption_folder import CONFIG, TOKENIZER, WEIGHTS, read_config
from suisei.captioning.captioner import Captioner
from suisei.captioning.grid_tower import GridTower
from suisei.captioning.pieces import Pieces
from suisei.captioning.transformer import TransformerConfig
from suisei.data.checksums import sha256_of
from suisei.encoders.image import ImageEncoder
from suisei.encoders.rules import built_from
from suisei.encoders.weights import built_and_filled
from suisei.errors import ModelError
from suisei.models.folder_checks import RESTORE


def load_captioner(folder: str | Path) -> Captioner:
    """Read a captioner, ready to write, on the CPU in float32.

    Raises:
        ModelError: a file that is missing, damaged or altered, or settings that cannot be.
    """
    folder = Path(folder)
    config = read_config(folder)
    for name in (WEIGHTS, TOKENIZER):
        if not (folder / name).is_file():
            raise ModelError(f"{folder}: {name} is missing; {RESTORE}")
        if sha256_of(folder / name) != config["sha256"][name]:
            raise ModelError(
                f"{folder}: {name} was altered (it differs from its checksum in {CONFIG}); {RESTORE}"
            )
    with built_from(folder):
        return _build(folder, config)


def _build(folder: Path, config: Mapping[str, Any]) -> Captioner:
    pieces = Pieces.read(folder)
    layers = TransformerConfig(**config["layers"])

    def made() -> Captioner:
        image = ImageEncoder.from_architecture(config["image_architecture"])
        tower = GridTower(image, config["last_norm"])
        return Captioner(tower, layers, pieces, config["languages"])

    return built_and_filled(made, folder / WEIGHTS)

"""The regressor of a model folder: built without memory, then given the weights that lie there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from suisei.data.idf import IdfTable
from suisei.encoders.image import ImageEncoder
from suisei.encoders.precision import encoders_to
from suisei.encoders.text import TextEncoder
from suisei.encoders.text_parts import read_tokenizer
from suisei.encoders.weights import Unfilled, check_fit, filled_by, take_weights, weight_shapes
from suisei.models.config import RegressorConfig
from suisei.models.folder_checks import ROUNDED
from suisei.models.packed_rows import TABLE, packed_rows, put_rows
from suisei.models.quantization import dequantize_state, dequantized_shapes
from suisei.models.regressor import Regressor


def build_regressor(
    folder: Path, config: Mapping[str, Any], settings: RegressorConfig, scoring: str | None
) -> Regressor:
    """Build the model without memory, compare its size with that of its weights, and give it those.

    Args:
        folder: the model folder, whose files were found to be there.
        config: what its config.json says, of :func:`suisei.models.folder_checks.read_config`.
        settings: the settings of it.
        scoring: see :func:`suisei.models.folder.load_model`.

    Returns:
        The model in evaluation mode, which no gradient goes into.

    Raises:
        ModelError: the weights do not fit the settings.
    """
    tokenizer, idf = read_tokenizer(folder / "tokenizer"), IdfTable.load(folder / "idf.json")
    path = folder / "model.safetensors"

    def made() -> Regressor:
        text = TextEncoder.from_architecture(config["text_architecture"], tokenizer)
        architecture = config["image_architecture"]
        image = None if architecture is None else ImageEncoder.from_architecture(architecture)
        return Regressor(settings, text, image, idf)

    shapes = weight_shapes(path)
    rounded = config["format"] >= ROUNDED
    with torch.device("meta"), Unfilled():
        regressor = made()
    _narrow(regressor, scoring)
    check_fit(regressor, dequantized_shapes(shapes) if rounded else shapes, str(path))
    weights = load_file(path)
    rows = None if scoring is None else packed_rows(regressor, weights)
    put_rows(regressor, rows)
    # Copied: what was read is the file's own memory, which somebody may overwrite.
    types = {name: own.dtype for name, own in regressor.state_dict().items()}
    weights = (
        dequantize_state(weights, types)
        if rounded
        else {name: own.to(types[name], copy=True) for name, own in weights.items()}
    )
    if not filled_by(regressor, weights):  # it has numbers that are computed, as positions are
        with Unfilled():
            regressor = made()
        _narrow(regressor, scoring)
        put_rows(regressor, rows)
    if rows is not None:
        weights |= rows.state_dict(prefix=TABLE)
    take_weights(regressor, weights)
    regressor.eval()
    regressor.requires_grad_(False)
    with torch.inference_mode():  # settings that fit the weights and still cannot compute show here
        text = regressor.text.shallow()
        text(*text.pad(text.tokenize(["a 犬"])))
    return regressor


def _narrow(regressor: Regressor, scoring: str | None) -> None:
    """Have encoders that are to compute in bf16 take their weights in it; others are converted afterwards."""
    if scoring == "bf16":
        image = regressor.image
        encoders_to(scoring, regressor.text.backbone, None if image is None else image.tower)

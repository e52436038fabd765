"""The folder of a trained latent reconstruction: all that scoring needs, checked when it is read.

config.json         format, sizes, architecture of the image tower, checksums
model.safetensors   weights of image tower, mapper and the captions' side
tokenizer/          the language model's tokenizer
README.md           the model card

As in a model folder (:mod:`suisei.models.folder`), nothing in it is executed or unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from suisei.data.writers import replacing_folder
from suisei.encoders.image import ImageEncoder
from suisei.encoders.rules import built_from, check_folder
from suisei.encoders.text_parts import read_tokenizer
from suisei.encoders.tokenizer import FolderTokenizer
from suisei.encoders.weights import built_and_filled, save_weights
from suisei.errors import ModelError
from suisei.models import latent, prefix_mapper
from suisei.models.folder import sign
from suisei.models.folder_checks import read_config, verify_files
from suisei.models.latent import CaptionReconstruction, LatentModel, LatentShape
from suisei.models.prefix_mapper import MapperShape, PrefixMapper
from suisei.version import __version__

KIND = "recap-latent"
FORMAT = 1
CHECKED = ("model.safetensors", "tokenizer/tokenizer.json", "tokenizer/tokenizer_config.json")
_PARTS = ("kind", "format", "shape", "mapper", "image", "sha256")


def save_latent(folder: Path, model: LatentModel, card: str = "") -> None:
    """Write a folder; an existing one is replaced once the new one is complete.

    Args:
        folder: where to write.
        model: the model.
        card: text of the model card.
    """
    with replacing_folder(folder) as new:
        save_weights(model.state_dict(), new / "model.safetensors")
        model.tokenizer.save_pretrained(new / "tokenizer")
        (new / "README.md").write_text(card, encoding="utf-8")
        config: dict[str, Any] = {
            "kind": KIND,
            "format": FORMAT,
            "suisei": __version__,
            "shape": model.captions.shape.as_dict(),
            "mapper": model.mapper.shape.as_dict(),
            "image": model.image.architecture(),
        }
        sign(new, config)


def load_latent(path: str | Path) -> tuple[LatentModel, str]:
    """Read a folder and check every file of it.

    Returns:
        The model in evaluation mode on the CPU, float32, and the checksum of all that it is.

    Raises:
        ModelError: the folder, a file or a weight is missing, altered, or does not fit.
    """
    folder = Path(path)
    config = read_config(folder, parts=_PARTS, formats=(FORMAT,))
    if config["kind"] != KIND:
        raise ModelError(f"{folder}: no folder of {KIND}; train one: suisei train --config recap_latent")
    verify_files(folder, config, None, CHECKED)
    with built_from(folder):
        model = _build(folder, config)
    return model, config["sha256"]["config.json"]


def _build(folder: Path, config: Mapping[str, Any]) -> LatentModel:
    own = check_folder(config["shape"], latent.RULES, "shape", required=tuple(latent.RULES))
    theirs = check_folder(
        config["mapper"], prefix_mapper.RULES, "mapper", required=tuple(prefix_mapper.RULES)
    )
    tokenizer = read_tokenizer(folder / "tokenizer")
    assert isinstance(tokenizer, FolderTokenizer)  # whose two files were among those checked

    def made() -> LatentModel:
        image = ImageEncoder.from_architecture(config["image"])
        captions = CaptionReconstruction(LatentShape(**own))
        return LatentModel(image, PrefixMapper(MapperShape(**theirs)), captions, tokenizer)

    return built_and_filled(made, folder / "model.safetensors").requires_grad_(False)

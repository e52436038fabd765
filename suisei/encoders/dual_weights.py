"""Finding, reading and fitting the weights of a dual encoder."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from suisei.encoders.hub_errors import hub_guard
from suisei.encoders.published_lora import has_lora, merge_published_lora
from suisei.encoders.weights import described_by, file_hash, fit_weights, read_weights
from suisei.errors import ConfigError

WEIGHT_FILES = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin", "model.safetensors")


def load_weights(
    model: nn.Module,
    folder: Path | None,
    tag: dict[str, Any] | None,
    pretrained: str | None,
    checkpoint: str | Path | None,
    seed: int | None,
) -> str:
    """Put weights into a dual encoder.

    Args:
        model: an open_clip model.
        folder: the folder that the model is from, if it is from one.
        tag: open_clip's settings of a pretraining tag, if the model has a name.
        pretrained: that tag's name.
        checkpoint: a local file, which comes before everything else.
        seed: leave the random weights that the model was built with.

    Returns:
        The name of the weights, for signatures.

    Raises:
        ConfigError: a folder without weights.
        ModelError: weights that are unsafe or do not fit.
        UnavailableError: weights that cannot be downloaded.
    """
    if checkpoint is not None:
        tensors, kind = read_weights(checkpoint), ""
        if has_lora(tensors):
            tensors, kind = merge_published_lora(tensors, source=str(checkpoint)), "-lora-merged"
        fit_weights(model, _adapted(model, tensors), str(checkpoint))
        return f"sha256-{file_hash(checkpoint)}{kind}"
    if seed is not None:
        return f"seed-{seed}"
    path = find_weights(folder) if folder is not None else _download(tag or {})
    fit_weights(model, _adapted(model, read_weights(path)), str(path))
    if folder is None:
        return pretrained or f"sha256-{file_hash(path)}"
    hashes = "".join(map(file_hash, [path, *described_by(folder)]))
    return f"sha256-{hashlib.sha256(hashes.encode()).hexdigest()[:12]}"


def find_weights(folder: Path) -> Path:
    """Return the file of weights in a folder of a dual encoder.

    Raises:
        ConfigError: there is none.
    """
    path = next((folder / file for file in WEIGHT_FILES if (folder / file).is_file()), None)
    if path is None:
        raise ConfigError(f"{folder} has no weights; expected one of {', '.join(WEIGHT_FILES)}")
    return path


def _download(tag: dict[str, Any]) -> Path:
    from open_clip.pretrained import download_pretrained

    with hub_guard((tag.get("hf_hub") or tag.get("url", "")).rstrip("/")):
        return Path(download_pretrained(tag))


def _adapted(model: Any, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Follow the renamings between open_clip's formats; values stay as they are."""
    from open_clip.model import convert_to_custom_text_state_dict

    if "positional_embedding" in tensors and not hasattr(model, "positional_embedding"):
        tensors = convert_to_custom_text_state_dict(tensors)
    own = model.state_dict()
    for key in ("logit_scale", "logit_bias"):
        if key in tensors and key in own and tensors[key].numel() == own[key].numel():
            tensors[key] = tensors[key].reshape(own[key].shape)
    dropped = {"text.transformer.embeddings.position_ids", "input_resolution", "context_length", "vocab_size"}
    return {key: value for key, value in tensors.items() if key in own or key not in dropped}

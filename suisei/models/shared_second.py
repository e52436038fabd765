"""A second model that reads with the lower layers of the first's encoder, which its folder leaves out.

Layers that tuning left as they were keep to words, and a network over them errs on other captions than one
over the last. Vocabulary, word vectors, layers, idf table and extra inputs are the first's: what is stored is
the network alone, in half precision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from suisei.encoders.bert import BertEncoder
from suisei.encoders.rules import built_from
from suisei.encoders.text import TextEncoder
from suisei.encoders.threads import one_thread
from suisei.encoders.tokenizer import FolderTokenizer
from suisei.encoders.weights import Unfilled, check_fit, weight_shapes
from suisei.errors import ModelError
from suisei.models.config import RegressorConfig
from suisei.models.extras_folder import SavedInput
from suisei.models.folder_checks import read_config, verify_files
from suisei.models.packed_rows import PackedRows
from suisei.models.regressor import Regressor
from suisei.models.second import Second

TEXT = "text."
"""How the names of the weights begin that are the first's."""
CHECKED = ("model.safetensors",)
"""Files of its folder that must be there, and have a checksum."""
LARGE = 1024
"""From as many numbers on a weight is stored in half precision."""
Inputs = Mapping[str, SavedInput]
"""What a model holds of its extra inputs, by name."""


def is_shared(own: Regressor, inputs: Inputs, other: Regressor, others: Inputs) -> bool:
    """Return whether a second model could read with the first's encoder and extra inputs.

    Its encoder must be the first's lower layers, weight by weight, with the same vocabulary, and its extra
    inputs be among the first's. Those are fitted to what the first learned from, as the idf table is, which
    suits a second that learned from about the same.

    Args:
        own: the first model.
        inputs: its extra inputs.
        other: the second model.
        others: those of that one.
    """
    if other.image is not None or other.text.layers != "last" or not _same_words(own.text, other.text):
        return False
    same = all(name in inputs and inputs[name].options == others[name].options for name in others)
    return same and all(
        _is_weight(own.text, name, weight) for name, weight in other.text.state_dict().items()
    )


def network_of(regressor: Regressor) -> dict[str, Tensor]:
    """Return the weights of a shared model that are its own, as they are to be stored."""
    own = {name: weight for name, weight in regressor.state_dict().items() if not name.startswith(TEXT)}
    return {name: weight.half() if weight.numel() >= LARGE else weight for name, weight in own.items()}


def settings_of(config: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the config.json of a shared model says, save for its checksums.

    Args:
        config: that of its whole folder.
        first: that of the first model.
    """
    layers = config["text_architecture"]["backbone"]["num_hidden_layers"]
    text = {**config["settings"]["text"], "name": first["settings"]["text"]["name"], "layers": layers}
    kept = {"settings": {**config["settings"], "text": text}, "extras": {}}
    return {**config, **kept, "text_architecture": None, "image_architecture": None}


def read_shared(second: Second, first: Regressor, inputs: Inputs) -> tuple[Regressor, Inputs, str]:
    """Read a shared model's folder and check every file of it.

    Args:
        second: the model.
        first: the model that it lies in.
        inputs: the extra inputs of that one.

    Returns:
        The model over the lower layers of the first, its extra inputs, and its checksum.

    Raises:
        ModelError: a file is missing or altered, a setting cannot be, or its network does not fit the first.
    """
    folder = second.folder
    config = read_config(folder, second.within)
    verify_files(folder, config, second.within, CHECKED)
    with built_from(folder), one_thread():
        regressor = _read_network(folder, config, first)
    names = regressor.config.fusion.extra_inputs
    absent = [name for name in names if name not in inputs]
    if absent:
        raise ModelError(f"{folder}: reads {', '.join(absent)}, which the model it lies in does not")
    return regressor, {name: inputs[name] for name in names}, config["sha256"]["config.json"]


def _read_network(folder: Path, config: Mapping[str, Any], first: Regressor) -> Regressor:
    path = folder / "model.safetensors"
    shapes, settings = weight_shapes(path), RegressorConfig.from_dict(config["settings"])
    return _beside(settings, shapes, lambda: load_file(path), first, str(path))


def beside(first: Regressor, second: Regressor) -> Regressor:
    """Return a whole second model as it is once it reads with the first's encoder."""
    weights = network_of(second)
    shapes = {name: tuple(weight.shape) for name, weight in weights.items()}
    # Its settings may say "last" of an encoder that had no more layers when it was read.
    text = replace(second.config.text, layers=len(second.text.backbone.layers))
    settings = replace(second.config, text=text)
    return _beside(settings, shapes, lambda: weights, first, "the second model")


def _beside(
    settings: RegressorConfig, shapes: Mapping[str, tuple[int, ...]], read: Any, first: Regressor, source: str
) -> Regressor:
    if settings.image is not None or settings.text.states != "last":
        raise ModelError(f"{source}: a model that reads with another's encoder reads its last layer alone")
    text = first.text.lower(settings.text.depth)
    settings = replace(settings, text=replace(settings.text, frozen=True))  # weights in int8 take no gradient
    theirs = {f"{TEXT}{name}": tuple(weight.shape) for name, weight in text.state_dict().items()}
    with torch.device("meta"), Unfilled():
        check_fit(Regressor(settings, text, None, first.idf), {**theirs, **shapes}, source)
    with Unfilled():
        regressor = Regressor(settings, text, None, first.idf)
    own = regressor.state_dict()
    weights = {name: weight.to(own[name].dtype) for name, weight in read().items()}
    regressor.load_state_dict(weights, strict=False, assign=True)  # what is not there are the first's
    return regressor.eval().requires_grad_(False)


def _same_words(own: TextEncoder, other: TextEncoder) -> bool:
    """Whether both are of BERT's kind, the second with no more layers, and cut captions alike."""
    backbones, tokenizers = (own.backbone, other.backbone), (own.tokenizer, other.tokenizer)
    if not all(isinstance(backbone, BertEncoder) for backbone in backbones):
        return False
    if not all(isinstance(tokenizer, FolderTokenizer) for tokenizer in tokenizers):
        return False
    alike = own.max_tokens == other.max_tokens and len(other.backbone.layers) <= len(own.backbone.layers)
    return alike and own.tokenizer.description() == other.tokenizer.description()


def _is_weight(text: TextEncoder, name: str, weight: Tensor) -> bool:
    """Whether an encoder has just this weight, which may be packed."""
    place, _, last = name.rpartition(".")
    module = text.get_submodule(place)
    own = module.whole() if isinstance(module, PackedRows) else module.get_parameter(last)
    return own.shape == weight.shape and torch.equal(own, weight)

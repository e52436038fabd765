"""What a text encoder is made of: weights and tokenizer, from the hub, a folder or a model's settings."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from suisei.encoders.bert import BertEncoder, is_bert
from suisei.encoders.hub_errors import explain_hub_error, hub_guard, no_bars, no_hub
from suisei.encoders.pretrained import check_bert, check_config_file, check_tokenizer_file, text_config
from suisei.encoders.rules import BUILD_ERRORS
from suisei.encoders.tokenizer import FolderTokenizer, no_panic
from suisei.errors import ConfigError, ModelError, one_line


def check_storable(name: str, backbone: Any) -> None:
    """Refuse, before anything is trained, an encoder that a model folder could not hold.

    Raises:
        ConfigError: its kind is not known, or its settings do not say all of how it is built.
    """
    refused = f"text.name: a model with {name} could not be loaded again"
    try:
        with torch.device("meta"):
            again = build_backbone(json.loads(json.dumps(backbone.config.to_diff_dict())))
    except ModelError as error:
        raise ConfigError(f"{refused}: {error}") from None
    if getattr(again, "pooler", None) is not None:
        again.pooler = None
    made, own = ({key: value.shape for key, value in each.state_dict().items()} for each in (again, backbone))
    other = sorted(key for key in made.keys() | own.keys() if made.get(key) != own.get(key))
    if other:
        raise ConfigError(f"{refused}: of its settings it would have other weights, such as {other[0]}")


def fetch_parts(name: str) -> tuple[Any, Any]:
    """Return an encoder and its tokenizer, by a name on the hub or from a local folder.

    Raises:
        ModelError: its tokenizer has no vocabulary.
        UnavailableError: the hub has no such model or cannot be reached.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoModel

    local = Path(name).is_dir()
    if local:
        check_config_file(Path(name))
    try:
        with no_bars(), nullcontext() if local else hub_guard(name):  # a local folder asks no hub
            # Weights kept in half precision are widened: small updates vanish in half precision.
            kept = {"local_files_only": local, "trust_remote_code": False}
            backbone = AutoModel.from_pretrained(name, dtype=torch.float32, **kept)
            return backbone, load_tokenizer(name, **kept)
    except ModelError:
        raise
    except (OSError, ValueError, StrictDataclassError) as error:
        raise explain_hub_error(name, error) from error


def load_tokenizer(name: str | Path, **given: Any) -> Any:
    """Return a tokenizer of transformers, which must know some words.

    Args:
        name: on the hub, or a folder.
        given: for ``AutoTokenizer.from_pretrained``, whose errors are the caller's to explain.

    Raises:
        ModelError: it has no vocabulary, or its parts do not go together.
    """
    from transformers import AutoTokenizer

    try:
        with no_panic():
            tokenizer = AutoTokenizer.from_pretrained(name, **given)
    except Exception as error:
        if type(error) is not Exception:  # as the tokenizers library raises
            raise
        raise ModelError(f"{name}: cannot read the tokenizer: {one_line(error)}") from None
    check_vocabulary(tokenizer, name)
    return tokenizer


def check_vocabulary(tokenizer: Any, name: str | Path) -> None:
    """Refuse a tokenizer that transformers made of nothing: to it every word is unknown, or no word at all.

    It makes one without a warning where a model has no file of its tokenizer.

    Raises:
        ModelError: it has less than two tokens beside special ones.
    """
    if len(set(tokenizer.get_vocab().values()) - set(tokenizer.all_special_ids)) < 2:
        raise ModelError(
            f"{name}: its tokenizer has no vocabulary; put its files beside the weights (tokenizer.json, or "
            "vocab.txt, sentencepiece.bpe.model and the like), as its save_pretrained writes them"
        )


def read_tokenizer(folder: Path) -> Any:
    """Read a saved tokenizer, from its own folder alone.

    Raises:
        ModelError: it is absent, damaged, or refers to something outside.
    """
    if FolderTokenizer.is_in(folder):
        return FolderTokenizer(folder)
    if not folder.is_dir():
        raise ModelError(f"no tokenizer at {folder}")
    check_tokenizer_file(folder)
    try:
        with no_hub():
            return load_tokenizer(folder, local_files_only=True, trust_remote_code=False)
    except BUILD_ERRORS as error:
        raise ModelError(f"{folder}: cannot read the tokenizer: {one_line(error)}") from None


def save_parts(backbone: Any, tokenizer: Any, folder: Path) -> None:
    """Write an encoder and its tokenizer as a folder that :func:`fetch_parts` and transformers read."""
    whole = backbone
    if isinstance(backbone, BertEncoder):
        from transformers import AutoModel

        with torch.device("meta"), no_hub():
            whole = AutoModel.from_config(text_config(backbone.settings, "config"), trust_remote_code=False)
        whole.pooler = None
        whole.load_state_dict(backbone.state_dict(), assign=True)
    with no_bars():
        whole.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def build_backbone(settings: dict[str, Any]) -> Any:
    """Build an encoder without its weights from transformers' settings, none of which is trusted.

    Raises:
        ModelError: a setting that cannot be, or is not for a model folder to decide.
    """
    place = "text_architecture.backbone"
    if is_bert(settings):
        check_bert(settings, place)
        return BertEncoder(settings)
    from transformers import AutoModel

    config = text_config(settings, place)
    with no_hub():
        return AutoModel.from_config(config, dtype=torch.float32, trust_remote_code=False)

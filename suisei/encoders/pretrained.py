"""Handing Hugging Face settings to transformers: settings that decide numbers, and nothing that runs code.

``trust_remote_code=False`` is said at every call, because without it transformers asks on standard input
whether the Python files beside a model shall be run. What this module adds is for files that others wrote.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from suisei.encoders.rules import LARGEST_VOCABULARY, MOST_LAYERS, WIDEST, check_folder
from suisei.errors import ModelError, one_line
from suisei.ranges import Range, Rule, Word, at_least, shown

ENCODERS = (
    *(
        "albert",
        "bert",
        "big_bird",
        "camembert",
        "deberta",
        "deberta-v2",
        "distilbert",
        "electra",
    ),
    *("ernie", "eurobert", "flaubert", "funnel", "ibert", "jina_embeddings_v3", "longformer", "luke"),
    *("megatron-bert", "mobilebert", "modernbert", "mpnet", "mra", "nomic_bert", "nystromformer", "rembert"),
    *("roberta", "roberta-prelayernorm", "roc_bert", "roformer", "xlm", "xlm-roberta"),
    *("xlm-roberta-xl", "xlnet", "xmod", "gpt2", "gpt_neox", "llama", "mistral", "qwen2", "qwen3"),
    *("gemma", "gemma2", "gemma3_text", "phi", "phi3", "bloom", "opt"),
)
"""Kinds of text encoder that a model folder may hold: parts of transformers that download and run nothing.

Not ConvBERT and YOSO, whose states of a caption change with the padding beside it.
"""
_UNNAMED = {
    "deberta-v2": {"attention_head_size", "conv_act", "conv_groups", "conv_kernel_size", "norm_rel_ebd",
                   "position_buckets", "share_att_key"}
}  # fmt: skip
"""Settings that a kind of encoder reads, and that its config does not name as its own."""

_OLDER_NAMES = {
    "rope_theta",
    "rope_scaling",
    "partial_rotary_factor",
    "global_rope_theta",
    "local_rope_theta",
    "global_attn_every_n_layers",
}
"""Settings that decide numbers and go by another name in current transformers."""
_COUNTED = ("layer", "head", "group", "block")
"""Words in names of settings that say how many modules are built."""

BERT: dict[str, Rule] = {
    "vocab_size": at_least(1, LARGEST_VOCABULARY),
    "hidden_size": at_least(1, WIDEST),
    "num_hidden_layers": at_least(0, MOST_LAYERS),
    "num_attention_heads": at_least(1, 1024),
    "intermediate_size": at_least(1, WIDEST),
    "max_position_embeddings": at_least(1, LARGEST_VOCABULARY),
    "type_vocab_size": at_least(1, 1024),
    "layer_norm_eps": Range(0, 1),
    "pad_token_id": at_least(0, LARGEST_VOCABULARY),
}
"""The settings of BERT's kind of encoder that :mod:`suisei.encoders.bert` reads."""


def check_bert(settings: Mapping[str, Any], place: str) -> None:
    """Refuse sizes that an encoder of BERT's kind cannot have.

    Raises:
        ModelError: a size is of another type, out of range, or does not go with another.
    """
    check_folder({name: settings[name] for name in BERT}, BERT, place)
    width, heads = settings["hidden_size"], settings["num_attention_heads"]
    if width % heads:
        raise ModelError(f"{place}.hidden_size is {width}, which is no multiple of its {heads} heads")
    if settings["pad_token_id"] >= min(settings["vocab_size"], settings["max_position_embeddings"]):
        raise ModelError(
            f"{place}.pad_token_id is {settings['pad_token_id']}, beyond vocabulary or positions"
        )


def text_config(settings: Any, place: str) -> Any:
    """Return transformers' config of a text encoder, made of what its kind names as its own settings.

    Anything else that stands there, such as ``auto_map`` or an implementation of attention to be downloaded,
    is left out.

    Raises:
        ModelError: another kind of model, or a value that no such setting has.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import PreTrainedConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = settings.get("model_type") if isinstance(settings, Mapping) else None
    if kind not in ENCODERS or kind not in CONFIG_MAPPING:
        raise ModelError(
            f"{place}.model_type is {shown(kind)}; a text encoder is of a kind that runs no code and "
            "whose states of a caption are known not to depend on the captions beside it. Those are "
            f"{', '.join(ENCODERS)} (CONTRIBUTING.md says how to add one)"
        )
    config = CONFIG_MAPPING[kind]
    general = set(inspect.signature(PreTrainedConfig.__init__).parameters)
    own = set(inspect.signature(config.__init__).parameters) - general
    known = own | set(getattr(config, "attribute_map", {})) | _OLDER_NAMES | _UNNAMED.get(kind, set())
    chosen = {name: value for name, value in settings.items() if name in known}
    for name, value in chosen.items():
        if not _plain(value, depth=2) or (isinstance(value, int) and value > _largest(name)):
            raise ModelError(f"{place}.{name} is {shown(value)}, which is none of its values or too large")
    try:
        return config(**chosen)
    except (TypeError, ValueError, KeyError, AttributeError, StrictDataclassError) as error:
        raise ModelError(f"{place}: {one_line(error)}") from None


def longest_input(config: Any, tokenizer: Any) -> int:
    """Return the longest input in tokens."""
    positions = int(getattr(config, "max_position_embeddings", 0) or 512)
    if positions < 1:  # as XLNet says that there is no longest
        positions = 512
    positions -= unused_positions(config)
    return min(positions, int(min(tokenizer.model_max_length, 1_000_000)))


def unused_positions(config: Any) -> int:
    """Return how many positions of an encoder no token has: two of RoBERTa's, up to the padding index."""
    return 2 if "roberta" in config.model_type or config.model_type in ("camembert", "xmod") else 0


def _largest(name: str) -> int:
    return 1024 if any(word in name for word in _COUNTED) else 2**24


def _plain(value: Any, depth: int) -> bool:
    """Whether a value is a number, a name, or a short list or table of those."""
    if isinstance(value, str):
        return len(value) <= 100 and "/" not in value
    if value is None or isinstance(value, bool | int):
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    if not depth or not isinstance(value, list | Mapping) or len(value) > MOST_LAYERS:
        return False
    return all(_plain(own, depth - 1) for own in (value.values() if isinstance(value, Mapping) else value))


_KERNELS = (
    "attn_implementation",
    "_attn_implementation",
    "experts_implementation",
    "_experts_implementation",
)
_MECAB: dict[str, Rule] = {
    "do_lower_case": Word((True, False), null=True),
    "never_split": Word((), null=True),
    "normalize_text": Word((True, False)),
    "mecab_dic": Word(("ipadic", "unidic_lite", "unidic"), null=True),
    "mecab_option": Word(("",), null=True),
}


def check_config_file(folder: Path) -> None:
    """Refuse a Hugging Face model whose config names code to be downloaded.

    Raises:
        ModelError: such a setting, or a config that is not JSON.
    """
    config = read_settings(folder / "config.json")
    for table in (config, *(value for value in config.values() if isinstance(value, dict))):
        for name in _KERNELS:
            if "/" in str(table.get(name)):
                raise ModelError(
                    f"{folder}/config.json: {name} is {shown(table[name])}, which would be downloaded and run"
                )


def check_tokenizer_file(folder: Path) -> None:
    """Refuse a Hugging Face tokenizer whose config names files outside its folder.

    Raises:
        ModelError: such a setting, or a config that is not JSON.
    """
    path = folder / "tokenizer_config.json"
    config = read_settings(path)
    check_folder(config.get("mecab_kwargs") or {}, _MECAB, f"{path}: mecab_kwargs")
    tables = [config, *(value for value in config.values() if isinstance(value, dict))]
    for name, value in [entry for table in tables for entry in table.items()]:
        if not name.endswith(("_file", "_path", "_dir")) or name in (
            "special_tokens_map_file",
            "name_or_path",
        ):
            continue  # transformers does not open these two
        if value is not None and not _beside(value, folder):
            raise ModelError(f"{path}: {name} is {shown(value)}, which is not in the folder")


def _beside(value: Any, folder: Path) -> bool:
    return isinstance(value, str) and Path(value).name == value and (folder / value).is_file()


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings in a JSON file; none where it is absent.

    Raises:
        ModelError: not such a file.
    """
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(content, dict):
        raise ModelError(f"{path}: not settings by name, but {shown(content)}")
    return content

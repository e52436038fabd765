"""Language models that captions are embedded by: any of GPT-2's kind by name or folder, or a small new one.

Shape letters: V tokens of the vocabulary, T positions, d width.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from suisei.encoders.hub_errors import explain_hub_error, hub_guard, no_bars
from suisei.encoders.pretrained import check_config_file, check_tokenizer_file
from suisei.encoders.seeded import seeded
from suisei.encoders.text_parts import load_tokenizer
from suisei.encoders.tokenizer import FolderTokenizer
from suisei.errors import ConfigError, DataError, ModelError
from suisei.ranges import DROPOUT, Rule, at_least, check_settings

END = "<|endoftext|>"
"""GPT-2's one special token."""
LEAST_VOCABULARY = 257
"""A byte-level vocabulary holds every byte and END."""
TINY: dict[str, Rule] = {
    "vocabulary": at_least(LEAST_VOCABULARY),
    "width": at_least(8, 16_384),
    "layers": at_least(1, 200),
    "heads": at_least(1, 1024),
    "positions": at_least(16, 4096),
    "dropout": DROPOUT,
}


@dataclass
class TinyLanguageModel:
    """Size of a GPT-2 that is made here.

    Attributes:
        vocabulary: byte-level pieces at most, END included; small data yields fewer.
        width: width d of the hidden states, a multiple of ``heads``.
        layers: number of layers.
        heads: attention heads.
        positions: most positions, those of the prefix included.
        dropout: share of units that are dropped in training.
    """

    vocabulary: int = 4000
    width: int = 192
    layers: int = 3
    heads: int = 8
    positions: int = 160
    dropout: float = 0.1

    def __post_init__(self) -> None:
        check_settings("model.tiny", self, TINY)
        if self.width % self.heads:
            raise ConfigError(
                f"model.tiny.width is {self.width}; it must be a multiple of {self.heads} heads"
            )


def load_language_model(name: str) -> tuple[Any, FolderTokenizer]:
    """Return a causal language model of transformers and its tokenizer.

    Args:
        name: a model on the hub, or a folder; code in it is never run.

    Raises:
        UnavailableError: it is neither here nor to be had.
        ModelError: the folder is unsafe, or its tokenizer is of no kind that a model folder can hold.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoModelForCausalLM

    local = Path(name).is_dir()
    if local:
        check_config_file(Path(name))
        check_tokenizer_file(Path(name))
    try:
        with no_bars(), nullcontext() if local else hub_guard(name):
            kept = {"local_files_only": local, "trust_remote_code": False}
            model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32, **kept)
            tokenizer = load_tokenizer(name, **kept)
    except ModelError:
        raise
    except (OSError, ValueError, StrictDataclassError) as error:
        raise explain_hub_error(name, error) from error
    return model.eval(), plain_tokenizer(tokenizer, name)


def plain_tokenizer(tokenizer: Any, name: str) -> FolderTokenizer:
    """Return a tokenizer of transformers as scoring will read it from a folder.

    Raises:
        ModelError: it has no fast form.
    """
    with tempfile.TemporaryDirectory(prefix="suisei-tokenizer-") as folder:
        tokenizer.save_pretrained(folder)
        if not FolderTokenizer.is_in(Path(folder)):
            raise ModelError(f"{name}: its tokenizer cannot be kept as tokenizer.json; use a fast one")
        return FolderTokenizer(Path(folder))


def new_language_model(captions: Iterable[str], config: TinyLanguageModel, seed: int) -> tuple[Any, Any]:
    """Return a GPT-2 with random weights and a byte-level tokenizer trained on captions.

    Args:
        captions: of the training part, in any language.
        config: its size.
        seed: of the weights; the global generator is left as it is.

    Raises:
        DataError: there is no caption.
    """
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = _new_tokenizer(captions, config)
    end = tokenizer.convert_tokens_to_ids(END)
    settings = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=config.positions,
        n_embd=config.width,
        n_layer=config.layers,
        n_head=config.heads,
        resid_pdrop=config.dropout,
        embd_pdrop=config.dropout,
        attn_pdrop=config.dropout,
        bos_token_id=end,
        eos_token_id=end,
    )
    with seeded(seed):
        model = GPT2LMHeadModel(settings)
    return model, tokenizer


def _new_tokenizer(captions: Iterable[str], config: TinyLanguageModel) -> Any:
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    texts = sorted(set(captions))
    if not texts:
        raise DataError(
            "a new language model learns its vocabulary from the training captions; there are none"
        )
    made = ByteLevelBPETokenizer(unicode_normalizer="nfkc", lowercase=True)
    made.train_from_iterator(
        texts, vocab_size=config.vocabulary, min_frequency=2, show_progress=False, special_tokens=[END]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made._tokenizer, bos_token=END, eos_token=END, unk_token=END
    )


def end_id(tokenizer: FolderTokenizer, model: Any) -> int:
    """Return the id of the token that ends a caption.

    Raises:
        ModelError: the model names none.
    """
    ends = model.config.eos_token_id
    found = ends[0] if isinstance(ends, list) else ends
    if found is None:
        raise ModelError(
            "the language model's config names no eos_token_id, which ends a caption; take another"
        )
    if found >= max(len(tokenizer), model.config.vocab_size):
        raise ModelError(f"the language model's eos_token_id is {found}, no token of its own; take another")
    return int(found)


def frozen_embeddings(model: Any, positions: int) -> tuple[Tensor, Tensor]:
    """Return a language model's embeddings of words [V, d] and of their places [at most ``positions``, d].

    A model that turns its queries and keys instead of adding places (RoPE) has none: it gets sines and
    cosines (Vaswani et al., 2017, section 3.5), for without places no order of words could be told.
    """
    words = model.get_input_embeddings().weight.detach().float().clone()
    table = getattr(getattr(model, "transformer", None), "wpe", None)
    if table is not None:
        return words, table.weight.detach().float()[:positions].clone()
    width = words.shape[1]
    place = torch.arange(positions)[:, None].float()
    rate = torch.exp(torch.arange(0, width, 2).float() * (-math.log(10_000) / width))
    waves = torch.cat([torch.sin(place * rate), torch.cos(place * rate)], dim=1)[:, :width]
    return words, waves * words.std()

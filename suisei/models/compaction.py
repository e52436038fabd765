"""Making a trained model small enough to ship: fewer pieces in its vocabulary, weights of few bits.

What this changes of a score is measured by ``suisei compact``, which calls it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from suisei.data.idf import IdfTable
from suisei.encoders.bert import BertEncoder
from suisei.encoders.pretrained import longest_input
from suisei.encoders.text import TextEncoder
from suisei.encoders.tokenizer import FolderTokenizer
from suisei.encoders.vocabulary import cut_vocabulary, language_pieces, needed_pieces
from suisei.encoders.weights import read_weights
from suisei.errors import ConfigError
from suisei.models.packed_rows import WORDS
from suisei.models.quantization import Rounding, is_roundable, quantize_state
from suisei.models.regressor import Regressor

ENCODER = "text.backbone."
PLACES = f"{ENCODER}embeddings.position_embeddings.weight"
SMALL = 1024
"""Weights with fewer numbers are stored as they are: they would save nothing."""
IMAGE_SIDE = ("image.", "fusion.project.", "fusion.missing_image", "start.image.", "start.beside.")
"""How the names of the weights begin that have to do with images."""
_BASE_PREFIXES = ("", "bert.", "roberta.", "model.")
_POSITIONS = ("position_embeddings", "token_type_embeddings")


def with_encoder_name(regressor: Regressor, name: str) -> Regressor:
    """Return the same model whose settings call its text encoder by a name, and not by a folder's path."""
    text = replace(regressor.config.text, name=name)
    regressor.config = replace(regressor.config, text=text)
    return regressor


def with_fewer_pieces(regressor: Regressor, texts: Iterable[str]) -> tuple[Regressor, list[int]]:
    """Return a model with the pieces that Japanese and English need alone, and their old ids.

    Kept are single characters, pieces of Japanese scripts, signs and digits, what the references of its
    training were cut into, and what texts are cut into, as written and with a capital letter first. Positions
    that no caption reaches, which are cut before, go too.

    Args:
        regressor: a loaded model.
        texts: words or sentences.

    Raises:
        ConfigError: its encoder is not of BERT's kind, or its vocabulary neither of a unigram model nor of
            WordPiece.
    """
    tokenizer = regressor.text.tokenizer
    if not isinstance(regressor.text.backbone, BertEncoder) or not isinstance(tokenizer, FolderTokenizer):
        raise ConfigError("only the vocabulary of an encoder of BERT's kind can be cut; keep the whole one")
    forms = (form for text in texts for form in dict.fromkeys((text, text[:1].upper() + text[1:])))
    keep = needed_pieces(tokenizer.fresh(), forms) | language_pieces(tokenizer.get_vocab())
    description, old = cut_vocabulary(tokenizer.description(), keep | set(regressor.idf.frequencies))
    new = {id_: number for number, id_ in enumerate(old)}
    architecture = regressor.text.architecture()
    backbone = architecture["backbone"]
    backbone["vocab_size"], backbone["pad_token_id"] = len(old), new[backbone["pad_token_id"]]
    longest = longest_input(regressor.text.backbone.config, tokenizer)
    backbone["max_position_embeddings"] -= longest - regressor.text.max_tokens
    text = TextEncoder.from_architecture(architecture, _tokenizer_of(tokenizer, description))
    frequencies = {new[id_]: count for id_, count in regressor.idf.frequencies.items()}
    smaller = Regressor(
        regressor.config, text, regressor.image, IdfTable(regressor.idf.documents, frequencies)
    )
    state = dict(regressor.state_dict())
    state[WORDS] = state[WORDS][old]
    state[PLACES] = state[PLACES][: backbone["max_position_embeddings"]]
    smaller.load_state_dict(state)
    smaller.requires_grad_(False)
    return smaller.eval(), old


def _tokenizer_of(like: FolderTokenizer, description: Mapping[str, object]) -> FolderTokenizer:
    with tempfile.TemporaryDirectory(prefix="suisei-") as name:
        folder = Path(name)
        like.save_pretrained(folder)
        text = json.dumps(description, ensure_ascii=False, separators=(",", ":"))
        (folder / "tokenizer.json").write_text(text, encoding="utf-8")
        return FolderTokenizer(folder)


def read_base(folder: Path, old: Sequence[int] | None) -> dict[str, Tensor]:
    """Return the weights of an encoder before training, by the names that a model has for them.

    Args:
        folder: a Hugging Face folder with ``model.safetensors``.
        old: ids of the pieces that were kept; None for all.

    Raises:
        ConfigError: its vocabulary is smaller than that.
        ModelError: there is no such file, or it cannot be read.
    """
    found = read_weights(folder / "model.safetensors")
    prefix = next((own for own in _BASE_PREFIXES if f"{own}embeddings.word_embeddings.weight" in found), None)
    if prefix is None:
        raise ConfigError(f"{folder}: not the weights of an encoder of BERT's kind")
    base = {
        ENCODER + name.removeprefix(prefix): weight
        for name, weight in found.items()
        if name.startswith(prefix)
    }
    if old is not None:
        if len(base[WORDS]) <= max(old):
            raise ConfigError(f"{folder}: {len(base[WORDS]):,} pieces, fewer than the model was made of")
        base[WORDS] = base[WORDS][list(old)]
    return base


def small_weights(
    regressor: Regressor, bits: int, *, base: Mapping[str, Tensor] | None = None, change_bits: int = 4
) -> dict[str, Tensor]:
    """Return a model's weights as its folder is to hold them.

    The matrices of the text encoder are rounded, save for those of positions, and those of an image encoder
    are in half precision.

    Args:
        regressor: the model.
        bits: 4 or 8, of a rounded matrix, or of its base.
        base: the encoder's weights before training; None rounds what was trained itself.
        change_bits: 4 or 8, of the change from the base.

    Raises:
        ConfigError: the base is another encoder's.
    """
    state: dict[str, Tensor] = {}
    roundings = {}
    for name, weight in regressor.state_dict().items():
        state[name] = weight
        if weight.numel() < SMALL:
            continue
        if name.startswith("image.") and weight.is_floating_point():
            state[name] = weight.to(torch.float16)
        elif name.startswith(ENCODER) and is_roundable(weight) and not any(p in name for p in _POSITIONS):
            if base is not None and name not in base:
                raise ConfigError(f"the base has no weight {name.removeprefix(ENCODER)}: another encoder's")
            roundings[name] = Rounding(bits, None if base is None else base[name], change_bits)
    return quantize_state(state, roundings)


def stored_with_images(folder: Path, regressor: Regressor) -> dict[str, Tensor]:
    """Return a model's weights as its folder is to hold them, those of its image side in half precision.

    All others are taken as they are stored in another folder.

    Args:
        folder: of the model before it had an image side, or another one, which is left out.
        regressor: the model.
    """
    state = regressor.state_dict()
    taken = {
        name: weight for name, weight in load_file(folder / "model.safetensors").items() if not _seeing(name)
    }
    new = {name: weight for name, weight in state.items() if _seeing(name)}
    large = {name for name, weight in new.items() if weight.numel() >= SMALL and weight.is_floating_point()}
    return {**taken, **{name: own.half() if name in large else own for name, own in new.items()}}


def _seeing(name: str) -> bool:
    return name.startswith(IMAGE_SIDE)

"""An embedding table that stays in few bits: a row is unpacked when a caption has its token.

Most of a small multilingual model is its vocabulary, of which a caption needs some ten rows. Kept packed, the
table opens sooner and takes an eighth of the memory; the numbers are those of the whole one, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from suisei.encoders.bert import BertEncoder
from suisei.errors import ModelError
from suisei.models.quantization import dequantize, parts_of
from suisei.models.regressor import Regressor

TABLE = "text.backbone.embeddings.word_embeddings."
WORDS = f"{TABLE}weight"
"""The table of a regressor that can be kept packed."""


class PackedRows(nn.Module):
    """Takes the place of an ``nn.Embedding`` [V, d], for scoring on the CPU.

    Its state dict holds the parts as a model folder does, see :mod:`suisei.models.quantization`.

    Args:
        parts: what :func:`suisei.models.quantization.quantize` returned.

    Raises:
        ModelError: they do not belong together.
    """

    like: Tensor

    def __init__(self, parts: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.parts = dict(parts)
        # Its type is the encoder's.
        self.register_buffer("like", torch.empty(0, device="cpu"), persistent=False)
        rows = sorted({len(part) for part in self.parts.values()})
        if len(rows) > 1:
            raise ModelError(f"{WORDS}: parts of {rows[0]:,} and {rows[-1]:,} rows")
        try:
            self(torch.zeros(1, dtype=torch.long, device="cpu"))
        except ModelError as error:
            raise ModelError(f"{WORDS}: {error}") from None

    def forward(self, ids: Tensor) -> Tensor:
        """Return the rows of int64 [...] as [..., d]."""
        rows = {suffix: part[ids.flatten()] for suffix, part in self.parts.items()}
        return dequantize(rows).to(self.like.dtype).unflatten(0, ids.shape)

    def whole(self) -> Tensor:
        """Return the table [V, d]."""
        return dequantize(self.parts).to(self.like.dtype)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination.update({f"{prefix}weight{suffix}": part for suffix, part in self.parts.items()})

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, metadata: Any, strict: bool, missing: list[str], *further: Any
    ) -> None:
        found = parts_of(state_dict, f"{prefix}weight")
        if found.keys() == self.parts.keys():
            self.parts = found
        elif strict:
            missing += [f"{prefix}weight{suffix}" for suffix in self.parts if suffix not in found]


def packed_rows(regressor: Regressor, stored: dict[str, Tensor]) -> PackedRows | None:
    """Take the table of words out of the weights of a model folder, if it can stay packed.

    Args:
        regressor: the model that they are for.
        stored: the weights; the parts of the table are removed from them.

    Raises:
        ModelError: its parts do not belong together.
    """
    parts = parts_of(stored, WORDS)
    if not parts or WORDS in stored or not isinstance(regressor.text.backbone, BertEncoder):
        return None  # those that are stored whole as well are refused where the others are unpacked
    for suffix in parts:
        del stored[WORDS + suffix]
    # Copied: what was read is the file's own memory, which somebody may overwrite.
    return PackedRows({suffix: part.clone() for suffix, part in parts.items()})


def put_rows(regressor: Regressor, rows: PackedRows | None) -> None:
    """Have a model of :func:`packed_rows` look words up there; its own table is let go, its type kept."""
    if rows is not None:
        embeddings = regressor.text.backbone.embeddings
        embeddings.word_embeddings = rows.to(embeddings.word_embeddings.weight.dtype)


def unpack_rows(regressor: Regressor) -> None:
    """Give a model its whole table again, which cutting the vocabulary and storing it anew need."""
    backbone = regressor.text.backbone
    if isinstance(backbone, BertEncoder) and isinstance(backbone.embeddings.word_embeddings, PackedRows):
        whole = backbone.embeddings.word_embeddings.whole()
        backbone.embeddings.word_embeddings = nn.Embedding.from_pretrained(whole)

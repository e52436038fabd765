"""RECAP, latent (Chang et al., 2023, section 3.2): what a caption says of its image, as a prefix.

Shape letters: B captions or images, T tokens (padded), P positions of the prefix, d width of the language
model, V tokens of the vocabulary, f width of the image feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from suisei.encoders.image import ImageEncoder
from suisei.encoders.rules import LARGEST_VOCABULARY, WIDEST
from suisei.errors import ModelError
from suisei.models.prefix_mapper import LONGEST, PrefixMapper
from suisei.ranges import SWITCH, Rule, at_least

MAX_TOKENS = 128
"""Captions are cut to so many tokens, or to as many as the language model has positions for."""
HIDDEN = 2048
"""Units inside the feed-forward network: with width 768, 3.1 million parameters; the paper says 3 million."""
RULES: dict[str, Rule] = {
    "vocabulary": at_least(1, LARGEST_VOCABULARY),
    "width": at_least(1, WIDEST),
    "prefix": at_least(1, LONGEST),
    "heads": at_least(1, 1024),
    "hidden": at_least(1, WIDEST),
    "max_tokens": at_least(1, LONGEST),
    "normalise": SWITCH,
}


@dataclass(frozen=True)
class LatentShape:
    """Sizes of a reconstruction; the defaults are the paper's with GPT-2.

    Attributes:
        vocabulary: number V of token ids.
        width: width d of the language model.
        prefix: positions P of the target.
        heads: attention heads.
        hidden: units inside the feed-forward network.
        max_tokens: captions are cut to so many tokens.
        normalise: whether image features are scaled to unit length before the mapper.
    """

    vocabulary: int = 50_257
    width: int = 768
    prefix: int = 10
    heads: int = 8
    hidden: int = HIDDEN
    max_tokens: int = MAX_TOKENS
    normalise: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


class CaptionReconstruction(nn.Module):
    """Captions as token ids [B, T] to guesses [B, P, d] at the mapped image.

    GPT-2's own embeddings of words and of their places, frozen, go through a self-attention and a
    feed-forward network, both trained. How a caption of any length becomes P positions the paper does not
    say: here P learned vectors stand before the caption's in the self-attention, as in ClipCap's mapper, and
    what it gives at their places goes on.

    Raises:
        ModelError: the width is no multiple of the heads.
    """

    def __init__(self, shape: LatentShape) -> None:
        super().__init__()
        if shape.width % shape.heads:
            raise ModelError(f"reconstruction: width {shape.width} is no multiple of its {shape.heads} heads")
        self.shape = shape
        self.words = nn.Parameter(torch.empty(shape.vocabulary, shape.width), requires_grad=False)
        self.places = nn.Parameter(torch.empty(shape.max_tokens, shape.width), requires_grad=False)
        self.prefix = nn.Parameter(torch.empty(shape.prefix, shape.width))
        for table in (self.words, self.places, self.prefix):
            nn.init.normal_(table)
        self.attention = nn.MultiheadAttention(shape.width, shape.heads, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(shape.width, shape.hidden), nn.GELU(), nn.Linear(shape.hidden, shape.width)
        )

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return guesses, float [B, P, d].

        Args:
            ids: token ids, int64 [B, T]; T may be 0.
            mask: which of them are a caption's, bool [B, T].
        """
        count, length = ids.shape
        words = F.embedding(ids, self.words) + self.places[:length]
        states = torch.cat([self.prefix.expand(count, -1, -1), words], dim=1)
        absent = torch.cat([mask.new_zeros(count, self.shape.prefix), ~mask], dim=1)
        own = states[:, : self.shape.prefix]
        found, _ = self.attention(own, states, states, key_padding_mask=absent, need_weights=False)
        guesses: Tensor = self.mlp(found)
        return guesses


class LatentModel(nn.Module):
    """All that scoring needs: image tower, mapper and reconstruction, with the tokenizer.

    Args:
        image: the image tower.
        mapper: from image features to targets.
        captions: from token ids to guesses.
        tokenizer: from :func:`suisei.encoders.text_parts.read_tokenizer`.

    Raises:
        ModelError: the parts do not go together.
    """

    def __init__(
        self, image: ImageEncoder, mapper: PrefixMapper, captions: CaptionReconstruction, tokenizer: Any
    ) -> None:
        super().__init__()
        theirs, own = mapper.shape, captions.shape
        if image.width != theirs.features:
            raise ModelError(
                f"the image tower gives {image.width} numbers and the mapper takes {theirs.features}"
            )
        if (theirs.prefix, theirs.width) != (own.prefix, own.width):
            raise ModelError(
                f"the mapper gives {theirs.prefix} x {theirs.width} and the captions' side "
                f"{own.prefix} x {own.width}"
            )
        self.image, self.mapper, self.captions = image, mapper, captions
        self.tokenizer = tokenizer

    def tokenize(self, captions: Sequence[str]) -> list[list[int]]:
        """Return the token ids of every caption, cut to what the shape says.

        Raises:
            ModelError: the tokenizer knows more tokens than there are embeddings.
        """
        return tokenize(self.tokenizer, captions, self.captions.shape)

    def targets(self, features: Tensor) -> Tensor:
        """Return what image features float [B, f] are mapped to, float [B, P, d]."""
        if self.captions.shape.normalise:
            features = F.normalize(features, dim=-1)
        mapped: Tensor = self.mapper(features)
        return mapped


def tokenize(tokenizer: Any, captions: Sequence[str], shape: LatentShape) -> list[list[int]]:
    """Return token ids of captions, see :meth:`LatentModel.tokenize`."""
    if not captions:
        return []
    ids: list[list[int]] = tokenizer.encode(captions, shape.max_tokens)
    largest = max((token for own in ids for token in own), default=0)
    if largest >= shape.vocabulary:
        raise ModelError(
            f"the tokenizer gives token {largest}, and the language model has {shape.vocabulary} embeddings: "
            "they do not belong together"
        )
    return ids


def padded(token_ids: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Return ids int64 [B, T] and mask bool [B, T] of captions, padded on the right to the longest."""
    length = max((len(ids) for ids in token_ids), default=0)
    ids = torch.zeros((len(token_ids), length), dtype=torch.long)
    mask = torch.zeros((len(token_ids), length), dtype=torch.bool)
    for row, tokens in enumerate(token_ids):
        ids[row, : len(tokens)] = torch.as_tensor(tokens, dtype=torch.long)
        mask[row, : len(tokens)] = True
    return ids, mask


def squared_distances(guesses: Tensor, targets: Tensor) -> Tensor:
    """Return the mean squared difference of each of B pairs of [B, P, d], float [B]."""
    return (guesses - targets).square().flatten(1).mean(dim=1)

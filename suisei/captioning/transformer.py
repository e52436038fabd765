"""An encoder over the places of an image and a decoder over tokens, with a step that keeps keys and values.

Layers normalise before they attend (Xiong et al., 2020), which trains without a long warm-up. Shape letters:
B images, P places, c width of a tower's grid, d width, K captions of an image, L tokens, N rows of a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from suisei.captioning.caption_search import DecodingState
from suisei.encoders.attention import attention
from suisei.errors import ConfigError
from suisei.ranges import Range, Rule, at_least, check_settings

LAYERS: dict[str, Rule] = {
    "width": at_least(1, 16_384),
    "heads": at_least(1, 1024),
    "encoder_layers": at_least(0, 100),
    "decoder_layers": at_least(1, 100),
    "feed_forward": at_least(1, 65_536),
    "dropout": Range(0, 0.9),
    "positions": at_least(2, 4096),
}


@dataclass
class TransformerConfig:
    """Size of a captioner's encoder and decoder; the defaults are PAC-S++'s (section 5.1).

    Attributes:
        width: width d of all states.
        heads: attention heads; the width is a multiple.
        encoder_layers: layers over the places of an image; 0 for none.
        decoder_layers: layers over tokens.
        feed_forward: units between the two halves of a feed-forward layer.
        dropout: share of the units that are left out in training.
        positions: longest caption in tokens.
    """

    width: int = 512
    heads: int = 8
    encoder_layers: int = 3
    decoder_layers: int = 3
    feed_forward: int = 2048
    dropout: float = 0.1
    positions: int = 64

    def __post_init__(self) -> None:
        check_settings("model.layers", self, LAYERS)
        if self.width % self.heads:
            raise ConfigError(
                f"model.layers.width is {self.width}; it must be a multiple of its {self.heads} heads"
            )


class _Attention(nn.Module):
    """Attention of queries to keys and values, each [rows, heads, places, d / heads]."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def split(self, states: Tensor) -> Tensor:
        """Return [rows, heads, places, d / heads] of [rows, places, d]."""
        return states.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def kept(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and the values of states [rows, places, d]."""
        return self.split(self.key(states)), self.split(self.value(states))

    def forward(self, states: Tensor, kept: tuple[Tensor, Tensor], causal: bool = False) -> Tensor:
        """Return what states [rows, places, d] find among keys and values."""
        query = self.split(self.query(states))
        keys, values = (part.to(query.dtype) for part in kept)
        found = attention(query, keys, values, causal=causal)
        mixed: Tensor = self.out(found.transpose(1, 2).flatten(2))
        return mixed


def _feed_forward(config: TransformerConfig) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(config.width, config.feed_forward), nn.GELU(), nn.Linear(config.feed_forward, config.width)
    )


class _EncoderLayer(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.attention = _Attention(config.width, config.heads)
        self.feed_forward = _feed_forward(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, states: Tensor) -> Tensor:
        normed = self.norm1(states)
        states = states + self.dropout(self.attention(normed, self.attention.kept(normed)))
        changed: Tensor = states + self.dropout(self.feed_forward(self.norm2(states)))
        return changed


class GridEncoder(nn.Module):
    """Projects a tower's grid and lets its places look at one another.

    Args:
        config: the size.
        places: P.
        grid_width: c.
    """

    def __init__(self, config: TransformerConfig, places: int, grid_width: int) -> None:
        super().__init__()
        self.project = nn.Linear(grid_width, config.width)
        self.norm = nn.LayerNorm(config.width)
        self.positions = nn.Parameter(torch.randn(places, config.width) * 0.02)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(_EncoderLayer(config) for _ in range(config.encoder_layers))
        self.last_norm = nn.LayerNorm(config.width)

    def forward(self, grid: Tensor) -> Tensor:
        """Return the memory, [B, P, d], of [B, P, c]."""
        states = self.dropout(self.norm(self.project(grid)) + self.positions)
        for layer in self.layers:
            states = layer(states)
        memory: Tensor = self.last_norm(states)
        return memory


class _DecoderLayer(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(config.width) for _ in range(3))
        self.own, self.image = (_Attention(config.width, config.heads) for _ in range(2))
        self.feed_forward = _feed_forward(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, states: Tensor, memory: Tensor) -> Tensor:
        """Return the states of captions, [B K, L, d], that look at the memory of their image, [B, P, d]."""
        normed = self.norm1(states)
        states = states + self.dropout(self.own(normed, self.own.kept(normed), causal=True))
        together = self.norm2(states).view(len(memory), -1, states.shape[-1])  # an image's captions in a row:
        seen = self.image(together, self.image.kept(memory)).view_as(states)  # its keys are made once
        states = states + self.dropout(seen)
        changed: Tensor = states + self.dropout(self.feed_forward(self.norm3(states)))
        return changed

    def step(
        self, states: Tensor, kept: tuple[Tensor, Tensor] | None, image: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the states of one more token of each row, [N, 1, d], and all keys and values so far."""
        normed = self.norm1(states)
        keys, values = self.own.kept(normed)
        if kept is not None:
            keys, values = torch.cat([kept[0], keys], dim=2), torch.cat([kept[1], values], dim=2)
        states = states + self.own(normed, (keys, values))
        states = states + self.image(self.norm2(states), image)
        return states + self.feed_forward(self.norm3(states)), (keys, values)


class TokenDecoder(nn.Module):
    """Says which token comes next; the embeddings are the output layer too.

    Args:
        config: the size.
        pieces: tokens that can be written, V.
        starts: tokens beyond these that captions start from.
    """

    def __init__(self, config: TransformerConfig, pieces: int, starts: int) -> None:
        super().__init__()
        self.pieces = pieces
        self.embedding = nn.Embedding(pieces + starts, config.width)
        self.positions = nn.Parameter(torch.randn(config.positions, config.width) * 0.02)
        self.layers = nn.ModuleList(_DecoderLayer(config) for _ in range(config.decoder_layers))
        self.last_norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)
        nn.init.normal_(self.embedding.weight, std=config.width**-0.5)

    def forward(self, memory: Tensor, tokens: Tensor) -> Tensor:
        """Return logits [B, K, L, V] of the tokens after each of [B, K, L], start first, given [B, P, d]."""
        states = self.dropout(self._embedded(tokens.flatten(0, 1), 0))
        for layer in self.layers:
            states = layer(states, memory)
        return self.outputs(states).view(*tokens.shape, -1)

    def outputs(self, states: Tensor) -> Tensor:
        """Return logits [..., V] of states [..., d]."""
        return F.linear(self.last_norm(states), self.embedding.weight[: self.pieces])

    def _embedded(self, tokens: Tensor, place: int) -> Tensor:
        length = place + tokens.shape[-1]
        if length > len(self.positions):
            raise ConfigError(
                f"a caption of {length} tokens; this captioner has {len(self.positions)} positions: lower "
                "max_length"
            )
        embedded: Tensor = self.embedding(tokens) * self.positions.shape[-1] ** 0.5
        return embedded + self.positions[place:length]


class KeptState(DecodingState):
    """Keys and values of the rows' own tokens and of their images.

    Args:
        decoder: what is decoded with.
        memory: of the images, [B, P, d]; a row each.
        banned: tokens that are never written, int64.
    """

    def __init__(self, decoder: TokenDecoder, memory: Tensor, banned: Tensor) -> None:
        self._decoder = decoder
        self._banned = banned
        self._place = 0
        self._owners = torch.arange(len(memory), device=memory.device)
        self._image = [layer.image.kept(memory) for layer in decoder.layers]  # type: ignore[operator, union-attr]
        self._kept: list[tuple[Tensor, Tensor] | None] = [None] * len(decoder.layers)

    def step(self, tokens: Tensor) -> Tensor:
        """Add a token to each row and return the logits of the next, float32 [N, V]."""
        decoder = self._decoder
        states = decoder._embedded(tokens[:, None], self._place)
        for number, layer in enumerate(decoder.layers):
            states, self._kept[number] = layer.step(states, self._kept[number], self._image[number])  # type: ignore[operator]
        self._place += 1
        return decoder.outputs(states)[:, 0].float().index_fill(-1, self._banned, -torch.inf)

    def select(self, rows: Tensor) -> None:
        """Keep rows, in this order."""
        self._kept = [None if kept is None else (kept[0][rows], kept[1][rows]) for kept in self._kept]
        owners = self._owners[rows]
        if not torch.equal(owners, self._owners):  # beams of an image change places without this
            self._image = [(keys[rows], values[rows]) for keys, values in self._image]
            self._owners = owners

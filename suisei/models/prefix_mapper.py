"""ClipCap's transformer mapper (Mokady et al., 2021): an image feature becomes a prefix for a language model.

Shape letters: B images, f width of the image feature, C positions that the feature is spread over, P
positions of the prefix, d width of the language model, L layers.

Parameters are named as in the authors' checkpoints, so that these load without renaming.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from suisei.encoders.rules import MOST_LAYERS, WIDEST
from suisei.encoders.weights import Unfilled, fit_weights, read_weights
from suisei.errors import ModelError
from suisei.ranges import Rule, at_least

PUBLISHED_HEADS = 8
"""Attention heads of the authors' mapper, which its checkpoint does not tell."""
OWNER = "clip_project."
"""What the mapper's parameters begin with in a checkpoint of the whole captioner."""
LONGEST = 4096
"""Most positions of a prefix, or that a feature is spread over."""
RULES: dict[str, Rule] = {
    "features": at_least(1, WIDEST),
    "width": at_least(1, WIDEST),
    "prefix": at_least(1, LONGEST),
    "spread": at_least(1, LONGEST),
    "layers": at_least(1, MOST_LAYERS),
    "hidden": at_least(1, WIDEST),
    "heads": at_least(1, 1024),
}


@dataclass(frozen=True)
class MapperShape:
    """Sizes of a mapper; the defaults are those of the paper with ViT-L/14 and GPT-2.

    Attributes:
        features: width f of the image feature.
        width: width d of the language model.
        prefix: positions P of the prefix.
        spread: positions C that the feature is spread over.
        layers: number of layers L.
        hidden: width inside of each layer's feed-forward part.
        heads: attention heads; ``width`` is a multiple.
    """

    features: int = 768
    width: int = 768
    prefix: int = 10
    spread: int = 10
    layers: int = 8
    hidden: int = 1536
    heads: int = PUBLISHED_HEADS

    def as_dict(self) -> dict[str, int]:
        """Return JSON values."""
        return asdict(self)


class PrefixMapper(nn.Module):
    """Image features [B, f] to prefixes [B, P, d].

    The feature is spread over C positions, P learned ones are put behind them, and what stands at those after
    the transformer is the prefix (the paper's section 3.2).

    Raises:
        ModelError: the width is no multiple of the heads.
    """

    def __init__(self, shape: MapperShape) -> None:
        super().__init__()
        if shape.width % shape.heads:
            raise ModelError(f"mapper: width {shape.width} is no multiple of its {shape.heads} heads")
        self.shape = shape
        self.linear = nn.Linear(shape.features, shape.spread * shape.width)
        self.prefix_const = nn.Parameter(torch.empty(shape.prefix, shape.width))
        nn.init.normal_(self.prefix_const)
        self.transformer = _Layers(shape)

    def forward(self, features: Tensor) -> Tensor:
        """Return prefixes, float [B, P, d]."""
        spread = self.linear(features).view(len(features), self.shape.spread, self.shape.width)
        learned = self.prefix_const.expand(len(features), -1, -1)
        states: Tensor = self.transformer(torch.cat([spread, learned], dim=1))
        return states[:, self.shape.spread :]


class _Layers(nn.Module):
    def __init__(self, shape: MapperShape) -> None:
        super().__init__()
        self.layers = nn.ModuleList([_Layer(shape) for _ in range(shape.layers)])

    def forward(self, states: Tensor) -> Tensor:
        for layer in self.layers:
            states = layer(states)
        return states


class _Layer(nn.Module):
    def __init__(self, shape: MapperShape) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(shape.width)
        self.attn = _Attention(shape.width, shape.heads)
        self.norm2 = nn.LayerNorm(shape.width)
        self.mlp = _FeedForward(shape.width, shape.hidden)

    def forward(self, states: Tensor) -> Tensor:
        states = states + self.attn(self.norm1(states))
        return states + self.mlp(self.norm2(states))


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_queries = nn.Linear(width, width, bias=False)
        self.to_keys_values = nn.Linear(width, 2 * width, bias=False)
        self.project = nn.Linear(width, width)

    def forward(self, states: Tensor) -> Tensor:
        count, positions, width = states.shape

        def by_head(part: Tensor) -> Tensor:
            return part.reshape(count, positions, self.heads, width // self.heads).transpose(1, 2)

        keys, values = self.to_keys_values(states).chunk(2, dim=-1)
        found = F.scaled_dot_product_attention(
            by_head(self.to_queries(states)), by_head(keys), by_head(values)
        )
        return self.project(found.transpose(1, 2).reshape(count, positions, width))


class _FeedForward(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, states: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(states)))


def read_mapper(path: Path, heads: int = PUBLISHED_HEADS) -> PrefixMapper:
    """Read a mapper from a checkpoint of ClipCap's published layout; nothing in it is executed.

    Its sizes are those of the tensors. A checkpoint of the whole captioner is taken too; what is not the
    mapper's (the language model's weights) is passed over.

    Args:
        path: a ``.pt`` file of plain tensors, or safetensors.
        heads: attention heads, which the file does not tell.

    Raises:
        ModelError: it is unsafe, damaged, or holds no transformer mapper.
    """
    tensors = read_weights(path)
    if any(name.startswith(OWNER) for name in tensors):
        tensors = {n.removeprefix(OWNER): v for n, v in tensors.items() if n.startswith(OWNER)}
    shape = _shape_of(tensors, path, heads)
    with Unfilled():
        mapper = PrefixMapper(shape)
    fit_weights(mapper, {name: tensor.float() for name, tensor in tensors.items()}, str(path))
    return mapper.eval().requires_grad_(False)


def _shape_of(tensors: Mapping[str, Tensor], path: Path, heads: int) -> MapperShape:
    """Return the sizes of a mapper from its tensors.

    Raises:
        ModelError: these are not the tensors of a transformer mapper.
    """
    const, linear = tensors.get("prefix_const"), tensors.get("linear.weight")
    inner = tensors.get("transformer.layers.0.mlp.fc1.weight")
    if const is None or linear is None or inner is None or {const.ndim, linear.ndim, inner.ndim} != {2}:
        kind = "ClipCap's MLP mapper, which" if "model.0.weight" in tensors else "which"
        raise ModelError(
            f"{path}: holds {kind} is not ClipCap's transformer mapper ({OWNER}prefix_const, "
            f"{OWNER}linear.weight, {OWNER}transformer.layers.*); train one with task: recap-mapper"
        )
    (prefix, width), (rows, features) = const.shape, linear.shape
    layers = {m[1] for m in map(re.compile(r"transformer\.layers\.(\d+)\.").match, tensors) if m}
    spread, rest = divmod(rows, width)
    if rest or not spread:
        raise ModelError(f"{path}: linear.weight has {rows} rows, which is no multiple of the width {width}")
    return MapperShape(features, width, prefix, spread, len(layers), inner.shape[0], heads)

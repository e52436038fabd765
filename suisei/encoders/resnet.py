"""CLIP's ResNet in plain PyTorch, for scoring with a model whose image tower it is.

With open_clip's names of the weights, and its numbers, but without importing open_clip, which takes
longer than scoring. Shape letters: I images, s side in pixels, d width of the features.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_EXPANSION = 4
_STRIDE = 32


def is_resnet(settings: Mapping[str, Any]) -> bool:
    """Return whether open_clip's ``vision_cfg`` describes what is built here."""
    layers = settings.get("layers")
    known = {"layers", "width", "image_size", "head_width"}
    return isinstance(layers, list | tuple) and set(settings) <= known and isinstance(settings["width"], int)


class ClipResNet(nn.Module):
    """A ResNet with a stem of three convolutions and pooling by attention (Radford et al., 2021, 2.4).

    Args:
        settings: open_clip's ``vision_cfg``, for which :func:`is_resnet` holds.
        features: width d of the output.
    """

    def __init__(self, settings: Mapping[str, Any], features: int) -> None:
        super().__init__()
        width, side = settings["width"], settings.get("image_size", 224)
        heads = width * _STRIDE // settings.get("head_width", 64)
        if not heads or width * _STRIDE % heads or side < _STRIDE or width < 2:
            raise ValueError(f"width {width}, head_width and image_size {side} do not go together")
        self.conv1, self.bn1 = _convolution(3, width // 2, 3, stride=2), nn.BatchNorm2d(width // 2)
        self.conv2, self.bn2 = _convolution(width // 2, width // 2, 3), nn.BatchNorm2d(width // 2)
        self.conv3, self.bn3 = _convolution(width // 2, width, 3), nn.BatchNorm2d(width)
        channels = width
        for stage, blocks in enumerate(settings["layers"]):
            inner, parts = width * 2**stage, []
            for block in range(blocks):
                parts.append(_Bottleneck(channels, inner, stride=2 if stage and not block else 1))
                channels = inner * _EXPANSION
            self.add_module(f"layer{stage + 1}", nn.Sequential(*parts))
        self.attnpool = _AttentionPool(side // _STRIDE, width * _STRIDE, heads, features)

    def forward(self, pixels: Tensor) -> Tensor:
        """Encode [I, 3, s, s] to [I, d]."""
        pooled: Tensor = self.attnpool(self.grid(pixels))
        return pooled

    def grid(self, pixels: Tensor) -> Tensor:
        """Return what is said of every place before it is pooled, [I, 32 width, s / 32, s / 32]."""
        for convolution, norm in ((self.conv1, self.bn1), (self.conv2, self.bn2), (self.conv3, self.bn3)):
            pixels = F.relu(norm(convolution(pixels)))
        states = F.avg_pool2d(pixels, 2)
        for stage in range(1, 5):
            states = self.get_submodule(f"layer{stage}")(states)
        return states


class _Bottleneck(nn.Module):
    def __init__(self, channels: int, inner: int, stride: int) -> None:
        super().__init__()
        outer = inner * _EXPANSION
        self.stride = stride
        self.conv1, self.bn1 = _convolution(channels, inner, 1), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = _convolution(inner, inner, 3), nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = _convolution(inner, outer, 1), nn.BatchNorm2d(outer)
        self.downsample: nn.Module = nn.Identity()
        if stride > 1 or channels != outer:
            parts: list[tuple[str, nn.Module]] = [
                ("-1", nn.AvgPool2d(stride)),
                ("0", _convolution(channels, outer, 1)),
                ("1", nn.BatchNorm2d(outer)),
            ]
            self.downsample = nn.Sequential(OrderedDict(parts))

    def forward(self, states: Tensor) -> Tensor:
        changed = F.relu(self.bn1(self.conv1(states)))
        changed = F.relu(self.bn2(self.conv2(changed)))
        if self.stride > 1:
            changed = F.avg_pool2d(changed, self.stride)
        return F.relu(self.bn3(self.conv3(changed)) + self.downsample(states))


class _AttentionPool(nn.Module):
    """Attention of the mean of all places to all places and itself."""

    def __init__(self, side: int, width: int, heads: int, features: int) -> None:
        super().__init__()
        self.heads = heads
        self.positional_embedding = nn.Parameter(torch.zeros(side * side + 1, width))
        self.k_proj, self.q_proj, self.v_proj = (nn.Linear(width, width) for _ in range(3))
        self.c_proj = nn.Linear(width, features)

    def forward(self, states: Tensor) -> Tensor:
        places = states.flatten(2).transpose(1, 2)  # [I, places, width]
        places = torch.cat([places.mean(dim=1, keepdim=True), places], dim=1) + self.positional_embedding
        split = (len(places), -1, self.heads, places.shape[-1] // self.heads)
        query = self.q_proj(places[:, :1]).view(split).transpose(1, 2)
        key, value = (part(places).view(split).transpose(1, 2) for part in (self.k_proj, self.v_proj))
        pooled: Tensor = self.c_proj(F.scaled_dot_product_attention(query, key, value).flatten(1))
        return pooled


def _convolution(channels: int, outer: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels, outer, size, stride=stride, padding=size // 2, bias=False)

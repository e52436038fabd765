"""EfficientNet-Lite0 in plain PyTorch, for scoring with a model whose image tower it is.

With the names of the weights that timm's has inside of open_clip's tower, and its numbers, but without
importing either, which takes longer than scoring. Tan and Le (2019), table 1, without squeeze-and-excitation
and with ReLU6, as published for devices with integer arithmetic; TensorFlow's padding.

Shape letters: I images, s side in pixels, d width of the features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

LITE = "tf_efficientnet_lite0"
"""timm's name of it."""
FEATURES = 1280
_STEM = 32
_EPSILON = 1e-3
"""Of the batch normalisation, as TensorFlow's."""


@dataclass(frozen=True)
class _Stage:
    """Blocks of one shape.

    Attributes:
        blocks: how many.
        size: side of the depthwise convolution.
        stride: of the first block.
        channels: of the output.
        expansion: of the channels inside a block.
    """

    blocks: int
    size: int
    stride: int
    channels: int
    expansion: int = 6


_STAGES = (
    _Stage(1, 3, 1, 16, expansion=1),
    _Stage(2, 3, 2, 24),
    _Stage(2, 5, 2, 40),
    _Stage(3, 3, 2, 80),
    _Stage(3, 5, 1, 112),
    _Stage(4, 5, 2, 192),
    _Stage(1, 3, 1, 320),
)


def is_lite(settings: Mapping[str, Any]) -> bool:
    """Return whether open_clip's ``vision_cfg`` describes what is built here."""
    pooled = settings.get("timm_pool") == "avg" and settings.get("timm_proj") == "none"
    return settings.get("timm_model_name") == LITE and pooled


class EfficientNetLite(nn.Module):
    """The tower: its features, pooled by the mean."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = _Trunk()

    def forward(self, pixels: Tensor) -> Tensor:
        """Encode [I, 3, s, s] to [I, d]."""
        return self.grid(pixels).mean(dim=(2, 3))

    def grid(self, pixels: Tensor) -> Tensor:
        """Return what is said of every place before it is pooled, [I, 1280, s / 32, s / 32]."""
        states: Tensor = self.trunk(pixels)
        return states


class _Trunk(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv_stem, self.bn1 = _Convolution(3, _STEM, 3, stride=2), _norm(_STEM)
        channels, stages = _STEM, []
        for stage in _STAGES:
            blocks: list[nn.Module] = []
            for number in range(stage.blocks):
                blocks.append(_block(channels, stage, 1 if number else stage.stride))
                channels = stage.channels
            stages.append(nn.Sequential(*blocks))
        self.blocks = nn.Sequential(*stages)
        self.conv_head, self.bn2 = _Convolution(channels, FEATURES, 1), _norm(FEATURES)

    def forward(self, pixels: Tensor) -> Tensor:
        states = self.blocks(F.relu6(self.bn1(self.conv_stem(pixels))))
        return F.relu6(self.bn2(self.conv_head(states)))


class _Separable(nn.Module):
    """A depthwise convolution, and one over channels; the block of the first stage."""

    def __init__(self, channels: int, outer: int, size: int, stride: int) -> None:
        super().__init__()
        self.kept = stride == 1 and channels == outer
        self.conv_dw = _Convolution(channels, channels, size, stride, groups=channels)
        self.bn1 = _norm(channels)
        self.conv_pw, self.bn2 = _Convolution(channels, outer, 1), _norm(outer)

    def forward(self, states: Tensor) -> Tensor:
        changed: Tensor = self.bn2(self.conv_pw(F.relu6(self.bn1(self.conv_dw(states)))))
        return changed + states if self.kept else changed


class _Inverted(nn.Module):
    """The same within more channels: an inverted residual."""

    def __init__(self, channels: int, inner: int, outer: int, size: int, stride: int) -> None:
        super().__init__()
        self.kept = stride == 1 and channels == outer
        self.conv_pw, self.bn1 = _Convolution(channels, inner, 1), _norm(inner)
        self.conv_dw, self.bn2 = _Convolution(inner, inner, size, stride, groups=inner), _norm(inner)
        self.conv_pwl, self.bn3 = _Convolution(inner, outer, 1), _norm(outer)

    def forward(self, states: Tensor) -> Tensor:
        changed = F.relu6(self.bn1(self.conv_pw(states)))
        changed = self.bn3(self.conv_pwl(F.relu6(self.bn2(self.conv_dw(changed)))))
        return changed + states if self.kept else changed


class _Convolution(nn.Conv2d):
    """A convolution to 1 / stride of the input's places, rounded up; an odd row of padding comes last."""

    def __init__(self, channels: int, outer: int, size: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(channels, outer, size, stride=stride, groups=groups, bias=False)

    def forward(self, states: Tensor) -> Tensor:
        size, stride = self.kernel_size[0], self.stride[0]
        missing = [max((-(-side // stride) - 1) * stride + size - side, 0) for side in states.shape[:1:-1]]
        if any(missing):
            states = F.pad(states, [part for own in missing for part in (own // 2, own - own // 2)])
        return super().forward(states)


def _block(channels: int, stage: _Stage, stride: int) -> nn.Module:
    if stage.expansion == 1:
        return _Separable(channels, stage.channels, stage.size, stride)
    return _Inverted(channels, channels * stage.expansion, stage.channels, stage.size, stride)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=_EPSILON)

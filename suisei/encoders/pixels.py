"""Preprocessing of images: CLIP's with Pillow and torch alone, any other with open_clip."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)
"""Of the three channels, in OpenAI's training data; open_clip's defaults."""


def preprocess_pixels(
    image: Image.Image, side: int, mean: Sequence[float] = MEAN, std: Sequence[float] = STD
) -> Tensor:
    """Return float32 [3, side, side]: the shorter side resized bicubically, the centre cut out, normalised.

    The same pixels as open_clip's transform gives, which needs torchvision.
    """
    width, height = image.size
    if min(width, height) != side:
        longer = int(side * max(width, height) / min(width, height))
        width, height = (side, longer) if width <= height else (longer, side)
        image = image.resize((width, height), Image.Resampling.BICUBIC)
    left, top = round((width - side) / 2.0), round((height - side) / 2.0)
    image = image.crop((left, top, left + side, top + side)).convert("RGB")
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().float().div_(255)
    return pixels.sub_(torch.tensor(mean)[:, None, None]).div_(torch.tensor(std)[:, None, None])


def open_clip_transform(settings: Mapping[str, Any]) -> Callable[[Any], Tensor]:
    """Return open_clip's own preprocessing: PIL image -> float32 [3, height, width].

    Args:
        settings: of open_clip's ``PreprocessCfg``; what is left out is as open_clip has it.
    """
    from open_clip.transform import PreprocessCfg, image_transform_v2

    transform: Callable[[Any], Tensor] = image_transform_v2(PreprocessCfg(**settings), is_train=False)
    return transform

"""Preprocessing of images: CLIP's with Pillow and NumPy alone, any other with open_clip."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
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

    The same numbers as open_clip's transform gives, to the last bit, without torchvision. The arithmetic is
    NumPy's, on one array: torch would take threads of its own for it in every thread that decodes.
    """
    image = _centre(image, side)
    pixels = np.empty((3, side, side), dtype=np.float32)
    pixels[...] = np.asarray(image).transpose(2, 0, 1)
    pixels /= 255
    pixels -= np.array(mean, dtype=np.float32).reshape(-1, 1, 1)
    pixels /= np.array(std, dtype=np.float32).reshape(-1, 1, 1)
    return torch.from_numpy(pixels)


def _centre(image: Image.Image, side: int) -> Image.Image:
    """Return the square at the centre in RGB, the image itself where it is that."""
    width, height = image.size
    if min(width, height) != side:
        longer = int(side * max(width, height) / min(width, height))
        width, height = (side, longer) if width <= height else (longer, side)
        image = image.resize((width, height), Image.Resampling.BICUBIC)
    if width != height:
        left, top = round((width - side) / 2.0), round((height - side) / 2.0)
        image = image.crop((left, top, left + side, top + side))
    return image if image.mode == "RGB" else image.convert("RGB")


def model_transform(settings: Mapping[str, Any]) -> Callable[[Any], Tensor]:
    """Return a model's preprocessing: PIL image -> float32 [3, height, width], open_clip's only if need be.

    Args:
        settings: of open_clip's ``PreprocessCfg``, ``size`` among them; what else is left out or null is as
            open_clip has it.
    """
    size = settings["size"]
    sides = {size} if isinstance(size, int) else set(size)
    steps = settings.get("interpolation") or "bicubic", settings.get("resize_mode") or "shortest"
    if steps == ("bicubic", "shortest") and len(sides) == 1:
        mean, std = settings.get("mean") or MEAN, settings.get("std") or STD
        return partial(preprocess_pixels, side=sides.pop(), mean=mean, std=std)
    return open_clip_transform(settings)


def open_clip_transform(settings: Mapping[str, Any]) -> Callable[[Any], Tensor]:
    """Return open_clip's own preprocessing: PIL image -> float32 [3, height, width].

    Args:
        settings: of open_clip's ``PreprocessCfg``; what is left out is as open_clip has it.
    """
    from open_clip.transform import PreprocessCfg, image_transform_v2

    transform: Callable[[Any], Tensor] = image_transform_v2(PreprocessCfg(**settings), is_train=False)
    return transform

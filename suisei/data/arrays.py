"""Images as a caller has them: paths, PIL images, and arrays or tensors, which become PIL images."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from suisei.data.image_bytes import ImageBytes
from suisei.data.images import max_pixels
from suisei.errors import DataError

SHAPES = (
    "give a PIL image, a NumPy array of uint8 [height, width, 3] or [height, width], or a torch tensor "
    "[3, height, width] of uint8 or of floats in [0, 1]"
)

ENCODED = (
    "of the bytes of a file make suisei.data.image_bytes.ImageBytes(name, content) or "
    "PIL.Image.open(io.BytesIO(content))"
)


def as_source(image: Any) -> str | Path | Image.Image | ImageBytes:
    """Return an image as a path or a PIL image; arrays and tensors become PIL images.

    Raises:
        DataError: it is something else, or an array that is no image.
    """
    if isinstance(image, str):
        if not image.strip():
            raise DataError("image is an empty path; leave it out where there is no image")
        return image
    if isinstance(image, Path | Image.Image | ImageBytes):
        return image
    if isinstance(image, np.ndarray) or is_tensor(image):
        return image_of(image)
    raise DataError(f"image must be a path or an image, got {type(image).__name__}; {SHAPES}; {ENCODED}")


def is_tensor(value: Any) -> bool:
    """Return whether a value is a torch tensor; torch is not imported for it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def image_of(array: Any) -> Image.Image:
    """Return a PIL image with a copy of the pixels of a NumPy array or a torch tensor.

    Raises:
        DataError: another shape or type, no pixels, too many, NaN, or floats outside [0, 1].
    """
    kind, shape = ("a tensor" if is_tensor(array) else "an array"), tuple(array.shape)
    if is_tensor(array):
        fits = len(shape) == 3 and shape[0] == 3
        height, width = shape[1:] if fits else (0, 0)
    else:
        fits = len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)
        height, width = shape[:2] if fits else (0, 0)
    if not fits:
        raise DataError(f"the image is {kind} of shape {shape}; {SHAPES}")
    if not height or not width:
        raise DataError(f"the image is {kind} of shape {shape}, which has no pixels")
    if height * width > max_pixels():
        raise DataError(
            f"the image is {kind} of {width} x {height} pixels; the limit is {max_pixels():,} pixels"
        )
    pixels = _bytes_of_tensor(array) if is_tensor(array) else array
    if pixels.dtype != np.uint8:
        raise DataError(f"the image is an array of {pixels.dtype}; {SHAPES}")
    return Image.fromarray(np.array(pixels, order="C"))


def _bytes_of_tensor(tensor: Any) -> np.ndarray:
    """Return uint8 [height, width, 3] of a tensor [3, height, width]."""
    tensor = tensor.detach().cpu()
    if tensor.is_floating_point():
        if not bool(((tensor >= 0) & (tensor <= 1)).all()):  # NaN is neither
            raise DataError("the image is a tensor with NaN or values outside [0, 1]; scale it to [0, 1]")
        tensor = (tensor.float() * 255).round().byte()
    if str(tensor.dtype) != "torch.uint8":
        raise DataError(f"the image is a tensor of {tensor.dtype}; {SHAPES}")
    return tensor.permute(1, 2, 0).numpy()

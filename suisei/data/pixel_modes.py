"""What the pixels of an image mean, whatever its format: as RGB of 8 bits, a part at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from PIL import Image

from suisei.errors import DataError

_STRIP = 4_000_000  # pixels of a part that is converted or hashed at a time
_IN_16_BITS = ("PNG", "PPM")
"""Formats of which Pillow reads 16 bits into 32, and fewer of PPM scaled to 16."""
_BITS, _PHOTOMETRIC = 258, 262
"""Tags of TIFF: bits of a sample, and whether 0 is white."""


def as_rgb(image: Image.Image, name: str) -> Image.Image:
    """Return an image in RGB: 16 bits scaled to 8, what is transparent on white.

    Raises:
        DataError: the range of its pixels is not known.
    """
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in _IN_16_BITS):
        tags = getattr(image, "tag_v2", {})
        bits, white_is_zero = int(np.max(tags.get(_BITS, 16))), tags.get(_PHOTOMETRIC) == 0
        return _joined(image, partial(_from_16_bits, most=2**bits - 1, inverted=white_is_zero))
    if image.mode in ("I", "F"):
        raise DataError(
            f"{name}: pixels are {'32-bit integers' if image.mode == 'I' else 'floats'} of unknown range; "
            "save the image with 8 bits per channel"
        )
    if image.has_transparency_data:
        return _joined(image, _on_white)
    return image if image.mode == "RGB" else image.convert("RGB")


def _joined(image: Image.Image, convert: Callable[[Image.Image], Image.Image]) -> Image.Image:
    """Return an RGB image of converted strips: a large one needs little memory beside itself."""
    result = Image.new("RGB", image.size)
    top = 0
    for strip in strips(image):
        result.paste(convert(strip), (0, top))
        top += strip.height
    return result


def _on_white(image: Image.Image) -> Image.Image:
    # Pillow makes RGBA of every mode but grey whose alpha is multiplied in
    layer = (image.convert("LA") if image.mode == "La" else image).convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")


def _from_16_bits(image: Image.Image, most: int, inverted: bool) -> Image.Image:
    # Pillow's own conversion cuts everything above 255 off instead of scaling it.
    grey = np.asarray(image).astype(np.uint32)
    scaled = (np.minimum(grey, most) * 255 + most // 2) // most
    scaled = (255 - scaled if inverted else scaled).astype(np.uint8)
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):
        scaled[grey == transparent] = 255
    return Image.fromarray(scaled).convert("RGB")


def strips(image: Image.Image) -> Iterator[Image.Image]:
    """Yield an image in parts of full width, from the top."""
    height = max(1, _STRIP // image.width)
    for top in range(0, image.height, height):
        yield image.crop((0, top, image.width, min(top + height, image.height)))

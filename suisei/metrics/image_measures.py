"""How alike two images are, by the measures of the library piq: SSIM, MS-SSIM, VIF, GMSD and FSIM.

Shape letters: N images, H and W their height and width in pixels.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from suisei.errors import ConfigError
from suisei.metrics.base import given_as

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

FITS = ("crop", "stretch")


@dataclass(frozen=True, slots=True)
class ImageMeasure:
    """One measure of piq.

    Attributes:
        function: its name in piq.
        least: shortest side, in pixels, that it can compare.
        higher_is_better: False for a distance.
        options: what the function is called with.
    """

    function: str
    least: int
    higher_is_better: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)


MEASURES: dict[str, ImageMeasure] = {
    "ssim": ImageMeasure("ssim", 11),
    "ms-ssim": ImageMeasure("multi_scale_ssim", 161),
    "vif": ImageMeasure("vif_p", 41),
    "gmsd": ImageMeasure("gmsd", 8, higher_is_better=False),
    "fsim": ImageMeasure("fsim", 16, options={"chromatic": True}),
}
"""By name. SSIM is in [-1, 1], MS-SSIM and FSIM in [0, 1], VIF at least 0 and 1 for equal images; GMSD is a
distance, 0 for equal images. All are symmetric but VIF, whose second image is the original."""


def compared_size(drawn: Image, size: int | None, name: str, metric: str = "recap") -> tuple[int, int]:
    """Return width and height that both images are brought to.

    Args:
        drawn: the generated image.
        size: of both sides in pixels; None for the generated image's own.
        name: of the measure.
        metric: whose option enlarges them.

    Raises:
        ConfigError: the measure cannot compare images so small.
    """
    compared = (size, size) if size is not None else drawn.size
    check_size(compared, name, metric)
    return compared


def check_size(size: tuple[int, int], name: str, metric: str = "recap") -> None:
    """Refuse a width and a height at which a measure cannot compare.

    Raises:
        ConfigError: one is too small; the option that enlarges both is named.
    """
    (width, height), least = size, MEASURES[name].least
    if min(width, height) < least:
        raise ConfigError(
            f"{metric}:{name} compares images of at least {least} x {least} pixels, and these have {width} x "
            f"{height}; have both enlarged: {given_as(f'{metric}.size={max(256, least)}')}"
        )


def as_pixels(image: Image, size: tuple[int, int], fit: str) -> Tensor:
    """Return an RGB image as float32 [3, H, W] in [0, 1].

    Args:
        image: the image.
        size: width and height that it is brought to, by bicubic interpolation.
        fit: "crop" keeps its proportions and cuts off what sticks out, evenly on both sides; "stretch" keeps
            everything.
    """
    import torch
    from PIL import ImageOps
    from PIL.Image import Resampling

    if image.size != size:
        if fit == "crop":
            image = ImageOps.fit(image, size, Resampling.BICUBIC)
        else:
            image = image.resize(size, Resampling.BICUBIC)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255


def image_similarity(name: str, drawn: Tensor, originals: Tensor, device: str = "cpu") -> np.ndarray:
    """Return a measure of N pairs of images, float64 [N]; NaN where it is not defined.

    Args:
        name: of MEASURES.
        drawn: float32 [N, 3, H, W] in [0, 1].
        originals: likewise, of the same size.
        device: where it is computed.
    """
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # it uses what torch will one day do without
        import piq

    measure = MEASURES[name]
    with torch.inference_mode():
        found = getattr(piq, measure.function)(
            drawn.to(device), originals.to(device), data_range=1.0, reduction="none", **measure.options
        )
    return found.double().cpu().numpy()

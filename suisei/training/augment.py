"""Training images changed at random, so that a tower learns what they show and not their pixels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from suisei.ranges import DROPOUT, Range, Rule, check_settings

AUGMENTATION: dict[str, Rule] = {"smallest_crop": Range(0, 1, above=True), "jitter": DROPOUT}


@dataclass
class Augmentation:
    """How training images are changed at random where a tower learns; half of them are mirrored too.

    Attributes:
        smallest_crop: least share of an image's area that a crop keeps.
        jitter: largest change of contrast, as a share of it, and of brightness, in standard deviations; 0 for
            none.
    """

    smallest_crop: float = 0.5
    jitter: float = 0.2

    def __post_init__(self) -> None:
        check_settings("model.augmentation", self, AUGMENTATION)

    def __call__(self, pixels: Tensor) -> Tensor:
        """Return changed images, float [B, 3, s, s]."""
        return random_contrast(random_crops(pixels, self.smallest_crop), self.jitter)


def random_crops(pixels: Tensor, smallest: float = 0.5) -> Tensor:
    """Crop each image at random, keeping between ``smallest`` and all of its area, and mirror half of them.

    Args:
        pixels: float [N, 3, s, s].
        smallest: least share of the area.

    Returns:
        float [N, 3, s, s].
    """
    count, device = len(pixels), pixels.device
    side = (smallest + (1 - smallest) * torch.rand(count, 2, device=device)).sqrt()
    shift = (torch.rand(count, 2, device=device) * 2 - 1) * (1 - side)
    mirror = torch.where(torch.rand(count, device=device) < 0.5, -1.0, 1.0)
    affine = torch.zeros(count, 2, 3, device=device, dtype=pixels.dtype)
    affine[:, 0, 0], affine[:, 1, 1] = side[:, 0] * mirror, side[:, 1]
    affine[:, :, 2] = shift
    grid = F.affine_grid(affine, list(pixels.shape), align_corners=False)
    return F.grid_sample(pixels, grid, padding_mode="reflection", align_corners=False)


def random_contrast(pixels: Tensor, amount: float) -> Tensor:
    """Change contrast and brightness of each image at random.

    Args:
        pixels: normalised, float [N, 3, s, s].
        amount: contrast is multiplied by 1 - amount to 1 + amount, and as much is added to the pixels at
            most; 0 changes nothing.
    """
    if not amount:
        return pixels
    contrast, brightness = amount * (2 * torch.rand(2, len(pixels), 1, 1, 1, device=pixels.device) - 1)
    mean = pixels.mean(dim=(1, 2, 3), keepdim=True)
    return (pixels - mean) * (1 + contrast) + mean + brightness

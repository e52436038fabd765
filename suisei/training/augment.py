"""Training images changed at random, so that a tower learns what they show and not their pixels."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


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

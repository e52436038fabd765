"""Random changes of training images."""

import torch

from suisei.training.augment import random_contrast, random_crops


def test_contrast_and_brightness_change_each_image_on_its_own():
    torch.manual_seed(0)
    pixels = torch.randn(8, 3, 4, 4)
    changed = random_contrast(pixels, 0.2)
    ratio = changed.std(dim=(1, 2, 3)) / pixels.std(dim=(1, 2, 3))
    shift = (changed - pixels).mean(dim=(1, 2, 3))
    assert float(ratio.min()) >= 0.8 - 1e-6
    assert float(ratio.max()) <= 1.2 + 1e-6
    assert float(shift.abs().max()) <= 0.2 + 1e-6
    assert len({round(float(value), 6) for value in [*ratio, *shift]}) == 16
    assert random_contrast(pixels, 0.0) is pixels


def test_random_crops_stay_inside_the_image():
    torch.manual_seed(0)
    pixels = torch.linspace(0, 1, 32).expand(16, 3, 32, 32)
    crops = random_crops(pixels)
    assert crops.shape == pixels.shape
    assert float(crops.min()) >= -1e-6
    assert float(crops.max()) <= 1 + 1e-6
    mirrored = crops[:, 0, 0, 0] > crops[:, 0, 0, -1]
    assert 0 < mirrored.sum() < 16

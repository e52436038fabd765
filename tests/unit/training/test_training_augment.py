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
    across = torch.linspace(0, 1, 32).expand(64, 3, 32, 32)
    for pixels, axis in ((across, 3), (across.transpose(2, 3), 2)):
        crops = random_crops(pixels, 0.25)
        assert crops.shape == pixels.shape
        steps = crops.diff(dim=axis).narrow(axis, 1, 29)  # at its very edge, a pixel is half beyond the image
        risen = (steps > 0).flatten(1).all(dim=1)  # beyond the image a ramp would turn back
        fallen = (steps < 0).flatten(1).all(dim=1)
        assert (risen ^ fallen).all()
        assert 0 < fallen.sum() < 64 if axis == 3 else risen.all()  # mirrored, never turned upside down
        side = steps.abs().flatten(1).mean(dim=1) * 31  # of the image's
        assert 0.5 - 0.02 <= float(side.min()) < 0.7
        assert 0.9 < float(side.max()) <= 1 + 0.02

"""Comparison of images: piq's numbers, on images brought to one size on purpose."""

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("piq", reason="needs the extra recap")
import piq
import torch

from suisei.errors import ConfigError
from suisei.metrics.image_measures import MEASURES, as_pixels, compared_size, image_similarity

DIRECT = {
    "ssim": lambda x, y: piq.ssim(x, y),
    "ms-ssim": lambda x, y: piq.multi_scale_ssim(x, y),
    "vif": lambda x, y: piq.vif_p(x, y),
    "gmsd": lambda x, y: piq.gmsd(x, y),
    "fsim": lambda x, y: piq.fsim(x, y),
}


@pytest.mark.parametrize("name", MEASURES)
def test_measures_are_those_of_piq_pair_by_pair(name):
    torch.manual_seed(0)
    drawn = torch.rand(3, 3, 176, 168)
    originals = (drawn + torch.tensor([0.05, 0.2, 0.5])[:, None, None, None] * torch.randn_like(drawn)).clamp(
        0, 1
    )
    found = image_similarity(name, drawn, originals)
    alone = [DIRECT[name](drawn[i : i + 1], originals[i : i + 1]).item() for i in range(3)]
    np.testing.assert_allclose(found, alone, rtol=1e-4, atol=1e-6)
    quality = found if MEASURES[name].higher_is_better else -found
    assert (np.diff(quality) < 0).all()  # the more noise, the worse
    same = image_similarity(name, drawn, drawn)
    np.testing.assert_allclose(same, 1.0 if MEASURES[name].higher_is_better else 0.0, atol=1e-4)


@pytest.mark.parametrize("name", MEASURES)
def test_the_least_size_is_one_that_piq_can_do(name):
    least = MEASURES[name].least
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (least, least, 3), dtype=np.uint8))
    size = compared_size(image, None, name)
    assert size == (least, least)
    pixels = as_pixels(image, size, "crop")[None]
    assert np.isfinite(image_similarity(name, pixels, pixels.flip(-1))).all()
    with pytest.raises(
        ConfigError, match=rf"recap:{name} compares images of at least {least}.*recap\.size=256"
    ):
        compared_size(image.resize((least - 1, least)), None, name)
    with pytest.raises(ConfigError, match="enlarged"):
        compared_size(image, least - 1, name)


def test_images_are_cropped_or_stretched_to_the_size():
    image = Image.new("RGB", (40, 20), "red")
    image.paste((0, 0, 255), (10, 0, 30, 20))  # the middle square is blue
    cropped = as_pixels(image, (20, 20), "crop")
    assert cropped.shape == (3, 20, 20)
    assert cropped.mean(dim=(1, 2)).tolist() == pytest.approx([0, 0, 1], abs=0.05)
    stretched = as_pixels(image, (20, 20), "stretch")
    assert stretched.mean(dim=(1, 2)).tolist() == pytest.approx([0.5, 0, 0.5], abs=0.05)
    small = as_pixels(image, (4, 3), "stretch")
    assert small.shape == (3, 3, 4)
    assert 0 <= small.min() <= small.max() <= 1
    exact = as_pixels(image, (40, 20), "crop")
    assert torch.equal(exact[:, 0, 15], torch.tensor([0.0, 0, 1]))

"""Pixels of images: those of torchvision's ToTensor and Normalize to the last bit, without them."""

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from torchvision.transforms import Normalize, ToTensor

from suisei.data.images import load_image, read_image
from suisei.encoders.dual_loading import load_dual_encoder
from suisei.encoders.image import ImageEncoder, ImageEncoderConfig
from suisei.encoders.pixels import MEAN, STD, model_transform, preprocess_pixels
from tests.unit.data.noisy import noise

IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HALVES = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)


@pytest.mark.parametrize(("mean", "std"), [(MEAN, STD), IMAGENET, HALVES])
def test_all_values_are_those_of_torchvision(mean, std):
    values = np.arange(256, dtype=np.uint8).reshape(16, 16)
    image = Image.fromarray(np.stack([values, values[::-1], values.T], axis=-1))
    found = preprocess_pixels(image, 16, mean, std)
    assert torch.equal(found, Normalize(mean, std)(ToTensor()(image)))
    assert found.is_contiguous()


def in_mode(mode):
    if mode == "I;16":
        return Image.fromarray((np.arange(60 * 40).reshape(40, 60) * 27).astype(np.uint16))
    image = noise()
    if mode in ("LA", "RGBA"):
        image.putalpha(Image.linear_gradient("L").resize(image.size))
    return image.convert(mode)


@pytest.mark.parametrize(
    ("mode", "suffix"),
    [
        *(("RGB", suffix) for suffix in ("jpg", "png", "webp", "bmp")),
        *(("L", "jpg"), ("CMYK", "jpg"), ("RGBA", "png"), ("LA", "png"), ("P", "png"), ("P", "gif")),
        *(("1", "png"), ("I;16", "png"), ("I;16", "tif")),
    ],
)
def test_files_of_all_kinds_give_the_pixels_of_open_clip(tmp_path, mode, suffix):
    in_mode(mode).save(tmp_path / f"a.{suffix}")
    expected = open_clip.image_transform(32, is_train=False)(load_image(tmp_path / f"a.{suffix}"))
    found = read_image(tmp_path / f"a.{suffix}", model_transform({"size": 32}))
    assert torch.equal(found, expected)


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "1"])
def test_an_image_that_is_not_rgb_yet_becomes_so_as_with_open_clip(mode):
    image = in_mode(mode)
    before = image.tobytes()
    assert torch.equal(preprocess_pixels(image, 32), open_clip.image_transform(32, is_train=False)(image))
    square = image.crop((0, 0, 32, 32))
    assert torch.equal(preprocess_pixels(square, 32), open_clip.image_transform(32, is_train=False)(square))
    assert (image.mode, image.tobytes()) == (mode, before)


def test_the_usual_pixels_are_made_without_torch_and_torchvision(tiny_clip, monkeypatch):
    tower = ImageEncoder.create(ImageEncoderConfig(name="tiny", frozen=False))
    encoder = load_dual_encoder(str(tiny_clip), seed=0, device="cpu")
    expected = open_clip.image_transform(encoder.transform.side, is_train=False)(noise())
    monkeypatch.setattr("torchvision.transforms.functional.to_tensor", None)
    for operation in ("sub_", "div_", "float", "contiguous"):  # each would be shared among threads of torch's
        monkeypatch.setattr(torch.Tensor, operation, None)
    tower.preprocess(noise())
    assert torch.equal(encoder.transform(noise()), expected)


@pytest.mark.parametrize(
    "change", [{"resize_mode": "squash"}, {"interpolation": "bilinear"}, {"size": (32, 24)}]
)
def test_unusual_pixels_are_those_of_open_clip(change):
    settings = {"size": [32, 32], **change}
    transform = open_clip.transform.image_transform_v2(
        open_clip.transform.PreprocessCfg(**settings), is_train=False
    )
    assert torch.equal(model_transform(settings)(noise()), transform(noise()))


@pytest.mark.realdata
def test_real_photographs_give_the_pixels_of_open_clip(shared):
    files = sorted((shared / "data" / "flickr8k" / "Flicker8k_Dataset").glob("*.jpg"))[::200]
    assert files
    for side in (224, 160):
        theirs = open_clip.image_transform(side, is_train=False)
        ours = model_transform({"size": side})
        assert all(torch.equal(read_image(file, ours), theirs(load_image(file))) for file in files)

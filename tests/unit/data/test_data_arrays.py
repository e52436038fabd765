"""Images as arrays and tensors: the same pixels as the PIL image, or refused."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from suisei.data.image_bytes import ImageBytes
from suisei.data.images import load_image
from suisei.data.sample import CaptionSample
from suisei.errors import DataError

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)


def shown(image):
    found = CaptionSample("a", image=image).image
    assert isinstance(found, Image.Image)
    return np.asarray(found)


@pytest.mark.parametrize(
    "image",
    [
        PIXELS,
        np.asfortranarray(PIXELS),
        np.repeat(PIXELS, 2, axis=1)[:, ::2],
        torch.from_numpy(PIXELS).permute(2, 0, 1),
        torch.from_numpy(PIXELS).permute(2, 0, 1).float() / 255,
        torch.from_numpy(PIXELS).permute(2, 0, 1).double().requires_grad_(False) / 255,
    ],
)
def test_pixels_come_through(image):
    assert np.array_equal(shown(image), PIXELS)


def test_grey_pixels_come_through():
    assert np.array_equal(shown(PIXELS[..., 0]), PIXELS[..., 0])


def test_changing_the_array_later_changes_nothing():
    array = PIXELS.copy()
    sample = CaptionSample("a", image=array)
    array[:] = 0
    assert np.array_equal(np.asarray(sample.image), PIXELS)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (PIXELS.astype(float), "array of float64; give"),
        (PIXELS > 3, "array of bool"),
        (PIXELS.transpose(2, 0, 1), r"shape \(3, 4, 6\)"),
        (PIXELS[None], r"is an array of shape \(1, 4, 6, 3\)"),
        (np.zeros((4, 6, 4), np.uint8), r"shape \(4, 6, 4\)"),
        (np.zeros(5, np.uint8), r"shape \(5,\)"),
        (np.array(3, np.uint8), r"shape \(\)"),
        (np.zeros((0, 6, 3), np.uint8), "no pixels"),
        (np.broadcast_to(np.uint8(0), (10**6, 10**6)), "the limit is 100,000,000 pixels"),
        (np.array([["a"]]), "array of <U1"),
        (torch.zeros(4, 6, 3), r"tensor of shape \(4, 6, 3\)"),
        (torch.zeros(4, 6), r"is a tensor of shape \(4, 6\)"),
        (torch.full((3, 4, 6), torch.nan), "NaN or values outside"),
        (torch.full((3, 4, 6), 255.0), "scale it to"),
        (torch.zeros(3, 4, 6, dtype=torch.int64), r"tensor of torch\.int64"),
        (torch.zeros(3, 0, 6), "no pixels"),
        (b"a.png", "image must be a path or an image, got bytes"),
        (3, "got int"),
        (float("nan"), "got float"),
        ({"path": "a.png"}, "got dict"),
        ("", "empty path"),
    ],
)
def test_what_is_no_image_is_refused(image, message):
    with pytest.raises(DataError, match=message):
        CaptionSample("a", image=image)


def test_bytes_of_a_file_are_refused_with_what_to_make_of_them():
    stream = io.BytesIO()
    Image.fromarray(PIXELS).save(stream, "PNG")
    content = stream.getvalue()
    for given in (content, bytearray(content), {"bytes": content, "path": None}, io.BytesIO(content)):
        with pytest.raises(DataError) as caught:
            CaptionSample("a", image=given)
        assert "suisei.data.image_bytes.ImageBytes(name, content)" in str(caught.value)
        assert "PIL.Image.open(io.BytesIO(content))" in str(caught.value)
    assert np.array_equal(load_image(CaptionSample("a", image=ImageBytes("a.png", content)).image), PIXELS)
    assert np.array_equal(shown(Image.open(io.BytesIO(content))), PIXELS)

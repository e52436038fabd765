"""Small images of one colour, and what an encoder might make of them."""

import numpy as np
import torch
from PIL import Image

COLOURS = ("red", "green", "blue")


def image(number):
    return Image.new("RGB", (4 + number, 4), COLOURS[number])


def pixels_of(picture):
    return torch.from_numpy(np.asarray(picture)[0, :1].astype(np.float32)).permute(1, 0)[..., None]

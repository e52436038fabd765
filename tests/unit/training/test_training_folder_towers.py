import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from suisei.data.images import read_image
from suisei.encoders.dual_loading import load_dual_encoder
from suisei.training.folder_towers import tower_of_folder
from tests.unit.tiny_models import write_clip


@pytest.fixture(scope="module")
def dual(tmp_path_factory):
    return write_clip(tmp_path_factory.mktemp("dual") / "model")


@pytest.mark.parametrize(
    "prepared",
    [
        {},
        {"resize_mode": "longest", "fill_color": 128},
        {"resize_mode": "squash", "interpolation": "bilinear"},
        {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]},
    ],
)
@pytest.mark.parametrize("size", [(300, 200), (64, 64), (1000, 33)])
def test_a_tower_taken_from_a_dual_encoder_gets_the_pixels_that_the_encoder_gets(
    dual, prepared, size, tmp_path
):
    folder = shutil.copytree(dual, tmp_path / "model")
    path = folder / "open_clip_config.json"
    described = json.loads(path.read_text())
    path.write_text(json.dumps({**described, "preprocess_cfg": prepared}))
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    image = Image.fromarray(noise)
    whole = load_dual_encoder(str(folder), precision="fp32", device="cpu")
    tower = tower_of_folder(str(folder), "model.tower.name")
    torch.testing.assert_close(
        read_image(image, tower.preprocess), read_image(image, whole.transform), rtol=0, atol=1e-6
    )

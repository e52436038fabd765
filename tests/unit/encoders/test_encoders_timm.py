"""timm's architectures as image towers: their width, whatever stands in their heads."""

import pytest
import timm
import torch

from suisei.captioning.grid_tower import TowerConfig, create_image_encoder
from suisei.encoders.dual_folder import new_dual_encoder
from suisei.encoders.image import ImageEncoder, ImageEncoderConfig
from suisei.encoders.timm_tower import timm_architecture
from suisei.encoders.weights import save_weights
from suisei.errors import ConfigError

WIDTHS = {
    "mobilenetv3_small_050": 1024,
    "mobilenetv4_conv_small": 1280,
    "ghostnet_100": 1280,
    "lcnet_050": 1280,
    "hardcorenas_a": 1280,
    "hgnetv2_b0": 2048,
    "efficientvit_b0": 1280,
    "mambaout_femto": 1152,
    "tinynet_e": 1280,
    "resnet10t": 512,
    "convnext_atto": 320,
}
"""Features of architectures with a layer after the pooling, and of three without."""
TEXT = {"context_length": 8, "width": 16, "heads": 1, "layers": 1}


def described(pool, projection, width):
    vision = {"timm_model_name": "lcnet_050", "timm_pool": pool, "timm_proj": projection, "image_size": 32}
    return {"embed_dim": width, "vision_cfg": vision, "text_cfg": TEXT}


@pytest.mark.parametrize(("architecture", "width"), WIDTHS.items())
def test_the_width_is_that_of_the_features(architecture, width):
    encoder = ImageEncoder.from_architecture(timm_architecture(f"timm:{architecture}")).eval()
    assert encoder.width == width
    with torch.inference_mode():
        assert encoder(torch.zeros(2, 3, 64, 64)).shape == (2, width)


def test_a_widened_tower_takes_timm_s_file(tmp_path):
    trunk = timm.create_model("lcnet_050")
    save_weights(trunk.state_dict(), tmp_path / "lcnet.safetensors")
    encoder = ImageEncoder.create(ImageEncoderConfig("timm:lcnet_050", str(tmp_path / "lcnet.safetensors")))
    assert torch.equal(encoder.tower.trunk.conv_head.weight, trunk.conv_head.weight)


def test_null_is_for_random_weights_that_learn():
    config = ImageEncoderConfig("timm:lcnet_050", None, frozen=False)
    assert ImageEncoder.create(config).width == 1280
    frozen = ImageEncoderConfig("timm:lcnet_050", None)
    assert ImageEncoder.create(frozen, trained_first=True).width == 1280
    with pytest.raises(ConfigError, match=r"timm:lcnet_050 image encoder starts from random weights: set"):
        ImageEncoder.create(frozen)
    with pytest.raises(ConfigError, match=r"model\.image\.pretrained is null; random weights are for tiny"):
        ImageEncoder.create(ImageEncoderConfig("ViT-B-32", None, frozen=False))


@pytest.mark.parametrize(
    "create",
    [
        lambda: ImageEncoder.create(ImageEncoderConfig("timm:lcnet_050")),
        lambda: create_image_encoder(TowerConfig("timm:lcnet_050")),
    ],
)
def test_a_tag_of_open_clip_is_no_file_of_timm_s(create):
    with pytest.raises(ConfigError, match=r"'openai', which is no file: timm:lcnet_050 takes .* \(null\)"):
        create()


@pytest.mark.parametrize(("pool", "projection"), [("avg", "linear"), ("avg", "mlp")])
def test_a_head_made_for_fewer_features_is_refused(pool, projection):
    with pytest.raises(ConfigError, match=r"lcnet_050 gives 1280 features.* 256; .*embed_dim"):
        new_dual_encoder(described(pool, projection, 16))


@pytest.mark.parametrize(("projection", "width"), [("none", 1280), ("", 16)])
def test_without_such_a_head_a_pair_has_it(projection, width):
    made = new_dual_encoder(described("avg", projection, width))
    with torch.inference_mode():
        assert made.model.visual.eval()(torch.zeros(1, 3, 32, 32)).shape == (1, width)

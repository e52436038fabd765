"""Towers that both of RECAP's trainings look at images with."""

import numpy as np
import torch
from PIL import Image

from suisei.recap.image_towers import TowerConfig, image_tower


def test_the_tower_of_the_model_in_the_package_is_named_as_for_captioners():
    from suisei.captioning import grid_tower

    tower = image_tower(TowerConfig("suisei-small"))
    other = grid_tower.create_image_encoder(grid_tower.TowerConfig("suisei-small"))
    assert tower.settings == other.settings
    assert not tower.training
    assert all(torch.equal(one, two) for one, two in zip(tower.parameters(), other.parameters(), strict=True))


def test_towers_of_dual_encoders_give_their_features(tmp_path, pictures):
    from suisei.encoders.dual_folder import new_dual_encoder, save_dual_encoder

    vision = {"image_size": 32, "layers": 1, "width": 32, "patch_size": 16, "head_width": 16}
    text = {"context_length": 20, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1}
    dual = new_dual_encoder({"embed_dim": 16, "vision_cfg": vision, "text_cfg": text}, seed=0)
    save_dual_encoder(dual, tmp_path / "clip")
    tower = image_tower(TowerConfig(str(tmp_path / "clip")))
    pixels = torch.stack([tower.preprocess(Image.open(path)) for path in pictures])
    np.testing.assert_allclose(tower(pixels).numpy(), dual.encode_images(pictures), atol=1e-5)
    again = type(tower).from_architecture(tower.architecture())
    again.load_state_dict(tower.state_dict())
    torch.testing.assert_close(again.eval()(pixels), tower(pixels))


def test_the_tag_of_a_pretraining_is_said_of_open_clip_s_models_alone(tmp_path):
    assert TowerConfig("ViT-L-14").described()["pretrained"] == "openai"
    for name in ("suisei-small", "small", str(tmp_path)):
        assert "pretrained" not in TowerConfig(name).described()

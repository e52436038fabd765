import json
import shutil

import numpy as np
import pytest
import torch

from suisei.encoders.dual import without_padding
from suisei.encoders.dual_folder import new_dual_encoder, save_dual_encoder
from suisei.encoders.dual_loading import load_dual_encoder
from suisei.encoders.dual_tokens import encode_tokens
from suisei.encoders.tiny import TinyTextConfig, build_text_backbone, train_tokenizer
from suisei.encoders.weights import read_weights, save_weights
from suisei.errors import ConfigError, ModelError
from tests.unit.tiny_models import RESNET, TEXT

CAPTIONS = ["a dog runs", "犬が走っている", "two cats"]


@pytest.fixture(scope="module")
def text_encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    tokenizer = train_tokenizer([*CAPTIONS, "a cat and a dog on the mat"] * 3, 60)
    tokenizer.save_pretrained(folder)
    size = TinyTextConfig(width=32, layers=1)
    build_text_backbone(size, len(tokenizer), positions=40).save_pretrained(folder)
    return folder


def test_a_new_model_saved_and_loaded_is_the_same(tmp_path):
    made = new_dual_encoder({"embed_dim": 16, "vision_cfg": RESNET, "text_cfg": TEXT}, seed=1)
    save_dual_encoder(made, tmp_path / "model")
    loaded = load_dual_encoder(str(tmp_path / "model"), device="cpu")
    np.testing.assert_array_equal(loaded.encode_texts(CAPTIONS), made.encode_texts(CAPTIONS))
    assert loaded.model.visual.preprocess_cfg["size"] in (32, (32, 32))


def test_a_temperature_of_many_numbers_is_refused(tmp_path):
    made = new_dual_encoder({"embed_dim": 16, "vision_cfg": RESNET, "text_cfg": TEXT}, seed=1)
    save_dual_encoder(made, tmp_path / "model")
    path = tmp_path / "model" / "open_clip_model.safetensors"
    tensors = read_weights(path)
    for value, fits in ((torch.tensor([2.5]), True), (torch.ones(16), False)):
        save_weights({**tensors, "logit_scale": value}, path)
        if fits:
            assert load_dual_encoder(str(tmp_path / "model"), device="cpu").model.logit_scale == 2.5
        else:
            with pytest.raises(ModelError, match="logit_scale"):
                load_dual_encoder(str(tmp_path / "model"), device="cpu")


def test_a_hugging_face_text_tower_travels_with_the_folder(text_encoder, tmp_path):
    copied = tmp_path / "text"
    shutil.copytree(text_encoder, copied)
    made = new_dual_encoder({"embed_dim": 16, "vision_cfg": RESNET}, text_encoder=str(copied), seed=0)
    expected = made.encode_texts(CAPTIONS, prompt="A photo depicts ")
    save_dual_encoder(made, tmp_path / "model")
    shutil.rmtree(copied)
    (tmp_path / "model").rename(tmp_path / "moved")
    loaded = load_dual_encoder(str(tmp_path / "moved"), device="cpu")
    np.testing.assert_array_equal(loaded.encode_texts(CAPTIONS, prompt="A photo depicts "), expected)
    assert str(tmp_path) not in (tmp_path / "moved" / "open_clip_config.json").read_text()
    assert loaded.reads_japanese
    assert len(np.unique(expected.round(5), axis=0)) == 3
    save_dual_encoder(loaded, tmp_path / "again")
    again = load_dual_encoder(str(tmp_path / "again"), device="cpu")
    np.testing.assert_array_equal(again.encode_texts(CAPTIONS), loaded.encode_texts(CAPTIONS))


def test_a_text_tower_without_its_tokenizer_is_neither_made_nor_read(text_encoder, tmp_path):
    no_tokens = shutil.ignore_patterns("*token*", "*vocab*")
    bare = shutil.copytree(text_encoder, tmp_path / "bare", ignore=no_tokens)
    with pytest.raises(ModelError, match="bare: its tokenizer has no vocabulary"):
        new_dual_encoder({"embed_dim": 16, "vision_cfg": RESNET}, text_encoder=str(bare), seed=0)
    made = new_dual_encoder({"embed_dim": 16, "vision_cfg": RESNET}, text_encoder=str(text_encoder), seed=0)
    save_dual_encoder(made, tmp_path / "whole")
    cut = shutil.copytree(tmp_path / "whole", tmp_path / "cut", ignore=no_tokens)
    with pytest.raises(ModelError, match="cut: its tokenizer has no vocabulary"):
        load_dual_encoder(str(cut), device="cpu")


def test_padding_is_not_computed_and_changes_nothing(text_encoder):
    made = new_dual_encoder({"embed_dim": 16, "vision_cfg": RESNET}, text_encoder=str(text_encoder), seed=0)
    tokens = made.tokenizer(CAPTIONS)
    assert without_padding(made.model, tokens).shape[1] < tokens.shape[1]
    with torch.inference_mode():
        expected = made.model.encode_text(tokens).numpy()
    np.testing.assert_allclose(made.encode_texts(CAPTIONS), expected, atol=1e-6)


def test_broken_descriptions_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot build"):
        new_dual_encoder({"embed_dim": 16, "vision_cfg": {"wide": 3}, "text_cfg": TEXT})
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": {"embed_dim": 3}}))
    with pytest.raises(ModelError, match="open_clip_config"):
        load_dual_encoder(str(tmp_path), seed=0)


def test_other_folders_are_told_from_broken_ones(tmp_path):
    (tmp_path / "run" / "model").mkdir(parents=True)
    with pytest.raises(
        ModelError, match=r"is not the folder of a dual encoder: open_clip_config\.json is missing; g"
    ):
        load_dual_encoder(str(tmp_path / "run"), seed=0)
    (tmp_path / "run" / "model" / "open_clip_config.json").touch()
    with pytest.raises(ModelError, match=r"is missing; the model of this training is in .*model"):
        load_dual_encoder(str(tmp_path / "run"), seed=0)


def test_a_text_tower_without_a_projection_says_what_open_clip_says(tmp_path):
    text = {**TEXT, "width": 16, "proj_type": "none"}
    save_dual_encoder(
        new_dual_encoder({"embed_dim": 16, "vision_cfg": RESNET, "text_cfg": text}, seed=1), tmp_path / "m"
    )
    loaded = load_dual_encoder(str(tmp_path / "m"), device="cpu", precision="fp32")
    assert loaded.model.text_projection is None
    with torch.no_grad():
        own = loaded.model.encode_text(loaded.tokenizer(CAPTIONS)).numpy()
    np.testing.assert_allclose(loaded.encode_texts(CAPTIONS), own, atol=1e-5)
    tokens = encode_tokens(loaded, CAPTIONS[:1])[0]
    np.testing.assert_allclose(tokens.pooled, own[0], atol=1e-5)

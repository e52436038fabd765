"""The image encoder: tiny, an open_clip tower from a local checkpoint, and what is refused."""

import json

import open_clip
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from suisei.encoders.image import ImageEncoder, ImageEncoderConfig
from suisei.encoders.pixels import open_clip_transform
from suisei.encoders.tiny import TinyImageConfig
from suisei.errors import ConfigError, ModelError, UnavailableError

NAME = "suisei-test-vit"
VIT = {
    "embed_dim": 12,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 16, "patch_size": 16, "head_width": 8},
    "text_cfg": {"context_length": 8, "vocab_size": 32, "width": 8, "heads": 1, "layers": 1},
}
TINY = TinyImageConfig(width=4, image_size=64, features=8)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Random weights of a small open_clip model, as users may have them."""
    folder = tmp_path_factory.mktemp("open_clip")
    (folder / f"{NAME}.json").write_text(json.dumps(VIT))
    open_clip.add_model_config(folder / f"{NAME}.json")
    torch.manual_seed(0)
    weights = open_clip.create_model(NAME).state_dict()
    torch.save(weights, folder / "weights.pt")
    save_file(weights, folder / "weights.safetensors")
    (folder / "text.pt").write_text("not a checkpoint")
    yield folder
    open_clip.factory._MODEL_CONFIGS.pop(NAME, None)
    open_clip.factory._MODEL_CONFIG_PATHS[:] = [
        path for path in open_clip.factory._MODEL_CONFIG_PATHS if path.stem != NAME
    ]


@pytest.fixture
def picture():
    return Image.effect_noise((90, 60), 80).convert("RGB")


def features(encoder, picture):
    with torch.inference_mode():
        return encoder.eval()(encoder.preprocess(picture)[None])[0]


def assert_comes_back(encoder, picture):
    again = ImageEncoder.from_architecture(json.loads(json.dumps(encoder.architecture())))
    again.load_state_dict(encoder.state_dict())
    assert torch.equal(encoder.preprocess(picture), again.preprocess(picture))
    torch.testing.assert_close(features(encoder, picture), features(again, picture), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("file", ["weights.pt", "weights.safetensors"])
def test_local_checkpoint_is_read_and_the_architecture_comes_back(checkpoints, picture, file):
    config = ImageEncoderConfig(name=NAME, pretrained=str(checkpoints / file))
    encoder = ImageEncoder.create(config)
    assert encoder.width == 12
    assert features(encoder, picture).shape == (12,)
    saved = torch.load(checkpoints / "weights.pt", weights_only=True)
    assert torch.equal(encoder.tower.conv1.weight, saved["visual.conv1.weight"])
    assert_comes_back(encoder, picture)


def test_tiny_encoder_comes_back(picture):
    encoder = ImageEncoder.create(ImageEncoderConfig(name="tiny", frozen=False, tiny=TINY))
    assert encoder.width == 8
    assert encoder.preprocess(picture).shape == (3, 64, 64)
    assert_comes_back(encoder, picture)


def test_normalised_features_have_unit_length(checkpoints, picture):
    path = str(checkpoints / "weights.pt")
    plain = ImageEncoder.create(ImageEncoderConfig(name=NAME, pretrained=path))
    unit = ImageEncoder.create(ImageEncoderConfig(name=NAME, pretrained=path, normalise=True))
    raw, scaled = features(plain, picture), features(unit, picture)
    torch.testing.assert_close(scaled, raw / raw.norm())
    assert_comes_back(unit, picture)


def test_another_interpolation_is_that_of_open_clip():
    picture = Image.effect_noise((50, 70), 80).convert("RGB")
    usual = ImageEncoder.create(ImageEncoderConfig(name="tiny", frozen=False, tiny=TINY))
    given = {"interpolation": "bilinear", "resize_mode": "shortest"}
    encoder = ImageEncoder(usual.tower, {**usual.settings, "preprocess": given})
    expected = open_clip_transform({**given, "size": 64})(picture)
    assert torch.equal(encoder.preprocess(picture), expected)
    assert not torch.allclose(usual.preprocess(picture), expected, atol=0.1)


def test_images_of_a_batch_do_not_see_each_other(picture):
    encoder = ImageEncoder.create(ImageEncoderConfig(name="tiny", frozen=False, tiny=TINY)).eval()
    pixels = encoder.preprocess(picture)
    with torch.inference_mode():
        batch = encoder(torch.stack([pixels, -5 * pixels, pixels * 0]))
    torch.testing.assert_close(batch[0], features(encoder, picture), atol=1e-5, rtol=1e-5)


def test_unknown_model_and_unknown_tag_are_refused(checkpoints):
    with pytest.raises(ConfigError, match="no model 'ViT-B-17'"):
        ImageEncoder.create(ImageEncoderConfig(name="ViT-B-17"))
    with pytest.raises(ConfigError, match="tags of ViT-B-32 are: openai"):
        ImageEncoder.create(ImageEncoderConfig(name="ViT-B-32", pretrained="opnai"))
    with pytest.raises(ConfigError, match="none"):
        ImageEncoder.create(ImageEncoderConfig(name=NAME, pretrained="openai"))


def test_unusable_checkpoint_files_are_refused_by_name(checkpoints, tmp_path):
    with pytest.raises(ConfigError, match=r"no checkpoint file at .*absent\.pt"):
        ImageEncoder.create(ImageEncoderConfig(name=NAME, pretrained=str(tmp_path / "absent.pt")))
    other = str(checkpoints / "weights.pt")
    with pytest.raises(ModelError, match=r"weights\.pt.*RN50"):
        ImageEncoder.create(ImageEncoderConfig(name="RN50", pretrained=other))
    with pytest.raises(ModelError, match=r"text\.pt"):
        ImageEncoder.create(ImageEncoderConfig(name=NAME, pretrained=str(checkpoints / "text.pt")))


class Payload:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("a checkpoint was executed",))


def test_nothing_inside_a_checkpoint_is_executed(checkpoints, tmp_path):
    torch.save({"state_dict": Payload()}, tmp_path / "evil.pt")
    with pytest.raises(ModelError, match=r"evil\.pt"):
        ImageEncoder.create(ImageEncoderConfig(name=NAME, pretrained=str(tmp_path / "evil.pt")))


def test_a_torchscript_archive_is_refused_as_such(tmp_path):
    writer = torch._C.PyTorchFileWriter(str(tmp_path / "ViT-B-16.pt"))
    writer.write_record("constants.pkl", b"", 0)
    writer.write_end_of_file()
    with (
        pytest.warns(UserWarning, match="TorchScript archive"),
        pytest.raises(ModelError, match=r"ViT-B-16\.pt: not a file of weights alone"),
    ):
        ImageEncoder.create(ImageEncoderConfig(pretrained=str(tmp_path / "ViT-B-16.pt")))


@pytest.mark.parametrize(
    ("name", "tag", "quick"),
    [
        ("ViT-B-32", "openai", True),
        ("ViT-B-32", "laion2b_s34b_b79k", False),
        ("ViT-B-32-quickgelu", "openai", True),
        ("RN50", "openai", False),  # whose tower has ReLU
    ],
)
def test_a_tower_has_the_activation_that_its_weights_learned_with(monkeypatch, picture, name, tag, quick):
    made = open_clip.create_model
    monkeypatch.setattr(open_clip, "create_model", lambda name, pretrained, **own: made(name, **own))
    encoder = ImageEncoder.create(ImageEncoderConfig(name=name, pretrained=tag))
    assert encoder.architecture()["quick_gelu"] is quick
    kinds = {type(part).__name__ for part in encoder.tower.modules()}
    assert ("QuickGELU" in kinds, "GELU" in kinds) == (quick, not quick and name != "RN50")
    assert_comes_back(encoder, picture)


@pytest.mark.parametrize("name", ["ViT-B-32", "ViT-B-32-quickgelu", "RN50"])
def test_a_file_for_which_there_are_two_activations_is_pointed_out(monkeypatch, caplog, tmp_path, name):
    made = open_clip.create_model
    monkeypatch.setattr(open_clip, "create_model", lambda name, pretrained, **own: made(name, **own))
    (tmp_path / "weights.pt").touch()
    ImageEncoder.create(ImageEncoderConfig(name=name, pretrained=str(tmp_path / "weights.pt")))
    assert ("need ViT-B-32-quickgelu" in caplog.text) == (name == "ViT-B-32")


def test_weights_of_the_hub_without_a_hub_are_one_clear_line(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UnavailableError, match=r"ViT-B-32 \(laion2b_s34b_b79k\)") as error:
        ImageEncoder.create(ImageEncoderConfig(name="ViT-B-32", pretrained="laion2b_s34b_b79k"))
    assert "\n" not in str(error.value)


def test_tiny_settings_that_cannot_work_are_refused():
    with pytest.raises(ConfigError, match=r"set image\.frozen to false"):
        ImageEncoder.create(ImageEncoderConfig(name="tiny"))
    for size in (32, 70, 0):
        with pytest.raises(ConfigError, match="multiple of 32 and at least 64"):
            TinyImageConfig(image_size=size)


def test_a_single_image_can_be_trained_on(picture):
    encoder = ImageEncoder.create(ImageEncoderConfig(name="tiny", frozen=False, tiny=TINY)).train()
    encoder(encoder.preprocess(picture)[None]).sum().backward()
    gradients = [parameter.grad for parameter in encoder.parameters()]
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)


def test_broken_architecture_is_refused():
    with pytest.raises(ModelError, match="image_architecture lacks vision_cfg"):
        ImageEncoder.from_architecture({"embed_dim": 3, "quick_gelu": False})


def test_frozen_encoder_never_moves(build_regressor, picture):
    model = build_regressor(frozen_image=True).train()
    assert model.training
    assert not any(module.training for module in model.image.modules())
    assert not any(parameter.requires_grad for parameter in model.image.parameters())
    before = {name: value.clone() for name, value in model.image.state_dict().items()}
    for _ in range(2):
        model.encode_image(torch.stack([model.image.preprocess(picture)] * 2) * 3)
    assert all(torch.equal(value, before[name]) for name, value in model.image.state_dict().items())
    trained = build_regressor(frozen_image=False).train()
    before = trained.image.tower.bn1.running_mean.clone()
    trained.encode_image(torch.stack([trained.image.preprocess(picture)] * 2) * 3)
    assert not torch.equal(before, trained.image.tower.bn1.running_mean)

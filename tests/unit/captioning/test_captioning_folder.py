"""The vocabulary, and a captioner as a folder: the same captions again, and no damage goes unnoticed."""

import json

import pytest
import torch

from suisei.captioning.caption_folder import is_captioner_folder
from suisei.captioning.caption_loading import load_captioner
from suisei.captioning.caption_model import Decoding, load_caption_model
from suisei.captioning.grid_tower import TowerConfig, create_image_encoder
from suisei.captioning.pieces import Pieces, plain_caption
from suisei.encoders.image import ImageEncoder
from suisei.encoders.weights import save_weights
from suisei.errors import ConfigError, ModelError

CLIP = {
    "embed_dim": 16,
    "quick_gelu": False,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "patch_size": 16, "head_width": 16},
}


@pytest.mark.parametrize(
    ("caption", "wanted"),
    [("A  Dog runs .", "a dog runs"), ("赤い犬が走る。", "赤い犬が走る"), ("ＡＢＣ", "abc")],
)
def test_captions_come_back_as_they_are_learned(caption, wanted):
    pieces = Pieces.learned(["a dog runs", "赤い犬が走る", "abc ..."], 60)
    assert plain_caption(caption) == wanted
    (ids,) = pieces.encode([caption])
    assert ids[-1] == pieces.end_id
    assert pieces.decode(ids) == wanted
    assert pieces.decode([*ids, pieces.pad_id, ids[0]]) == wanted


def test_a_caption_of_stops_alone_stays():
    assert plain_caption(" ... ") == "..."


def test_fewer_pieces_than_characters_are_refused_by_the_name_of_the_setting():
    with pytest.raises(ConfigError, match=r"^model\.vocabulary is 8; .* have 10 characters .* to 10 or more"):
        Pieces.learned(["abcde"], 8)


def test_a_tokenizer_without_an_end_is_refused():
    description = json.loads(Pieces.learned(["a b", "c"], 20)._description)
    description["model"]["vocab"] = [entry for entry in description["model"]["vocab"] if entry[0] != "</s>"]
    description["added_tokens"] = []
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        Pieces(json.dumps(description))


@pytest.fixture
def folder(build_captioner, tmp_path):
    build_captioner().save(tmp_path / "model")
    return tmp_path / "model"


def test_a_saved_captioner_says_the_same(build_captioner, folder, pictures):
    model, again = build_captioner(), load_caption_model(folder)
    assert is_captioner_folder(folder)
    assert {path.name for path in folder.iterdir()} == {
        "README.md", "config.json", "model.safetensors", "tokenizer.json",
    }  # fmt: skip
    pixels = model.read(pictures)
    decoding = Decoding("beam", beams=3, max_length=8)
    said = [own.texts(own.generate(own.encode(pixels), decoding).tokens) for own in (model, again)]
    assert said[0] == said[1]
    assert again.languages == ("en", "ja")
    assert again.tower_is_frozen


def altered(folder, **values):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config.update(values)
    path.write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors is missing"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "tokenizer.json was altered"),
        (lambda folder: altered(folder, layers={"width": 10**9}), "layers"),
        (lambda folder: altered(folder, languages=["fr"]), "languages"),
        (lambda folder: altered(folder, more=1), "no setting 'more'"),
        (lambda folder: altered(folder, sha256={}), "sha256 lacks"),
        (
            lambda folder: altered(
                folder,
                image_architecture={
                    "embed_dim": 8, "quick_gelu": False,
                    "vision_cfg": {"timm_model_name": "hf-hub:someone/model"},
                },
            ),
            "timm_model_name",
        ),
    ],
)  # fmt: skip
def test_a_damaged_or_hostile_folder_is_refused(folder, change, message):
    change(folder)
    with pytest.raises(ModelError, match=message):
        load_captioner(folder)


def test_larger_layers_than_the_weights_are_refused_before_they_are_made(folder):
    config = json.loads((folder / "config.json").read_text())
    altered(folder, layers={**config["layers"], "width": 16_000, "heads": 4, "decoder_layers": 100})
    with pytest.raises(ModelError, match="does not fit"):
        load_captioner(folder)


def test_a_folder_of_something_else_is_no_captioner(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert not is_captioner_folder(tmp_path)
    with pytest.raises(ModelError, match="not the folder of a captioner"):
        load_caption_model(tmp_path)


def test_a_tower_of_timm_takes_its_weights_from_a_local_file(tmp_path):
    import timm

    trunk = timm.create_model("resnet10t", num_classes=7)
    path = tmp_path / "weights.safetensors"
    save_weights(trunk.state_dict(), path)
    encoder = create_image_encoder(TowerConfig("timm:resnet10t", str(path), image_size=64))
    pixels = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        wanted = trunk.eval().forward_features(pixels).mean(dim=(2, 3))
        torch.testing.assert_close(encoder.eval()(pixels), wanted)
    with pytest.raises(ModelError, match="does not fit"):
        create_image_encoder(TowerConfig("timm:resnet18", str(path)))
    with pytest.raises(ConfigError, match="no architecture 'resnet1x'"):
        create_image_encoder(TowerConfig("timm:resnet1x", None))


def test_a_squeezed_image_keeps_its_sides():
    from PIL import Image

    image = Image.new("RGB", (200, 64), "black")
    image.paste("white", (0, 0, 20, 64))
    cut, whole = (
        create_image_encoder(TowerConfig("timm:resnet10t", None, image_size=64, whole=whole)).preprocess(
            image
        )
        for whole in (False, True)
    )
    assert cut.max() < 0 < whole.max()


def test_towers_give_a_grid(build_captioner):
    from suisei.captioning.grid_tower import GridTower

    for name, options, shape in (
        ("timm:resnet10t", {"pretrained": None, "image_size": 64}, (4, 512)),
        ("timm:tf_efficientnet_lite0", {"pretrained": None, "image_size": 64}, (4, 1280)),
        ("suisei-small", {}, (49, 1280)),
        ("tiny", {}, (4, 512)),
    ):
        tower = GridTower(create_image_encoder(TowerConfig(name, **options))).eval()
        assert (tower.places, tower.width) == shape, name
        # What is pooled is this grid: a tower that scores and one that shows places are the same.
        if name.startswith("timm"):
            pixels = torch.randn(1, 3, tower.side, tower.side)
            with torch.no_grad():
                torch.testing.assert_close(tower(pixels).mean(1), tower.image.tower(pixels))


def test_a_vision_transformer_gives_its_patches():
    import open_clip

    from suisei.captioning.grid_tower import GridTower

    tower = GridTower(ImageEncoder.from_architecture(CLIP))
    assert (tower.places, tower.width) == (4, 32)
    assert isinstance(tower.image.tower, open_clip.transformer.VisionTransformer)


def as_trained_by(folder, last_norm):
    """A captioner as a training with this setting would make it, over a transformer of a dual encoder."""
    from suisei.captioning.caption_module import CaptionTraining
    from suisei.captioning.transformer import TransformerConfig

    layers = TransformerConfig(width=16, heads=2, encoder_layers=1, decoder_layers=1, feed_forward=16)
    given = {} if last_norm is None else {"last_norm": last_norm}
    torch.manual_seed(1)
    training = CaptionTraining(TowerConfig(str(folder), **given), layers)
    training.build(["a red picture", "the picture is red"], ["en"], 16)
    return training.model.eval()


@pytest.fixture
def dual(tmp_path):
    """The folder of a dual encoder whose last layer normalisation does something."""
    from suisei.encoders.dual_folder import new_dual_encoder, save_dual_encoder

    text = {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1}
    encoder = new_dual_encoder({"embed_dim": 16, "vision_cfg": CLIP["vision_cfg"], "text_cfg": text}, seed=4)
    torch.nn.init.normal_(encoder.model.visual.ln_post.weight)
    save_dual_encoder(encoder, tmp_path / "dual")
    return tmp_path / "dual"


def test_a_vision_transformer_shows_what_stands_before_its_last_norm(dual, tmp_path):
    pixels = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        usual, after = (as_trained_by(dual, last_norm).tower for last_norm in (None, True))
        torch.testing.assert_close(usual.image.tower.ln_post(usual(pixels)), after(pixels))
        assert not torch.allclose(usual(pixels), after(pixels), atol=0.1)
    for last_norm in (False, True):
        model, folder = as_trained_by(dual, last_norm), tmp_path / str(last_norm)
        model.save(folder)
        with torch.no_grad():
            torch.testing.assert_close(load_captioner(folder).grid(pixels), model.grid(pixels))
    content = json.loads((folder / "config.json").read_text())
    del content["last_norm"]  # as it was before there was a choice
    (folder / "config.json").write_text(json.dumps(content))
    with torch.no_grad():
        torch.testing.assert_close(load_captioner(folder).grid(pixels), after(pixels))


def test_grids_before_and_after_the_last_norm_are_kept_apart(dual, pictures, tmp_path):
    from suisei.captioning.grid_store import GridStore
    from suisei.encoders.feature_file import DiskCache

    disk, rows = DiskCache(tmp_path / "cache", 10**9, least_weights=0), torch.arange(len(pictures))
    for last_norm in (True, False):
        model = as_trained_by(dual, last_norm)
        store = GridStore(model.tower, pictures, disk=disk)
        torch.testing.assert_close(store[rows], model.grid(model.read(pictures)), atol=5e-3, rtol=5e-3)


@pytest.mark.parametrize("kind", ["tiny", "transformer", "timm:resnet10t", "timm:vit_tiny_patch16_224"])
def test_all_that_learns_in_a_tower_has_a_gradient(kind):
    """As processes that train together need it; what pools the grid does not learn."""
    from suisei.captioning.grid_tower import GridTower

    if kind == "transformer":
        encoder = ImageEncoder.from_architecture(CLIP)
    else:
        encoder = create_image_encoder(TowerConfig(kind, None, train=True))
    tower = GridTower(encoder).requires_grad_(True)
    assert tower.training
    tower(torch.randn(2, 3, tower.side, tower.side)).square().sum().backward()
    learning = {name for name, weights in tower.named_parameters() if weights.requires_grad}
    assert learning == {name for name, weights in tower.named_parameters() if weights.grad is not None}
    pooling = {name for name, _ in tower.named_parameters()} - learning
    parts = {
        "tiny": (".attnpool.",),
        "transformer": (".proj", ".ln_post."),
        "timm:vit_tiny_patch16_224": (".fc_norm.",),
    }
    own = parts.get(kind, ())
    assert all(any(part in name for part in own) for name in pooling)
    assert all(any(part in name for name in pooling) for part in own)
    assert not any(weights.requires_grad for weights in tower.requires_grad_(False).parameters())


def test_the_image_tower_of_a_dual_encoder_is_taken_from_its_folder(tmp_path):
    from suisei.captioning.grid_tower import GridTower
    from suisei.encoders.dual_folder import new_dual_encoder, save_dual_encoder

    architecture = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "patch_size": 16, "head_width": 16},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
    }
    dual = new_dual_encoder(architecture, seed=4)
    save_dual_encoder(dual, tmp_path / "dual")
    tower = GridTower(create_image_encoder(TowerConfig(str(tmp_path / "dual")))).eval()
    again = ImageEncoder.from_architecture(tower.image.architecture())
    again.tower.load_state_dict(tower.image.tower.state_dict())
    pixels = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(tower.image(pixels), dual.model.visual(pixels))
        torch.testing.assert_close(GridTower(again).eval()(pixels), tower(pixels))
    assert (tower.places, tower.width) == (4, 32)

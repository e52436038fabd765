"""The encoders of model folders without transformers and open_clip: the same names, the same numbers."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from suisei.encoders.bert import BertEncoder, is_bert
from suisei.encoders.efficientnet_lite import LITE, EfficientNetLite, is_lite
from suisei.encoders.image import ImageEncoder
from suisei.encoders.pixels import preprocess_pixels
from suisei.encoders.resnet import ClipResNet, is_resnet
from suisei.encoders.text import TextEncoder
from suisei.encoders.timm_tower import timm_architecture
from suisei.encoders.tiny import train_tokenizer
from suisei.encoders.tokenizer import FolderTokenizer
from suisei.errors import ModelError

SIZES = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 20,
}


def spread(module, seed=0):
    """Move all weights away from where they start, biases and norms too."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in module.parameters():
            weights.add_(torch.randn(weights.shape, generator=generator), alpha=0.2)
    return module.eval()


@pytest.mark.parametrize(
    ("kind", "pad"), [("bert", 0), ("roberta", 1), ("xlm-roberta", 1), ("camembert", 1), ("roberta", 3)]
)
@pytest.mark.parametrize("padded", [True, False])
def test_states_equal_those_of_transformers(kind, pad, padded):
    from transformers import AutoConfig, AutoModel

    theirs = spread(AutoModel.from_config(AutoConfig.for_model(kind, **SIZES, pad_token_id=pad)))
    theirs.pooler = None
    settings = theirs.config.to_diff_dict()
    assert is_bert(settings)
    ours = BertEncoder(settings).eval()
    ours.load_state_dict(theirs.state_dict())
    ids = torch.randint(5, 50, (4, 11), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    if padded:
        for row, length in enumerate((11, 7, 2, 1)):
            mask[row, length:] = 0
            ids[row, length:] = theirs.config.pad_token_id
    with torch.inference_mode():
        expected = theirs(input_ids=ids, attention_mask=mask, output_hidden_states=True)
        found = ours(input_ids=ids, attention_mask=mask, output_hidden_states=True)
    assert len(found.hidden_states) == 4
    tokens = mask.bool()
    for one, other in zip(found.hidden_states, expected.hidden_states, strict=True):
        assert one[tokens].std() > 0.1
        torch.testing.assert_close(one[tokens], other[tokens], atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(found.last_hidden_state, found.hidden_states[-1])


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": "deberta-v2"},
        {"hidden_act": "gelu_new"},
        {"is_decoder": True},
        {"position_embedding_type": "relative_key"},
        {"layer_norm_eps": None},
    ],
)
def test_other_encoders_are_left_to_transformers(change):
    usual = {
        **SIZES,
        "model_type": "bert",
        "type_vocab_size": 2,
        "layer_norm_eps": 1e-5,
        "pad_token_id": 0,
        "hidden_act": "gelu",
    }
    assert is_bert(usual)
    assert not is_bert({**usual, **change})


@pytest.mark.parametrize("layers", [0, 3])
def test_what_is_tried_at_opening_is_one_layer_of_the_encoder_s_own(layers):
    from types import SimpleNamespace

    settings = {**SIZES, "num_hidden_layers": layers, "model_type": "bert", "type_vocab_size": 2}
    whole = BertEncoder({**settings, "pad_token_id": 0, "layer_norm_eps": 1e-5, "hidden_act": "gelu"}).eval()
    tokenizer = SimpleNamespace(model_max_length=20)
    shallow = TextEncoder(whole, tokenizer, layers="mix").shallow()
    assert len(shallow.backbone.layers) == min(1, layers)
    ids = torch.tensor([[3, 4, 5]])
    expected = whole(ids, torch.ones_like(ids), output_hidden_states=True).hidden_states[min(1, layers)]
    assert torch.equal(shallow(ids, torch.ones_like(ids))[0], expected)


@pytest.mark.parametrize(("hidden", "attention"), [(0.5, 0.0), (0.0, 0.5)])
def test_attention_drops_its_own_share(hidden, attention):
    shares = {"hidden_dropout_prob": hidden, "attention_probs_dropout_prob": attention}
    usual = {"model_type": "bert", "type_vocab_size": 2, "pad_token_id": 0, "layer_norm_eps": 1e-5}
    layer = BertEncoder({**SIZES, **usual, **shares}).layers[0].train()
    received = []

    def attend(query, key, value, heads, dropped):
        received.append(dropped)
        return value

    states = torch.ones(2, 3, SIZES["hidden_size"])
    once, again = (layer(states, attend) for _ in range(2))
    assert received == [attention] * 2
    assert torch.equal(once, again) == (hidden == 0)


def test_a_model_folder_gives_the_states_of_the_encoder_that_was_trained(build_regressor, captions, tmp_path):
    text = build_regressor().text
    text.tokenizer.save_pretrained(tmp_path)
    loaded = TextEncoder.from_architecture(text.architecture(), tmp_path).eval()
    assert isinstance(loaded.backbone, BertEncoder)
    loaded.load_state_dict(text.state_dict())
    again = TextEncoder.from_architecture(loaded.architecture(), tmp_path)
    assert again.architecture() == loaded.architecture() == text.architecture()
    ids = text.tokenize(captions)
    assert loaded.tokenize(captions) == ids
    with torch.inference_mode():
        expected, found = text(*text.pad(ids)), loaded(*loaded.pad(ids))
    for one, other in zip(found, expected, strict=True):
        mask = text.pad(ids)[1].bool()
        torch.testing.assert_close(one[mask], other[mask], atol=1e-5, rtol=1e-5)


def test_captions_are_cut_where_the_tokenizer_cuts_them(captions, tmp_path):
    from transformers import AutoTokenizer

    train_tokenizer(captions, 200).save_pretrained(tmp_path)
    right = FolderTokenizer(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config | {"truncation_side": "left"}))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path / "saved")
    texts = [" ".join(captions)]
    expected = tokenizer(texts, truncation=True, max_length=6)["input_ids"]
    assert FolderTokenizer(tmp_path / "saved").encode(texts, 6) == expected
    assert right.encode(texts, 6) != expected


def test_the_tokenizer_is_that_of_transformers(captions, tmp_path):
    tokenizer = train_tokenizer(captions, 200)
    tokenizer.save_pretrained(tmp_path / "one")
    found = FolderTokenizer(tmp_path / "one")
    texts = [*captions, "", "UNSEEN ｗｏｒｄｓ ☃ é", " <s> mask <mask> ", "a " * 400]
    for longest in (128, 5):
        expected = tokenizer(texts, truncation=True, max_length=longest)["input_ids"]
        assert found.encode(texts, longest) == expected
    assert found.all_special_ids == sorted(set(tokenizer.all_special_ids))
    assert (len(found), found.get_vocab()) == (len(tokenizer), tokenizer.get_vocab())
    assert (found.pad_token_id, found.unk_token_id) == (tokenizer.pad_token_id, tokenizer.unk_token_id)
    found.save_pretrained(tmp_path / "two")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "two" / name).read_text() == (tmp_path / "one" / name).read_text()


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_damaged_tokenizer_is_named(captions, tmp_path, name):
    train_tokenizer(captions, 200).save_pretrained(tmp_path)
    (tmp_path / name).write_text("{nonsense")
    with pytest.raises(ModelError, match="not a tokenizer"):
        FolderTokenizer(tmp_path)


@pytest.mark.parametrize("layers", [(1, 1, 1, 1), (2, 1, 3, 1)])
def test_resnet_features_equal_those_of_open_clip(layers):
    import open_clip

    settings = {"layers": list(layers), "width": 8, "image_size": 64, "head_width": 64}
    text = {"context_length": 4, "vocab_size": 8, "width": 8, "heads": 1, "layers": 1}
    theirs = spread(open_clip.CLIP(12, settings, text).visual)
    for module in theirs.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.uniform_(-0.5, 0.5)
            module.running_var.uniform_(0.5, 2)
    assert is_resnet(settings)
    ours = ClipResNet(settings, 12).eval()
    ours.load_state_dict(theirs.state_dict())
    pixels = torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected = theirs(pixels)
        torch.testing.assert_close(ours(pixels), expected, atol=1e-4, rtol=1e-4)
    assert expected.std() > 0.01


def test_only_clip_s_resnets_are_resnets():
    assert not is_resnet({"layers": 12, "width": 768, "patch_size": 16, "image_size": 224})
    assert not is_resnet({"timm_model_name": "resnet50", "image_size": 224})
    tower = ImageEncoder.from_architecture(
        {
            "embed_dim": 8,
            "quick_gelu": False,
            "vision_cfg": {"layers": 1, "width": 64, "patch_size": 16, "image_size": 32},
        }
    ).tower
    assert type(tower).__module__.startswith("open_clip")


@pytest.mark.parametrize("side", [224, 65, 32])
def test_lite_features_equal_those_of_timm(side):
    from suisei.encoders.image import _open_clip_tower

    settings = timm_architecture(f"timm:{LITE}")
    torch.manual_seed(0)
    theirs = _open_clip_tower(settings).train()
    pixels = torch.randn(2, 3, side, side)
    theirs(torch.randn(8, 3, 64, 64))  # normalisations learn what they see
    theirs.eval()
    ours = ImageEncoder.from_architecture(settings).tower.eval()
    assert isinstance(ours, EfficientNetLite)
    ours.load_state_dict(theirs.state_dict())
    with torch.inference_mode():
        expected = theirs(pixels)
        assert expected.std() > 1e-3
        torch.testing.assert_close(ours(pixels), expected, atol=1e-5, rtol=1e-5)


def test_lite_of_another_width_is_refused():
    settings = timm_architecture(f"timm:{LITE}")
    with pytest.raises(ModelError, match="has 1280 features, embed_dim says 512"):
        ImageEncoder.from_architecture({**settings, "embed_dim": 512})


def test_another_tower_of_timm_is_not_taken_for_it():
    settings = timm_architecture(f"timm:{LITE}")["vision_cfg"]
    assert is_lite(settings)
    for change in (
        {"timm_pool": "map"},
        {"timm_proj": "linear"},
        {"timm_model_name": "tf_efficientnet_lite1"},
    ):
        assert not is_lite({**settings, **change})


@pytest.mark.parametrize(
    "size", [(64, 64), (70, 50), (50, 70), (500, 333), (333, 501), (65, 64), (30, 20), (1, 9)]
)
@pytest.mark.parametrize("side", [64, 33])
def test_pixels_equal_those_of_open_clip(size, side):
    import open_clip

    values = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    image = Image.fromarray(values)
    expected = open_clip.image_transform(side, is_train=False)(image)
    found = preprocess_pixels(image, side)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)

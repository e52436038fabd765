"""Encoders in folders that somebody else wrote: no code of theirs runs, nothing is asked or fetched."""

import json
import shutil
from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch

from suisei.data.sample import CaptionSample
from suisei.encoders.descriptions import check_image_encoder, check_model
from suisei.encoders.dual_folder import check_savable, new_dual_encoder, save_dual_encoder
from suisei.encoders.dual_loading import load_dual_encoder
from suisei.encoders.text import TextEncoder
from suisei.encoders.text_config import TextEncoderConfig
from suisei.encoders.tiny import TinyTextConfig, build_text_backbone, train_tokenizer
from suisei.errors import ConfigError, ModelError, SuiseiError, UnavailableError
from suisei.metrics.registry import get_metric
from tests.unit.tiny_models import RESNET

CAPTIONS = ["a dog runs", "犬が走っている", "two cats"]


@pytest.fixture(autouse=True)
def _watched(monkeypatch):
    """Whoever asks or connects fails; the hub may be asked, as far as the code knows."""
    from huggingface_hub import constants

    def never(*_, **__):
        pytest.fail("a question was asked, or a connection made")

    monkeypatch.setattr("builtins.input", never)
    monkeypatch.setattr("socket.create_connection", never)
    monkeypatch.setattr("socket.socket.connect", never)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


@pytest.fixture(scope="module")
def text_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    tokenizer = train_tokenizer([*CAPTIONS, "a cat and a dog on the mat"] * 3, 60)
    tokenizer.save_pretrained(folder)
    build_text_backbone(TinyTextConfig(width=32, layers=1), len(tokenizer), positions=40).save_pretrained(
        folder
    )
    return folder


@pytest.fixture(scope="module")
def dual_folder(text_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dual") / "clip"
    made = new_dual_encoder({"embed_dim": 16, "vision_cfg": RESNET}, text_encoder=str(text_folder))
    save_dual_encoder(made, folder)
    return folder


@pytest.fixture
def folder(dual_folder, tmp_path):
    return Path(shutil.copytree(dual_folder, tmp_path / "clip"))


CODE = """
open({mark!r}, "w").close()
from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
class Config(PreTrainedConfig): model_type = "own"
class Model(PreTrainedModel): config_class = Config
class Own(PreTrainedTokenizerFast): pass
"""


def plant(folder):
    """Have a Hugging Face folder ask for its own code to be run; returns what that code would make."""
    mark = folder.parent / "ran"
    (folder / "own.py").write_text(CODE.format(mark=str(mark)))
    classes = {"AutoConfig": "own.Config", "AutoModel": "own.Model", "AutoTokenizer": ["own.Own", None]}
    for name in ("config.json", "tokenizer_config.json"):
        path = folder / name
        content = json.loads(path.read_text())
        content.pop("tokenizer_class", None)
        if name == "config.json":
            content["model_type"] = "own"
        path.write_text(json.dumps({**content, "auto_map": classes}))
    return mark


def as_text(folder):
    TextEncoder.create(TextEncoderConfig(name=str(folder)), CAPTIONS)


def as_bertscore(folder):
    get_metric(f"bertscore:{folder}").score([CaptionSample("a dog", ("two dogs",))])


def as_text_tower(folder):
    new_dual_encoder({"embed_dim": 16, "vision_cfg": RESNET}, text_encoder=str(folder))


def refusal(use, folder):
    """Return the error of using a folder, which says it in one line."""
    with pytest.raises(SuiseiError) as caught:
        use(folder)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("use", [as_text, as_bertscore, as_text_tower])
def test_code_beside_a_model_is_neither_run_nor_asked_about(text_folder, tmp_path, use):
    own = Path(shutil.copytree(text_folder, tmp_path / "own"))
    mark = plant(own)
    error = refusal(use, own)
    assert not mark.exists()
    assert isinstance(error, UnavailableError)
    assert "never runs" in str(error)


def test_code_beside_a_dual_encoder_is_neither_run_nor_asked_about(folder):
    mark = plant(folder)
    assert "model_type" in str(refusal(load_dual_encoder, str(folder)))
    assert not mark.exists()


def test_a_tokenizer_of_its_own_beside_a_known_model_is_not_run(text_folder, tmp_path):
    own = Path(shutil.copytree(text_folder, tmp_path / "own"))
    config = (own / "config.json").read_text()
    mark = plant(own)
    (own / "config.json").write_text(config)
    TextEncoder.create(TextEncoderConfig(name=str(own)), CAPTIONS)  # with transformers' own tokenizer
    assert not mark.exists()


@pytest.mark.parametrize("use", [as_text, as_bertscore])
def test_attention_to_be_downloaded_is_refused(text_folder, tmp_path, use):
    own = Path(shutil.copytree(text_folder, tmp_path / "own"))
    config = json.loads((own / "config.json").read_text())
    (own / "config.json").write_text(json.dumps({**config, "attn_implementation": "somebody/kernels"}))
    assert "attn_implementation is 'somebody/kernels', which would be downloaded" in str(refusal(use, own))


TEXT_EDITS = [
    {"tokenizer_kwargs": {"trust_remote_code": True}},
    {"tokenizer_kwargs": {"clean": "whitespace", "subfolder": "../elsewhere"}},
    {"tokenizer_kwargs": "x"},
    {"hf_tokenizer_name": "somebody/something"},
    {"hf_model_name": "somebody/something"},
    {"hf_model_name": "/elsewhere"},
    {"hf_pooler_type": 3},
    {"hf_proj_type": ["linear"]},
    {"unknown": 1},
    {"context_length": "64"},
    {"context_length": -1},
    {"context_length": None},
]
VISION_EDITS = [
    {"timm_model_name": "hf-hub:somebody/something"},
    {"timm_model_name": "local-dir:/elsewhere"},
    {"timm_model_name": ["x"]},
    {"width": "8"},
    {"width": float("nan")},
    {"width": 10**9},
    {"layers": [1, 1, 1, 10**9]},
    {"layers": {"a": 1}},
    {"image_size": 10**6},
    {"act_kwargs": {"inplace": True}},
]
PREPROCESS_EDITS = [{"mean": "x"}, {"mean": [1, 2]}, {"resize_mode": "x"}, {"std": [0, 0, 0]}, {"own": 1}]


@pytest.mark.parametrize(
    ("part", "edit"),
    [("text_cfg", edit) for edit in TEXT_EDITS]
    + [("vision_cfg", edit) for edit in VISION_EDITS]
    + [("preprocess_cfg", edit) for edit in PREPROCESS_EDITS]
    + [("model_cfg", edit) for edit in ({"multimodal_cfg": {}}, {"embed_dim": "16"}, {"output_dict": True})],
    ids=str,
)  # fmt: skip
def test_a_description_is_a_closed_list(folder, part, edit):
    path = folder / "open_clip_config.json"
    content = json.loads(path.read_text())
    place = content if part in content else content["model_cfg"]
    place[part] = {**place[part], **edit}
    path.write_text(json.dumps(content))
    with pytest.raises(ModelError, match=next(iter(edit))) as caught:
        load_dual_encoder(str(folder), device="cpu")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["[]", "{", '{"model_cfg": 3}', '{"model_cfg": {}}', "null"])
def test_other_descriptions_are_refused_in_one_line(folder, content):
    (folder / "open_clip_config.json").write_text(content)
    with pytest.raises(ModelError, match=r"open_clip_config\.json") as caught:
        load_dual_encoder(str(folder), device="cpu")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("config.json", {"model_type": "timm_wrapper", "architecture": "hf-hub:x/y"}),
        ("config.json", {"hidden_size": "32"}),
        ("config.json", {"num_hidden_layers": 10**7}),
        ("config.json", {"num_attention_heads": 0}),
        ("tokenizer_config.json", {"vocab_file": "/etc/passwd"}),
    ],
)
def test_the_text_encoder_in_a_folder_is_checked_too(folder, name, edit):
    content = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({**content, **edit}))
    with pytest.raises(ModelError) as caught:
        load_dual_encoder(str(folder), device="cpu")
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("little_memory")
def test_a_model_that_its_weights_do_not_fill_is_refused_before_memory_is_taken(folder):
    path = folder / "open_clip_config.json"
    content = json.loads(path.read_text())
    content["model_cfg"]["vision_cfg"] = {"layers": 200, "width": 8192, "patch_size": 16, "image_size": 64}
    path.write_text(json.dumps(content))
    with pytest.raises(ModelError, match="cannot hold"):
        load_dual_encoder(str(folder), device="cpu")


def test_what_open_clip_builds_by_name_may_be_kept_in_a_folder():
    """All of its models but CoCa, whose text half gives no plain features, fit the closed list."""
    unfit = []
    for name in open_clip.list_models():
        described = open_clip.get_model_config(name)
        for key in ("hf_model_name", "hf_tokenizer_name"):
            if described["text_cfg"].get(key):
                described["text_cfg"][key] = "."
        image = {
            "embed_dim": described["embed_dim"],
            "quick_gelu": False,
            "vision_cfg": described["vision_cfg"],
        }
        try:
            check_image_encoder(image, name)
            check_model(described, name)
        except ModelError as error:
            unfit.append(f"{name}: {error}")
    assert all("coca" in line or "timm has no such model" in line for line in unfit), unfit


def test_weights_are_as_readable_as_other_files(dual_folder):
    modes = {path.name: path.stat().st_mode & 0o777 for path in dual_folder.iterdir()}
    assert modes["open_clip_model.safetensors"] == modes["open_clip_config.json"]


def test_an_encoder_with_a_tokenizer_of_another_kind_cannot_be_saved(text_folder):
    made = new_dual_encoder({"embed_dim": 16, "vision_cfg": RESNET}, text_encoder=str(text_folder))
    made.tokenizer = lambda texts: torch.zeros(len(texts), 4, dtype=torch.long)
    with pytest.raises(ConfigError, match="tokenizer"):
        check_savable(made)


def test_a_plain_folder_still_loads(folder, text_folder):
    loaded = load_dual_encoder(str(folder), device="cpu", precision="fp32")
    made = new_dual_encoder({"embed_dim": 16, "vision_cfg": RESNET}, text_encoder=str(text_folder))
    np.testing.assert_array_equal(loaded.encode_texts(CAPTIONS), made.encode_texts(CAPTIONS))

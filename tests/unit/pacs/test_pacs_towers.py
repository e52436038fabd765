"""What the towers of a new dual encoder are made of."""

import json
from logging import Handler, getLogger

import pytest
import torch

from suisei.encoders.dual_folder import new_dual_encoder
from suisei.encoders.weights import save_weights
from suisei.errors import ConfigError
from suisei.pacs.dual_module import Architecture, PacTraining
from suisei.pacs.dual_run import run
from suisei.pacs.towers import image_slot, image_states, project, projections, text_slot, text_states
from tests.unit.pacs.pacs_models import arguments
from tests.unit.tiny_models import TEXT, VIT

RESNET = {"layers": [1, 1, 1, 1], "width": 4, "image_size": 32, "head_width": 16}


def test_one_entry_of_the_architecture_is_overridden_on_the_command_line(folder, tmp_path):
    config = tmp_path / "small.yaml"
    described = {"embed_dim": 16, "vision_cfg": VIT, "text_cfg": TEXT}
    config.write_text(json.dumps({"task": "pacs", "model": {"architecture": described}}))
    more = [
        "--model.architecture.vision_cfg.image_size=64",
        "--model.trainable=image",
        "--trainer.max_steps=2",
    ]
    run(["--config", str(config), *arguments(folder, tmp_path / "run", *more)])
    saved = json.loads((tmp_path / "run" / "model" / "open_clip_config.json").read_text())
    assert saved["model_cfg"]["vision_cfg"]["image_size"] == 64
    assert saved["model_cfg"]["vision_cfg"]["patch_size"] == 16


@pytest.mark.parametrize("damaged", ["[", "2020-13-45", "[" * 3000, "{class_path: os.system}"])
def test_an_entry_of_the_architecture_that_cannot_be_read_is_named(damaged):
    with pytest.raises(ConfigError, match=r"^model\.architecture\.vision_cfg\.layers.*: ") as error:
        Architecture(16, {"width": 32, "layers": damaged}).described()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("architecture", [VIT, RESNET])
def test_split_towers_equal_the_whole(architecture):
    encoder = new_dual_encoder({"embed_dim": 16, "vision_cfg": architecture, "text_cfg": TEXT}, seed=1)
    model = encoder.model
    pixels, tokens = torch.randn(3, 3, 32, 32), encoder.tokenizer(["a dog", "two cats"])
    with torch.no_grad():
        torch.testing.assert_close(
            project(image_slot(model), image_states(model, pixels)), model.encode_image(pixels)
        )
        torch.testing.assert_close(
            project(text_slot(model), text_states(model, tokens)), model.encode_text(tokens)
        )
    assert text_slot(model) is not None
    assert (image_slot(model) is None) == (architecture is RESNET)


def test_projections_are_those_of_both_towers_and_stay_where_a_tower_fails():
    model = new_dual_encoder({"embed_dim": 16, "vision_cfg": VIT, "text_cfg": TEXT}, seed=1).model
    before = model.visual.proj, model.text_projection
    assert [id(own) for own in projections(model)] == [id(own) for own in before]
    with pytest.raises(RuntimeError):
        image_states(model, torch.zeros(1, 4, 32, 32))
    assert model.visual.proj is before[0]


def test_weights_to_start_from(folder, tmp_path):
    """A checkpoint replaces a model's weights; a seed decides new ones; an encoder becomes the text tower."""
    state = new_dual_encoder(
        {"embed_dim": 16, "vision_cfg": VIT, "text_cfg": TEXT}, seed=5
    ).model.state_dict()
    torch.save(state, tmp_path / "other.pt")
    started = PacTraining(str(folder / "clip"), checkpoint=str(tmp_path / "other.pt"))
    assert torch.equal(started.towers.visual.proj, state["visual.proj"])
    described = Architecture(16, VIT, TEXT)
    new = []
    for seed in (5, 6):
        torch.manual_seed(seed)
        new.append(PacTraining(architecture=described, trainable="all").towers.visual.proj)
    assert torch.equal(new[0], state["visual.proj"])
    assert not torch.equal(new[0], new[1])


def test_a_text_encoder_becomes_the_text_tower(folder, tmp_path):
    from suisei.encoders.tiny import TinyTextConfig, build_text_backbone, train_tokenizer

    tokenizer = train_tokenizer(["a dog runs", "two cats on a mat", "a red ball"] * 3, 60)
    tokenizer.save_pretrained(tmp_path / "text")
    backbone = build_text_backbone(TinyTextConfig(width=32, layers=1), len(tokenizer), positions=40)
    backbone.save_pretrained(tmp_path / "text")
    described = Architecture(16, VIT, {"context_length": 20})
    model = PacTraining(architecture=described, text_encoder=str(tmp_path / "text"), trainable="image")
    embeddings = model.towers.text.transformer.embeddings.word_embeddings.weight
    assert torch.equal(embeddings, backbone.get_input_embeddings().weight)
    assert model.encoder.tokenizer(["a dog runs"]).shape == (1, 20)


def test_weights_of_timm_fill_the_image_tower(tmp_path):
    import timm

    torch.manual_seed(5)
    trunk = timm.create_model("resnet10t", pretrained=False)
    save_weights(trunk.state_dict(), tmp_path / "trunk.safetensors")
    tower = {
        "timm_model_name": "resnet10t",
        "timm_pool": "avg",
        "timm_proj": "linear",
        "image_size": 32,
    }
    described = Architecture(16, tower, {"context_length": 20, "width": 16, "layers": 1, "heads": 2})
    model = PacTraining(architecture=described, image_weights=str(tmp_path / "trunk.safetensors"))
    assert torch.equal(model.towers.visual.trunk.conv1[0].weight, trunk.conv1[0].weight)
    for name in ("mean", "std"):
        assert model.towers.visual.preprocess_cfg[name] == trunk.pretrained_cfg[name]
    trained = {name for name, weights in model.named_parameters() if weights.requires_grad}
    assert "towers.visual.head.proj.weight" in trained
    assert not any("trunk" in name for name in trained)
    pixels = torch.rand(2, 3, 32, 32)
    projected = project(image_slot(model.towers), image_states(model.towers, pixels))
    torch.testing.assert_close(projected, model.towers.visual(pixels))
    with pytest.raises(ConfigError, match="timm"):
        PacTraining(
            architecture=Architecture(16, VIT, TEXT), image_weights=str(tmp_path / "trunk.safetensors")
        )


@pytest.mark.parametrize("part", ["text_encoder", "image_weights"])
def test_parts_of_a_new_model_are_refused_for_another(folder, part):
    with pytest.raises(ConfigError, match=r"new model.*model\.architecture"):
        PacTraining(str(folder / "clip"), None, **{part: "x"})


def test_a_head_that_pools_is_no_projection():
    tower = {"timm_model_name": "resnet10t", "timm_pool": "rot_attn", "timm_proj": "", "image_size": 32}
    made = new_dual_encoder({"embed_dim": 16, "vision_cfg": tower, "text_cfg": TEXT}, seed=0)
    assert image_slot(made.model) is None


def test_frozen_towers_compute_as_in_scoring(folder, monkeypatch):
    found = {}
    for precision in ("fp32", "bf16"):
        monkeypatch.setenv("SUISEI_PRECISION", precision)
        model = PacTraining(str(folder / "clip"), None)
        model.prepare(["a red wall"], torch.zeros(1, 3, 32, 32), 1)
        found[precision] = (model._text_states, model._image_states)
    exact = text_states(model.towers, model._token_rows(torch.tensor([0])))
    torch.testing.assert_close(found["fp32"][0], exact)
    for rounded, whole in zip(found["bf16"], found["fp32"], strict=True):
        assert not torch.equal(rounded, whole)
        torch.testing.assert_close(rounded, whole, rtol=0.05, atol=0.05)


def test_published_weights_are_asked_for_by_their_tag(monkeypatch):
    def stop(name, pretrained, **_):
        raise ConfigError(f"{name} with {pretrained}")

    monkeypatch.setattr("suisei.pacs.dual_module.load_dual_encoder", stop)
    with pytest.raises(ConfigError, match="ViT-L-14 with laion2b_s32b_b82k"):
        PacTraining("ViT-L-14", "laion2b_s32b_b82k")
    with pytest.raises(ConfigError, match="ViT-B-32 with openai"):
        PacTraining()


def test_a_text_encoder_s_unused_pooler_is_not_reported(tmp_path):
    from transformers import BertConfig, BertModel

    from suisei.encoders.tiny import train_tokenizer

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    tokenizer = train_tokenizer(["a dog runs", "two cats on a mat", "a red ball"] * 3, 60)
    tokenizer.save_pretrained(tmp_path)
    BertModel(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(tmp_path)
    said = Handler()
    said.emit = lambda record: said.records.append(record.getMessage())
    said.records = []
    getLogger("transformers").addHandler(said)
    try:
        new_dual_encoder({"embed_dim": 16, "vision_cfg": VIT}, text_encoder=str(tmp_path))
    finally:
        getLogger("transformers").removeHandler(said)
    assert said.records == []

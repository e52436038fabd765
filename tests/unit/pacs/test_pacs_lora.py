import copy

import open_clip
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from suisei.errors import ConfigError
from suisei.pacs.lora import LowRank, add_lora, merge_lora


@pytest.fixture
def model():
    torch.manual_seed(0)
    return open_clip.CLIP(
        embed_dim=16,
        vision_cfg={"image_size": 32, "layers": 2, "width": 32, "patch_size": 16, "head_width": 16},
        text_cfg={"context_length": 12, "vocab_size": 50, "width": 32, "heads": 2, "layers": 1},
    ).eval()


def outputs(model):
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(3, 3, 32, 32, generator=generator)
    tokens = torch.randint(1, 50, (4, 12), generator=generator)
    return model.encode_image(images), model.encode_text(tokens)


def randomise(model):
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, LowRank):
                module.factor_b.copy_(0.1 * torch.randn(module.factor_b.shape, generator=generator))


def test_what_is_adapted_and_trainable(model):
    names = add_lora(model, rank=4)
    blocks = [f"visual.transformer.resblocks.{i}" for i in (0, 1)] + ["transformer.resblocks.0"]
    parts = ("attn.in_proj_weight", "attn.out_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
    assert set(names) == {f"{block}.{part}" for block in blocks for part in parts} | {"visual.conv1.weight"}
    trainable = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert all(name.endswith(("factor_a", "factor_b")) for name in trainable)
    assert len(trainable) == 2 * len(names)


def test_the_first_factor_starts_as_a_linear_layer_of_its_inputs_does():
    start = LowRank(torch.zeros(3, 4, 25), 200, 1.0, torch.Generator().manual_seed(0)).factor_a
    bound = 0.1  # of 100 inputs
    assert 0.99 * bound < start.max() <= bound
    assert -bound <= start.min() < -0.99 * bound
    assert start.mean().item() == pytest.approx(0, abs=0.05 * bound)


def test_a_vision_transformer_of_timms_is_adapted_too():
    vision = {"timm_model_name": "vit_tiny_patch16_224", "timm_proj": "linear", "image_size": 224}
    text = {"context_length": 12, "vocab_size": 50, "width": 32, "heads": 2, "layers": 1}
    model = open_clip.CLIP(embed_dim=16, vision_cfg=vision, text_cfg=text).eval()
    pixels = torch.randn(2, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    before = model.encode_image(pixels)
    names = add_lora(model, rank=2)
    parts = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
    wanted = {f"visual.trunk.blocks.{i}.{part}.weight" for i in range(12) for part in parts}
    assert {name for name in names if name.startswith("visual")} == {
        *wanted,
        "visual.trunk.patch_embed.proj.weight",
    }
    assert torch.equal(model.encode_image(pixels), before)
    randomise(model)
    assert not torch.allclose(model.encode_image(pixels), before)


def test_the_starting_update_is_exactly_zero(model):
    before = outputs(model)
    add_lora(model, rank=1, seed=3)
    for plain, adapted in zip(before, outputs(model), strict=True):
        assert torch.equal(plain, adapted)


def test_an_adapted_model_equals_the_plain_computation(model):
    plain = copy.deepcopy(model)
    add_lora(model, rank=3, alpha=2.0)
    randomise(model)
    with torch.no_grad():
        for path, module in model.named_modules():
            for name, steps in getattr(module, "parametrizations", {}).items():
                update = 2.0 / 3 * steps[0].factor_b @ steps[0].factor_a
                weight = getattr(plain.get_submodule(path), name)
                weight.add_(update.reshape(weight.shape))
    for expected, found in zip(outputs(plain), outputs(model), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(
    ("layer", "inputs"),
    [
        (nn.Linear(6, 5), torch.randn(7, 6)),
        (nn.Conv2d(3, 5, 4, stride=2, bias=False), torch.randn(2, 3, 8, 8)),
    ],
)
def test_one_layer_equals_the_factored_form(layer, inputs):
    frozen = layer.weight.detach().clone()
    update = LowRank(layer.weight, 2, 1.0, torch.Generator().manual_seed(0))
    nn.init.normal_(update.factor_b)
    nn.utils.parametrize.register_parametrization(layer, "weight", update)
    if isinstance(layer, nn.Linear):
        low = F.linear(F.linear(inputs, update.factor_a), update.factor_b) / 2
        expected = F.linear(inputs, frozen, layer.bias) + low
    else:
        narrow = F.conv2d(inputs, update.factor_a.view(2, 3, 4, 4), stride=2)
        expected = (
            F.conv2d(inputs, frozen, stride=2) + F.conv2d(narrow, update.factor_b[:, :, None, None]) / 2
        )
    torch.testing.assert_close(layer(inputs), expected, atol=1e-6, rtol=1e-5)


def test_merging_and_unmerging_are_exact(model):
    state = {key: value.clone() for key, value in model.state_dict().items()}
    add_lora(model, rank=4)
    randomise(model)
    adapted = outputs(model)
    used = model.visual.conv1.weight.detach().clone()
    merge_lora(model)
    assert set(model.state_dict()) == set(state)
    assert torch.equal(model.state_dict()["visual.conv1.weight"], used)
    assert not torch.equal(used, state["visual.conv1.weight"])
    for one, other in zip(adapted, outputs(model), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-6)


def test_training_moves_the_factors_alone(model):
    add_lora(model, rank=2)
    frozen = {
        key: value.detach().clone() for key, value in model.named_parameters() if not value.requires_grad
    }
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        sum(features.square().sum() for features in outputs(model)).backward()
        optimizer.step()
    for key, value in model.named_parameters():
        if key in frozen:
            assert torch.equal(value, frozen[key]), key
        else:
            assert value.grad is not None, key
    assert all(m.factor_b.abs().sum() > 0 for m in model.modules() if isinstance(m, LowRank))


def test_refusals(model):
    with pytest.raises(ConfigError, match="at least 1"):
        add_lora(model, rank=0)
    add_lora(model)
    with pytest.raises(ConfigError, match="already"):
        add_lora(model)
    with pytest.raises(ConfigError, match="this model has none"):
        add_lora(nn.Linear(2, 2))

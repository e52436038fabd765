import json

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from suisei.encoders.dual_loading import load_dual_encoder
from suisei.encoders.published_lora import has_lora, merge_published_lora
from suisei.errors import ModelError

RANK, WIDTH, KERNEL = 4, 12, 3


@pytest.fixture
def tensors():
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator)

    return {
        "attn.in_proj_weight": draw(3 * WIDTH, WIDTH),
        "attn.in_proj_bias": draw(3 * WIDTH),
        "attn.in_proj_weight_lora_A": draw(RANK, WIDTH),
        "attn.in_proj_weight_lora_B": draw(3 * WIDTH, RANK),
        "attn.out_proj.weight": draw(WIDTH, WIDTH),
        "attn.out_proj.lora_A": draw(RANK, WIDTH),
        "attn.out_proj.lora_B": draw(WIDTH, RANK),
        "b.mlp.c_fc.weight": draw(4 * WIDTH, WIDTH),
        "b.mlp.c_fc.lora_A": draw(RANK, WIDTH),
        "b.mlp.c_fc.lora_B": draw(4 * WIDTH, RANK),
        "visual.conv1.weight": draw(WIDTH, 2, KERNEL, KERNEL),
        "visual.conv1.lora_A": draw(RANK * KERNEL, 2 * KERNEL),
        "visual.conv1.lora_B": draw(WIDTH * KERNEL, RANK * KERNEL),
    }


def test_merged_weights_compute_what_the_factors_compute(tensors):
    merged = merge_published_lora(tensors, source="x")
    assert not has_lora(merged)
    assert has_lora(tensors)
    inputs = torch.randn(5, WIDTH)
    for weight, stem in (
        ("attn.in_proj_weight", "attn.in_proj_weight_"),
        ("attn.out_proj.weight", "attn.out_proj."),
    ):
        low = F.linear(F.linear(inputs, tensors[f"{stem}lora_A"]), tensors[f"{stem}lora_B"]) / RANK
        expected = F.linear(inputs, tensors[weight]) + low
        torch.testing.assert_close(F.linear(inputs, merged[weight]), expected, atol=1e-5, rtol=1e-5)
    update = tensors["visual.conv1.lora_B"] @ tensors["visual.conv1.lora_A"]
    expected = tensors["visual.conv1.weight"] + 0.25 * update.view(WIDTH, 2, KERNEL, KERNEL)
    torch.testing.assert_close(merged["visual.conv1.weight"], expected)
    assert torch.equal(merged["attn.in_proj_bias"], tensors["attn.in_proj_bias"])


def test_mlp_updates_are_taken_to_be_inside_as_in_the_authors_program(tensors):
    merged = merge_published_lora(tensors, source="x")
    assert torch.equal(merged["b.mlp.c_fc.weight"], tensors["b.mlp.c_fc.weight"])


def test_factors_that_do_not_go_together_are_named(tensors):
    with pytest.raises(ModelError, match=r"file: attn.out_proj.lora_A has no attn.out_proj.lora_B"):
        merge_published_lora({k: v for k, v in tensors.items() if k != "attn.out_proj.lora_B"}, source="file")
    with pytest.raises(ModelError, match=r"visual.conv1.lora_A.*do not make an update"):
        merge_published_lora({**tensors, "visual.conv1.lora_B": torch.zeros(2, 2)}, source="file")


def test_a_published_checkpoint_loads_into_the_plain_model(tmp_path):
    config = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 32, "patch_size": 16, "head_width": 16},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
    }
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": config}))
    plain = load_dual_encoder(str(tmp_path), seed=0, device="cpu")
    state = dict(plain.model.state_dict())
    prefix = "transformer.resblocks.0.attn.in_proj_weight_"
    state[f"{prefix}lora_A"], state[f"{prefix}lora_B"] = torch.randn(4, 32), torch.randn(96, 4)
    path = tmp_path / "plus.pth"
    torch.save({"state_dict": state}, path)
    loaded = load_dual_encoder(str(tmp_path), checkpoint=path, device="cpu")
    assert loaded.settings()["weights"].endswith("-lora-merged")
    assert not np.allclose(loaded.encode_texts(["a dog"]), plain.encode_texts(["a dog"]), atol=1e-3)

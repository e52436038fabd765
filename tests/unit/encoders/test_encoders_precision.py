"""Precision: chosen by what the machine multiplies in hardware, said in the signature, small in effect."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from suisei.encoders.dual import DualEncoder
from suisei.encoders.precision import (
    choose_device,
    choose_precision,
    has_fast_bf16,
    matrix_products,
    quick_gradients,
    to_precision,
)
from suisei.errors import ConfigError

WORDS = ("red", "blue", "dog", "two", "cats", "run", "in", "the", "park", "ball", "on", "犬", "猫が")


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"avx512_f": True}, "fp32"),
        ({"avx512_bf16": True}, "bf16"),
        ({"amx_bf16": True, "amx_tile": True}, "bf16"),
        ({"avx512_bf16": False, "amx_tile": False}, "fp32"),
    ],
)
def test_auto_is_bf16_where_the_cpu_multiplies_it(monkeypatch, capabilities, expected):
    monkeypatch.delenv("SUISEI_PRECISION", raising=False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert choose_precision("auto", "cpu") == expected
    assert choose_precision("fp32", "cpu") == "fp32"


def test_the_environment_stands_for_auto_and_not_for_a_choice(monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True}, raising=False)
    monkeypatch.setenv("SUISEI_PRECISION", "fp32")
    assert choose_precision("auto", "cpu") == "fp32"
    assert choose_precision("bf16", "cpu") == "bf16"
    monkeypatch.setenv("SUISEI_PRECISION", "half")
    with pytest.raises(ConfigError, match="'half'"):
        choose_precision("auto", "cpu")


def test_the_environment_stands_for_auto_of_dual_encoders_on_a_gpu_too(monkeypatch):
    from suisei.encoders import dual_loading

    asked = []
    monkeypatch.setattr(dual_loading, "choose_device", lambda device: device)
    monkeypatch.setattr(dual_loading, "_load_folder", lambda *_, precision, device: asked.append(precision))
    for given in ("fp32", None):
        if given is None:
            monkeypatch.delenv("SUISEI_PRECISION")
        else:
            monkeypatch.setenv("SUISEI_PRECISION", given)
        for precision in ("auto", "bf16"):
            dual_loading.load_dual_encoder(".", precision=precision, device="cuda:0")
    assert asked == ["fp32", "bf16", "fp16", "bf16"]


@pytest.mark.parametrize("fast", [True, False])
def test_auto_on_a_gpu_follows_the_gpu(monkeypatch, fast):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_options: fast)
    assert choose_device("auto") == "cuda"
    assert choose_device("cpu") == "cpu"
    assert has_fast_bf16("cuda:1") is fast


def test_unknown_precisions_are_refused():
    with pytest.raises(ConfigError, match="'fp8'; it must be one of auto, fp32, tf32, bf16, fp16, int8"):
        choose_precision("fp8", "cpu")


def test_tf32_is_refused_where_it_would_be_fp32(monkeypatch):
    with pytest.raises(ConfigError, match="tf32 is for CUDA GPUs; cpu computes fp32"):
        choose_precision("tf32", "cpu")
    monkeypatch.setenv("SUISEI_PRECISION", "tf32")
    with pytest.raises(ConfigError, match="tf32 is for CUDA GPUs; cpu computes fp32"):
        choose_precision("auto", "cpu")
    with pytest.raises(ConfigError, match="tf32 is for CUDA GPUs; cpu computes fp32"):
        DualEncoder(nn.Linear(1, 1), None, None, name="x", weights="y", precision="tf32")
    for capability, refused in (((7, 5), True), ((8, 0), False), ((9, 0), False)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, own=capability: own)
        with pytest.raises(ConfigError, match="cuda:0 has no TF32") if refused else nullcontext():
            assert choose_precision("tf32", "cuda:0") == "tf32"


def test_batch_normalisation_stays_in_full_precision():
    model = nn.Sequential(nn.Conv2d(3, 2, 3), nn.BatchNorm2d(2))
    nn.init.normal_(model[1].weight)
    model(torch.rand(2, 3, 5, 5))
    numbers = {name: own.clone() for name, own in model[1].state_dict().items()}
    to_precision(model, "tf32")
    assert model[0].weight.dtype == torch.float32
    to_precision(model, "bf16")
    assert model[0].weight.dtype == torch.bfloat16
    assert model[1].running_var.dtype == model[1].weight.dtype == torch.float32
    assert model[1].state_dict().keys() == numbers.keys()
    assert all(torch.equal(own, numbers[name]) for name, own in model[1].state_dict().items())


def test_tf32_is_on_inside_the_block_alone():
    before = torch.get_float32_matmul_precision()
    with matrix_products("tf32"):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before
    with matrix_products("fp32"):
        assert torch.get_float32_matmul_precision() == before


@pytest.fixture(scope="module")
def scores(build_regressor, pictures, tmp_path_factory):
    """Scores of 300 samples by precision, and the signatures."""
    from suisei.data.sample import CaptionSample
    from suisei.metrics.loading import load
    from suisei.models.folder import save_model

    regressor = build_regressor(references="mean-max")
    with torch.no_grad():
        for weights in regressor.members.parameters():
            weights.mul_(3)  # spreads the scores of random weights over the range of trained ones
    folder = tmp_path_factory.mktemp("models") / "model"
    save_model(folder, regressor)
    generator = np.random.default_rng(0)

    def caption():
        return " ".join(generator.choice(WORDS, size=generator.integers(2, 14)))

    samples = [
        CaptionSample(caption(), [caption() for _ in range(n % 4)], [*pictures, None][n % 5])
        for n in range(300)
    ]
    metrics = {name: load(folder, device="cpu", precision=name) for name in ("fp32", "bf16", "fp16")}
    found = {name: metric.score(samples) for name, metric in metrics.items()}
    return found, {name: metric.signature for name, metric in metrics.items()}


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_lower_precision_hardly_moves_scores(scores, precision):
    found, signatures = scores
    assert found["fp32"].std() > 0.03
    assert np.abs(found[precision] - found["fp32"]).max() < 0.01
    assert spearmanr(found[precision], found["fp32"]).statistic > 0.999
    assert f"|dtype:{precision}|" in signatures[precision]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_signed_precision_is_really_used(scores, precision):
    found, _ = scores
    assert np.abs(found[precision] - found["fp32"]).max() > 1e-5


def test_attention_is_learned_through_one_product_at_a_time_in_bf16_on_a_cpu_alone():
    """Fused, its gradient takes a multiple of the time; it is the same but for rounding."""
    torch.manual_seed(0)
    parts = torch.randn(3, 2, 4, 7, 16, requires_grad=True)
    fused = torch.backends.cuda.flash_sdp_enabled

    def gradient():
        scaled_dot_product_attention(*parts).sum().backward()
        found, parts.grad = parts.grad, None
        return found

    exact = gradient()
    with quick_gradients():
        assert fused()
    with torch.autocast("cpu", torch.bfloat16):
        with quick_gradients():
            assert not fused()
            quick = gradient()
        assert fused()
    assert not torch.equal(quick, exact)
    torch.testing.assert_close(quick, exact, atol=0.02, rtol=0.02)

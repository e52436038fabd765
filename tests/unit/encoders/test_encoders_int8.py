"""int8: what is rounded, that captions do not touch each other, and that nothing else changes."""

import copy
import pickle

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import nn
from torch.nn import functional as F

from suisei.encoders.int8 import ROWS, Int8Linear, has_int8_products, to_int8
from suisei.encoders.precision import choose_precision, of_images, to_precision
from suisei.errors import ConfigError

SIDES = [
    False,
    pytest.param(True, marks=pytest.mark.skipif(not has_int8_products(), reason="no int8 products")),
]


@pytest.fixture(scope="module")
def layer():
    torch.manual_seed(0)
    return nn.Linear(64, 96)


def by_hand(layer, states, divisor):
    """Round in float64 as the module says, row by row."""
    weight, states = layer.weight.double() * divisor, states.double() / divisor
    scale = weight.abs().amax(dim=1, keepdim=True) / 127
    steps = states.abs().amax(dim=-1, keepdim=True) / 127
    whole = torch.floor(states / steps + 0.5)
    return F.linear(whole, (weight / scale).round()) * scale[:, 0] * steps + layer.bias.double()


@pytest.mark.parametrize("hardware", SIDES)
@pytest.mark.parametrize("outlier", [False, True])
@torch.inference_mode()
def test_equals_rounding_by_hand(layer, hardware, outlier):
    states = torch.randn(3, ROWS // 2, 64, generator=torch.Generator().manual_seed(1))
    largest, divisor = None, torch.ones(64).double()
    if outlier:
        states[..., 5] *= 50
        largest = states.flatten(0, 1).abs().amax(dim=0)
        divisor = (largest / layer.weight.abs().amax(dim=0)).sqrt().double()
    found = Int8Linear(layer, largest, hardware=hardware)(states)
    expected = by_hand(layer, states, divisor)
    steps = (found - expected).abs() > 1e-4  # a half may be rounded the other way in float32
    assert steps.float().mean() < 0.05
    assert (found - expected).abs().max() < 0.05 * expected.std()


@torch.inference_mode()
def test_an_outlying_channel_costs_the_others_less_when_it_is_known(layer):
    states = torch.randn(200, 64, generator=torch.Generator().manual_seed(1))
    states[:, 5] *= 50
    errors = [
        (Int8Linear(layer, largest, hardware=False)(states) - layer(states)).square().mean().item()
        for largest in (None, states.abs().amax(dim=0))
    ]
    assert errors[1] < errors[0] / 4


@pytest.mark.parametrize("hardware", SIDES)
@torch.inference_mode()
def test_a_row_does_not_depend_on_the_rows_beside_it(layer, hardware):
    states = torch.randn(2 * ROWS + 3, 64, generator=torch.Generator().manual_seed(1))
    states[7] *= 1000
    rounded = Int8Linear(layer, hardware=hardware)
    together = rounded(states)
    alone = torch.cat([rounded(row[None]) for row in states])
    assert torch.allclose(together, alone, rtol=1e-5, atol=1e-5)


@torch.inference_mode()
def test_zeros_give_the_bias_and_nan_stays(layer):
    rounded = Int8Linear(layer, hardware=has_int8_products())
    assert torch.equal(rounded(torch.zeros(2, 64)), layer.bias.expand(2, -1))
    assert rounded(torch.full((1, 64), torch.nan)).isnan().all()
    assert rounded(torch.zeros(0, 64)).shape == (0, 96)


@torch.inference_mode()
def test_channels_that_are_never_used_change_nothing(layer):
    layer, states = copy.deepcopy(layer), torch.randn(8, 64, generator=torch.Generator().manual_seed(1))
    layer.weight[:, 3] = 0
    states[:, 4] = 0
    found = Int8Linear(layer, states.abs().amax(dim=0), hardware=False)(states)
    assert (found - layer(states)).abs().max() < 0.05


def test_a_channel_that_is_large_in_an_encoder_is_known(build_regressor):
    backbone = build_regressor(image=False).text.backbone
    norm = next(part for part in backbone.modules() if isinstance(part, nn.LayerNorm))
    with torch.no_grad():
        norm.weight[3] *= 100
    to_int8(backbone)
    smaller = next(part for part in backbone.modules() if isinstance(part, Int8Linear)).smaller
    assert smaller[3] < smaller[torch.arange(len(smaller)) != 3].min() / 3


def test_an_encoder_in_training_is_left_in_training(build_regressor):
    backbone = build_regressor(image=False).text.backbone
    for training in (True, False):
        to_int8(backbone.train(training), hardware=False)
        assert all(part.training == training for part in backbone.modules())


@torch.inference_mode()
def test_copies_and_pickles_say_the_same(layer):
    rounded = Int8Linear(layer, hardware=has_int8_products())
    states = torch.randn(4, 64)
    expected = rounded(states)  # what oneDNN has packed is there now
    for copied in (copy.deepcopy(rounded), pickle.loads(pickle.dumps(rounded))):
        assert torch.equal(copied(states), expected)


@torch.inference_mode()
def test_an_encoder_is_replaced_once_and_stays_near(build_regressor, captions):
    text = build_regressor(image=False).text
    ids, mask = text.pad(text.tokenize(captions))
    before = text(ids, mask)[-1]
    state = torch.random.get_rng_state()
    to_precision(text.backbone, "int8")
    assert torch.equal(torch.random.get_rng_state(), state)
    kinds = {type(part) for part in text.backbone.modules()}
    assert Int8Linear in kinds
    assert nn.Linear not in kinds
    after = text(ids, mask)[-1]
    to_int8(text.backbone)
    assert torch.equal(text(ids, mask)[-1], after)
    difference = (after - before)[mask.bool()].norm() / before[mask.bool()].norm()
    assert 1e-5 < difference < 0.05


@torch.inference_mode()
def test_the_vector_of_the_padding_decides_nothing(build_regressor, captions):
    states = []
    for channel in (3, 7):
        text = build_regressor(image=False).text
        words = text.backbone.embeddings.word_embeddings.weight
        words[text.tokenizer.pad_token_id] = 100 * F.one_hot(torch.tensor(channel), words.shape[1])
        to_int8(text.backbone, hardware=False)
        ids, mask = text.pad(text.tokenize(captions))
        states.append(text(ids, mask)[-1][mask.bool()])
    assert torch.equal(*states)


@pytest.mark.skipif(not has_int8_products(), reason="no int8 products")
@torch.inference_mode()
def test_without_hardware_the_numbers_are_the_same(build_regressor, captions):
    text = build_regressor(image=False).text
    ids, mask = text.pad(text.tokenize(captions))
    sides = []
    for hardware in (False, True):
        backbone = copy.deepcopy(text.backbone)
        to_int8(backbone, hardware=hardware)
        sides.append(backbone(input_ids=ids, attention_mask=mask).last_hidden_state[mask.bool()])
    assert torch.allclose(*sides, atol=2e-2)  # a sum's rounding may push a later value over a step
    assert (sides[0] - sides[1]).abs().mean() < 1e-3


def test_int8_is_for_cpus_and_images_stay_whole():
    assert choose_precision("int8", "cpu") == "int8"
    with pytest.raises(ConfigError, match="int8 is for CPUs; on cuda:0 use bf16 or fp16"):
        choose_precision("int8", "cuda:0")
    assert [of_images(name) for name in ("int8", "bf16", "fp32")] == ["fp32", "bf16", "fp32"]


def test_scores_keep_their_order_and_the_signature_says_so(build_regressor, pictures, tmp_path):
    from suisei.data.sample import CaptionSample
    from suisei.metrics.loading import load
    from suisei.models.folder import save_model

    regressor = build_regressor(references="mean-max", frozen_image=True)
    with torch.no_grad():
        for weights in regressor.members.parameters():
            weights.mul_(3)
    save_model(tmp_path / "model", regressor)
    words, generator = (
        ("red", "blue", "dog", "two", "cats", "in", "the", "park", "犬", "猫が"),
        np.random.default_rng(0),
    )
    texts = [" ".join(generator.choice(words, size=generator.integers(2, 14))) for _ in range(360)]
    samples = [CaptionSample(texts[n], texts[n + 120 : n + 120 + n % 3], pictures[n % 4]) for n in range(120)]
    whole = load(tmp_path / "model", device="cpu", precision="fp32")
    rounded = load(tmp_path / "model", device="cpu", precision="int8")
    assert "|dtype:int8|" in rounded.signature
    assert not any(isinstance(part, Int8Linear) for part in rounded.regressor.image.modules())
    expected, found = whole.score(samples), rounded.score(samples)
    assert 1e-6 < np.abs(found - expected).max() < 0.02
    assert spearmanr(found, expected).statistic > 0.999
    alone = [rounded.score([sample])[0] for sample in samples[:20]]
    assert alone == pytest.approx(found[:20], abs=2e-3)
    with pytest.raises(ConfigError, match="int8 cannot be compiled"):
        load(tmp_path / "model", device="cpu", precision="int8", compile=True)

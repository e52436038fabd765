"""Weights in 8 or 4 bits."""

import pickle

import pytest
import torch

from suisei.errors import ConfigError, ModelError
from suisei.models.quantization import (
    Rounding,
    dequantize,
    dequantize_state,
    dequantized_shapes,
    is_rounded,
    parts_of,
    quantize,
    quantize_state,
)


def matrix(rows=40, columns=96):
    torch.manual_seed(0)
    return torch.randn(rows, columns) * torch.logspace(-3, 1, rows)[:, None]


@pytest.mark.parametrize(("bits", "steps"), [(8, 2 * 127), (4, 4)])
def test_no_entry_moves_by_more_than_a_step_allows(bits, steps):
    weight = matrix()
    parts = quantize(weight, Rounding(bits))
    largest = weight.unflatten(1, (3, 32)).abs().amax(dim=2, keepdim=True)
    moved = (dequantize(parts) - weight).unflatten(1, (3, 32)).abs()
    assert bool((moved <= largest / steps * 1.01).all())  # and what half precision does to the scale
    assert float(moved.max()) > 0
    assert sum(part.nbytes for part in parts.values()) == 40 * 96 * bits // 8 + 40 * 3 * 2


def test_a_block_in_4_bits_has_the_scale_that_moves_it_least():
    weight = matrix()
    parts = quantize(weight, Rounding(4))
    moved = (dequantize(parts) - weight).square().mean()
    blocks = weight.unflatten(1, (3, 32))
    largest = blocks.gather(2, blocks.abs().argmax(dim=2, keepdim=True))
    plain = ((blocks / (largest / -8)).round().clamp(-8, 7) * (largest / -8)).flatten(1)
    assert float(moved) < 0.95 * float((plain - weight).square().mean())


def test_what_was_rounded_once_stays_as_it_is():
    many = dequantize(quantize(torch.randn(300, 64), Rounding(4)))
    assert torch.equal(dequantize(quantize(many, Rounding(4))), many)
    once = dequantize(quantize(torch.randn(8, 64), Rounding(4)))
    assert torch.equal(dequantize(quantize(once, Rounding(4))), once)
    once = dequantize(quantize(torch.randn(8, 64), Rounding(8)))
    torch.testing.assert_close(dequantize(quantize(once, Rounding(8))), once, rtol=1e-3, atol=1e-6)
    zeros = torch.zeros(3, 32)
    assert torch.equal(dequantize(quantize(zeros, Rounding(4))), zeros)


def test_weights_of_ggmls_grid_are_stored_without_loss():
    torch.manual_seed(0)
    whole = torch.randint(-8, 8, (6, 3, 32)).float()
    whole[:, :, 5] = -8  # every block reaches the end of the grid
    scale = (torch.rand(6, 3, 1) - 0.5).half().float()
    published = (whole * scale).flatten(1)
    assert torch.equal(dequantize(quantize(published, Rounding(4))), published)


@pytest.mark.parametrize(("bits", "steps"), [(4, 14), (8, 254)])
def test_a_small_change_survives_beside_its_base(bits, steps):
    base = dequantize(quantize(torch.randn(16, 64), Rounding(4)))
    change = torch.randn(16, 64) * 1e-4
    parts = quantize(base + change, Rounding(4, base, bits))
    moved = (dequantize(parts) - (base + change)).abs()
    assert bool((moved <= change.abs().amax(dim=1, keepdim=True) / steps * 1.02 + 1e-6).all())
    undone = dequantize(quantize(base + change, Rounding(8)))
    assert float((undone - base - change).abs().mean()) > 10 * float(moved.mean())


def test_what_was_not_trained_has_no_change():
    base = dequantize(quantize(torch.randn(4, 32), Rounding(4)))
    parts = quantize(base.clone(), Rounding(4, base))
    assert sorted(parts) == [".q4", ".scale"]
    assert torch.equal(dequantize(parts), base)


def test_a_base_off_the_grid_is_made_up_for_by_the_change():
    base = torch.randn(8, 64)
    stored = dequantize(quantize(base, Rounding(4, base, 8)))
    alone = dequantize(quantize(base, Rounding(4)))
    assert float((stored - base).abs().max()) < 0.05 * float((alone - base).abs().max())


@pytest.mark.parametrize("wide", [[], ["b"], ["a", "b", "c"]])
def test_each_weight_of_a_state_is_what_its_own_parts_are(wide):
    roundings = {"a": Rounding(4), "b": Rounding(8), "c": Rounding(4, torch.randn(16, 64), 4)}
    stored = quantize_state({name: torch.randn(16, 64) for name in roundings}, roundings)
    types = {name: torch.float32 if name in wide else torch.bfloat16 for name in roundings}
    found = dequantize_state(stored, types)
    assert {name: weight.dtype for name, weight in found.items()} == types
    for name, weight in found.items():
        assert torch.equal(weight, dequantize(parts_of(stored, name)).to(types[name]))
        assert len(pickle.dumps(weight)) < 1.5 * weight.numel() * weight.element_size()


@pytest.mark.parametrize("bits", [4, 8])
def test_the_program_s_default_type_and_device_are_no_matter(bits):
    parts = quantize(torch.randn(4, 32), Rounding(bits))
    expected, before = dequantize(parts), torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        with torch.device("meta"):
            found = dequantize(parts)
    finally:
        torch.set_default_dtype(before)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)


def test_a_model_keeps_what_is_not_named():
    state = {"a.weight": torch.randn(4, 32), "a.bias": torch.randn(4), "b.scale": torch.ones(2)}
    assert not is_rounded(state)
    stored = quantize_state(state, {"a.weight": Rounding(4, torch.randn(4, 32))})
    names = [
        "a.bias",
        "a.weight.change4",
        "a.weight.change_scale",
        "a.weight.q4",
        "a.weight.scale",
        "b.scale",
    ]
    assert sorted(stored) == names
    assert is_rounded(stored)
    found = dequantize_state(stored)
    assert sorted(found) == sorted(state)
    assert torch.equal(found["a.bias"], state["a.bias"])
    assert torch.equal(found["b.scale"], state["b.scale"])
    assert float((found["a.weight"] - state["a.weight"]).abs().max()) < 0.5
    shapes = dequantized_shapes({name: tuple(part.shape) for name, part in stored.items()})
    assert shapes == {name: tuple(weight.shape) for name, weight in state.items()}


@pytest.mark.parametrize(
    ("weight", "rounding", "message"),
    [
        (torch.ones(2, 32), Rounding(3), "4 or 8 bits, got 3"),
        (torch.ones(2, 33), Rounding(8), r"\(2, 33\)"),
        (torch.ones(32), Rounding(8), r"\(32,\)"),
        (torch.full((1, 32), torch.nan), Rounding(8), "not finite"),
        (torch.full((1, 32), 1e9), Rounding(8), "too large"),
        (torch.ones(2, 32), Rounding(4, torch.ones(3, 32)), r"its base is \(3, 32\), and it is \(2, 32\)"),
        (torch.full((2, 32), torch.inf), Rounding(4, torch.ones(2, 32)), "not finite"),
        (torch.ones(2, 32), Rounding(4, torch.ones(2, 32), 5), "4 or 8 bits, got 5"),
    ],
)
def test_what_cannot_be_rounded_is_refused(weight, rounding, message):
    with pytest.raises(ConfigError, match=f"w: .*{message}"):
        quantize_state({"w": weight}, {"w": rounding})


def test_names_that_are_not_there_are_refused():
    with pytest.raises(ConfigError, match="'a'"):
        quantize_state({"b": torch.ones(2, 32)}, dict.fromkeys(("x", "b", "a"), Rounding(8)))


@pytest.mark.parametrize(
    "change",
    [
        lambda stored: stored.pop("w.scale"),
        lambda stored: stored.update({"w.scale": torch.ones(3, 2).half()}),
        lambda stored: stored.update({"w.scale": torch.ones(2, 2)}),
        lambda stored: stored.update({"w.q8": torch.ones(2, 64)}),
        lambda stored: stored.update({"w.q8": torch.ones(2, 63, dtype=torch.int8)}),
        lambda stored: stored.update({"w.q8": torch.tensor(1, dtype=torch.int8)}),
        lambda stored: stored.update({"w.q4": torch.ones(2, 32, dtype=torch.uint8)}),
        lambda stored: stored.pop("w.change_scale"),
        lambda stored: stored.pop("w.change4"),
        lambda stored: stored.update({"w.change8": torch.ones(2, 64, dtype=torch.int8)}),
        lambda stored: stored.update({"w.change4": torch.ones(2, 32)}),
        lambda stored: stored.update({"w.change4": torch.ones(2, 16, dtype=torch.uint8)}),
        lambda stored: stored.update({"w.change_scale": torch.ones(2).half()}),
        lambda stored: stored.update({"w.change_scale": torch.ones(3)}),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(change):
    stored = quantize_state({"w": torch.randn(2, 64)}, {"w": Rounding(8, torch.randn(2, 64))})
    change(stored)
    with pytest.raises(ModelError, match="w: a rounded"):
        dequantize_state(stored)

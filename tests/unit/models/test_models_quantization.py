"""Weights in 8 or 4 bits."""

import pytest
import torch

from suisei.errors import ConfigError, ModelError
from suisei.models.quantization import dequantize, dequantize_state, quantize, quantize_state


@pytest.mark.parametrize(("bits", "levels"), [(8, 127), (4, 7)])
def test_no_entry_moves_by_more_than_half_a_step(bits, levels):
    torch.manual_seed(0)
    weight = torch.randn(40, 96) * torch.logspace(-3, 1, 40)[:, None]
    parts = quantize(weight, bits)
    step = weight.unflatten(1, (3, 32)).abs().amax(dim=2, keepdim=True) / levels
    moved = (dequantize(parts) - weight).unflatten(1, (3, 32)).abs()
    assert bool((moved <= step * 0.505).all())  # and what half precision does to the scale
    assert float(moved.max()) > 0
    assert sum(part.nbytes for part in parts.values()) == 40 * 96 * bits // 8 + 40 * 3 * 2


@pytest.mark.parametrize("bits", [4, 8])
def test_what_was_rounded_once_stays_as_it_is(bits):
    once = dequantize(quantize(torch.randn(8, 64), bits))
    torch.testing.assert_close(dequantize(quantize(once, bits)), once, rtol=1e-3, atol=1e-6)
    zeros = torch.zeros(3, 32)
    assert torch.equal(dequantize(quantize(zeros, bits)), zeros)


def test_a_model_keeps_what_is_not_named():
    state = {"a.weight": torch.randn(4, 32), "a.bias": torch.randn(4), "b.scale": torch.ones(2)}
    stored = quantize_state(state, {"a.weight": 4})
    assert sorted(stored) == ["a.bias", "a.weight.q4", "a.weight.scale", "b.scale"]
    found = dequantize_state(stored)
    assert sorted(found) == sorted(state)
    assert torch.equal(found["a.bias"], state["a.bias"])
    assert torch.equal(found["b.scale"], state["b.scale"])
    assert float((found["a.weight"] - state["a.weight"]).abs().max()) < 0.5


@pytest.mark.parametrize(
    ("weight", "bits", "message"),
    [
        (torch.ones(2, 32), 3, "4 or 8 bits, got 3"),
        (torch.ones(2, 33), 8, r"\(2, 33\)"),
        (torch.ones(32), 8, r"\(32,\)"),
        (torch.full((1, 32), torch.nan), 8, "not finite"),
    ],
)
def test_what_cannot_be_rounded_is_refused(weight, bits, message):
    with pytest.raises(ConfigError, match=f"w: .*{message}"):
        quantize_state({"w": weight}, {"w": bits})


def test_names_that_are_not_there_are_refused():
    with pytest.raises(ConfigError, match="'a'"):
        quantize_state({"b": torch.ones(2, 32)}, {"x": 8, "b": 8, "a": 8})


@pytest.mark.parametrize(
    "change",
    [
        lambda stored: stored.pop("w.scale"),
        lambda stored: stored.update({"w.scale": torch.ones(3, 2).half()}),
        lambda stored: stored.update({"w.scale": torch.ones(2, 2)}),
        lambda stored: stored.update({"w.q8": torch.ones(2, 64)}),
        lambda stored: stored.update({"w.q8": torch.ones(2, 63, dtype=torch.int8)}),
        lambda stored: stored.update({"w.q4": torch.ones(2, 32, dtype=torch.uint8)}),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(change):
    stored = quantize_state({"w": torch.randn(2, 64)}, {"w": 8})
    change(stored)
    with pytest.raises(ModelError, match="w: a rounded matrix"):
        dequantize_state(stored)

"""Weights that are converted at once give the numbers and gradients of autocast."""

import copy

import pytest
import torch

from suisei.encoders.half_weights import converted_at_once
from suisei.encoders.tiny import TinyTextConfig, build_text_backbone

IDS = torch.tensor([[0, 5, 6, 2], [0, 7, 2, 1]])
MASK = (IDS != 1).long()


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    made = build_text_backbone(TinyTextConfig(vocabulary=60, width=32, layers=2), 60).eval()
    for parameter in made.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return made


def learned(encoder, *, at_once):
    """Return what the encoder says in bf16, and its gradients."""
    encoder = copy.deepcopy(encoder)
    with torch.autocast("cpu", torch.bfloat16):
        if at_once:
            with converted_at_once(encoder, "cpu"):
                states = encoder(input_ids=IDS, attention_mask=MASK).last_hidden_state
        else:
            states = encoder(input_ids=IDS, attention_mask=MASK).last_hidden_state
    states.float().square().sum().backward()
    return states, {name: own.grad for name, own in encoder.named_parameters()}


def test_numbers_and_gradients_are_those_of_autocast(encoder):
    states, gradients = learned(encoder, at_once=True)
    others, expected = learned(encoder, at_once=False)
    assert torch.equal(states, others)
    assert {name for name, own in gradients.items() if own is not None} == {
        name for name, own in expected.items() if own is not None
    }
    for name, own in expected.items():
        if own is not None:
            assert gradients[name].dtype == torch.float32
            assert torch.equal(gradients[name], own), name


def test_weights_are_themselves_afterwards_and_after_an_error(encoder):
    before = dict(encoder.named_parameters())
    linear = next(module for module in encoder.modules() if isinstance(module, torch.nn.Linear))
    with torch.autocast("cpu", torch.bfloat16):
        with converted_at_once(encoder, "cpu"):
            assert linear.weight.dtype == torch.bfloat16
        with pytest.raises(IndexError), converted_at_once(encoder, "cpu"):
            encoder(input_ids=torch.tensor([[999]]))
    assert all(own is before[name] for name, own in encoder.named_parameters())


def test_what_is_not_learned_has_no_gradient(encoder):
    first = encoder.get_submodule("encoder.layer.0")
    first.requires_grad_(False)
    _, gradients = learned(encoder, at_once=True)
    assert all(own is None for name, own in gradients.items() if "layer.0." in name)
    encoder.embeddings.requires_grad_(False)
    with torch.autocast("cpu", torch.bfloat16), converted_at_once(encoder, "cpu"):
        states = encoder(input_ids=IDS, attention_mask=MASK, output_hidden_states=True).hidden_states
    assert [own.requires_grad for own in states] == [False, False, True]  # nothing is kept for the way back
    assert gradients["encoder.layer.1.output.dense.weight"].abs().sum() > 0


@pytest.mark.parametrize("around", [torch.no_grad(), torch.autocast("cpu", enabled=False)])
def test_nothing_happens_where_nothing_is_learned_in_mixed_precision(encoder, around):
    before = dict(encoder.named_parameters())
    with around, converted_at_once(encoder, "cpu"):
        assert all(own is before[name] for name, own in encoder.named_parameters())

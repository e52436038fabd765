"""A model made without memory is given its weights, and made anew where those are not all it holds."""

import torch
from torch import nn

from suisei.encoders.weights import Unfilled, filled_by, take_weights


class Counting(nn.Module):
    """A layer with numbers that are computed when it is made."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 3)
        if kind == "plain":
            self.steps = torch.arange(4)
        elif kind != "none":
            self.register_buffer("steps", torch.arange(4), persistent=kind == "stored")


def made(kind):
    with torch.device("meta"), Unfilled():
        return Counting(kind)


def test_what_no_weight_fills_is_found():
    filled = {kind: filled_by(made(kind), Counting(kind).state_dict()) for kind in ("none", "stored")}
    assert filled == {"none": True, "stored": True}
    lacking = {kind: filled_by(made(kind), Counting(kind).state_dict()) for kind in ("computed", "plain")}
    assert lacking == {"computed": False, "plain": False}
    assert not filled_by(made("none"), ["inner.weight"])


def test_a_model_without_memory_computes_once_it_has_its_weights():
    source, model = Counting("stored"), made("stored")
    take_weights(model, {name: tensor.clone() for name, tensor in source.state_dict().items()})
    assert torch.equal(model.inner(torch.ones(1, 2)), source.inner(torch.ones(1, 2)))
    assert torch.equal(model.steps, torch.arange(4))

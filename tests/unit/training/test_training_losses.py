"""A loss or a weight that is no number ends a training, and the message says which of them it was."""

import pytest
import torch
from torch import nn

from suisei.errors import ModelError
from suisei.training.losses import require_finite, require_finite_weights

BAD = [float("nan"), float("inf"), float("-inf")]


def with_one(value):
    """Return a layer of which one weight among others is a value."""
    layer = nn.Linear(3, 2)
    with torch.no_grad():
        layer.weight[1, 2] = value
    return layer


@pytest.mark.parametrize("loss", BAD)
def test_a_loss_that_is_not_finite_ends_the_training(loss):
    with pytest.raises(
        ModelError, match=rf"^step 3: the loss is {loss}; the weights are finite, .*lower rate"
    ):
        require_finite(torch.tensor(loss), nn.Linear(3, 2), "step 3", "rate")
    require_finite(torch.tensor(1e30), with_one(float("nan")), "step 3", "rate")


@pytest.mark.parametrize("value", BAD)
def test_one_weight_that_is_not_finite_is_enough(value):
    with pytest.raises(ModelError, match="the weights have run away: lower rate"):
        require_finite(torch.tensor(float("nan")), with_one(value), "step 3", "rate")
    with pytest.raises(ModelError, match="weights that are not finite, and no model is written: lower rate"):
        require_finite_weights(with_one(value), "rate")
    require_finite_weights(nn.Linear(3, 2), "rate")


def test_weights_that_are_not_trained_do_not_count():
    model = with_one(float("nan"))
    with pytest.raises(ModelError, match="not finite"):
        require_finite_weights(model, "rate")
    assert require_finite_weights(model.requires_grad_(False), "rate") is None

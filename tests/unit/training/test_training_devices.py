"""A model that computes beside the trainer is on the device for a while."""

import pytest
import torch
from torch import nn

from suisei.training.devices import moved


def test_a_model_comes_home_whatever_happens():
    model, places = nn.Linear(1, 1), []
    model.to = places.append
    with moved(model, None):
        pass
    assert places == []
    with pytest.raises(RuntimeError), moved(model, "cuda:1"):
        raise RuntimeError(places)
    assert places == ["cuda:1", torch.device("cpu")]

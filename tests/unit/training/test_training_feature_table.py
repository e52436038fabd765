"""Look-ups of features into memory that is used again."""

import pytest
import torch

from suisei.models.pooling import LayerMix
from suisei.training.feature_table import FeatureTable

CPU = torch.device("cpu")


def test_rows_come_back_in_the_order_asked_for_whatever_was_asked_before():
    features = torch.randn(9, 3, 2)
    table = FeatureTable(features)
    for rows in ([4, 4, 0], [8], [], [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 0]):
        found = table.look_up(torch.tensor(rows, dtype=torch.long), CPU)
        assert torch.equal(found, features[torch.tensor(rows, dtype=torch.long)])


def test_memory_is_used_again():
    table = FeatureTable(torch.randn(9, 3))
    first = table.look_up(torch.tensor([1, 2, 3]), CPU)
    second = table.look_up(torch.tensor([5, 6]), CPU)
    assert second.data_ptr() == first.data_ptr()


def test_a_way_back_through_an_earlier_look_up_is_refused():
    table, weight = FeatureTable(torch.randn(9, 3)), torch.ones(3, requires_grad=True)
    product = table.look_up(torch.tensor([1, 2]), CPU) * weight
    table.look_up(torch.tensor([3, 4]), CPU)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_layer_mix_is_the_weighted_sum_of_layers_with_its_gradient():
    mix = LayerMix(4, dropout=0.0)
    with torch.no_grad():
        mix.logits.copy_(torch.tensor([0.3, -1.0, 2.0, 0.0]))
        mix.scale.fill_(1.5)
    pooled = torch.randn(6, 4, 2, 5, requires_grad=True)
    expected = 1.5 * torch.einsum("s,tspd->tpd", torch.softmax(mix.logits, 0), pooled)
    torch.testing.assert_close(mix(pooled), expected)
    wanted = torch.autograd.grad(expected.square().sum(), [pooled, mix.logits])
    found = torch.autograd.grad(mix(pooled).square().sum(), [pooled, mix.logits])
    torch.testing.assert_close(found, wanted)
    assert mix(pooled[:0]).shape == (0, 2, 5)

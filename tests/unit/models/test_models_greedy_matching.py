"""Greedy matching by cosine, against plain loops."""

import pytest
import torch
from torch.nn import functional as F

from suisei.models.greedy_matching import greedy_match, weighted_mean


def test_every_token_gets_its_best_counterpart_that_is_there():
    torch.manual_seed(0)
    tokens, others = F.normalize(torch.randn(3, 4, 8), dim=-1), F.normalize(torch.randn(3, 5, 8), dim=-1)
    present = torch.tensor([[True] * 4, [True, True, False, False], [False, True, False, True]])
    there = torch.tensor([[True] * 5, [False, True, True, False, False], [True, False, False, False, False]])
    of_tokens, of_others = greedy_match(tokens, others, present, there)
    for row in range(3):
        for i in range(4):
            best = max(float(tokens[row, i] @ others[row, j]) for j in range(5) if there[row, j])
            assert float(of_tokens[row, i]) == pytest.approx(best, abs=1e-6)
        for j in range(5):
            best = max(float(tokens[row, i] @ others[row, j]) for i in range(4) if present[row, i])
            assert float(of_others[row, j]) == pytest.approx(best, abs=1e-6)


def test_without_masks_all_are_there():
    tokens, others = torch.eye(3)[:2], torch.eye(3)[1:]
    of_tokens, of_others = greedy_match(tokens, others)
    assert of_tokens.tolist() == [0.0, 1.0]
    assert of_others.tolist() == [1.0, 0.0]


def test_small_weights_count_as_any_and_none_gives_zero():
    values = torch.tensor([[1.0, 3.0], [1.0, 3.0], [5.0, 7.0]])
    weights = torch.tensor([[0.1, 0.3], [3.0, 1.0], [0.0, 0.0]])
    assert weighted_mean(values, weights).tolist() == pytest.approx([2.5, 1.5, 0.0])


def test_padding_is_no_counterpart_even_of_tokens_that_are_opposite():
    tokens, others = torch.tensor([[1.0, 0.0], [0.0, 0.0]]), torch.tensor([[-1.0, 0.0], [0.0, 0.0]])
    there = torch.tensor([True, False])
    of_tokens, of_others = greedy_match(tokens, others, there, there)
    assert (of_tokens[0].item(), of_others[0].item()) == (-1, -1)

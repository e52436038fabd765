"""Advantages, the policy's loss and its gradient, and the divergence from the start."""

import math

import numpy as np
import pytest
import torch

from suisei.captioning.policy import advantages, divergence, policy_loss, teach_nothing, token_log_probs

NAN = math.nan


def test_the_greedy_caption_is_the_baseline():
    found, base = advantages(np.array([[1.0, 3.0, 2.0], [1.0, NAN, 0.5], [1.0, 1.0, NAN]]), "greedy")
    np.testing.assert_array_equal(found, [[-1, 1], [0.5, NAN], [NAN, NAN]])
    np.testing.assert_array_equal(base, [2, 0.5, NAN])


@pytest.mark.parametrize("baseline", ["beam-mean", "sample-mean"])
def test_the_mean_is_of_the_captions_that_have_a_reward(baseline):
    found, base = advantages(np.array([[1.0, 3.0, 2.0], [1.0, NAN, 2.0], [1.0, NAN, NAN]]), baseline)
    np.testing.assert_array_equal(found, [[-1, 1, 0], [-0.5, NAN, 0.5], [NAN, NAN, NAN]])
    np.testing.assert_array_equal(base, [2, 1.5, NAN])


@pytest.mark.parametrize("baseline", ["beam-mean", "greedy", "sample-mean"])
def test_captions_that_are_worth_the_same_teach_nothing(baseline):
    """Three times .1 is more than .3 to a computer, and their mean more than .1."""
    rewards = np.array([[0.1, 0.1, 0.1], [0.7, NAN, 0.7], [0.1, 0.1, 0.2], [NAN, NAN, NAN]])
    found, _ = advantages(rewards, baseline)
    assert np.nan_to_num(found[[0, 1, 3]]).tolist() == np.zeros_like(found[[0, 1, 3]]).tolist()
    assert teach_nothing(found).tolist() == [True, True, False, True]


def test_the_loss_is_the_mean_of_advantage_times_log_probability():
    log_probs = torch.tensor([[[-1.0, -2.0], [-3.0, 0.0]]], requires_grad=True)
    loss = policy_loss(log_probs, np.array([[2.0, -1.0]]), 4)
    assert float(loss) == pytest.approx(-(2 * -3 + -1 * -3) / (2 * 4))
    loss.backward()
    assert log_probs.grad.tolist() == [[[-0.25, -0.25], [0.125, 0.125]]]


def test_captions_without_reward_do_not_count():
    log_probs = torch.tensor([[[-1.0], [-3.0]]], requires_grad=True)
    loss = policy_loss(log_probs, np.array([[2.0, NAN]]), 1)
    loss.backward()
    assert float(loss) == 2.0
    assert log_probs.grad.tolist() == [[[-2.0], [0.0]]]
    assert float(policy_loss(log_probs, np.array([[NAN, NAN]]), 1)) == 0


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_the_expected_gradient_is_that_of_the_expected_reward(temperature):
    """One token of four: over many draws the loss's gradient is minus the gradient of the expected reward."""
    logits = torch.tensor([0.3, -0.2, 0.9, 0.0], requires_grad=True)
    worth = torch.tensor([1.0, 0.0, 3.0, 2.0])
    chances = (logits / temperature).softmax(-1)
    (exact,) = torch.autograd.grad((chances * worth).sum(), logits, retain_graph=True)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.multinomial(chances.detach(), 40_000, replacement=True, generator=generator)
    _, own = token_log_probs(logits.expand(1, 40_000, 1, 4), drawn.view(1, -1, 1), -1, -1, temperature)
    rewards = worth[drawn].numpy()[None].astype(np.float64)
    found, _ = advantages(rewards, "sample-mean")
    (estimate,) = torch.autograd.grad(policy_loss(own, found, 1), logits)
    torch.testing.assert_close(estimate, -exact, atol=0.02, rtol=0)


def test_log_probabilities_of_what_was_written():
    logits = torch.randn(2, 3, 4, 7)
    logits[..., 0] = -torch.inf
    tokens = torch.randint(2, 7, (2, 3, 4))
    tokens[0, 0, 2:] = 0
    every, own = token_log_probs(logits, tokens, 0, 1)
    assert own[0, 0, 2:].tolist() == [0, 0]
    expected = logits.log_softmax(-1)[1, 2, 3, tokens[1, 2, 3]]
    assert float(own[1, 2, 3]) == pytest.approx(float(expected))
    assert every.shape == logits.shape
    same, warm = token_log_probs(logits, tokens, 0, 1, 2.0)
    assert torch.equal(same, every)  # what the divergence takes is of the model itself
    expected = (logits / 2).log_softmax(-1)[1, 2, 3, tokens[1, 2, 3]]
    assert float(warm[1, 2, 3]) == pytest.approx(float(expected))


def test_the_divergence_is_torchs_and_its_gradient_is_finite():
    ours = torch.randn(2, 3, 4, 7, requires_grad=True)
    banned = torch.zeros(7)
    banned[0] = -torch.inf
    start = torch.randn(2, 3, 4, 7) + banned
    written = torch.rand(2, 3, 4) > 0.3
    mine, theirs = (ours + banned).log_softmax(-1), start.log_softmax(-1)
    found = divergence(mine, theirs, written)
    pairs = torch.distributions.kl_divergence(
        torch.distributions.Categorical(logits=mine[..., 1:].detach()),
        torch.distributions.Categorical(logits=theirs[..., 1:]),
    )
    assert float(found) == pytest.approx(float(pairs[written].mean()), rel=1e-5)
    found.backward()
    assert torch.isfinite(ours.grad).all()
    assert ours.grad.abs().sum() > 0
    assert float(divergence(theirs, theirs, written)) == 0

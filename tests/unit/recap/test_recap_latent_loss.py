"""The loss of the latent reconstruction, by hand."""

import pytest
import torch

from suisei.recap.latent_loss import latent_loss

TARGET = torch.zeros(1, 2, 2)
NEAR = torch.tensor([[[3.0, 0], [0, 4]]])  # 5 away, mean square 25 / 4
FAR = torch.tensor([[[0.0, 6], [8, 0]]])  # 10 away
THERE = torch.tensor([True])


def test_a_negative_that_is_further_by_the_margin_costs_nothing():
    loss = latent_loss(TARGET, NEAR, FAR, THERE, margin=5)
    assert loss.mse.item() == pytest.approx(6.25)
    assert loss.triplet.item() == pytest.approx(0, abs=1e-5)
    assert loss.total.item() == pytest.approx(6.25, abs=1e-4)


def test_a_negative_that_is_too_near_costs_ten_times_what_the_margin_lacks():
    loss = latent_loss(TARGET, NEAR, FAR, THERE, margin=7)
    assert loss.triplet.item() == pytest.approx(2, abs=1e-5)
    assert loss.total.item() == pytest.approx(6.25 + 20, abs=1e-4)
    turned = latent_loss(TARGET, FAR, NEAR, THERE)  # 1 + 10 - 5
    assert turned.triplet.item() == pytest.approx(6, abs=1e-5)
    assert turned.mse.item() == pytest.approx(25)


def test_the_weights_are_those_given():
    loss = latent_loss(TARGET, NEAR, FAR, THERE, mse_weight=2, triplet_weight=0.5, margin=7)
    assert loss.total.item() == pytest.approx(2 * 6.25 + 0.5 * 2, abs=1e-4)


def test_captions_without_a_negative_count_for_the_square_alone():
    both = [torch.cat([part, part]) for part in (TARGET, NEAR, FAR)]
    some = latent_loss(*both, torch.tensor([True, False]), margin=7)
    assert some.triplet.item() == pytest.approx(2, abs=1e-5)
    none = latent_loss(*both, torch.tensor([False, False]), margin=7)
    assert (none.triplet.item(), none.total.item()) == (0, pytest.approx(6.25))


def test_both_parts_are_means_over_captions_and_the_triplet_over_those_with_a_negative():
    targets, guesses, negatives = (
        torch.cat(parts) for parts in ([TARGET] * 3, [NEAR, FAR, NEAR], [FAR, NEAR, FAR])
    )
    loss = latent_loss(targets, guesses, negatives, torch.tensor([True, True, False]), margin=7)
    assert loss.mse.item() == pytest.approx((6.25 + 25 + 6.25) / 3)
    assert loss.triplet.item() == pytest.approx(((7 + 5 - 10) + (7 + 10 - 5)) / 2, abs=1e-5)


def test_gradients_pull_the_caption_and_push_the_negative():
    near, far = NEAR.clone().requires_grad_(), FAR.clone().requires_grad_()
    latent_loss(TARGET, near, far, THERE, mse_weight=0, margin=7).total.backward()
    assert torch.equal(near.grad[NEAR != 0].sign(), NEAR[NEAR != 0].sign())  # a step goes against it: nearer
    assert torch.equal(far.grad[FAR != 0].sign(), -FAR[FAR != 0].sign())

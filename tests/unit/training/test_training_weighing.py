"""How much an image, or a second model, counts beside a score: by ratings that it was not learned from."""

import numpy as np
import pytest
import torch
from scipy.special import expit, logit

from suisei.models.cosine_start import Beside
from suisei.training.weighing import TRUST, Seen, equal_spread, fit_beside, fit_second


def of_two(scale=1.0, offset=0.0, weight=6.0):
    """Ratings that scores and the cosine with the image decide, on a scale of their own."""
    rng = np.random.default_rng(0)
    logits, seen = rng.normal(size=400), rng.uniform(0, 0.4, 400)
    return Seen(seen, expit(logits), expit(scale * (logits + weight * (seen - 0.1)) + offset))


@pytest.mark.parametrize("scale", [1.0, 2.5])
@pytest.mark.parametrize("unseen", [{}, {"scale": 0.7, "offset": -3.0}])
def test_how_much_an_image_counts_does_not_depend_on_the_scale_of_unseen_ratings(scale, unseen):
    rated = of_two(scale, -0.5, weight=6 * TRUST)
    beside = Beside()
    fit_beside(beside, rated, of_two(**unseen))
    assert float(beside.kept) == pytest.approx(scale, rel=1e-3)
    assert float(beside.line.slope) == pytest.approx(6 * TRUST * scale, rel=1e-3)
    logits, seen = torch.from_numpy(logit(rated.scores))[None], torch.from_numpy(rated.cosines)[:, None]
    weighed = torch.sigmoid(beside(logits, seen, torch.ones(400, dtype=bool)))[0]
    np.testing.assert_allclose(weighed.detach().numpy(), rated.ratings, atol=1e-3)


def test_half_the_weight_that_an_image_earns_is_trusted():
    """So the published models were made."""
    beside = Beside()
    fit_beside(beside, of_two(), of_two())
    assert float(beside.line.slope / beside.kept) == pytest.approx(3, rel=1e-3)


def test_unseen_ratings_alone_say_how_much_the_image_counts():
    beside = Beside()
    fit_beside(beside, of_two(weight=0.5), of_two(weight=6.0))
    assert float(beside.line.slope / beside.kept) == pytest.approx(6 * TRUST, rel=1e-3)


def test_an_image_that_says_the_opposite_counts_nothing():
    beside = Beside()
    fit_beside(beside, of_two(), of_two(weight=-6.0))
    assert float(beside.line.slope) == 0.0
    fit_beside(beside, of_two(scale=-1.0), of_two())
    assert (float(beside.line.slope), float(beside.line.offset), float(beside.kept)) == (0.0, 0.0, 1.0)


def two_models(share, *, scale=1.0, offset=0.0):
    """Scores of two models, and ratings that a weighed mean of their logits decides."""
    rng = np.random.default_rng(0)
    own, other = rng.normal(0.3, 1.5, 500), rng.normal(-1, 0.7, 500)
    return expit(own), expit(other), expit(scale * ((1 - share) * own + share * other) + offset)


@pytest.mark.parametrize("more", [{}, {"scale": 0.4, "offset": -2.0}])
def test_the_share_of_a_second_model_is_found_again(more):
    first, second, ratings = two_models(0.3, **more)
    found = fit_second(first, second, ratings, ["en"])
    assert found.share == pytest.approx(0.3, rel=1e-3)
    assert found.languages == ("en",)
    if not more:
        assert found.combined(first, second) == pytest.approx(ratings, rel=1e-3)


def test_beside_a_first_that_says_nothing_more_the_second_counts_alone():
    first, second, ratings = two_models(1.2)  # the first's logit counts against it
    assert fit_second(first, second, ratings, ["en"]).share == 1.0


@pytest.mark.parametrize("ratings", [two_models(-0.8)[2], 1 - two_models(0.3)[2]])
def test_a_second_model_that_says_the_opposite_counts_nothing(ratings):
    first, second, _ = two_models(0.3)
    found = fit_second(first, second, ratings, ["en"])
    assert found.share == 0
    assert found.combined(first, second) == pytest.approx(first, abs=1e-6)


def test_models_of_equal_spread_move_the_score_as_much():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=400), 0.25 * rng.normal(size=400)
    share = equal_spread(expit(first), expit(second), ["ja"]).share
    assert share > 0.5  # of the second, whose logits lie closer
    assert (share * second).std() == pytest.approx(((1 - share) * first).std())

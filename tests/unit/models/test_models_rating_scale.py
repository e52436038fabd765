import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from suisei.data.sample import CaptionSample, Rating
from suisei.errors import ConfigError
from suisei.metrics.loading import load
from suisei.models.config import HeadConfig
from suisei.models.folder import save_model
from suisei.models.rating_scale import RatingScale


def rated(*values, low=0.0, high=1.0):
    return CaptionSample("a", rating=Rating(values, low, high))


def test_ranks_of_a_crowded_scale():
    scale = RatingScale(1.0)
    scale.fit([rated(1, 1, 1, low=1, high=4), rated(1, 2, 4, low=1, high=4)])
    # of six ratings four are 1, one is 2, one is 4: mid-ranks 2, 4.5, (3: nobody's) and 5.5
    expected = [0, (4.5 - 2) / 3.5, 1]
    np.testing.assert_allclose(
        scale.targets([rated(1, low=1, high=4), rated(2, low=1, high=4), rated(4, low=1, high=4)]), expected
    )
    mean = scale.targets([rated(1, 2, low=1, high=4), CaptionSample("b")])
    np.testing.assert_allclose(mean, [expected[1] / 2, np.nan], rtol=1e-6)
    assert scale.targets([rated(1, 4, low=1, high=4)]) == [0.5]  # not the rank of their mean


@pytest.mark.parametrize("count", [30, 62, 63, 64, 500])
def test_ranks_of_many_different_ratings_are_near_enough(count):
    """More levels than the map has knots are told apart by the knots among them."""
    ratings = np.linspace(0.01, 0.99, count) ** 4
    samples = [rated(float(value)) for value in ratings]
    scale = RatingScale(1.0)
    scale.fit(samples)
    exact = count <= 62
    expected = (np.arange(count) + 0.5) / count
    np.testing.assert_allclose(scale.targets(samples), expected, atol=1e-6 if exact else 0.02)
    assert len(set(scale.ratings.tolist())) >= min(count, 62)


def test_half_of_the_rank_is_half_way_between():
    samples = [rated(0.0), rated(0.0), rated(0.0), rated(0.5), rated(1.0)]
    targets = []
    for share in (0.0, 0.5, 1.0):
        scale = RatingScale(share)
        scale.fit(samples)
        targets.append(scale.targets(samples))
    np.testing.assert_allclose(targets[0], [0, 0, 0, 0.5, 1], rtol=1e-6)
    np.testing.assert_allclose(targets[1], (targets[0] + targets[2]) / 2, rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 1000).map(lambda value: value / 1000), max_size=200),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.lists(st.floats(0, 1, width=32), min_size=2, max_size=20, unique=True),
)
def test_the_map_back_undoes_the_map_and_keeps_every_order(ratings, share, scores):
    scale = RatingScale(share)
    scale.fit([rated(value) for value in ratings])
    assert float(scale.learned[0]) == float(scale.ratings[0]) == 0
    assert float(scale.learned[-1]) == float(scale.ratings[-1]) == 1
    back = scale(torch.tensor(sorted(scores), dtype=torch.float64))
    assert float(back.min()) >= 0
    assert float(back.max()) <= 1
    assert bool((back.diff() >= 0).all())
    known = sorted(set(scale.ratings.tolist()))
    again = scale(torch.from_numpy(scale.targets([rated(value) for value in known])).double())
    assert bool((again.diff() > 0).all())
    # how steep the map is decides how much of float32's rounding of targets is seen
    spread = (scale.ratings.diff() / scale.learned.diff().clamp(min=1e-12))[scale.ratings.diff() > 0].max()
    np.testing.assert_allclose(again, known, atol=1e-6 * max(1.0, float(spread)))


def test_without_ratings_the_map_is_the_identity():
    scale = RatingScale(1.0)
    scale.fit([CaptionSample("a")])
    values = torch.linspace(0, 1, 7)
    torch.testing.assert_close(scale(values), values.double())


def test_a_model_scores_on_the_scale_of_the_ratings_and_keeps_it_in_its_folder(build_regressor, tmp_path):
    plain = build_regressor(image=False)
    save_model(tmp_path / "plain", plain)
    plain.config.head.rank_share = 1.0
    plain.scale = RatingScale(1.0)
    plain.scale.fit([rated(0.0)] * 8 + [rated(0.5), rated(1.0)])
    save_model(tmp_path / "ranks", plain)
    candidates = ["two dogs", "a", "the cat sleeps"]
    references = [["dogs"], ["a man"], ["a cat"]]
    learned = load(tmp_path / "plain").score(candidates, references=references)
    scores = load(tmp_path / "ranks").score(candidates, references=references)
    np.testing.assert_allclose(scores, plain.scale(torch.from_numpy(learned)).numpy(), atol=1e-6)
    assert np.abs(scores - learned).min() > 0.01
    assert (np.argsort(scores) == np.argsort(learned)).all()


def test_maps_of_earlier_model_folders_are_read():
    knots = torch.linspace(0, 1, 64, dtype=torch.float64)
    scale = RatingScale(0.5)
    scale.load_state_dict({"ratings": knots**2, "learned": knots})
    values = torch.tensor([0.0, 0.5, 1.0])
    torch.testing.assert_close(scale(values), values.double() ** 2, atol=1e-4, rtol=0)


def test_a_share_is_a_share():
    with pytest.raises(ConfigError, match="rank_share is 2; it must be a number from 0 to 1"):
        HeadConfig(rank_share=2)

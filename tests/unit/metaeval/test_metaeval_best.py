"""The best metric of a benchmark is called so only where it is better than chance could make it."""

import numpy as np
import pytest

from suisei.data.judged import PairCaption
from suisei.data.sample import CaptionSample, Rating
from suisei.metaeval.best import significantly_best, too_few_resamples
from suisei.metaeval.protocols import PROTOCOLS, NoRatingsProtocol
from suisei.metaeval.settings import EvaluationSettings

SETTINGS = EvaluationSettings(n_resamples=200)
N = 120


def graded():
    ratings = np.random.default_rng(0).integers(0, 5, N)
    samples = [
        CaptionSample("a", rating=Rating((float(value),), 0, 4), group=str(place // 2))
        for place, value in enumerate(ratings)
    ]
    return samples, ratings / 4


def judged():
    return [CaptionSample("a", rating=Rating((float(place % 2),)), group=str(place)) for place in range(N)]


def paired():
    preferred = [(("kind", float(place % 2)),) for place in range(N)]
    return [
        PairCaption(
            "a", rating=Rating((each[0][1],)), group=str(place // 2), pair=str(place // 2), preferred=each
        )
        for place, each in enumerate(preferred)
    ]


@pytest.mark.parametrize(
    ("protocol", "samples"), [("ratings", graded()[0]), ("pairs", paired()), ("detection", judged())]
)
def test_better_by_far_is_significant_and_as_good_is_not(protocol, samples):
    human = np.array([sample.rating.mean for sample in samples])
    rng = np.random.default_rng(1)
    good, noise = human + 0.3 * rng.normal(size=N), rng.random(N)
    twin = good + 1e-9 * rng.normal(size=N)
    values = {"noise": 0.5, "good": 0.9, "twin": 0.899}
    scores = {"noise": noise, "good": good, "twin": twin}
    measured = PROTOCOLS[protocol]
    two = {name: values[name] for name in ("noise", "good")}
    assert significantly_best(two, scores, samples, measured, SETTINGS) == "good"
    assert significantly_best(values, scores, samples, measured, SETTINGS) is None
    lower = {"noise": 0.9, "good": 0.5}  # whatever is called best must be better
    assert significantly_best(lower, scores, samples, measured, SETTINGS) is None


def test_a_protocol_without_ratings_that_does_not_say_how_to_resample_calls_none_the_best():
    class Own(NoRatingsProtocol):
        column, what = "accuracy", "captions to order"

    samples, human = graded()
    scores = {"good": human, "noise": np.random.default_rng(1).random(N)}
    assert significantly_best({"good": 0.9, "noise": 0.5}, scores, samples, Own(), SETTINGS) is None


def test_a_protocol_says_itself_what_is_resampled():
    class Own(NoRatingsProtocol):
        column, what = "accuracy", "captions to order"

        def resampled_difference(self, a, b, samples, settings):
            return np.full(settings.n_resamples, a.mean() - b.mean())

    samples, human = graded()
    scores = {"good": human, "higher": human[::-1] + 1}
    assert significantly_best({"good": 0.5, "higher": 0.9}, scores, samples, Own(), SETTINGS) == "higher"


@pytest.mark.parametrize(
    ("resamples", "undefined", "best"),
    [
        (200, 0, "good"),
        (200, 99, "good"),
        (200, 100, None),
        (200, 200, None),
        (60, 21, "good"),
        (60, 22, None),
    ],
)
def test_a_metric_is_no_better_by_resamples_that_are_not_defined(resamples, undefined, best):
    class Own(NoRatingsProtocol):
        column, what = "accuracy", "captions to order"

        def resampled_difference(self, a, b, samples, settings):
            return np.where(np.arange(settings.n_resamples) < undefined, np.nan, 0.1)

    samples, human = graded()
    scores, settings = {"good": human, "noise": human}, EvaluationSettings(n_resamples=resamples)
    assert significantly_best({"good": 0.9, "noise": 0.5}, scores, samples, Own(), settings) == best


def test_pairs_are_compared_within_pairs_whatever_the_scores_of_other_images():
    samples = paired()
    human = np.array([sample.rating.mean for sample in samples])
    rng = np.random.default_rng(3)
    scores = {"within": human + 100 * np.repeat(rng.random(N // 2), 2), "noise": rng.random(N)}
    values = {"within": 1.0, "noise": 0.5}
    assert significantly_best(values, scores, samples, PROTOCOLS["pairs"], SETTINGS) == "within"


def test_nothing_is_best_alone_without_resamples_or_without_common_samples():
    samples, human = graded()
    noise = np.random.default_rng(1).random(N)
    assert significantly_best({"a": 1.0}, {"a": human}, samples, PROTOCOLS["ratings"], SETTINGS) is None
    values, scores = {"a": 1.0, "b": 0.5}, {"a": human, "b": noise}
    none = EvaluationSettings(n_resamples=0)
    assert significantly_best(values, scores, samples, PROTOCOLS["ratings"], none) is None
    first = np.arange(N) < N // 2
    apart = {"a": np.where(first, human, np.nan), "b": np.where(first, np.nan, noise)}
    assert significantly_best(values, apart, samples, PROTOCOLS["ratings"], SETTINGS) is None


@pytest.mark.parametrize(("metrics", "wanted"), [(2, 39), (4, 119), (11, 399)])
def test_chance_is_not_best_by_few_resamples(metrics, wanted):
    assert too_few_resamples(metrics, wanted - 1) == wanted
    assert not too_few_resamples(metrics, wanted)
    samples, human = graded()
    scores = {"good": human, **{f"noise-{n}": np.random.default_rng(n).random(N) for n in range(metrics - 1)}}
    values = {name: float(name == "good") for name in scores}
    found = [
        significantly_best(
            values, scores, samples, PROTOCOLS["ratings"], EvaluationSettings(n_resamples=count)
        )
        for count in (1, wanted - 1, wanted)
    ]
    assert found == [None, None, "good"]


@pytest.mark.parametrize("lacking", ["good", "noise"])
@pytest.mark.parametrize(
    ("protocol", "samples"), [("ratings", graded()[0]), ("pairs", paired()), ("detection", judged())]
)
def test_scores_that_are_missing_are_left_out_for_both(protocol, samples, lacking):
    human = np.array([sample.rating.mean for sample in samples])
    good = human + 0.3 * np.random.default_rng(2).normal(size=N)
    scores = {"good": good, "noise": np.random.default_rng(1).random(N)}
    scores[lacking][:20] = np.nan
    values = {"good": 0.9, "noise": 0.1}
    assert significantly_best(values, scores, samples, PROTOCOLS[protocol], SETTINGS) == "good"

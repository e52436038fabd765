"""Best and worst predictions: the right ones, an image once, with its picture or why there is none."""

import base64
import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from suisei.data.sample import CaptionSample, Rating
from suisei.metaeval.systems import Example
from suisei.report.contents import _predicted
from suisei.report.examples import difference_cards, human_scores, nearest_metric, prediction_cards
from suisei.report.parts import Rated
from suisei.report.thumbnails import MOST_BYTES, SIDE, thumbnail


def rated(human, predicted, **fields):
    samples = [
        CaptionSample(f"caption {n}", rating=Rating((value,)), group=str(n // 2), id=str(n), **fields)
        for n, value in enumerate(human)
    ]
    return Rated(samples, {"m": np.array(predicted, dtype=float)})


def titles(cards):
    return [card.title.split(" · ")[0] for card in cards.cards]


def test_equal_means_of_raters_are_equal_numbers():
    ratings = [Rating(values, 1, 4) for values in ((4, 2, 4), (4, 4, 2), (2, 4, 4), (3, 4, 3), (3, 3, 4))]
    assert len({rating.mean for rating in ratings}) > 1
    assert len(set(human_scores([CaptionSample("a dog", rating=rating) for rating in ratings]))) == 1


def test_the_farthest_come_first_and_an_image_once():
    found = rated([0.0, 0.0, 0.5, 0.5, 1.0, 1.0], [0.5, 0.4, 0.5, 0.5, 0.9, 0.8])
    worst, best = prediction_cards(found, "m", 2)
    assert titles(worst) == ["0", "5"]
    assert titles(best) == ["2", "4"]
    assert "by score" in worst.note
    assert worst.cards[0].figures[:2] == (("human", "0.00"), ("m", "0.50"))


def test_what_human_is_of_a_verdict_is_said():
    for high, said in ((1.0, True), (0.75, False)):
        worst, _ = prediction_cards(rated([0.0, high, 0.0, high], [0.2, 0.9, 0.1, 0.8]), "m", 1)
        assert ("human is 1 where people prefer the caption or find it good, else 0" in worst.note) is said


def test_grades_at_both_ends_of_their_scale_are_no_verdicts():
    found = rated([0.0, 1.0, 0.0, 1.0], [0.2, 0.9, 0.1, 0.8])
    grades = [replace(s, rating=Rating((1 + 4 * s.rating.mean,), 1, 5)) for s in found.samples]
    unscored = [CaptionSample("a cat", rating=Rating((0.5,)))]
    for samples, scores in (
        (grades, found.scores["m"]),
        (found.samples + unscored, [*found.scores["m"], np.nan]),
    ):
        worst, _ = prediction_cards(Rated(samples, {"m": np.array(scores)}), "m", 1)
        assert "human is 1" not in worst.note


def test_the_nearest_come_from_all_over_the_scale():
    human = np.repeat(np.linspace(0, 1, 8), 2)
    _, best = prediction_cards(rated(human, human), "m", 4)
    shown = [float(dict(card.figures)["human"]) for card in best.cards]
    assert shown == sorted(shown)
    assert shown[0] < 0.2
    assert shown[-1] > 0.8


def test_a_metric_with_a_scale_of_its_own_is_compared_by_rank():
    worst, _ = prediction_cards(rated([0, 0.2, 0.4, 0.6, 0.8, 1.0], [1, 20, 30, 40, 50, 2]), "m", 1)
    assert titles(worst) == ["5"]
    assert "by rank" in worst.note


@pytest.mark.parametrize("values", [[0.625, 0.0, 0.0, 0.5], [0.0] * 4])
def test_a_distance_is_compared_by_rank_and_shown_as_it_is(values):
    found = replace(rated([0.0, 0.1, 0.1, 0.2], -np.array(values)), distances=["m"])
    worst, best = prediction_cards(found, "m", 2)
    assert "by rank" in worst.note
    assert "m: lower is better" in worst.note
    shown = {float(dict(card.figures)["m"]) for cards in (worst, best) for card in cards.cards}
    assert shown <= set(np.round(values, 2))
    assert "-0.00" not in {dict(card.figures)["m"] for card in (*worst.cards, *best.cards)}


def test_what_has_no_score_is_not_shown():
    worst, best = prediction_cards(rated([0.1, 0.2, 0.9, 0.3], [np.nan, 0.2, np.nan, 0.3]), "m", 4)
    assert {*titles(worst), *titles(best)} <= {"1", "3"}
    assert prediction_cards(rated([0.1], [np.nan]), "m", 4) == []
    assert prediction_cards(rated([0.1], [0.1]), "m", 0) == []


def test_reasons_stand_with_their_sample():
    found = rated([0.0, 0.0, 1.0, 1.0], [0.4, 0.0, 1.0, 1.0])
    worst, _ = prediction_cards(found, "m", 1, lambda samples: [[f"why {s.id}"] for s in samples])
    assert worst.cards[0].reasons == ("why 0",)


def test_a_picture_that_cannot_be_read_costs_only_itself(tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"no image")
    worst, _ = prediction_cards(rated([0.0, 1.0], [0.3, 1.0], image=tmp_path / "broken.jpg"), "m", 1)
    assert worst.cards[0].picture is None
    assert "broken.jpg" in worst.cards[0].no_picture


def test_long_lists_of_references_are_counted():
    found = rated([0.0, 1.0], [0.3, 1.0], references=tuple(f"r{n}" for n in range(9)))
    card = prediction_cards(found, "m", 1)[0].cards[0]
    assert (len(card.references), card.more_references) == (5, 4)


@pytest.mark.parametrize("size", [(3000, 2000), (20, 10)])
def test_thumbnails_are_small(size):
    noise = np.random.default_rng(0).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    uri = thumbnail(Image.fromarray(noise))
    data = base64.b64decode(uri.removeprefix("data:image/jpeg;base64,"))
    assert len(data) <= MOST_BYTES
    assert max(Image.open(io.BytesIO(data)).size) == min(SIDE, max(size))


def test_examples_are_of_a_model_else_of_the_nearest_metric():
    found = rated([0.0, 0.3, 0.6, 1.0], [1.0, 0.6, 0.3, 0.0])
    scores = {**found.scores, "near": np.array([0.0, 0.1, 0.2, 0.3]), "flat": np.zeros(4)}
    assert nearest_metric(Rated(found.samples, scores)) == "near"
    assert nearest_metric(replace(found, scores={**scores, "suisei:x": found.scores["m"]})) == "suisei:x"


@pytest.mark.parametrize(
    ("values", "note"), [((0.2, 0.4), "each sample once, by its mean rating"), ((0.3,), "")]
)
def test_a_plot_says_how_it_counts_where_samples_have_several_ratings(values, note):
    samples = [CaptionSample(f"a {n}", rating=Rating(values), id=str(n)) for n in range(3)]
    (figure,) = _predicted(Rated(samples, {"m": np.array([0.1, 0.2, 0.3])}), 1)
    assert figure.draw.keywords["note"] == note


@pytest.mark.parametrize(
    ("label", "shown"), [("bleu-4", ("bleu-4 x100", "43.8", "0.0")), ("chrf", ("chrf", "0.438", "0.000"))]
)
def test_differences_of_systems_are_at_the_scale_of_their_tables(label, shown):
    example = Example("1", "image", {"a": 0.4381, "b": -0.0}, {"a": "a dog", "b": "a cat"}, ("a dog",))
    found = difference_cards(label, [example], {})
    assert (found.title.rpartition(": ")[2], *dict(found.cards[0].figures).values()) == shown

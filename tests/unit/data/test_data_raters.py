"""Ratings in long format: rows of one caption and several raters become one sample."""

from dataclasses import replace

import pytest

from suisei.data.raters import raters_joined, rating_facts
from suisei.data.sample import CaptionSample, Rating
from suisei.data.video import VideoSample

DOG = CaptionSample("a dog", ("the dog",), None, Rating((4.0,), 1, 7), "en", "s", "g", "1")


def rated(sample, value, name):
    return replace(sample, rating=Rating((value,), sample.rating.low, sample.rating.high), id=name)


def test_rows_that_differ_in_the_rating_alone_are_one_sample_in_the_place_of_the_first():
    cat = replace(DOG, candidate="a cat", id="2")
    joined = raters_joined("mine.csv", [DOG, cat, rated(DOG, 6.0, "3"), rated(DOG, 4.0, None)])
    assert joined.samples == [replace(DOG, rating=Rating((4.0, 6.0, 4.0), 1, 7)), cat]
    assert joined.rows == [0, 1]
    assert joined.note.startswith("mine.csv: 3 rows rate 1 sample, a row per rater")


def test_raters_who_agree_on_every_caption_are_noticed_for_their_rows_may_be_there_twice():
    cat, unlike = replace(DOG, candidate="a cat", id="2"), rated(DOG, 6.0, None)
    single = replace(DOG, candidate="a cow", id="3")
    assert "no row is there twice" in raters_joined("mine.csv", [DOG, cat, single, DOG, cat, DOG]).note
    assert "no row is there twice" not in raters_joined("mine.csv", [DOG, cat, single, DOG, cat, unlike]).note


@pytest.mark.parametrize(
    "other",
    [
        replace(DOG, candidate="a cat"),
        replace(DOG, references=()),
        replace(DOG, image="a.png"),
        replace(DOG, language="ja"),
        replace(DOG, system="t"),
        replace(DOG, group="h"),
        replace(DOG, rating=Rating((4.0,), 1, 5)),
        replace(DOG, rating=Rating((4.0, 5.0), 1, 7)),
        replace(DOG, rating=None),
        VideoSample(DOG.candidate, DOG.references, None, DOG.rating, "en", "s", "g", video="a.mp4"),
    ],
)
def test_all_other_rows_stay_as_they_are(other):
    samples = [DOG, other, replace(other, id="4")] if other.rating is None else [DOG, other]
    joined = raters_joined("mine.csv", samples)
    assert joined.samples == samples
    assert joined.rows == list(range(len(samples)))
    assert not joined.note


def test_rows_of_systems_that_happen_to_say_the_same_stay_as_they_are():
    said = [DOG, rated(DOG, 6.0, "2"), *(replace(DOG, candidate=f"dog {n}", id=f"{n}") for n in range(2))]
    joined = raters_joined("mine.csv", said)
    assert (joined.samples, joined.rows, joined.note) == (said, [0, 1, 2, 3], "")


def test_rows_without_a_rating_keep_no_raters_from_being_joined():
    unrated = [replace(DOG, candidate=f"dog {n}", rating=None, id=f"u{n}") for n in range(8)]
    joined = raters_joined("mine.csv", [DOG, *unrated, rated(DOG, 6.0, "2")])
    assert joined.samples == [replace(DOG, rating=Rating((4.0, 6.0), 1, 7)), *unrated]
    assert joined.rows == list(range(9))


def test_rows_of_a_benchmark_stay_as_they_are():
    joined = raters_joined("composite", [DOG, rated(DOG, 6.0, "2")])
    assert (len(joined.samples), joined.rows, joined.note) == (2, [0, 1], "")


def test_scales_and_counts_of_raters():
    wide = replace(DOG, rating=Rating((1.0, 2.0, 3.0), 1, 5))
    assert rating_facts([wide, DOG, replace(DOG, rating=None), DOG]) == {
        "scales": [[1, 7], [1, 5]],
        "raters": [1, 3],
    }
    assert rating_facts([replace(DOG, rating=None)]) == {}

"""Which captions are degraded: the rated top, held-out references, and some of each."""

from pathlib import Path

import pytest

from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, DataError
from suisei.probes.originals import good_samples, some_of_each
from tests.unit.rated_captions import captions


def test_good_samples_are_the_rated_top_in_an_order_that_rows_do_not_decide():
    rows = captions()
    good = good_samples(rows, "rated", good=0.75)
    assert {s.rating.mean for s in good} == {0.75, 1.0}
    assert good == good_samples(rows[::-1], "rated", good=0.75)
    assert len(good_samples(rows, "rated", limit=3)) == 6
    assert some_of_each(rows, 2, seed=1) != some_of_each(rows, 2, seed=2)


def test_images_in_another_folder_are_chosen_as_before():
    def chosen(folder):
        rows = [CaptionSample("a dog", image=f"{folder}/{n}.png", language="en") for n in range(40)]
        return [Path(sample.image).name for sample in some_of_each(rows, 9, seed=1)]

    assert chosen("/here") == chosen("/far/away") != chosen("/far/away")[::-1]


def test_held_out_references_are_scored_against_the_others():
    good = good_samples(captions(), "references")
    assert len(good) == 20  # ten images, two languages
    for sample in good:
        assert sample.candidate not in sample.references
        assert sample.rating is None
    english = [s for s in good if s.language == "en"]
    assert {len(s.references) for s in english} == {5}  # of the two captions' six


def test_a_held_out_reference_is_of_the_language_that_it_is_written_in():
    english = ("a dog runs", "the dog is running", "a brown dog")
    crossed = CaptionSample("犬が走る", (*english, "犬", "子犬"), group="1", language="ja")
    alone = CaptionSample("a cat", ("the cat", "猫"), group="2")  # against what is either to be scored?
    made = good_samples([crossed, alone], "references")
    assert [sample.group for sample in made] == ["1", "1"]
    found = {sample.language: sample for sample in made}
    assert set(found) == {"ja", "en"}
    assert {found["en"].candidate, *found["en"].references} == set(english)
    assert {found["ja"].candidate, *found["ja"].references} == {"犬", "子犬"}


def test_the_first_reference_of_an_image_can_be_the_one_held_out():
    own = [f"a dog number {n}" for n in range(9)]
    rows = [CaptionSample("x", own[:5], group="1"), CaptionSample("y", own[5:], group="1")]
    for seed in range(3):
        (first,) = good_samples(rows, "references", which="first", seed=seed)
        assert first.candidate == own[0]
        assert first.references == tuple(own[1:])
    drawn = {good_samples(rows, "references", seed=seed)[0].candidate for seed in range(9)}
    assert len(drawn) > 3
    with pytest.raises(ConfigError, match="held out is 'last'; it must be one of random, first"):
        good_samples(rows, "references", which="last")


def test_no_good_sample_is_an_error_that_says_why():
    with pytest.raises(DataError, match=r"none of 1 sample is rated 0\.75 or better"):
        good_samples([CaptionSample("a dog", rating=0.2)], "rated")
    with pytest.raises(ConfigError, match="originals is 'best'; it must be one of rated, references"):
        good_samples(captions(), "best")

"""Training samples rated by rule."""

from collections import Counter
from dataclasses import replace

import pytest

from suisei.data.sample import CaptionSample, detect_language
from suisei.data.splits import group_of
from suisei.errors import ConfigError
from suisei.probes.degrade import OTHER_IMAGE
from suisei.training.synthetic import KEPT, REFERENCE_RATING, synthetic_samples

ENGLISH = ["a brown dog runs over wet grass", "the dog races across a lawn", "a dog is running outside"]
OTHERS = ["two men ride blue bicycles downhill", "cyclists on a steep road", "a pair of riders in helmets"]
JAPANESE = ["赤い傘をさした女性が歩いている", "女性が雨の中を歩く", "傘を持った人が道にいる"]


def sample(candidate, references, rating, group):
    return CaptionSample(candidate, tuple(references[:2]), rating=rating, group=group, id=group, system="s")


SAMPLES = [
    sample("a dog on grass", ENGLISH, 0.9, "dog"),
    sample("a cat", ENGLISH[1:], 0.1, "dog"),
    sample("men on bikes", OTHERS, 0.8, "bike"),
    sample("bikes", OTHERS[1:], 0.3, "bike"),
    sample("傘の女性", JAPANESE, 0.9, "umbrella"),
    sample("犬", JAPANESE[1:], 0.0, "umbrella"),
]


def test_made_samples_keep_their_image_and_are_rated_by_rule():
    made = synthetic_samples(SAMPLES, 40.0, seed=1).samples
    assert len(made) > 150
    known = {
        group: {r for s in SAMPLES if s.group == group for r in s.references} for group in ("dog", "bike")
    }
    allowed = {
        round(base * kept, 9) for base in (REFERENCE_RATING, 0.8, 0.9) for kept in (1.0, *KEPT.values())
    }
    for made_sample in made:
        assert round(made_sample.rating.mean, 9) in allowed
        assert made_sample.candidate not in made_sample.references
        assert made_sample.id is None
        assert made_sample.system is None
        group = group_of(made_sample)
        assert group in {"dog", "bike", "umbrella"}
        if group in known:
            assert set(made_sample.references) <= known[group]


def test_ways_that_are_hard_to_notice_are_taken_three_times_as_often():
    made = synthetic_samples(SAMPLES, 100.0, seed=1).samples
    counts = Counter(round(sample.rating.mean / REFERENCE_RATING, 3) for sample in made)
    noticed = counts[0.0] / 2  # the mark and the letter
    assert 2 < counts[KEPT["half"]] / noticed < 4
    assert 2 < counts[KEPT["negate"]] / noticed < 4
    assert counts[KEPT[OTHER_IMAGE]] / noticed < 2


def test_an_image_with_captions_in_both_languages_mixes_none():
    both = [replace(sample, group="1" if sample.group == "umbrella" else "2") for sample in SAMPLES]
    both += [replace(sample, group="1") for sample in SAMPLES[:2]]
    for made in synthetic_samples(both, 40.0, seed=1).samples:
        languages = {detect_language(text) for text in made.references}
        assert languages == {detect_language(made.candidate)} or not any(map(str.isalnum, made.candidate))


def test_degraded_captions_are_rated_below_the_good_ones():
    made = synthetic_samples(SAMPLES, 40.0, seed=1).samples
    originals = {c for s in SAMPLES for c in (s.candidate, *s.references)}
    own = {
        s.group: {c for t in SAMPLES if t.group == s.group for c in (t.candidate, *t.references)}
        for s in SAMPLES
    }
    good = [s.rating.mean for s in made if s.candidate in own[s.group]]
    elsewhere = [s.rating.mean for s in made if s.candidate in originals - own[s.group]]
    nearly_empty = [s.rating.mean for s in made if s.candidate in {".", "a", "。", "あ"}]
    assert good
    assert elsewhere
    assert nearly_empty
    assert min(good) >= 0.8
    assert max(elsewhere) < 0.1
    assert max(nearly_empty) == 0


def test_what_is_left_of_a_caption_decides_its_rating():
    """The more of a caption still stands, the more of its rating it keeps."""
    ratings = {name: set() for name in ("half", "shuffle", "swap")}
    for made in synthetic_samples(SAMPLES, 200.0, seed=1).samples:
        words = made.candidate.split()
        for reference in OTHERS:
            own = reference.split()
            if words == own[: len(own) // 2]:
                ratings["half"].add(round(made.rating.mean, 9))
            elif words != own and sorted(words) == sorted(own):
                moved = sum(word != other for word, other in zip(words, own, strict=True))
                ratings["swap" if moved == 2 else "shuffle"].add(round(made.rating.mean, 9))
    assert ratings["half"] == {round(0.7 * REFERENCE_RATING, 9)}
    assert min(ratings["shuffle"]) == 0.5 * REFERENCE_RATING
    assert max(ratings["swap"]) == 0.75 * REFERENCE_RATING


def test_same_seed_makes_the_same_and_another_does_not():
    first = synthetic_samples(SAMPLES, 10.0, seed=0).samples
    assert synthetic_samples(SAMPLES, 10.0, seed=0).samples == first
    assert synthetic_samples(SAMPLES, 10.0, seed=2).samples != first
    assert synthetic_samples(SAMPLES, 0.0).samples == []


def test_a_negative_share_is_refused():
    with pytest.raises(ConfigError, match=r"data.synthetic must be at least 0, got -0.1"):
        synthetic_samples(SAMPLES, -0.1)


def test_a_language_with_hardly_a_caption_is_no_obstacle():
    stray = CaptionSample("犬", ("茶色い犬", "走る犬"), rating=0.9, group="stray")
    english = [each for each in SAMPLES if each.language != "ja" and each.candidate.isascii()]
    made = synthetic_samples([*english, stray], 40.0, seed=3).samples
    assert any(each.group == "stray" for each in made)


def test_a_degraded_caption_points_at_what_it_was_made_of_unless_nothing_is_left():
    found = synthetic_samples(SAMPLES, 40.0, seed=1)
    every = [*SAMPLES, *found.samples]
    assert len(every) - len(SAMPLES) - 40 * len(SAMPLES) in (0, 1)
    compared = 0
    for made, number in zip(found.samples, found.originals, strict=True):
        if number < 0:
            continue
        original = every[number]
        assert group_of(made) == group_of(original)
        assert any(character.isalnum() and character in original.candidate for character in made.candidate)
        assert made.rating.mean / original.rating.mean > 0.3  # none of another image, a mark or a letter
        compared += 1
    assert compared > 40

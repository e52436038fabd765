"""Captions that break off, and nouns that nobody mentions, in both languages."""

import numpy as np
import pytest

from suisei.data.sample import CaptionSample
from suisei.errors import DataError
from suisei.metrics.registry import get_metric
from suisei.probes.caption_faults import breaks_off, nouns_of, unmentioned


@pytest.mark.parametrize(
    ("caption", "broken"),
    [
        ("a dog runs with a", True),
        ("a dog runs with a .", True),
        ("two men on the", True),
        ("a boy is", True),
        ("A man looks on.", False),
        ("a bird flies by", False),
        ("she follows her", False),
        ("a dog", False),
        ("...", False),
        ("on", True),
    ],
)
def test_english_endings(caption, broken):
    assert breaks_off(caption, "en") is broken


@pytest.mark.parametrize(
    ("caption", "broken"),
    [
        ("男性が自転車に", True),
        ("女の子が", True),
        ("テーブルの上の", True),
        ("公園に．", True),
        ("男性が公園で", True),
        ("人形のように", True),
        ("とてもきれいな", True),
        ("リンゴやバナナなど", False),
        ("男性が2人だけ", False),
        ("リンゴがいくつか", False),
        ("公園に｡", True),
        ("犬が公園を走っている。", False),
        ("猫の写真", False),
        ("子ども", False),
        ("とても可愛いね", False),
        ("。", False),
    ],
)
def test_japanese_endings(caption, broken):
    assert breaks_off(caption, "ja") is broken


@pytest.mark.parametrize(
    ("one", "several"),
    [
        ("dog", "dogs"), ("ski", "skis"), ("bikini", "bikinis"), ("menu", "menus"), ("cookie", "cookies"),
        ("hoodie", "hoodies"), ("tomato", "tomatoes"), ("shelf", "shelves"), ("moustache", "moustaches"),
        ("lens", "lenses"), ("bus", "buses"), ("puppy", "puppies"), ("dress", "dresses"),
    ],
)  # fmt: skip
def test_a_noun_is_mentioned_by_its_plural_and_by_its_singular(one, several):
    for candidate, reference in ((one, several), (several, one)):
        assert unmentioned(nouns_of(f"a {candidate}", "en"), [f"the red {reference}"], "en") == []


NUMBERS = """calf calves, hoof hooves, loaf loaves, wife wives, thief thieves, elf elves, dwarf dwarves,
    leaf leaves, glove gloves, olive olives, sleeve sleeves, groove grooves, valve valves, walrus walruses,
    octopus octopuses, house houses, volcano volcanoes, mango mangoes, hero heroes, buffalo buffaloes,
    canoe canoes, shoe shoes, birdie birdies, rookie rookies, puppy puppies, pie pies, headache headaches,
    avalanche avalanches, bench benches, axe axes, pickaxe pickaxes, box boxes, mousse mousses,
    dress dresses"""


@pytest.mark.parametrize(("one", "several"), [pair.split() for pair in NUMBERS.split(",")])
def test_a_plural_that_hides_its_singulars_ending_is_the_same_noun(one, several):
    for candidate, reference in ((one, several), (several, one)):
        score = get_metric("hallucinated-nouns").score(
            [CaptionSample(f"a cow and the {candidate}", [f"a cow and {reference}"])]
        )
        assert score.tolist() == [0]
    assert len(nouns_of(f"the {one} and the {several}", "en")) == 1


@pytest.mark.parametrize(
    ("noun", "reference"),
    [
        ("cafe", "caves"), ("toe", "to"), ("toes", "to"), ("wife", "waves"),
        ("loaf", "loves"), ("leaf", "sleeves"),
        ("golf", "gloves"), ("hero", "herons"), ("bus", "bushes"), ("house", "hoses"), ("hoof", "hooks"),
        ("axe", "axles"), ("calf", "cave"), ("shoe", "shows"), ("wolf", "wool"),
    ],
)  # fmt: skip
def test_nouns_that_only_look_alike_stay_apart(noun, reference):
    assert unmentioned(nouns_of(f"a {noun}", "en"), [f"the {reference}"], "en")


@pytest.mark.parametrize("name", ["incomplete-ending", "hallucinated-nouns"])
def test_the_signature_names_what_cuts_japanese_captions(name, monkeypatch):
    assert "|ja:mecab-unidic-lite-" in get_metric(name).signature
    monkeypatch.setattr("suisei.probes.segments.mecab_missing", lambda: "fugashi")
    assert "|ja:script|" in get_metric(name).signature


def test_without_mecab_only_sure_particles_count(monkeypatch):
    monkeypatch.setattr("suisei.probes.segments.mecab_missing", lambda: "fugashi")
    assert breaks_off("犬を", "ja")
    assert not breaks_off("子ども", "ja")


@pytest.mark.parametrize(
    ("caption", "references", "lacking"),
    [
        ("A dog with a ball in the grass", ["two dogs play on grass"], ["ball"]),
        ("a bike near a couch", ["a bicycle", "the sofas are red"], []),
        ("a man on a beach", ["somebody", "a person at a lake"], ["beach"]),
        ("a man", ["a lake"], ["man"]),
        ("a group of women", ["women sing"], []),
        ("a puppy and benches", ["puppies on a bench"], []),
        ("two ladies", ["a man"], []),
    ],
)
def test_english_nouns_that_nobody_mentions(caption, references, lacking):
    assert unmentioned(nouns_of(caption, "en"), references, "en") == lacking


def test_japanese_nouns_that_nobody_mentions():
    nouns = nouns_of("男性と犬が公園で傘を持っている", "ja")
    assert nouns == ("男性", "犬", "公園", "傘")
    assert unmentioned(nouns, ["人がイヌと歩く", "広い公園"], "ja") == ["傘"]


@pytest.mark.parametrize("reference", ["Tシャツの男性", "ｔシャツの男性", "男性のＴシャツ"])
@pytest.mark.parametrize("caption", ["Tシャツを着た男性", "tシャツを着た男性", "Ｔシャツを着た男性"])
def test_japanese_nouns_with_latin_letters_are_mentioned_in_either_width_and_case(caption, reference):
    assert nouns_of(caption, "ja") == ("tシャツ", "男性")
    assert unmentioned(nouns_of(caption, "ja"), [reference], "ja") == []
    assert unmentioned(nouns_of(caption, "ja"), ["男性"], "ja") == ["tシャツ"]


def test_no_score_is_no_perfect_corpus_score():
    nouns, samples = get_metric("hallucinated-nouns"), [CaptionSample("a dog"), CaptionSample("a cat")]
    scores = nouns.score(samples)
    assert np.isnan(scores).all()
    with pytest.raises(DataError, match="hallucinated-nouns has no score for any of 2 samples"):
        nouns.corpus_score(samples, scores)


def test_scores_and_corpus_scores():
    samples = [
        CaptionSample("a dog with a ball", ["a dog"]),
        CaptionSample("a dog with a", ["a dog"]),
        CaptionSample("blue", ["a dog"], language="en"),
    ]
    nouns, ending = get_metric("hallucinated-nouns"), get_metric("incomplete-ending")
    scores = nouns.score(samples)
    assert scores[:2].tolist() == [0.5, 0]
    total = nouns.sample_statistics(samples).sum(axis=0)
    assert nouns.corpus_score(samples, scores) == pytest.approx(total[0] / total[1])
    assert ending.score(samples).tolist() == [0, 1, 0]
    assert ending.corpus_score(samples, np.array([0.0, 1.0, 0.0])) == pytest.approx(1 / 3)
    assert nouns.missing([CaptionSample("a dog")]) == {0: "no references"}


def test_contractions_owners_and_apostrophes():
    assert nouns_of("There's a dog that isn't running", "en") == ("dog",)
    assert nouns_of("It’s a dog’s toy", "en") == nouns_of("It's a dog's toy", "en")
    assert unmentioned(["dog"], ["The dog’s fur is wet"], "en") == []
    assert nouns_of("a brown and white dog about to run whilst the man waits", "en") == ("dog", "man")


def test_what_is_worn_stays_on_and_a_comma_ends_nothing():
    assert not breaks_off("a man with skis on", "en")
    assert breaks_off("a man sits on", "en")
    assert breaks_off("犬が公園を、", "ja")

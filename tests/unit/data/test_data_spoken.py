"""References told apart by language."""

import pytest

from suisei.data.sample import CaptionSample
from suisei.data.spoken import (
    across_note,
    beside_references_in,
    count_across,
    count_other_scripts,
    in_another_script,
    references_in,
    with_own_references,
)


@pytest.mark.parametrize(
    ("sample", "kept", "across"),
    [
        (CaptionSample("a dog", ("the dog", "a cat")), ("the dog", "a cat"), False),
        (CaptionSample("a dog", ("犬", "the dog", "猫", "a cat")), ("the dog", "a cat"), False),
        (CaptionSample("犬", ("the dog", "a cat")), ("the dog", "a cat"), True),
        (CaptionSample("a dog"), (), False),
        (CaptionSample("ABC", ("犬",), language="ja"), ("犬",), False),
        (CaptionSample("ABC", ("犬",)), ("犬",), True),
        (CaptionSample("123。", ("犬", "a dog")), ("犬", "a dog"), False),
        (CaptionSample("STOP", ("STOP", "止まれの標識"), language="ja"), ("STOP", "止まれの標識"), False),
        (CaptionSample("STOP", ("stop", "a stop sign", "標識"), language="ja"), ("stop", "標識"), False),
        (CaptionSample("two", ("2", "二"), language="ja"), ("2", "二"), False),
        (CaptionSample("2", ("two",), language="ja"), ("two",), True),
        (CaptionSample("犬", ("a dog", "犬"), language="en"), ("a dog", "犬"), False),
        (CaptionSample("STOP", ("STOP", "標識"), language="en"), ("STOP",), False),
        (CaptionSample("STOP", ("STOP", "止まれの標識")), ("STOP",), False),
        (CaptionSample("犬", ("STOP", "犬の絵"), language="ja"), ("犬の絵",), False),
    ],
)
def test_references_in_the_own_language_are_kept_where_there_are_any(sample, kept, across):
    (found,), flags = with_own_references([sample])
    assert (found.references, flags) == (kept, [across])


def test_an_image_lends_its_references_to_all_its_captions():
    samples = [
        CaptionSample("a dog", ("the dog", "犬"), group="1"),
        CaptionSample("犬です", ("犬", "子犬"), group="1"),
        CaptionSample("a cat", ("the cat",), group="2"),
    ]
    assert references_in(samples[0], "ja") == ("犬",)
    english, japanese = (beside_references_in(samples, language) for language in ("en", "ja"))
    assert {place: own.references for place, own in japanese.items()} == {
        0: ("犬", "子犬"),
        1: ("犬", "子犬"),
    }
    assert {place: own.references for place, own in english.items()} == {
        0: ("the dog",), 1: ("the dog",), 2: ("the cat",)
    }  # fmt: skip
    assert [own.candidate for own in english.values()] == ["a dog", "犬です", "a cat"]


def test_samples_across_languages_are_counted():
    samples = [
        CaptionSample("a dog", ("犬",)),
        CaptionSample("a dog", ("犬", "the dog")),
        CaptionSample("犬"),
    ]
    assert count_across(samples) == 1
    assert across_note(1).startswith("1 has no reference in the candidate's language")
    assert across_note(1200).startswith("1,200 have no reference")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("한 남자가 자전거를 탄다", True),
        ("Собака бежит", True),
        ("कुत्ता", True),
        ("一个男人在公园里骑自行车", True),
        ("男人在公園里騎車", True),
        ("公園を走る犬", False),
        ("犬", False),
        ("大韓民国 한국", False),  # as many ideographs as other letters, or more
        ("ấy ở ạ ế", False),
        ("東京駅前広場前", False),  # a kanji or some, as a caption of signs may be
        ("Ein Hund läuft über Äpfel", False),
        ("a man under a sign 한국어", False),
        ("a man in a café named 一个男人骑自行车", False),
        ("男性一人ｶﾒﾗ撮影中自転車走行", False),
        ("α rays", False),
        ("①② 😀", False),
        ("a dog", False),
    ],
)
def test_other_scripts_are_told_by_letters(text, told):
    assert in_another_script(text) is told
    for sample in (CaptionSample(text, ("a dog",)), CaptionSample("a dog", ("the dog", text))):
        assert count_other_scripts([sample, sample]) == 2 * told


def test_a_caption_that_is_said_to_be_japanese_may_be_without_kana():
    samples = [CaptionSample("東京都庁舎展望台南側", language=language) for language in ("ja", None, "en")]
    assert [count_other_scripts([sample]) for sample in samples] == [0, 1, 1]
    assert count_other_scripts([CaptionSample("개가 달린다", language="ja")]) == 1

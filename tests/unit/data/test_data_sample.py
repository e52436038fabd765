"""CaptionSample and Rating: what they accept, and what they refuse with which words."""

import ast
import dataclasses
import inspect
from pathlib import Path

import numpy as np
import pytest

from suisei.data.sample import CaptionSample, Rating, detect_language, is_wordless, make_samples, plain_text
from suisei.errors import DataError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"candidate": ""}, "candidate is empty"),
        ({"candidate": " \n\u3000"}, "candidate is empty"),
        ({"candidate": None}, "candidate must be text, got NoneType"),
        ({"candidate": "a", "references": ("b", " ")}, "reference 2 is empty"),
        ({"candidate": "a", "references": "b"}, "wrap it"),
        ({"candidate": "a" * 10_001}, "10,001 characters"),
        ({"candidate": "a", "language": "fr"}, "expected one of ja, en"),
        ({"candidate": "a", "rating": 3}, "3"),
        ({"candidate": "a", "rating": float("nan")}, "nan"),
        ({"candidate": "a", "rating": float("inf")}, "rating is inf"),
        ({"candidate": "a", "rating": "5"}, "got str '5'; write numbers without quotes, and leave out"),
        ({"candidate": "a", "rating": True}, "rating must be a number, got bool True"),
        ({"candidate": "a", "rating": np.bool_(True)}, "rating must be a number, got bool"),
        ({"candidate": "a", "rating": [0.5]}, "rating must be a number, got list"),
        ({"candidate": "a", "rating": 10**400}, "too large a number"),
        ({"candidate": "\u200b\u200d\ufeff"}, "candidate is empty.*only invisible ones such as"),
        ({"candidate": "\x00\x07 \u00ad"}, "only invisible ones"),
        ({"candidate": "\ufe0f\u0301"}, "only invisible ones"),
        ({"candidate": "\u3164\u2800"}, "only invisible ones"),
        ({"candidate": "a", "references": ["b", "\u2060"]}, "reference 2 is empty"),
        ({"candidate": "a \ud83d"}, "candidate holds a broken character"),
        ({"candidate": "a", "references": ["\udc00"]}, "reference 1 holds a broken character"),
        ({"candidate": b"a"}, r"candidate must be text, got bytes b'a'; decode it"),
        ({"candidate": ["a"]}, "candidate must be text, got list"),
        ({"candidate": "a", "references": b"b"}, "references must be a list of captions, got bytes"),
        ({"candidate": "a", "references": {"b"}}, "got set"),
        ({"candidate": "a", "references": {"b": 1}}, "got dict"),
        ({"candidate": "a", "references": 3}, "got int"),
        ({"candidate": "a", "references": float("nan")}, "got float nan"),
        ({"candidate": "a", "references": [["b"]]}, "reference 1 must be text, got list"),
        ({"candidate": "a", "references": [None]}, "reference 1 must be text, got NoneType"),
        ({"candidate": "a", "references": np.array([["b"]])}, "got ndarray"),
        ({"candidate": "a", "language": ["en"]}, "expected one of ja, en"),
        ({"candidate": "a", "group": 3}, "group must be text, got int 3"),
        ({"candidate": "a", "id": b"x"}, "id must be text, got bytes"),
    ],
)
def test_a_bad_sample_is_refused(arguments, message):
    with pytest.raises(DataError, match=message):
        CaptionSample(**arguments)


@pytest.mark.parametrize("caption", ["\u200b犬", "❤️", "!", "e\u0301", "👩‍👩‍👧", "한"])
def test_a_visible_character_is_enough(caption):
    assert CaptionSample(caption, (caption,)).candidate == plain_text(caption) != ""


@pytest.mark.parametrize("around", [" {}", "{} ", "{}\n", "\t{}\r\n", "\u3000{}\xa0"])
def test_white_space_around_a_caption_is_no_part_of_it(around):
    sample = CaptionSample(around.format("a  dog"), [around.format("犬 と 猫")])
    assert sample == CaptionSample("a  dog", ["犬 と 猫"])


@pytest.mark.parametrize("references", [["b", "c"], ("b", "c"), np.array(["b", "c"]), iter(["b", "c"])])
def test_references_may_come_in_any_order_that_is_one(references):
    sample = CaptionSample(np.str_("a"), references)
    assert sample.references == ("b", "c")
    assert {type(text) for text in (sample.candidate, *sample.references)} == {str}


@pytest.mark.parametrize("rating", [1, 1.0, np.float32(1), np.int64(1)])
def test_any_number_is_a_rating(rating):
    assert CaptionSample("a", rating=rating).rating == Rating((1.0,))


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        *[((), 1, 5), ((6,), 1, 5), ((1,), 5, 5), ((3,), 5, 1), (("3",), 1, 5), ("3", 1, 5), (3, 1, 5)],
        *[((True,), 0, 1), ((3,), "1", 5), ((3,), 1, float("inf")), ((3,), float("nan"), 5), (None, 1, 5)],
    ],
)
def test_a_bad_rating_is_refused(values, low, high):
    with pytest.raises(DataError):
        Rating(values, low, high)


@pytest.mark.parametrize("value", [0, -1, 0.999, 5.001])
def test_a_rating_off_either_end_of_its_scale_is_refused(value):
    with pytest.raises(DataError, match="is outside the scale 1 to 5"):
        Rating((3, value), 1, 5)


def test_ratings_are_scaled_to_the_unit_interval():
    rating = Rating((1, 2, 5), 1, 5)
    np.testing.assert_allclose(rating.scaled, [0, 0.25, 1])
    assert rating.mean == pytest.approx(1.25 / 3)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("犬", "ja"),
        ("ｲﾇ", "ja"),
        ("a 犬", "ja"),
        ("café", "en"),
        ("A dog.", "en"),
        ("々", "ja"),
        ('A red sign that says "止まれ" stands beside the road.', "en"),
        ("NHKのTシャツ", "ja"),
        ("Levi's の jeans", "en"),
        ("dog 犬", "ja"),
        ("Levi's の赤い jeans", "ja"),
    ],
)
def test_language_is_found(text, language):
    assert detect_language(text) == language


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("\u3005", "\u3007"),
        ("\u3040", "\u30ff"),
        ("\u3400", "\u9fff"),
        ("\uf900", "\ufaff"),
        ("\uff66", "\uff9f"),
    ],
)
def test_scripts_of_japanese_begin_and_end_where_unicode_says(first, last):
    assert detect_language(f"a {first}") == detect_language(f"{last} a") == "ja"
    assert detect_language(chr(ord(first) - 1)) == detect_language(chr(ord(last) + 1)) == "en"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("カ\u3099ラスの前", "ガラスの前"),
        ("ｶﾞﾗｽの前", "ガラスの前"),
        ("cafe\u0301", "café"),
        ("\ufeff犬\u200bが\u00ad走る\u2060", "犬が走る"),
        ("葛\U000e0100の葉", "葛の葉"),
        ("👩\u200d🚀 ❤\ufe0f", "👩\u200d🚀 ❤"),
        ("ＡＢＣ、１２３。", "ＡＢＣ、１２３。"),
        ("\x07a d\x00og\x7f \x1b", "a dog"),
        ("a\x0bdog\x0cruns\x1fnow", "a dog runs now"),
        ("犬\x85が\x80\u061c走\u180eる\u034f", "犬 が走る"),
        ("a\tdog\nruns", "a\tdog\nruns"),
    ],
)
def test_a_caption_is_read_as_it_looks(given, read):
    sample = CaptionSample(given, (given,))
    assert (sample.candidate, sample.references) == (read, (read,))


def test_parallel_lists_become_samples():
    samples = make_samples(["a", "b"], [["c"], []], [None, "x.png"])
    assert [s.references for s in samples] == [("c",), ()]
    assert samples[1].image == "x.png"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a", "b"], [["c"]]), "references has 1 entries, candidates has 2"),
        ((["a"], None, ["x.png", "y.png"]), "images has 2 entries, candidates has 1"),
        (("a dog", [["c"]]), "candidates must be a list"),
        ((["a", ""], [["c"], ["d"]]), "sample 1: candidate is empty"),
        ((["a"], ["c"]), "sample 0: references must be a list"),
    ],
)
def test_bad_lists_are_refused(arguments, message):
    with pytest.raises(DataError, match=message):
        make_samples(*arguments)


def test_type_checkers_are_told_of_every_field_and_its_default():
    source = ast.parse(Path(inspect.getfile(CaptionSample)).read_text(encoding="utf-8"))
    (told,) = (
        part.args
        for kind in ast.walk(source)
        if isinstance(kind, ast.ClassDef) and kind.name == "CaptionSample"
        for part in ast.walk(kind)
        if isinstance(part, ast.FunctionDef) and part.name == "__init__"
    )
    fields = dataclasses.fields(CaptionSample)
    assert [own.arg for own in told.args[1:]] == [field.name for field in fields]
    defaults = [field.default for field in fields if field.default is not dataclasses.MISSING]
    assert [ast.literal_eval(value) for value in told.defaults] == defaults
    assert ast.unparse(told.args[2].annotation) == "Iterable[str] | None"  # a list will do
    assert ast.unparse(told.args[4].annotation) == "Rating | float | None"


@pytest.mark.parametrize(
    "text", ["", " ", "\u3000", "\u200b", ".", "。", "?! …", "「」", "\u3164", "--", "＿"]
)
def test_a_text_without_letters_says_nothing(text):
    assert is_wordless(text)


@pytest.mark.parametrize("text", ["a", "犬", "ー?犬", "3", "½", "②", "🐕", "é.", "ｲﾇ"])
def test_a_letter_a_number_or_a_picture_says_something(text):
    assert not is_wordless(text)

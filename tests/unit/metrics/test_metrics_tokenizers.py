"""English and Japanese tokens, and the choice between tokenizers."""

import shutil
import warnings
from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, UnavailableError
from suisei.metrics import ptb, tokenizers
from suisei.metrics.bleu import Bleu
from suisei.metrics.registry import get_metric
from suisei.metrics.tokenizers import caption_words, get_tokenizer, tokenize_samples

WORDS = (
    "dog man's dogs' t-shirt isn't can't they're U.S. Mr. 3.5 10,000 '90s half-pipe $5 50% #1 w/ red/white "
    '"stop" (left) [sic] -- - ... !! ? ; : , . cannot o\'clock R&B 4x4 café “quoted” it’s girl,boy 5:30 '
    "🐶 👍🏽 ❤ ‼ x𝐀y"
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("A man doesn't like the dog's ball.", "a man does n't like the dog 's ball"),
        ("We can't, won't; cannot!", "we ca n't wo n't can not"),
        ("they're I've he'll", "they 're i 've he 'll"),
        ("the dogs' bowl", "the dogs bowl"),
        ("a well-known five-year-old", "a well-known five-year-old"),
        ("half - full -- dash — long", "half full dash long"),
        ("costs $5.00 or 10,000 at 5:30", "costs $ 5.00 or 10,000 at 5:30"),
        ("a \"quoted\" and 'single' word", "a quoted and single word"),
        ("a (round) [square] {curly}", "a -lrb- round -rrb- -lsb- square -rsb- -lcb- curly -rcb-"),
        ("in the U.S. near St. John's", "in the u.s. near st. john 's"),
        ("wait ... what?! no. 5", "wait what ?! no. 5"),
        ("a&b A&B 50% #1", "a & b a&b 50 % # 1"),
        ("red,blue;green:white", "red blue green white"),
        ("80s '90s 1980's", "80s '90s 1980 's"),
        ("rock 'n' roll at 6 o'clock", "rock 'n' roll at 6 o'clock"),
        ("curly it’s “here”", "curly it 's here"),
        ("O'Brien d'Angelo t'shirt", "o'brien d'angelo t shirt"),
        ("a A", "a a"),
        ("...", ""),
        ("a 🐶 dog❗🎉", "a dog ❗"),
        ("two👍🏽cats, 👨\u200d👩\u200d👧 ❤\ufe0f ☀ ‼ 1\u20e3", "two cats ❤ ☀ 1"),
        ("𝐛𝐨𝐥𝐝 𠮷 a㈱b Ⅲ 〇 犬", "a b 犬"),
        ("a t\u2011shirt \u2011 five\u2010year\u2010old", "a t\u2011shirt five\u2010year\u2010old"),
        ("⅔ of ¤5 at 20 ℃", "2/3 of $ 5 at 20 ℃"),
    ],
)
def test_ptb_by_example(text, tokens):
    assert ptb.tokenize(text) == tokens.split()


@pytest.mark.java
@pytest.mark.skipif(
    shutil.which("java") is None or find_spec("pycocoevalcap") is None, reason="needs Java and pycocoevalcap"
)
def test_ptb_equals_java_on_generated_captions():
    import random

    generator = random.Random(0)
    captions = [" ".join(generator.choices(WORDS.split(), k=generator.randint(1, 12))) for _ in range(3000)]
    expected = get_tokenizer("ptb-java").many([(caption, "en") for caption in captions])
    same = sum(tuple(ptb.tokenize(text)) == tokens for text, tokens in zip(captions, expected, strict=True))
    # nothing differs today; a caption in two hundred may, for a web address or a hyphen after a comma
    assert same / len(captions) > 0.995


@pytest.mark.java
@pytest.mark.realdata
@pytest.mark.skipif(
    shutil.which("java") is None or find_spec("pycocoevalcap") is None, reason="needs Java and pycocoevalcap"
)
def test_ptb_equals_java_on_flickr8k(shared):
    lines = (
        (shared / "data/flickr8k/Flickr8k_text/Flickr8k.token.txt").read_text(encoding="utf-8").splitlines()
    )
    captions = [line.split("\t")[1] for line in lines]
    expected = get_tokenizer("ptb-java").many([(caption, "en") for caption in captions])
    assert [tuple(ptb.tokenize(caption)) for caption in captions] == expected


UNSEEN = "\u061c\u180e\u200b\u200c\u200d\u200e\u2060\u2064\ufeff\ufe0f\U000e0067\U000e0100"
JAPANESE = ["character", "mecab", "auto"]


@pytest.mark.parametrize("name", ["ptb", *JAPANESE])
@pytest.mark.parametrize("unseen", UNSEEN)
def test_what_nobody_sees_is_no_token(name, unseen):
    text = f"A dog {unseen} runs." if name == "ptb" else f"犬{unseen}が、{unseen}走る"
    assert get_tokenizer(name)(text) == get_tokenizer(name)(text.replace(unseen, " "))
    assert unseen not in caption_words(text, "en" if name == "ptb" else "ja")


@pytest.mark.parametrize("name", JAPANESE)
def test_the_joiners_of_an_emoji_are_no_tokens(name):
    assert get_tokenizer(name)("👨\u200d👩\u200d👧が笑う") == get_tokenizer(name)("👨👩👧が笑う")
    joined, apart = get_metric("length").score(["👨\u200d👩\u200d👧が笑う", "👨👩👧が笑う"])
    assert joined == apart


@pytest.mark.parametrize("name", JAPANESE)
@pytest.mark.parametrize("twins", ["\uff5e\u301c", "\uff0d\u2212", "\u2225\u2016"])
def test_a_sign_of_two_code_points_gives_the_same_tokens(name, twins):
    for text in ("犬が走る{}", "10{}20人の男性", "スノー{}ボード{}だ"):
        one, other = (get_tokenizer(name)(text.replace("{}", sign)) for sign in twins)
        assert one == other
    assert not set(twins) & set(get_tokenizer(name)(f"犬{twins[0]}猫{twins[1]}鳥"))


@given(st.text(max_size=60))
def test_no_text_breaks_the_tokens(text):
    for name in ("ptb", "character", "mecab"):
        if name == "mecab" and tokenizers.mecab_missing():
            continue
        tokens = get_tokenizer(name)(text)
        assert all(token and not any(map(str.isspace, token)) for token in tokens)


@given(st.text(alphabet="a b.-'/@+&n't5,!", max_size=80))
def test_ptb_keeps_every_letter(text):
    if "<" in text or "'t" in text:
        return
    letters = [character for character in "".join(ptb.tokenize(text)) if character.isalnum()]
    assert letters == [character for character in text if character.isalnum()]


def test_language_decides_the_tokenizer():
    tokenizer = get_tokenizer("ptb+character")
    assert tokenizer("The man's dog.") == ["the", "man", "'s", "dog"]
    assert tokenizer("犬が、走る。") == ["犬", "が", "走", "る"]
    assert tokenizer("DOG", "ja") == ["d", "o", "g"]
    assert tokenizer.many([("a b", None), ("犬猫", None), ("c", "en")]) == [("a", "b"), ("犬", "猫"), ("c",)]
    assert tokenizer.signature == f"ptb-regex.{ptb.VERSION}+char-nfkc-nopunct.2"


def test_mecab_cuts_words_and_drops_punctuation():
    tokenizer = get_tokenizer("auto")
    assert tokenizer("犬が公園を走っている。") == ["犬", "が", "公園", "を", "走っ", "て", "いる"]
    assert tokenizer("「赤いＴシャツ」、１人！") == tokenizer("赤いTシャツ1人")
    assert "mecab-unidic-lite" in Bleu(4).signature


def test_references_follow_the_language_of_the_candidate():
    samples = [CaptionSample("T", ("AB",), language="ja"), CaptionSample("T", ("AB",))]
    japanese, english = tokenize_samples(samples, get_tokenizer("ptb+character"))
    assert japanese.references == (("a", "b"),)
    assert english.references == (("ab",),)


def test_repeated_captions_are_cut_once():
    calls = []

    class Spy(tokenizers.Tokenizer):
        name = signature = "spy"

        def many(self, captions):
            calls.extend(captions)
            return [tuple(text.split()) for text, _ in captions]

    samples = [CaptionSample("a b", ("a b", "c d")), CaptionSample("c d", ("a b", "c d"))]
    first, second = tokenize_samples(samples, Spy())
    assert len(calls) == 2
    assert first.references is second.references


def test_without_mecab_characters_are_used_and_said(monkeypatch):
    monkeypatch.setattr(tokenizers, "find_spec", lambda name: None)
    tokenizers._warn_once.cache_clear()
    get_tokenizer.cache_clear()
    try:
        tokenizer = get_tokenizer("auto")
        assert tokenizer("a dog") == ["a", "dog"]
        with pytest.warns(UserWarning, match="by characters.*pip install fugashi unidic-lite"):
            assert tokenizer("犬だ") == ["犬", "だ"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tokenizer("猫だ")
        assert tokenizer.signature.endswith("+char-nfkc-nopunct.2")
        with pytest.raises(UnavailableError, match="fugashi, unidic_lite: pip install fugashi unidic-lite"):
            get_tokenizer("mecab")
    finally:
        get_tokenizer.cache_clear()


@pytest.mark.parametrize("name", ["ptb", "ptb-java"])
def test_an_english_tokenizer_alone_warns_of_japanese_once(monkeypatch, name):
    monkeypatch.setattr(tokenizers.java, "pycocoevalcap_reason", lambda: None)
    monkeypatch.setattr(tokenizers.java, "java_ptb", lambda texts: [ptb.tokenize(text) for text in texts])
    tokenizers._warn_once.cache_clear()
    get_tokenizer.cache_clear()
    both = [CaptionSample("a dog", ("a cat",)), CaptionSample("犬だ", ("猫だ",))]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tokenize_samples(both[:1], get_tokenizer(name))
            tokenize_samples(both, get_tokenizer(f"{name}+character"))
        with pytest.warns(UserWarning, match=rf"'{name}' is for English.*for both languages: {name}\+mecab"):
            tokenize_samples(both, get_tokenizer(name))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tokenize_samples(both, get_tokenizer(name))
    finally:
        get_tokenizer.cache_clear()


@pytest.mark.parametrize("name", ["words", "ptb+words", "ptb+mecab+character", ""])
def test_unknown_names_list_the_known(name):
    with pytest.raises(ConfigError, match=r"auto, ptb, ptb-java, mecab, character, whitespace"):
        get_tokenizer(name)

"""Degradations: what each does to a caption, in both languages, seeded and independent of neighbours."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from suisei.data.sample import CaptionSample, detect_language, language_of
from suisei.errors import ConfigError
from suisei.metrics.registry import get_metric
from suisei.probes import segments
from suisei.probes.degrade import CHANGES, DEGRADATIONS, degrade, degrade_samples
from suisei.probes.segments import segment, swappable

ENGLISH = "A red ball and two dogs lie on the small table."
JAPANESE = "赤いボールと2匹の青い犬が公園の椅子の上に座っています。"
REFERENCES = {ENGLISH: ["A dog is near a red ball."], JAPANESE: ["赤いボールのそばに犬がいる"]}
RULES = [name for name in DEGRADATIONS if name != "other-image"]
ALWAYS = ("swap", "negate", "add", "shuffle", "repeat", "generic", "break-off", "half", "mark", "letter")


@pytest.fixture
def without_mecab(monkeypatch):
    monkeypatch.setattr(segments, "mecab_missing", lambda: "fugashi")
    segments.segment.cache_clear()
    yield
    segments.segment.cache_clear()


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("caption", [ENGLISH, JAPANESE])
def test_every_degradation_changes_the_caption_and_repeats_itself(name, caption):
    worse = degrade(caption, name, seed=3, references=REFERENCES[caption])
    assert worse
    assert worse not in (caption, *REFERENCES[caption])
    assert worse == degrade(caption, name, seed=3, references=REFERENCES[caption])


def test_another_seed_makes_other_choices():
    for name in ("swap", "shuffle", "repeat"):
        assert len({degrade(JAPANESE, name, seed=seed) for seed in range(8)}) > 1


def test_swap_exchanges_two_nouns_and_nothing_else():
    assert degrade("A red ball lies on the small table.", "swap") == "A red table lies on the small ball."
    assert degrade("机の上に猫がいる", "swap") == "猫の上に机がいる"


@pytest.mark.parametrize(
    ("caption", "nouns"),
    [
        ("a smaller brown and white dog runs on grass", {"dog", "grass"}),
        ("a red , white , and blue flag on a house", {"flag", "house"}),
        ("a man in black and a dog", {"man", "black", "dog"}),
        ("a man rides a bike as well as a horse", {"man", "bike", "horse"}),
        ("a bucket is left in a well", {"bucket", "well"}),
        ("a dog sits atop a hill", {"dog", "hill"}),
        ("a man looks at himself in the same mirror", {"man", "mirror"}),
        ("a dog plays outdoors with a ball opposite a house", {"dog", "ball", "house"}),
    ],
)
def test_swap_takes_no_colour_of_several_and_no_function_word_for_a_thing(caption, nouns):
    cut = segment(caption, "en")
    assert {cut.words[place].text for pair in swappable(cut) for place in pair} == nouns


@pytest.mark.parametrize("caption", ["a man and a woman", "手帳と鉛筆が置かれている", "a dog"])
def test_swap_leaves_alone_what_is_as_true_the_other_way_round(caption):
    nouns = [word.text for word in segment(caption, "ja" if "と" in caption else "en").words if word.noun]
    assert degrade(caption, "swap") is None, nouns


def test_compounds_stay_together():
    words = [word.text for word in segment("棚の上にノートパソコンがある", "ja").words if word.noun]
    assert words == ["棚", "ノートパソコン"]


def test_a_picture_a_place_and_a_colour_are_no_things_in_japanese():
    words = [word.text for word in segment("ソファの隣に茶色の猫がいる写真", "ja").words if word.noun]
    assert words == ["ソファ", "猫"]


def test_english_nouns_are_told_from_verbs_and_adjectives():
    caption = segment("Two young boys in brown shirts are standing near a wooden building .", "en")
    assert [word.text for word in caption.words if word.noun] == ["boys", "shirts", "building"]
    assert all(caption.words[a].noun and caption.words[b].noun for a, b in swappable(caption))


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("A dog is running.", "A dog is not running."),
        ("A dog is not running.", "A dog is running."),
        ("A dog runs on grass .", "A dog does not run on grass ."),
        ("two dogs play", "two dogs do not play"),
        ("There are two dogs", "There are no dogs"),
        ("A girl jumping over a rail", "A girl not jumping over a rail"),
        ("man with a hat", "man without a hat"),
        ("man without a hat", "man with a hat"),
        ("a dog with no collar", "a dog with a collar"),
        ("A red ball", "No red ball"),
        ("red", "no red"),
        ("A man , who is here", "A man , who is not here"),
    ],
)
def test_english_negation(caption, expected):
    assert degrade(caption, "negate", language="en") == expected


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("犬が走っている", "犬が走っていない"),
        ("犬が走っていない。", "犬が走っている。"),
        ("犬がいます。", "犬がいません。"),
        ("犬がいません。", "犬がいます。"),
        ("机の上に本がある", "机の上に本がない"),
        ("本が机の上にない", "本が机の上にある"),
        ("犬が公園で遊ぶ", "犬が公園で遊ばない"),
        ("海が見える", "海が見えない"),
        ("犬が走る", "犬が走らない"),
        ("料理をする", "料理をしない"),
        ("花が美しい", "花が美しくない"),
        ("空は青いです", "空は青くないです"),
        ("赤いボールの絵です", "赤いボールの絵ではありません"),
        ("赤いボール", "赤いボールではない"),
        ("犬が走った", "犬が走ったわけではない"),
        ("犬が走らない", "犬が走る"),
        ("女性がケーキを食べない", "女性がケーキを食べる"),
        ("何もない", "何かある"),
        ("誰も見えませんでした", "誰か見えました"),
        ("机に何も置かれていない", "机に何か置かれている"),
        ("犬はいなかった", "犬はいた"),
        ("机は丸くなかった", "机は丸かった"),
        ("人が少ない", "人が少なくない"),
        ("花がきれいです", "花がきれいではありません"),
        ("人でいっぱいです", "人でいっぱいではありません"),
        ("天気がいい", "天気がよくない"),
        ("犬は猫より大きい", "犬は猫より大きくない"),
        ("猫がかわいいです", "猫がかわいくないです"),
        ("猫がソファで寝る", "猫がソファで寝ない"),
        ("電車が来る", "電車が来ない"),
        ("男性が居る", "男性が居ない"),
        ("白鳥が泳い", "白鳥が泳いではない"),  # broken off
        ("りんごが二つ", "りんごが二つではない"),
        ("花柄のゆかた", "花柄のゆかたではない"),
        ("美味しそう", "美味しそうではない"),
    ],
)
def test_japanese_negation(caption, expected):
    assert degrade(caption, "negate") == expected


@pytest.mark.parametrize("stop", ["。", "．", "｡", "."])
def test_every_japanese_full_stop_stays_at_the_end(stop):
    caption = f"犬が公園で走っている{stop}"
    assert degrade(caption, "negate") == f"犬が公園で走っていない{stop}"
    assert degrade(caption, "politeness") == f"犬が公園で走っています{stop}"
    assert degrade(caption, "half").endswith(stop)


def test_shuffle_keeps_the_words_and_the_full_stop():
    worse = degrade(ENGLISH, "shuffle")
    assert worse.endswith(".")
    assert sorted(worse.lower().rstrip(".").split()) == sorted(ENGLISH.lower().rstrip(".").split())
    assert worse[0].isupper()
    assert sorted(degrade(JAPANESE, "shuffle")) == sorted(JAPANESE)


def test_repeat_says_a_phrase_again_in_its_place():
    words = [*"abcde"]
    phrases = [(start, stop) for start in range(5) for stop in range(start + 2, min(start + 4, 5) + 1)]
    assert {degrade("a b c d e", "repeat", language="en", seed=seed) for seed in range(300)} == {
        " ".join(words[:stop] + words[start:stop] * times + words[stop:])
        for start, stop in phrases
        for times in (1, 2)
    }
    assert {degrade("a b", "repeat", language="en", seed=n) for n in range(20)} == {"a b a b", "a b a b a b"}


def test_half_and_near_empty():
    assert degrade("a dog runs fast.", "half") == "a dog."
    assert (degrade(ENGLISH, "mark"), degrade(JAPANESE, "mark")) == (".", "。")
    assert (degrade(ENGLISH, "letter"), degrade(JAPANESE, "letter")) == ("a", "あ")


def test_what_has_no_room_is_none():
    assert degrade("dog", "half") is None
    assert degrade("。", "negate", language="ja") is None
    assert degrade("a", "letter") is None
    assert degrade("a dog", "other-image") is None


def test_without_mecab_japanese_is_cut_where_the_script_changes(without_mecab):
    assert degrade("椅子に座る人", "swap", seed=0) not in (None, "椅子に座る人")
    assert degrade("ねこがいすのうえでねている", "negate") == "ねこがいすのうえでねていない"
    assert degrade("赤いボール", "negate") == "赤いボールではない"
    for name in ALWAYS:
        assert degrade("ねこがいすのうえでねている", name)


def sample(candidate, group, **fields):
    return CaptionSample(candidate, group=group, rating=0.9, **fields)


def test_another_images_caption_is_of_another_image_and_the_same_language():
    samples = [sample(f"a dog number {n}", f"g{n // 2}") for n in range(8)]
    samples += [sample(f"犬が{n}匹いる", f"g{n}") for n in range(4)]
    worse = degrade_samples(samples, "other-image")
    group = {s.candidate: s.group for s in samples}
    for original, changed in zip(samples, worse, strict=True):
        assert group[changed.candidate] != original.group
        assert ("犬" in changed.candidate) == ("犬" in original.candidate)
        assert (changed.rating, changed.group) == (None, original.group)


def test_another_images_caption_is_none_that_people_wrote_of_this_one():
    samples = [
        sample("a dog", "0", references=("a cat", "a bird")),
        sample("a cat", "1"),
        sample("a bird", "2"),
    ]
    assert degrade_samples(samples, "other-image")[0] is None
    (found, *_) = degrade_samples([*samples, sample("a bus", "3")], "other-image")
    assert found.candidate == "a bus"


def test_a_changed_caption_is_of_the_originals_language_whatever_is_left_of_it():
    original = [CaptionSample("TV の前", ["テレビの前の猫"])]
    for name in ("mark", "half"):
        (changed,) = degrade_samples(original, name)
        assert detect_language(changed.candidate) == "en"
        assert language_of(changed) == "ja"
    (mark,) = degrade_samples(original, "mark")
    assert get_metric("length-ratio").score([mark]) == 0  # in English words it was as long as the reference


def test_a_samples_degradation_does_not_depend_on_its_place():
    samples = [sample(f"a dog near a tree number {n} on grass", f"g{n}") for n in range(30)]
    for name in CHANGES:
        forward = degrade_samples(samples, name, seed=1)
        backward = degrade_samples(samples[::-1], name, seed=1)[::-1]
        assert [s and s.candidate for s in forward] == [s and s.candidate for s in backward]


def test_unknown_degradation_lists_the_known():
    with pytest.raises(ConfigError, match=r"no degradation 'flip'; there are: swap, object, .*, digits"):
        degrade(ENGLISH, "flip")


def test_threads_take_turns_with_the_one_tagger(monkeypatch):
    """MeCab's nodes live in its memory until the next call."""
    busy, overlaps = [], []

    def tagger(text):
        busy.append(text)
        for letter in text:
            time.sleep(0.001)
            overlaps.extend(busy[1:])
            yield SimpleNamespace(surface=letter, white_space="", feature=("名詞", "*", "*"))
        busy.remove(text)

    lock = threading.Lock()
    monkeypatch.setattr(segments, "_tagger", lambda: (tagger, lock))
    texts = ["赤い犬", "青い猫", "白い鳥", "黒い馬"]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(segments._cut, texts))
    assert ["".join(node.surface for node in nodes) for nodes in found] == texts
    assert overlaps == []

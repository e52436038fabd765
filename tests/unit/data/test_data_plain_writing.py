"""Captions as they would plainly be written."""

import pytest

from suisei.data.plain_numbers import COUNTERS
from suisei.data.plain_writing import WAYS, plainly_written
from suisei.data.sample import CaptionSample


def read(written, *ways, language=None):
    """How a caption is read as a candidate, and as a reference."""
    sample = CaptionSample(written, (written, "a red ball -"), id="1", language=language)
    found = plainly_written(sample, ways)
    assert found.references[1] == "a red ball -"
    assert found.id == "1"
    assert (found is sample) == ({found.candidate, found.references[0]} == {sample.candidate})
    return found.candidate, found.references[0]


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ('"A dog runs."', "A dog runs."),
        ('"A dog runs".', "A dog runs."),
        ('" A dog runs . "', "A dog runs ."),
        ("\u201cA man\u2019s dog\u201d", "A man's dog"),
        ("\u2018A man\u2019s dog\u2019", "A man's dog"),
        ("'A man's dog'", "A man's dog"),
        ("``A dog''", "A dog"),
        ("\u201eA dog\u201c", "A dog"),
        ("\u00abA dog\u00bb", "A dog"),
        ("\u201dA dog\u201d", "A dog"),
        ("\u201c'A dog.'\u201d", "A dog."),
        ("A man \u2019s dog", "A man 's dog"),
        ("**A dog runs.**", "A dog runs."),
        ("*A dog runs.*", "A dog runs."),
        ("- A dog runs.", "A dog runs."),
        ("* A dog runs.", "A dog runs."),
        ("\u2022 A dog runs.", "A dog runs."),
        ("\u30fb犬が走る", "犬が走る"),
        (" \uff65 犬が走る", "犬が走る"),
        ("犬\u30fb猫", "犬\u30fb猫"),
        ("\u30fb", "\u30fb"),
        ("1. A dog runs.", "A dog runs."),
        ('12) "A dog runs."', "A dog runs."),
        ('"1. **A dog runs.**"', "A dog runs."),
        ("1. 犬が走る。", "犬が走る"),
        ("1.犬が走る", "犬が走る"),
        ("1.A dog", "A dog"),
        ("１．犬が走る", "犬が走る"),
        ("１２）\u3000犬が走る", "犬が走る"),
        ("１） ２頭の犬", "２頭の犬"),
        ("２）2頭の犬", "2頭の犬"),
        ("1) 2 dogs", "2 dogs"),
        ("100）犬が走る", "犬が走る"),
        ("１．\u30002頭の犬", "2頭の犬"),
        ("１．５倍の犬", "１．５倍の犬"),
        ("100. A dog", "A dog"),
        ("1000. A dog", "1000. A dog"),
        ("(1) A dog", "A dog"),
        ("（１）犬が走る", "犬が走る"),
        ("-犬が走る", "犬が走る"),
        ("－ 犬が走る", "犬が走る"),
        ("\u2013 A dog", "A dog"),
        ("①犬が走る", "犬が走る"),
        ("● 犬が走る", "犬が走る"),
        ("■犬が走る", "犬が走る"),
        ("-5度の雪", "-5度の雪"),
        ("3.5倍の犬", "3.5倍の犬"),
        ("1.5.2020", "1.5.2020"),
        ("｢犬が走る｣", "犬が走る"),
        ("〝犬が走る〟。", "犬が走る"),
        ("＇犬が走る＇", "犬が走る"),
        ("＊犬が走る＊", "犬が走る"),
        ("【犬が走る】", "犬が走る"),
        ("《犬が走る》", "犬が走る"),
        ("（犬が走る）。", "犬が走る"),
        ("（犬）が走る（猫）", "（犬）が走る（猫）"),
        ("(A dog runs.)", "A dog runs."),
        ("(A) dog (B)", "(A) dog (B)"),
        ("[A dog]", "A dog"),
        ("\u2039A dog\u203a", "A dog"),
        ("_A dog_", "A dog"),
        ("__A dog__", "A dog"),
        ("_a_b_", "_a_b_"),
        ("`A dog`", "A dog"),
        ("A dog (brown)", "A dog (brown)"),
        (". A dog runs.", "A dog runs."),  # what leaves out the number of an item leaves this
        ('"A dog runs" .', "A dog runs."),
        ("\uff02A dog\uff02", "A dog"),
        ("A sign: \u201estop\u201c", 'A sign: "stop"'),
        ("「犬」は走る」", "「犬」は走る」"),
        ("「犬の「猫」", "「犬の「猫」"),
        ("3 dogs run.", "3 dogs run."),
        ("1.5 dogs run.", "1.5 dogs run."),
        ("-dog- runs", "-dog- runs"),
        ("1. ", "1."),
        ("A **red** dog", "A **red** dog"),
        ("**A** dog, **a** cat", "**A** dog, **a** cat"),
        ("A sign that reads \u201cstop\u201d", 'A sign that reads "stop"'),
        ("「犬が走る。」", "犬が走る"),
        ("「犬が走る。」。", "犬が走る"),
        ("『「犬が走る」』", "犬が走る"),
        ("「犬」と「猫」", "「犬」と「猫」"),
        ('"Stop" says a sign, "go" another. "Stop"', '"Stop" says a sign, "go" another. "Stop"'),
        ('"a 5" pipe"', '"a 5" pipe"'),
        ("スキ―場のスケ−トボ—ドとフォ‐ク", "スキー場のスケートボードとフォーク"),
        ("コ-ヒ-を飲むサーファ―", "コーヒーを飲むサーファー"),
        ("モニタ－2つ", "モニター2つ"),
        ("シャツ-青、ワイン―赤、バット－白", "シャツ-青、ワイン―赤、バットー白"),
        ("テニス――男性、テニス― Aさん", "テニス――男性、テニス― Aさん"),
        ("a Tシャツ-B", "a Tシャツ-B"),
        ("'a dog' and 'a cat'", "'a dog' and 'a cat'"),
        ("the two dogs'", "the two dogs'"),
        ('"A dog', '"A dog'),
        ('""', '""'),
        ('" "', '" "'),
        ('"', '"'),
    ],
)
def test_marks_around_a_whole_caption_or_before_it_are_not_read_and_others_are_straight(written, plain):
    assert read(written, "marks", "running-text") == (plain, plain)


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("犬が走る。", "犬が走る"),
        ("犬が走る．", "犬が走る"),
        ("犬が走る.", "犬が走る"),
        ("犬が走る 。", "犬が走る"),
        ("犬が走る", "犬が走る"),
        ("犬。猫。", "犬。猫"),
        ("犬が走る。。", "犬が走る。。"),
        ("犬が走る...", "犬が走る..."),
        ("。", "。"),
        ("犬 が 走っ て いる 。", "犬が走っている"),
        ("犬\u3000が\t走る", "犬が走る"),
        ("犬 と ABC .", "犬とABC"),
        ("2 匹 の 犬 が 、 T シャツ を 着る", "2匹の犬が、Tシャツを着る"),
        ("犬 が New York を 走る", "犬がNew Yorkを走る"),
        ("a dog runs .", "a dog runs ."),
    ],
)
def test_japanese_is_running_text_without_a_full_stop(written, plain):
    assert read(written, "running-text") == (plain, plain)


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("Ｔシャツの男性が１２人いる！", "Tシャツの男性が12人いる！"),
        ("犬（２匹）、ＮＥＷ！", "犬（2匹）、NEW！"),
        ("ａ\u3000Ｄｏｇ\u3000ｒｕｎｓ，\u30002！", "a Dog runs, 2!"),
        ("ｔｗｏ　ｄｏｇｓ．", "two dogs."),
        ("two dogs ～", "two dogs ~"),
        ("a dog、a cat。", "a dog,a cat."),
        ("a dog､ a cat｡", "a dog, a cat."),
        ("犬が 走る", "犬が 走る"),
        ("犬が\u3000走る", "犬が\u3000走る"),
    ],
)
def test_letters_and_digits_have_half_their_width_and_english_marks_and_spaces_too(written, plain):
    assert read(written, "width") == (plain, plain)


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("二匹の犬", "2匹の犬"),
        ("一人の男性と二人の女性", "1人の男性と2人の女性"),
        ("ひとりの男性とふたりの女性", "1人の男性と2人の女性"),
        ("ひとつ、ふたつ、みっつ、よっつ、九つ", "1つ、2つ、3つ、4つ、9つ"),
        ("一切れのピザ", "1切れのピザ"),
        ("十人", "10人"),
        ("十二人", "12人"),
        ("二十人", "20人"),
        ("三十五羽の鳥", "35羽の鳥"),
        ("二、三匹の犬、四，五人", "2、3匹の犬、4，5人"),
        ("一、二、三匹、十二、三人、数一、二人", "一、二、三匹、十二、三人、数一、二人"),
        ("二十、三人、県内随一人気", "二十、三人、県内随一人気"),
        ("二三人", "二三人"),
        ("百二人", "百二人"),
        ("二〇人", "二〇人"),
        ("2、３匹", "2、３匹"),
        ("数十人", "数十人"),
        ("数十三人、二〇三人、３二人", "数十三人、二〇三人、３二人"),
        ("十数人", "十数人"),
        ("第一人者", "第一人者"),
        ("一緒に、一面の雪", "一緒に、一面の雪"),
        ("三角の標識、十字路", "三角の標識、十字路"),
        ("千切れた紙", "千切れた紙"),
        ("四つん這いの人", "四つん這いの人"),
        ("三つ編みの人、三つの人形", "三つ編みの人、3つの人形"),
        ("人、匹、つ、積み木", "人、匹、つ、積み木"),
        ("一人前、三人称、一個人、一足先、八頭身、一本道", "一人前、三人称、一個人、一足先、八頭身、一本道"),
        ("四つ角、四つ葉、三つ揃い", "四つ角、四つ葉、三つ揃い"),
        ("二人称、二人三脚、一枚岩、一匹狼", "二人称、二人三脚、一枚岩、一匹狼"),
        ("十人十色、三つ巴、一本気", "十人十色、三つ巴、一本気"),
        ("同一人物、唯一人、統一個人、単一個体", "同一人物、唯一人、統一個人、単一個体"),
        ("日本一人気、世界一人口、日本二人、世界で一人", "日本一人気、世界一人口、日本2人、世界で1人"),
        ("一人気、一人口", "一人気、一人口"),
        ("ひとりでに、ひとりごと、ひとり言、ひとりよがり", "ひとりでに、ひとりごと、ひとり言、ひとりよがり"),
        ("ひとり占め、ひとりじめ、ひとりで", "ひとり占め、ひとりじめ、1人で"),
        ("ふたつきの鍋、ふたつけ、ふたつきれいに", "ふたつきの鍋、ふたつけ、2つきれいに"),
        ("two dogs", "two dogs"),
    ],
)
def test_japanese_numbers_that_count_something_are_digits(written, plain):
    assert read(written, "numbers") == (plain, plain)


def test_no_other_way_than_those_asked_for_is_changed():
    written = "「 Ｔシャツ の 男 が 二人 。 」"
    plain = {
        "width": "「 Tシャツ の 男 が 二人 。 」",
        "marks": "Ｔシャツ の 男 が 二人 。",
        "running-text": "「Ｔシャツの男が二人。」",
        "numbers": "「 Ｔシャツ の 男 が 2人 。 」",
    }
    assert list(plain) == list(WAYS)
    assert {way: read(written, way)[0] for way in WAYS} == plain
    assert read(written) == (written, written)


def test_what_one_way_leaves_the_next_reads_whatever_their_order():
    for ways in (tuple(WAYS), tuple(reversed(WAYS))):
        assert read("＂二 匹 の Ｄｏｇ 。＂", *ways) == ("2匹のDog", "2匹のDog")
        assert read("１．\u3000Ａ\u3000ｄｏｇ．", *ways) == ("A dog.", "A dog.")


def test_the_language_of_a_sample_says_how_its_candidate_is_read():
    assert read("スキ―の", "marks", language="en") == ("スキ―の", "スキ―の")
    assert read("ABC。", "running-text", language="ja") == ("ABC", "ABC")
    assert read("犬 二匹。", *WAYS, language="en") == ("犬 二匹.", "犬 二匹.")
    sample = CaptionSample("犬 二匹。", ("two dogs .", "犬 二匹。"), language="ja")
    assert plainly_written(sample, WAYS).references == ("two dogs .", "犬2匹")


def test_references_are_read_in_the_language_that_their_candidate_is_said_to_be_in():
    sample = CaptionSample("iPhone 3.", ("iPhone 3.", "犬 が 走る"), language="ja")
    found = plainly_written(sample, WAYS)
    assert (found.candidate, found.references) == ("iPhone 3", ("iPhone 3", "犬が走る"))


@pytest.mark.parametrize(
    "text", ['"\u2800"', "- \u3164", '"\u200d\u2800"', "\u30fb\u2800", '""', "\u300c\u300d", "."]
)
def test_what_would_leave_nothing_to_be_seen_is_read_as_it_is_written(text):
    for language in ("ja", "en"):
        sample = CaptionSample(text, (text, "a dog"), language=language)
        found = plainly_written(sample, WAYS)
        assert found.candidate == sample.candidate
        assert found.references == (sample.references[0], "a dog")


def test_every_counter_is_known_after_a_number():
    assert {counter: read(f"二{counter}", "numbers")[0] for counter in COUNTERS} == {
        counter: f"2{counter}" for counter in (*"人匹頭台個本枚羽つ隻機艘名両皿冊軒足", "切れ")
    }

"""Captions as they would plainly be written."""

import pytest

from suisei.data.plain_writing import plainly_written
from suisei.data.sample import CaptionSample


@pytest.mark.parametrize(
    ("written", "read"),
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
        ("\u201c'A dog.'\u201d", "A dog."),
        ("A man \u2019s dog", "A man 's dog"),
        ("**A dog runs.**", "A dog runs."),
        ("*A dog runs.*", "A dog runs."),
        ("- A dog runs.", "A dog runs."),
        ("* A dog runs.", "A dog runs."),
        ("\u2022 A dog runs.", "A dog runs."),
        ("1. A dog runs.", "A dog runs."),
        ('12) "A dog runs."', "A dog runs."),
        ('"1. **A dog runs.**"', "A dog runs."),
        ("1. 犬が走る。", "犬が走る"),
        (". A dog runs.", "A dog runs."),  # what leaves out the number of an item leaves this
        ('"A dog runs" .', "A dog runs."),
        ("\uff02A dog\uff02", "A dog"),
        ("A sign: \u201estop\u201c", 'A sign: "stop"'),
        ("「犬」は走る」", "「犬」は走る」"),
        ("「犬の「猫」", "「犬の「猫」"),
        ("3 dogs run.", "3 dogs run."),
        ("1.5 dogs run.", "1.5 dogs run."),
        ("-dog- runs", "-dog- runs"),
        ("1. ", "1. "),
        ("A **red** dog", "A **red** dog"),
        ("**A** dog, **a** cat", "**A** dog, **a** cat"),
        ("A sign that reads \u201cstop\u201d", 'A sign that reads "stop"'),
        ("「犬が走る。」", "犬が走る"),
        ("「犬が走る。」。", "犬が走る"),
        ("『「犬が走る」』", "犬が走る"),
        ("「犬」と「猫」", "「犬」と「猫」"),
        ('"Stop" says a sign, "go" another. "Stop"', '"Stop" says a sign, "go" another. "Stop"'),
        ('"a 5" pipe"', '"a 5" pipe"'),
        ("'a dog' and 'a cat'", "'a dog' and 'a cat'"),
        ("the two dogs'", "the two dogs'"),
        ('"A dog', '"A dog'),
        ('""', '""'),
        ('" "', '" "'),
        ('"', '"'),
    ],
)
def test_marks_around_a_whole_caption_or_before_it_are_not_read_and_others_are_straight(written, read):
    found = plainly_written(CaptionSample(written, (written, "a red ball ."), id="1"))
    assert found == CaptionSample(read, (read, "a red ball ."), id="1")


@pytest.mark.parametrize(
    ("written", "read"),
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
def test_japanese_is_running_text_without_a_full_stop(written, read):
    found = plainly_written(CaptionSample(written, (written, "a red ball ."), id="1"))
    assert found == CaptionSample(read, (read, "a red ball ."), id="1")


def test_the_language_of_a_sample_says_how_its_candidate_is_read():
    assert plainly_written(CaptionSample("ABC.", ("犬。",), language="ja")).candidate == "ABC"
    sample = CaptionSample("犬 ABC。", ("a dog.",), language="en")
    assert plainly_written(sample) is sample

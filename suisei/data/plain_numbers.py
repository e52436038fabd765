"""Numbers of Japanese captions as digits, where they count something: 2人 for 二人 and ふたり."""

from __future__ import annotations

import re

COUNTERS = frozenset([*"人匹頭台個本枚羽つ隻機艘名両皿冊軒足", "切れ"])
"""What a Japanese number counts with."""

_UNITS = {numeral: unit for unit, numeral in enumerate("一二三四五六七八九", start=1)}
_SPOKEN = {
    "ひとり": "1人",
    "ふたり": "2人",
    "ひとつ": "1つ",
    "ふたつ": "2つ",
    "みっつ": "3つ",
    "よっつ": "4つ",
}
_KANJI = "".join(_UNITS)
_IN_NUMBERS = f"{_KANJI}〇十百千万億0-9０-９数何第"
"""What stands before a numeral that is the rest of a number, or of no number."""
_WORDS = (
    "一人前|[一二三]人称|一人気|一人口|一個人|一足先|八頭身|一本道|一本気|一枚岩|一匹狼|二人三脚|十人十色"
    "|四つ角|四つ葉|四つん|三つ編|三つ揃|三つ巴"
)
"""Words that begin as a number of things does, and count nothing."""
_ENDS_WORDS = "同統唯単均随"
"""What makes a word of the numeral behind it: 同一人物."""
_BEFORE = rf"(?<![{_IN_NUMBERS}{_ENDS_WORDS}])(?<![{_KANJI}十][、，,])(?<!日本(?=一))(?<!世界(?=一))"
_COUNTER = "|".join(sorted(COUNTERS))
_COUNTED = re.compile(
    rf"{_BEFORE}(?=[{_KANJI}十])(?!{_WORDS})"
    rf"(?P<tens>[{_KANJI}]?十)?(?P<units>[{_KANJI}])?(?={_COUNTER})"
)
_FIRST_OF_TWO = re.compile(rf"{_BEFORE}[{_KANJI}](?=[、，,][{_KANJI}](?:{_COUNTER}))")
_SAID = re.compile(rf"(?!ひとり(?:でに|ごと|言|よが|占|じめ)|ふたつ[きけ](?![いれ]))(?:{'|'.join(_SPOKEN)})")


def with_digits(text: str) -> str:
    """Write the numbers up to 99 that count something in a Japanese caption as digits.

    Those are kanji before a counter (of 二、三人 both), and the words for one and two people and one to four
    things.

    >>> with_digits("ふたりの女性と十二匹の犬が一緒に二つのベンチに")
    '2人の女性と12匹の犬が一緒に2つのベンチに'
    """
    text = _FIRST_OF_TWO.sub(lambda first: str(_UNITS[first[0]]), text)
    return _SAID.sub(lambda said: _SPOKEN[said[0]], _COUNTED.sub(_digits, text))


def _digits(number: re.Match[str]) -> str:
    tens, units = number["tens"], _UNITS.get(number["units"], 0)
    return str(units if tens is None else 10 * _UNITS.get(tens[:-1], 1) + units)

"""Captions as they would plainly be written, where the way of writing says nothing of the image."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from suisei.data.plain_numbers import with_digits
from suisei.data.sample import CaptionSample, is_blank, language_of
from suisei.data.spoken import language_beside

_KANA = "[\u3041-\u309f\u30a1-\u30fa]"
_WIDE_LETTER = "[\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u9fff\uf900-\ufaff]"
_MARKS = {
    '"': '"',
    "'": "'",
    "``": "''",
    "\u2018": "\u2019",
    "\u201c": "\u201d",
    "\u201d": "\u201d",
    "\u201e": "\u201c",
    "\u00ab": "\u00bb",
    "\u2039": "\u203a",
    "\u300c": "\u300d",
    "\u300e": "\u300f",
    "\u3010": "\u3011",
    "\u300a": "\u300b",
    "\u301d": "\u301f",
    "\uff62": "\uff63",
    "\uff02": "\uff02",
    "\uff07": "\uff07",
    "(": ")",
    "\uff08": "\uff09",
    "[": "]",
    "**": "**",
    "*": "*",
    "\uff0a": "\uff0a",
    "__": "__",
    "_": "_",
    "`": "`",
}
"""Marks, and those that close them; '' closes `` as in the Penn Treebank. The last six are of Markdown."""
_NUMBER = "[0-9\uff10-\uff19]"
_ITEM = re.compile(
    r"\A\s*(?:"
    rf"(?:[-*\u2022\u2013\u2014\uff0d\uff0a]|{_NUMBER}{{0,3}}[.)\uff0e\uff09])\s+"
    rf"|[-\uff0d](?={_WIDE_LETTER})"
    rf"|{_NUMBER}{{1,3}}(?:[)\uff09]|[.\uff0e](?=[^\W\d_]))"
    rf"|(?:\({_NUMBER}{{1,3}}\)|\uff08{_NUMBER}{{1,3}}\uff09)\s*"
    r"|[\u30fb\uff65\u2460-\u2473\u25a0\u25a1\u25c6\u25c7\u25cb\u25cf\u2605\u2606]\s*"
    r")(?=\S)"
)
"""What stands before an item of a list. Between 1. and a digit, as of 1.5, there must be a space."""
_NESTED = 3
"""So many around each other are taken away."""
_STOPS = ".．。｡"
_APOSTROPHE = re.compile("(?<=\\w)['\u2019](?=\\w)")
_STRAIGHT = str.maketrans("\u2018\u2019\u201c\u201d\u201e", '\'\'"""')
_LONG_VOWEL = re.compile(
    "(?<=[\u30a1-\u30c2\u30c4-\u30f2\u30f4-\u30fa])"
    f"(?:[\u2010-\u2015\u2212\uff0d](?![-\u2010-\u2015\u2212\uff0d\\s])|-(?={_KANA}))"
)
"""A dash behind a syllable of katakana, which ッ and ン are none of; one of ASCII only between kana."""
_HALF: dict[int, int | str] = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_HALF |= str.maketrans("\u3000\u3001\uff64\u3002\uff61", " ,,..")
_HALF_ALNUM = {code: half for code, half in _HALF.items() if chr(code).isalnum()}
_FULL_STOP = re.compile(rf"(?<=[^\s{_STOPS}])\s*[{_STOPS}]$")
_WIDE = (
    "[\u3001-\u30ff\u3400-\u9fff\uf900-\ufaff\uff01-\uff0f\uff1a-\uff1f\uff5b-\uff9f\U00020000-\U0003ffff]"
)
"""Japanese letters and marks, beside which running text has no space."""
_BETWEEN_WORDS = re.compile(rf"(?<={_WIDE})\s+|\s+(?={_WIDE})")


def plainly_written(sample: CaptionSample, ways: Collection[str]) -> CaptionSample:
    """Return a sample whose captions are plainly written, in the ways that are named.

    - "width": letters and digits have half their width, and in English marks and spaces too.
    - "marks": no quotation marks, brackets or asterisks stand around a whole caption and no mark of a list
      before it, as language models put them there; other quotation marks, and apostrophes, are straight,
      and a dash that stands for the long vowel of a Japanese word is that (スキ―場).
    - "running-text": Japanese has no spaces beside Japanese characters, as there are where words were cut
      apart, and no full stop at the end. Several full stops in a row stay.
    - "numbers": Japanese numbers that count something are digits (:mod:`suisei.data.plain_numbers`).

    Args:
        sample: the sample.
        ways: any of :data:`WAYS`; their order does not matter.
    """
    candidate = _plain(sample.candidate, ways, language_of(sample))
    references = tuple(_plain(text, ways, language_beside(sample, text)) for text in sample.references)
    if (candidate, references) == (sample.candidate, tuple(sample.references)):
        return sample
    return replace(sample, candidate=candidate, references=references)


def count_quoted(samples: Iterable[CaptionSample]) -> int:
    """Return of how many samples the candidate stands in marks as a whole, or behind that of a list."""
    return sum(_without_marks(sample.candidate) != sample.candidate for sample in samples)


def quoted_note(count: int) -> str:
    """Say what samples are that :func:`count_quoted` counted."""
    have = "has" if count == 1 else "have"
    return (
        f"{count:,} {have} a candidate that stands in quotation marks, brackets or asterisks, or behind the "
        "mark of a list: metrics that read marks, such as chrF and BERTScore, rate it lower for them"
    )


def _plain(text: str, ways: Collection[str], language: str) -> str:
    """Return a caption in the ways that are named; as it is where nothing that can be seen would be left."""
    plain = text
    for way, write in WAYS.items():
        if way in ways:
            plain = write(plain, language)
    return text if is_blank(plain) else plain


def _of_half_width(text: str, language: str) -> str:
    return text.translate(_HALF_ALNUM if language == "ja" else _HALF)


def _without_quotes(text: str, language: str) -> str:
    text = _without_marks(text).translate(_STRAIGHT)
    return _LONG_VOWEL.sub("\u30fc", text) if language == "ja" else text


def _running(text: str, language: str) -> str:
    return _FULL_STOP.sub("", _BETWEEN_WORDS.sub("", text)) if language == "ja" else text


def _counted(text: str, language: str) -> str:
    return with_digits(text) if language == "ja" else text


WAYS: dict[str, Callable[[str, str], str]] = {
    "width": _of_half_width,
    "marks": _without_quotes,
    "running-text": _running,
    "numbers": _counted,
}
"""What may be written plainly, in this order: functions of a caption and its language."""


def _without_marks(text: str) -> str:
    """Take the marks from around a caption and before it; a full stop behind them stays."""
    for _ in range(_NESTED):
        text = _ITEM.sub("", text)
        quoted = text.strip()
        stop = quoted[-1] if quoted[-1] in _STOPS else ""
        inside = _inside(quoted.removesuffix(stop).rstrip())
        if not inside:
            break
        text = inside if inside[-1] in _STOPS else inside + stop
    return text


def _inside(quoted: str) -> str:
    """Return what a pair of marks encloses; nothing where there is no pair, or several."""
    for opening, closing in _MARKS.items():
        inside = quoted[len(opening) : -len(closing)]
        if quoted == opening + inside + closing:
            rest = _APOSTROPHE.sub("", inside)
            return "" if opening in rest or closing in rest else inside.strip()
    return ""

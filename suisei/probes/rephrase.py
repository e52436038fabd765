"""Rules that change how a caption says it and not what it says: a metric should not mind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from suisei.probes.falsify import Rule, Task, counts_ja
from suisei.probes.lexicon import (
    ALIKE,
    CLAUSE_WORDS,
    CLOTHES,
    COUNTS_JA,
    DIGITS_EN,
    DIGITS_JA,
    GODAN_RU,
    ICHIDAN_VERBS,
    NO_SYNONYM_AFTER,
    NO_SYNONYM_BEFORE,
    PLACE_PREPOSITIONS,
    SYNONYM_AFTER,
)
from suisei.probes.phrases import BOUND_AFTER_NI, phrase_end, phrase_start
from suisei.probes.segments import Segment, Segmented
from suisei.probes.spans import Span, find_spans, moved_to_front, put, texts
from suisei.probes.words import ARTICLES, AUXILIARIES

_POLITE = (
    ("ている", "ています"),
    ("でいる", "でいます"),
    ("ていた", "ていました"),
    ("でいた", "でいました"),
    ("てある", "てあります"),
    ("である", "です"),
    ("いる", "います"),
    ("ある", "あります"),
    ("する", "します"),
    ("した", "しました"),
)
"""Plain ends of sentences, and their polite form."""

_QUANTITIES = ("たくさん", "沢山", "多数", "それぞれ", "一人", "二人")
"""Words that count what stands before them as well as after."""
_OF_PLACES = (
    *("just", "right", "directly", "almost", "nearly", "immediately", "halfway", "straight"),
    *("partly", "partially", "even", "only"),
)
"""Adverbs that are part of the place that follows: just outside a city."""
_OWN_VERBS = ("います", "あります", "します")
"""Polite verbs that others end like: 使います, 話します."""
_BEFORE_VERBS = tuple("てでがはもをにと、")
_POLITE_ALREADY = ("です", "ます", "ません", "ました", "でした", "でしょう", "ましょう")
_GODAN_POLITE = dict(zip("くむぶすつうぐぬ", "きみびしちいぎに", strict=True))
_NO_CONTENT = frozenset(("大きな", "おおきな", "小さな", "ちいさな", "沢山", "たくさん"))
"""Words of the spellings that are neither nouns nor adjectives to MeCab, and like no particle."""
_STOPS = ("", ".", "。", "．", "｡")
"""Ends of captions between which a full stop makes the difference."""
_QUOTATION_MARKS = '"\u201c\u201d\u201e\u00ab\uff02`「『'
_ICHIDAN_KANA = tuple("えけげせぜてでねへべめれ")
_ITS = frozenset(("its", "his", "her", "their"))
_AT_SOMETHING = ("throw", "look", "star", "point", "smil", "bark", "gaz", "reach")
"""Verbs to whose object a later phrase belongs."""


def other_words(task: Task) -> str | None:
    """Put a synonym in a word's place."""
    return _alike(task, "synonym")


def other_spelling(task: Task) -> str | None:
    """Write a word in another script (犬, いぬ, イヌ) or spelling (gray, grey)."""
    return _alike(task, "script")


def _alike(task: Task, kind: str) -> str | None:
    caption, choices = task.caption, ALIKE[kind][task.caption.language]
    fits = _FITS.get((caption.language, kind), lambda *_: True)
    possible = []
    for span in find_spans(caption, choices):
        others = [other for other in choices[span.phrase] if fits(caption, span, other)]
        if others:
            possible.append((span, others))
    if not possible:
        return None
    span, others = task.rng.choice(possible)
    return put(caption, span, task.rng.choice(others))


def _is_spelled(caption: Segmented, span: Span, other: str) -> bool:
    """Return whether Japanese words are those of the list: は is 葉 and した is 下 only as a noun."""
    words = caption.words[span.start : span.stop]
    return other in _NO_CONTENT or all(word.content and not word.verb for word in words)


def _is_meant(caption: Segmented, span: Span, other: str) -> bool:
    """Return whether another word may stand there: 大きな and 赤色の only before a noun."""
    before_noun = span.stop < len(caption.words) and caption.words[span.stop].content
    return before_noun or not other.endswith(("な", "の"))


def _is_used_so(caption: Segmented, span: Span, _other: str) -> bool:
    """Return whether an English word is what the list takes it for, by its neighbours: a dog pants."""
    words = [text.lower() for text in texts(caption)]
    before = words[span.start - 1] if span.start else ""
    after = words[span.stop] if span.stop < len(words) else ""
    apart = after in NO_SYNONYM_BEFORE.get(span.phrase, ()) or before in NO_SYNONYM_AFTER.get(span.phrase, ())
    return not apart and before in SYNONYM_AFTER.get(span.phrase, (before,))


_FITS: dict[tuple[str, str], Callable[[Segmented, Span, str], bool]] = {
    ("ja", "script"): _is_spelled,
    ("ja", "synonym"): _is_meant,
    ("en", "synonym"): _is_used_so,
}
"""{(language, list): whether a word may be put in a span's place}; any may where there is no entry."""


def other_politeness(task: Task) -> str | None:
    """Make the end of a plain Japanese caption polite, or of a polite one plain."""
    caption = task.caption
    if caption.language != "ja" or not caption.words:
        return None
    body = "".join(texts(caption))
    changed = _plain(body, texts(caption)) or _polite(body, caption.words)
    return None if changed is None else changed + caption.tail


def _plain(body: str, words: Sequence[str]) -> str | None:
    for plain, polite in _POLITE:
        if body.endswith(polite) and polite != "です":
            whole = polite not in _OWN_VERBS or _is_word(body, words, polite)
            return body.removesuffix(polite) + plain if whole else None
    return body.removesuffix("です") if body.endswith("です") and not body.endswith("いです") else None


def _is_word(body: str, words: Sequence[str], polite: str) -> bool:
    """Return whether います is a verb of its own, and not the end of 使います."""
    alone = body.removesuffix(polite).endswith(_BEFORE_VERBS) or body == polite
    return alone or "".join(words[-2:]) == polite


def _polite(body: str, words: Sequence[Segment]) -> str | None:
    last = words[-1]
    if body.endswith(_POLITE_ALREADY):
        return None
    if last.noun:
        return body + "です"
    if not last.verb:  # りんごが二つ
        return None
    done = [word.text for word in words[-2:]] == ["で", "ある"] and words[-3:][0].verb  # 荷物が積んである
    for plain, polite in _POLITE:
        if body.endswith(plain) and not (done and plain == "である"):
            return body.removesuffix(plain) + polite
    if body.endswith("る"):
        if body.endswith(tuple(GODAN_RU)):
            return body[:-1] + "ります"
        ichidan = body[:-1].endswith(_ICHIDAN_KANA) or body.endswith(ICHIDAN_VERBS)
        return body[:-1] + "ます" if ichidan else None
    ending = _GODAN_POLITE.get(body[-1])
    return None if ending is None else body[:-1] + ending + "ます"


def other_digits(task: Task) -> str | None:
    """Write a number word as a digit, or a digit as a word."""
    caption, words = task.caption, texts(task.caption)
    pairs = DIGITS_JA if caption.language == "ja" else DIGITS_EN
    written = {**pairs, **{digit: word for word, digit in pairs.items()}}  # back and forth
    spans = find_spans(caption, written)
    if caption.language == "ja":
        spans = [span for span in spans if counts_ja(words, span) and not _longer(words, span)]
    if not spans:
        return None
    span = task.rng.choice(spans)
    return put(caption, span, written[span.phrase])


def other_ending(task: Task) -> str | None:
    """Put a full stop at the end, or take away the one that is there."""
    caption, stop = task.caption, task.caption.tail.strip()
    if not caption.words or stop not in _STOPS:
        return None
    tail = "" if stop else "。" if caption.language == "ja" else "."
    return replace(caption, tail=tail).join(texts(caption))


def cut_apart(task: Task) -> str:
    """Put spaces between the words of a Japanese caption."""
    return " ".join(" ".join(texts(task.caption)).split()) + task.caption.tail


def quoted(task: Task) -> str | None:
    """Put quotation marks around a caption that has none."""
    written = task.caption.join(texts(task.caption))
    if any(mark in written for mark in _QUOTATION_MARKS):
        return None
    return f"「{written}」" if task.caption.language == "ja" else f'"{written}"'


def _longer(words: list[str], span: Span) -> bool:
    """Return whether a number goes on before the span, as in 二十三人."""
    before = words[span.start - 1] if span.start else ""
    return bool(before) and (before[-1].isdigit() or before[-1] in "一二三四五六七八九十百千数何")


def other_order(task: Task) -> str | None:
    """Say the same words in another order that keeps the meaning."""
    rules: tuple[Rule, ...] = (_place_first_en, _list_turned_en)
    if task.caption.language == "ja":
        rules = (_place_first_ja, _list_turned_ja)
    return next((text for text in (rule(task) for rule in rules) if text), None)


def _place_first_en(task: Task) -> str | None:
    """Turn "a man sits on a bench in the park" into "in the park, a man sits on a bench"."""
    caption, words = task.caption, texts(task.caption)
    lowered = [word.lower() for word in words]
    starts = [n for n, word in enumerate(lowered) if word in PLACE_PREPOSITIONS]
    if not starts or phrase_end(caption, lowered, starts[-1]) != len(words):
        return None
    start = starts[-1]
    said = any(w.verb for w in caption.words[1:start]) or any(w in AUXILIARIES for w in lowered[1:start])
    worn = any(word in CLOTHES or word in _ITS for word in lowered[start:])
    if not said or worn or "with" in lowered[:start] or not any(w.noun for w in caption.words[start:]):
        return None
    if _belongs(caption, lowered, start):
        return None
    return caption.join([*words[start:], ",", *words[:start]])


def _belongs(caption: Segmented, lowered: Sequence[str], start: int) -> bool:
    """Return whether a last English phrase is part of what stands before it, as in "covered in graffiti"."""
    before = lowered[start - 1]
    bound = before.endswith(("ed", "ing", "en")) or before.startswith("look") or before in AUXILIARIES
    bound = bound or before in _OF_PLACES
    clauses = any(word in CLAUSE_WORDS for word in lowered[:start])
    thrown = any(word.startswith(_AT_SOMETHING) for word in lowered[:start])
    return bound or clauses or thrown or (caption.words[start - 1].verb and lowered[start] == "at")


def _list_turned_en(task: Task) -> str | None:
    """Turn "a man and a woman" into "a woman and a man"."""
    caption, words = task.caption, texts(task.caption)
    for place, word in enumerate(words):
        if word.lower() != "and" or place + 1 >= len(words):
            continue
        article = place + 2 < len(words) and words[place + 1].lower() in ARTICLES
        stop = place + (3 if article else 2)
        start = place - (2 if article else 1)
        if start < 0 or not (caption.words[place - 1].noun and caption.words[stop - 1].noun):
            continue
        before = words[start - 1].lower() if start else ""
        if not _is_list(caption, words, start, stop):
            continue
        described = bool(start) and (caption.words[start - 1].content or before in ARTICLES)
        if words[start].lower() in ARTICLES if article else not described:  # a red shirt and hat: both red
            turned = [*words[place + 1 : stop], word, *words[start:place]]
            return caption.join([*words[:start], *turned, *words[stop:]])
    return None


def _is_list(caption: Segmented, words: Sequence[str], start: int, stop: int) -> bool:
    """Return whether two things are listed, and "and" begins no clause: on a chair and a woman sits."""
    after = words[stop].lower() if stop < len(words) else ""
    if after == "of" or after.endswith(("ing", "ed")):  # a man and a woman wearing a hat
        return False
    if not start:
        return True
    goes_on = bool(after) and (after in AUXILIARIES or caption.words[stop].content)
    return not (goes_on or _clause_follows(caption, words, stop)) and (
        caption.words[start - 1].verb or words[start - 1].lower() == "of"
    )


def _clause_follows(caption: Segmented, words: Sequence[str], start: int) -> bool:
    """Return whether a verb of their own follows: a maze and a nun in the background laughs."""
    said = zip(caption.words[start:], (word.lower() for word in words[start:]), strict=True)
    for each, word in said:
        if word in CLAUSE_WORDS:
            return False
        if word in AUXILIARIES or (each.verb and not word.endswith(("ing", "ed"))):
            return True
    return False


def _place_first_ja(task: Task) -> str | None:
    """Turn 男性が公園で走っている into 公園で男性が走っている."""
    caption, words = task.caption, texts(task.caption)
    place = next((n for n, word in enumerate(words) if word in ("が", "は")), None)
    if place is None or any(word.verb for word in caption.words[:place]):
        return None
    stop = next((n for n in range(place + 1, len(words)) if words[n] in ("で", "に", "を")), None)
    if stop is None or stop == len(words) - 1 or any(w.verb for w in caption.words[place + 1 : stop + 1]):
        return None
    if (
        "て" in words[place:stop] or "が" in words[stop:]
    ):  # 毛が黒くて首輪をした, 毛が長い犬を男性が: other clauses
        return None
    bound = words[stop] == "に" and words[stop + 1].startswith(BOUND_AFTER_NI)  # 束になって
    if bound or _counts_the_subject(words, place + 1, stop):
        return None
    if _attributive(caption, stop + 1) or words[stop + 1] == "、":  # 一面が緑の丘に、牛がいる
        return None
    if phrase_start(caption, words, place) != 0 or phrase_start(caption, words, stop) != place + 1:
        return None
    return caption.join(moved_to_front(words, place + 1, stop + 1))


def _counts_the_subject(words: Sequence[str], start: int, stop: int) -> bool:
    """Return whether a quantity before another noun is of the subject: ロバが3頭草を食べている.

    MeCab may take the counter and the noun for one word (台作業), so that の alone tells whose number it is.
    """
    said = words[start]
    if said.isdigit() or said in COUNTS_JA or said == "数":
        return "の" not in words[start + 1 : min(start + 3, stop)]
    return said in _QUANTITIES and start + 1 < stop and words[start + 1] != "の"


def _list_turned_ja(task: Task) -> str | None:
    """Turn 犬と猫が into 猫と犬が."""
    caption, words = task.caption, texts(task.caption)
    for place in range(1, len(words) - 2):
        alone = place == 1 or words[place - 2] in ("が", "は", "を", "に", "で", "、")
        listed = words[place] in ("と", "や") and words[place + 2] in ("が", "を", "は")
        things = listed and caption.words[place - 1].noun and caption.words[place + 1].noun
        if alone and things and not _attributive(caption, place + 3):
            return _turned(caption, words, place)
    return None


def _attributive(caption: Segmented, start: int) -> bool:
    """Return whether a Japanese verb says something of a noun after it: 箱に入ったドーナツ."""
    following = caption.words[start:]
    return any(one.verb and other.noun for one, other in pairwise(following))


def _turned(caption: Segmented, words: list[str], place: int) -> str:
    turned = [words[place + 1], words[place], words[place - 1]]
    return caption.join([*words[: place - 1], *turned, *words[place + 2 :]])

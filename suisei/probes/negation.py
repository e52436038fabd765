"""Negating a caption, or taking its negation away, by rules: Japanese and English."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from suisei.probes.lexicon import GODAN_RU, ICHIDAN_VERBS, PREPOSITIONS
from suisei.probes.segments import Segment, Segmented
from suisei.probes.words import ARTICLES, AUXILIARIES, ING_NOUNS, LOOKS, STOP_WORDS, VERBS, word_set

_JAPANESE_REMOVE = (
    ("いないです", "います"),
    ("くないです", "いです"),
    ("ではないです", "です"),
    ("ではありませんでした", "でした"),
    ("ませんでした", "ました"),
    ("ではありません", "です"),
    ("ではない", "である"),
    ("じゃない", "である"),
    ("ありません", "あります"),
    ("ません", "ます"),
    ("いない", "いる"),
    ("くない", "い"),
    ("しない", "する"),
    ("来ない", "来る"),
    ("ではなかった", "だった"),
    ("じゃなかった", "だった"),
    ("いなかった", "いた"),
    ("くなかった", "かった"),
    ("しなかった", "した"),
)
_SOMETHING = {
    **{"何も": "何か", "なにも": "なにか", "誰も": "誰か", "だれも": "だれか"},
    **{"どこも": "どこか", "どこにも": "どこかに"},
}
"""Words that ask for the negation at the end, and what stands there without it."""
_DOES = ("do", "does", "did")
_BASES = set(VERBS.values())
"""Verbs that these may be the auxiliary of."""
_OF_HAVE = {"has": "does", "have": "do", "had": "did"}
_OWNED = {*ARTICLES, "his", "her", "its", "their"}
"""What begins what somebody has."""
_NO_SUBJECT = PREPOSITIONS | word_set("a an the to of for his its their")
"""After these a word of the list of verbs is a noun, as in "in swim trunks"."""
_ONE = word_set("a an one another each every")
_MANY = word_set("couple crowd family group pair team")
"""Words for several, which a plural verb may follow: a couple pose."""
_CONTRACTED = {"cannot": "can", "can't": "can", "won't": "will"}
_JAPANESE_ADD = (
    ("ました", "ませんでした"),
    ("ます", "ません"),
    ("でした", "ではありませんでした"),
    ("です", "ではありません"),
    ("である", "ではない"),
    ("ていた", "ていなかった"),
    ("ある", "ない"),
    ("んだ", "んだわけではない"),
    ("だ", "ではない"),
    ("た", "たわけではない"),
)
_GODAN = dict(zip("くむぶすつうぐぬ", "かまばさたわがな", strict=True))
_PLAIN_OF_GODAN = {negative: plain for plain, negative in (*_GODAN.items(), ("る", "ら"))}
_ICHIDAN_BEFORE_RU = frozenset("いきぎしじちにひびみりえけげせぜてでねへべめれ見")
_NAI_ADJECTIVES = ("少ない", "すくない", "危ない", "あぶない", "切ない", "もったいない", "味気ない")
"""Adjectives on ない that deny nothing."""
_NO_ADJECTIVES = ("きれい", "みたい", "嫌い", "きらい", "幸い", "いっぱい", "くらい", "ぐらい")
"""Words on い that are denied as nouns are."""
_ADJECTIVE = re.compile(r".*(?:[\u3400-\u9fff][かきさしたならる]?|し|わい|な)い")
_NOUN_LIKE = "ではない"


def negate(caption: Segmented) -> str | None:
    """Return the caption with a negation added, or removed where it has one; None where there is no word.

    Args:
        caption: from :func:`suisei.probes.segments.segment`.
    """
    if not caption.words:
        return None
    return _negate_japanese(caption) if caption.language == "ja" else _negate_english(caption)


# -- English --------------------------------------------------------------------------------------


def _negate_english(caption: Segmented) -> str:
    words = [word.text for word in caption.words]
    lowered = [word.lower() for word in words]
    rules: tuple[Callable[[list[str], Sequence[str]], list[str] | None], ...]
    rules = (_remove_contracted, _remove_not, _after_auxiliary, _do_not, _not_doing, _without, _no)
    for rule in rules:
        changed = rule(list(words), lowered)
        if changed:
            return caption.join(changed)
    return caption.join(["no", *words])


def _remove_contracted(words: list[str], lowered: Sequence[str]) -> list[str] | None:
    """Turn "isn't" into "is"; of "doesn't look" it leaves "does look"."""
    for place, word in enumerate(text.replace("’", "'") for text in lowered):
        plain = _CONTRACTED.get(word, word.removesuffix("n't"))
        if plain != word and plain in AUXILIARIES:
            return [*words[:place], plain, *words[place + 1 :]]
    return None


def _remove_not(words: list[str], lowered: Sequence[str]) -> list[str] | None:
    for place, word in enumerate(lowered):
        if word == "not":
            return words[:place] + words[place + 1 :]
        if word == "no" and place and lowered[place - 1] in ("are", "were"):
            return words[:place] + words[place + 1 :]
        if word in ("no", "without"):
            return [*words[:place], "a" if word == "no" else "with", *words[place + 1 :]]
    return None


def _after_auxiliary(words: list[str], lowered: Sequence[str]) -> list[str] | None:
    for place, word in enumerate(lowered[:-1]):
        if word in AUXILIARIES and place:  # first it is a question or an imperative
            existential = lowered[place - 1] == "there" and lowered[place + 1] in ARTICLES
            if existential:
                return [*words[: place + 1], "no", *words[place + 2 :]]
            if word in _DOES and not _BASES & set(lowered[place + 1 : place + 3]):  # does a trick
                return [*words[: place + 1], "not", "do", *words[place + 1 :]]
            if word in _OF_HAVE and lowered[place + 1] in _OWNED:
                return [*words[:place], _OF_HAVE[word], "not", "have", *words[place + 1 :]]
            return [*words[: place + 1], "not", *words[place + 1 :]]
    return None


def _do_not(words: list[str], lowered: Sequence[str]) -> list[str] | None:
    """Turn "a dog runs" into "a dog does not run"."""
    for place, word in enumerate(lowered):
        if word in VERBS and place and _is_verb(lowered, place):
            helper = "do" if word == VERBS[word] else "does"
            return [*words[:place], helper, "not", VERBS[word], *words[place + 1 :]]
    return None


def _is_verb(lowered: Sequence[str], place: int) -> bool:
    """Return whether a word of the list has a subject, unlike those of "swim goggles" and "a food stand"."""
    before = lowered[place - 1]
    worn = before.endswith("ing") and before not in ING_NOUNS  # wearing skates
    described = before in LOOKS and lowered[place - 2 : place - 1] != ["in"]
    if before in _NO_SUBJECT or worn or described:
        return False
    plain = lowered[place] == VERBS[lowered[place]]
    return not plain or before in _MANY or not (before == "and" or _is_one(lowered[:place]))


def _is_one(lowered: Sequence[str]) -> bool:
    """Return whether words end in one thing, which no plural verb follows: "a dog", but not "and a dog"."""
    start = next((n for n in reversed(range(len(lowered))) if lowered[n] in (*STOP_WORDS, ",")), 0)
    return lowered[start] in _ONE and (not start or lowered[start - 1] != "and")


def _not_doing(words: list[str], lowered: Sequence[str]) -> list[str] | None:
    for place, word in enumerate(lowered):
        if word.endswith("ing") and len(word) > 4 and place and lowered[place - 1] not in STOP_WORDS:
            return [*words[:place], "not", *words[place:]]
    return None


def _without(words: list[str], lowered: Sequence[str]) -> list[str] | None:
    if "with" not in lowered:
        return None
    place = lowered.index("with")
    return [*words[:place], "without", *words[place + 1 :]]


def _no(words: list[str], lowered: Sequence[str]) -> list[str] | None:
    place = next((n for n, word in enumerate(lowered) if word in ARTICLES), None)
    return None if place is None else [*words[:place], "no", *words[place + 1 :]]


# -- Japanese -------------------------------------------------------------------------------------


def _negate_japanese(caption: Segmented) -> str:
    body = "".join(word.text for word in caption.words)
    affirmed = _affirm(body)
    for nothing, something in _SOMETHING.items():
        affirmed = affirmed and affirmed.replace(nothing, something)
    return (affirmed or _deny(body, caption.words)) + caption.tail


def _affirm(body: str) -> str | None:
    """Return a sentence without the negation that it ends in; None where it has none."""
    if body.endswith(_NAI_ADJECTIVES):
        return None
    for ending, positive in _JAPANESE_REMOVE:
        if body.endswith(ending):
            return body.removesuffix(ending) + positive
    if not body.endswith("ない"):
        return None
    stem = body.removesuffix("ない")
    if stem.endswith(tuple("がはものに")) or not stem:
        return stem + "ある"
    return stem[:-1] + _PLAIN_OF_GODAN[stem[-1]] if stem[-1] in _PLAIN_OF_GODAN else stem + "る"


def _is_adjective(word: Segment, text: str) -> bool:
    """Return whether a text that ends in this word ends in an adjective on い."""
    if word.noun or not text.endswith("い") or text.endswith(_NO_ADJECTIVES):
        return False
    return not word.verb if word.content else bool(_ADJECTIVE.fullmatch(text))


def _deny_adjective(text: str) -> str:
    irregular = text.endswith("いい") and not text.endswith("わいい")  # よくない, but かわいくない
    return f"{text[:-2]}よくない" if irregular else f"{text[:-1]}くない"


def _deny(body: str, words: Sequence[Segment]) -> str:
    """Return the plain or polite negative of a sentence's end."""
    if words[-1].noun:
        return body + _NOUN_LIKE
    plain = body.removesuffix("です")
    described = words[-2] if plain != body and len(words) > 1 else words[-1]
    if _is_adjective(described, plain):
        return _deny_adjective(plain) + body[len(plain) :]
    for ending, negative in _JAPANESE_ADD:
        if body.endswith(ending):
            return body.removesuffix(ending) + negative
    return _deny_verb(body) if words[-1].verb else body + _NOUN_LIKE


def _deny_verb(body: str) -> str:
    if body.endswith("する"):
        return body.removesuffix("する") + "しない"
    if body.endswith(("来る", "てくる", "でくる")):
        return body[:-2] + ("来ない" if body.endswith("来る") else "こない")
    if body.endswith("る"):
        stem = body[:-1]
        ichidan = stem.endswith(tuple(_ICHIDAN_BEFORE_RU)) or body.endswith(ICHIDAN_VERBS)
        return stem + ("ない" if ichidan and not body.endswith(tuple(GODAN_RU)) else "らない")
    if body[-1] in _GODAN:
        return body[:-1] + _GODAN[body[-1]] + "ない"
    return body + _NOUN_LIKE

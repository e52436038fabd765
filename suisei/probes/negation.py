"""Negating a caption, or taking its negation away, by rules: Japanese and English."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from suisei.probes.segments import Segmented
from suisei.probes.words import ARTICLES, AUXILIARIES, STOP_WORDS, VERBS

_JAPANESE_REMOVE = (
    ("くないです", "いです"),
    ("ではありません", "です"),
    ("ではない", "である"),
    ("ありません", "あります"),
    ("ません", "ます"),
    ("ていない", "ている"),
    ("いない", "いる"),
    ("くない", "い"),
    ("ない", "ある"),
)
_JAPANESE_ADD = (
    ("ました", "ませんでした"),
    ("ます", "ません"),
    ("いです", "くないです"),
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
_ICHIDAN_BEFORE_RU = frozenset("いきぎしじちにひびみりえけげせぜてでねへべめれ見")
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
    rules = (_remove_not, _after_auxiliary, _do_not, _not_doing, _without, _no)
    for rule in rules:
        changed = rule(list(words), lowered)
        if changed:
            return caption.join(changed)
    return caption.join(["no", *words])


def _remove_not(words: list[str], lowered: Sequence[str]) -> list[str] | None:
    for place, word in enumerate(lowered):
        if word == "not":
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
            return [*words[: place + 1], "not", *words[place + 1 :]]
    return None


def _do_not(words: list[str], lowered: Sequence[str]) -> list[str] | None:
    """Turn "a dog runs" into "a dog does not run"."""
    for place, word in enumerate(lowered):
        base = VERBS.get(word)
        if base and place and lowered[place - 1] not in ("a", "an", "the", "to"):
            helper = "do" if word == base else "does"
            return [*words[:place], helper, "not", base, *words[place + 1 :]]
    return None


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
    for ending, positive in _JAPANESE_REMOVE:
        if body.endswith(ending):
            return body.removesuffix(ending) + positive + caption.tail
    return _deny(body, ends_in_noun=_ends_in_noun(caption)) + caption.tail


def _ends_in_noun(caption: Segmented) -> bool:
    last = caption.words[-1]
    known = any(word.verb or word.noun for word in caption.words)
    return known and not last.verb and not _is_adjective(last.text)


def _is_adjective(text: str) -> bool:
    return bool(re.fullmatch(r".*[\u3400-\u9fffし]い", text))


def _deny(body: str, *, ends_in_noun: bool) -> str:
    """Return the plain or polite negative of a sentence's end."""
    for ending, negative in _JAPANESE_ADD:
        if body.endswith(ending):
            return body.removesuffix(ending) + negative
    if ends_in_noun:
        return body + _NOUN_LIKE
    if body.endswith("する"):
        return body.removesuffix("する") + "しない"
    if body.endswith("る"):
        stem = body[:-1]
        return stem + ("ない" if stem.endswith(tuple(_ICHIDAN_BEFORE_RU)) else "らない")
    if _is_adjective(body):
        return body[:-1] + "くない"
    if body[-1] in _GODAN:
        return body[:-1] + _GODAN[body[-1]] + "ない"
    return body + _NOUN_LIKE

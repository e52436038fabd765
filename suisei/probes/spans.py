"""Finding the phrases of a word list in a caption, and putting others in their place."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from suisei.probes.segments import Segmented

_LONGEST = {"en": 3, "ja": 6}
"""Words that a phrase of the lists has at most."""

_VOWELS = "aeiou"
_SOUNDED = ("uni", "use", "one", "eu")
"""Beginnings that are written with a vowel and spoken with none."""


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring words of a caption.

    Attributes:
        start: the first word's position.
        stop: the position after the last word.
        phrase: the words as a word list has them.
    """

    start: int
    stop: int
    phrase: str


def texts(caption: Segmented) -> list[str]:
    """Return the caption's words."""
    return [word.text for word in caption.words]


def find_spans(caption: Segmented, phrases: Container[str]) -> list[Span]:
    """Return where phrases stand in a caption, the longest at each place, none inside a word."""
    gap = "" if caption.language == "ja" else " "
    lowered = [word.strip().lower() for word in texts(caption)]
    found, start = [], 0
    while start < len(lowered):
        stops = range(min(start + _LONGEST[caption.language], len(lowered)), start, -1)
        hits = (Span(start, stop, gap.join(lowered[start:stop])) for stop in stops)
        span = next((hit for hit in hits if hit.phrase in phrases), None)
        if span is not None:
            found.append(span)
        start = start + 1 if span is None else span.stop
    return found


def put(caption: Segmented, span: Span, replacement: str) -> str:
    """Return the caption with other words in a span's place, and the article before them to fit."""
    before, after = texts(caption)[: span.start], texts(caption)[span.stop :]
    if caption.language == "ja":
        return caption.join([*before, replacement, *after])
    if before and before[-1].lower() in ("a", "an"):
        before[-1] = _article(before[-1], replacement)
    return caption.join([*before, *replacement.split(), *after])


def without(caption: Segmented, span: Span) -> str:
    """Return the caption without the words of a span."""
    before, after = texts(caption)[: span.start], texts(caption)[span.stop :]
    if caption.language == "en" and before and before[-1].lower() in ("a", "an") and after:
        before[-1] = _article(before[-1], after[0])
    return caption.join([*before, *after])


def _article(article: str, following: str) -> str:
    word = following.lower()
    fitting = "an" if word[:1] in _VOWELS and not word.startswith(_SOUNDED) else "a"
    return fitting.capitalize() if article[0].isupper() else fitting


def moved_to_front(words: Sequence[str], start: int, stop: int) -> list[str]:
    """Return the words with those of [start, stop) moved to the front."""
    return [*words[start:stop], *words[:start], *words[stop:]]

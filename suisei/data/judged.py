"""Captions that people judged otherwise than by one rating: in pairs, or on several scales."""

from __future__ import annotations

from dataclasses import dataclass

from suisei.data.sample import CaptionSample, Rating


@dataclass(frozen=True, slots=True)
class PairCaption(CaptionSample):
    """One of two captions of the same image of which people preferred one.

    Its ``rating`` is the mean of ``preferred``.

    Attributes:
        pair: name that both captions of the pair share, and no other.
        preferred: (kind, how far this caption is preferred to the other) per kind of judgement that there
            is of the pair: 1 always, 0 never, 0.5 undecided. A kind is a part of the data, such as "HC" of
            Pascal-50S, or what was judged, such as "Specificity".
    """

    pair: str = ""
    preferred: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class ScaledCaption(CaptionSample):
    """A caption that was rated on several scales.

    Attributes:
        scales: (name, rating) per scale, such as precision and recall.
        parts: parts of the data that the caption belongs to, such as "test A"; each is measured alone.
    """

    scales: tuple[tuple[str, Rating], ...] = ()
    parts: tuple[str, ...] = ()

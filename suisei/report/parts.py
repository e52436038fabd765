"""What a page is made of: parts, each a result; blocks of tables, figures and pictured predictions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.metaeval.settings import Resampling
from suisei.metaeval.tables import Table

CAUTION = "Caution: "
"""Begins a note that nobody should miss."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that can be drawn into a file of any kind.

    Attributes:
        name: of its files, unique in its part.
        title: one line above it.
        text: what it shows, for who cannot see it.
        draw: writes it to a path that ends in .svg, .png or .pdf; DataError for nothing to draw.
    """

    name: str
    title: str
    text: str
    draw: Callable[[Path], Any]


@dataclass(frozen=True, slots=True)
class Card:
    """One prediction as it is shown.

    Attributes:
        title: such as "image 17".
        candidate: the caption.
        references: the first of its references.
        more_references: how many there are beside them.
        language: "ja" or "en".
        figures: (name, number as text): human, predicted, other metrics.
        picture: data URI of a small JPEG, or None.
        no_picture: why there is none.
        reasons: what the explanation says, a line each.
    """

    title: str
    candidate: str
    references: tuple[str, ...]
    more_references: int
    language: str
    figures: tuple[tuple[str, str], ...]
    picture: str | None = None
    no_picture: str = ""
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cards:
    """Predictions under one heading."""

    title: str
    note: str
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """What stands under one heading of a part.

    Attributes:
        title: the heading.
        tables: tables.
        figures: figures.
        cards: predictions with their pictures.
        texts: (heading, text as it is), such as a config.
        notes: sentences.
    """

    title: str
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    cards: Sequence[Cards] = ()
    texts: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()

    def __bool__(self) -> bool:
        return any((self.tables, self.figures, self.cards, self.texts, self.notes))


@dataclass(frozen=True, slots=True)
class Part:
    """One result on a page."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Rated:
    """Samples with scores, of which a page can show more than tables do.

    Attributes:
        samples: N samples.
        scores: {metric: float64 [N]}, higher is better, NaN where there is none.
        distances: metrics that are lower for the better, whose scores are here with their sign turned.
    """

    samples: Sequence[CaptionSample]
    scores: Mapping[str, np.ndarray]
    distances: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Result:
    """What a page is told of one result.

    Attributes:
        title: its heading.
        tables: {name: table}, in order.
        rated: its samples and scores, if they are at hand.
        curves: {figure: {step: value}} of a training.
        facts: (heading, text) of where it comes from: signatures, settings, data, environment, command.
        notes: what else must be known.
        examples: how many best and how many worst predictions are shown.
        drawn: how many metrics are drawn beside ratings; tables have all.
        cards: what else is shown with pictures.
        resampling: of the figures that the page computes itself.
    """

    title: str
    tables: Mapping[str, Table]
    rated: Rated | None = None
    curves: Mapping[str, Mapping[float, float]] = field(default_factory=dict)
    facts: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()
    examples: int = 8
    drawn: int = 6
    cards: Sequence[Cards] = ()
    resampling: Resampling = field(default_factory=Resampling)

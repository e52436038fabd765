"""Captions that a reconstruction learns to put further away: of other images, or with words out of order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from suisei.probes.degrade import degrade

Kind = Literal["other", "shuffled"]
KINDS: tuple[Kind, ...] = ("other", "shuffled")
"""One kind is drawn for each batch (RECAP, section 3.2)."""
_TRIES = 50


def shuffled_caption(caption: str, seed: int) -> str | None:
    """Return a caption with its words in another order, never as they were; None where none is worse.

    Words are those of the probes (:func:`suisei.probes.degrade.degrade`): MeCab's of Japanese, between
    spaces in English. A caption of fewer than three different words is left alone.
    """
    return degrade(caption, "shuffle", seed=seed)


def other_caption(
    position: int, captions: Sequence[str], owners: Sequence[int], rng: np.random.Generator
) -> str | None:
    """Return a caption of another image that differs from the one at a position; None if none was found.

    Args:
        position: which caption.
        captions: those to draw from, the one at the position among them.
        owners: the image of each.
        rng: decides.
    """
    for _ in range(_TRIES):
        drawn = int(rng.integers(len(captions)))
        if owners[drawn] != owners[position] and captions[drawn] != captions[position]:
            return captions[drawn]
    return None

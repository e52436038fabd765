"""Pairwise accuracy: how often a metric prefers the caption that people prefer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from suisei.metaeval.correlation import CorrelationError
from suisei.ranges import Word, check

TIES = ("half", "wrong")


def pair_credits(
    first: Sequence[float] | np.ndarray,
    second: Sequence[float] | np.ndarray,
    preference: Sequence[float] | np.ndarray,
    *,
    ties: str = "half",
) -> np.ndarray:
    """Return what each pair counts: 1 where the metric prefers what people prefer, 0 where it does not.

    The protocol of Pascal-50S: two captions of one image, and which one most people chose. The accuracy is
    the mean over the pairs on which people have a preference.

    Args:
        first: scores of the first caption of each pair, [N], higher is better.
        second: scores of the second caption, [N].
        preference: above 0 where people prefer the first, below 0 the second, 0 neither, such as the
            difference of votes.
        ties: what a pair with equal scores counts: "half" (the expected value of a coin, default), or
            "wrong" (a strict metric must decide).

    Returns:
        float64 [N], NaN where people have no preference.

    Raises:
        CorrelationError: different lengths, or NaN.
        ConfigError: an unknown way to count ties.
    """
    check("ties", ties, Word(TIES))
    a, b, wanted = (np.asarray(side, dtype=np.float64) for side in (first, second, preference))
    if not len(a) == len(b) == len(wanted):
        raise CorrelationError(f"pairs differ in length: {len(a)}, {len(b)} and {len(wanted)}")
    for name, side in (("first", a), ("second", b), ("preference", wanted)):
        if np.isnan(side).any():
            raise CorrelationError(f"{name} is NaN at pair {np.flatnonzero(np.isnan(side))[0]}")
    credit = (np.sign(a - b) == np.sign(wanted)).astype(np.float64)
    if ties == "half":
        credit[(a == b) & (wanted != 0)] = 0.5
    credit[wanted == 0] = np.nan
    return credit


def signature(ties: str = "half") -> str:
    """Return what an accuracy is, in one line."""
    return f"pairwise-accuracy|ties:{ties}"

"""Pairwise accuracy: how often a metric prefers the caption that people prefer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from suisei.errors import ConfigError
from suisei.metaeval.correlation import CorrelationError

TIES = ("half", "wrong", "random")


@dataclass(frozen=True, slots=True)
class PairwiseAccuracy:
    """Accuracy over caption pairs of the same image.

    Attributes:
        value: in [0, 1].
        n: pairs on which people have a preference.
        human_ties: pairs left out because people have none.
        metric_ties: counted pairs that the metric scores alike.
        signature: what the number is, in one line.
    """

    value: float
    n: int
    human_ties: int
    metric_ties: int
    signature: str


def pairwise_accuracy(
    first: Sequence[float] | np.ndarray,
    second: Sequence[float] | np.ndarray,
    preference: Sequence[float] | np.ndarray,
    *,
    ties: str = "half",
    seed: int = 0,
) -> PairwiseAccuracy:
    """Return how often a metric prefers the caption of a pair that people prefer.

    The protocol of Pascal-50S: two captions of one image, and which one most people chose.

    Args:
        first: scores of the first caption of each pair, [N], higher is better.
        second: scores of the second caption, [N].
        preference: above 0 where people prefer the first, below 0 the second, 0 neither, such as the
            difference of votes; pairs of neither are left out and counted.
        ties: what a pair with equal scores counts: "half" (the expected value of a coin, default),
            "wrong" (a strict metric must decide), or "random" (a seeded coin, as Pascal-50S results
            are usually computed).
        seed: of the coin.

    Raises:
        CorrelationError: different lengths, NaN, or no pair with a preference.
        ConfigError: an unknown way to count ties.
    """
    credit = pair_credits(first, second, preference, ties=ties, seed=seed)
    counted = ~np.isnan(credit)
    if not counted.any():
        raise CorrelationError(f"people have no preference in any of the {len(credit)} pairs")
    tied = int((np.asarray(first) == np.asarray(second))[counted].sum())
    return PairwiseAccuracy(
        float(credit[counted].mean()),
        int(counted.sum()),
        int((~counted).sum()),
        tied,
        signature(ties, seed),
    )


def pair_credits(
    first: Sequence[float] | np.ndarray,
    second: Sequence[float] | np.ndarray,
    preference: Sequence[float] | np.ndarray,
    *,
    ties: str = "half",
    seed: int = 0,
) -> np.ndarray:
    """Return what each pair counts: 1 where the metric prefers what people prefer, 0 where it does not.

    Args:
        first: scores of the first caption of each pair, [N].
        second: scores of the second caption, [N].
        preference: as in :func:`pairwise_accuracy`.
        ties: as in :func:`pairwise_accuracy`.
        seed: of the coin.

    Returns:
        float64 [N], NaN where people have no preference.

    Raises:
        CorrelationError: different lengths, or NaN.
        ConfigError: an unknown way to count ties.
    """
    if ties not in TIES:
        raise ConfigError(f"ties is {ties!r}; expected one of {', '.join(TIES)}")
    a, b, wanted = (np.asarray(side, dtype=np.float64) for side in (first, second, preference))
    if not len(a) == len(b) == len(wanted):
        raise CorrelationError(f"pairs differ in length: {len(a)}, {len(b)} and {len(wanted)}")
    for name, side in (("first", a), ("second", b), ("preference", wanted)):
        if np.isnan(side).any():
            raise CorrelationError(f"{name} is NaN at pair {np.flatnonzero(np.isnan(side))[0]}")
    credit = (np.sign(a - b) == np.sign(wanted)).astype(np.float64)
    tied = (a == b) & (wanted != 0)
    if ties == "half":
        credit[tied] = 0.5
    elif ties == "random":
        credit[tied] = np.random.default_rng(seed).integers(0, 2, size=int(tied.sum()))
    credit[wanted == 0] = np.nan
    return credit


def signature(ties: str = "half", seed: int = 0) -> str:
    """Return what an accuracy is, in one line."""
    return f"pairwise-accuracy|ties:{ties}" + (f"|seed:{seed}" if ties == "random" else "")

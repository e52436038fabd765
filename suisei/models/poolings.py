"""The poolings: how much each token counts in a pooled vector of its caption.

A pooling is one entry of POOLINGS: :mod:`suisei.models.pooling` applies it, ``fusion.poolings`` names it. All
are linear in the tokens' vectors, so that they can come before the mix of layers; a maximum over tokens has
no place here. No tensor library is imported, for commands list the names.

Shape letters: T captions, L tokens (padded).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Pooling:
    """One pooling.

    Attributes:
        weigh: turns mask and idf weights, [T, L] each, into the weight of every token, [T, L].
        by_idf: whether it reads the idf weights.
    """

    weigh: Callable[[Tensor, Tensor], Tensor]
    by_idf: bool


def _mean(mask: Tensor, idf: Tensor) -> Tensor:
    return mask / mask.sum(dim=1, keepdim=True).clamp(min=1)


def _idf(mask: Tensor, idf: Tensor) -> Tensor:
    return _mean(mask, idf) * idf


def _idf_normalised(mask: Tensor, idf: Tensor) -> Tensor:
    weighted = mask * idf
    total = weighted.sum(dim=1, keepdim=True)
    return (weighted / total.clamp(min=1e-12)).where(total > 0, _mean(mask, idf))


POOLINGS: dict[str, Pooling] = {
    "idf": Pooling(_idf, by_idf=True),
    "mean": Pooling(_mean, by_idf=False),
    "idf-normalised": Pooling(_idf_normalised, by_idf=True),
}
"""By name."""

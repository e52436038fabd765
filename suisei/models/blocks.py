"""The blocks of the fusion: how a candidate's vector meets those of its references and its image.

A block is one entry of BLOCKS. :mod:`suisei.models.fusion` computes it, the ablation leaves it out, and
``fusion.blocks`` names it. No tensor library is imported here, for commands list the names.

Shape letters: B samples, R references, P poolings, d encoder width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Block:
    """One block of features.

    Attributes:
        reads: what it needs beside the candidate: "candidate" (nothing), "reference" or "image".
        combine: turns a candidate c and another vector o, [..., d] each, into features [..., d].
        raw: whether c has no part in it, so that the best of several references cannot be told from it.
        linear: whether it is linear in o: of several references their mean is enough for the mean.
        nearest: "max" or "min", which of a feature's values over references is that of the nearest one.
    """

    reads: str
    combine: Callable[[Tensor, Tensor], Tensor]
    raw: bool = False
    linear: bool = False
    nearest: str = "max"


def _itself(candidate: Tensor, other: Tensor) -> Tensor:
    return other


def _product(candidate: Tensor, other: Tensor) -> Tensor:
    return candidate * other


def _difference(candidate: Tensor, other: Tensor) -> Tensor:
    return (candidate - other).abs()


BLOCKS: dict[str, Block] = {
    "candidate": Block("candidate", _itself, raw=True),
    "reference": Block("reference", _itself, raw=True, linear=True),
    "reference-product": Block("reference", _product, linear=True),
    "reference-difference": Block("reference", _difference, nearest="min"),
    "image-product": Block("image", _product),
    "image-difference": Block("image", _difference),
}
"""By name, in the order of the fused features."""

PAPER = (
    "candidate",
    "reference",
    "reference-product",
    "reference-difference",
    "image-product",
    "image-difference",
)
"""What ``fusion.blocks: null`` stands for, the paper's blocks: for good, for model folders hold that null."""


def applicable_blocks(has_image: bool, names: Iterable[str] = BLOCKS) -> tuple[str, ...]:
    """Return those of the blocks named, by default of all, that a model with or without an image can have."""
    return tuple(name for name in names if has_image or BLOCKS[name].reads != "image")

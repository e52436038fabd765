"""RUSE-style fusion of candidate, references and image into one feature vector.

Shape letters: B samples, R references (padded), P poolings, d encoder width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from suisei.errors import ConfigError

BLOCKS = (
    "candidate",
    "reference",
    "reference-product",
    "reference-difference",
    "image-product",
    "image-difference",
)
AGGREGATIONS = ("mean", "max", "mean-max", "concat")
CONCATENATED_REFERENCES = 2


class Fusion(nn.Module):
    """Concatenates raw vectors, products and absolute differences (SuiSei, equation 4).

    For every pooling, with candidate c, references r and image i: c, r, c*r, |c-r|, c*i, |c-i|.
    The per-reference blocks r, c*r, |c-r| are aggregated over references, so that neither their
    order nor their number matters:

    - "mean": the mean over references;
    - "max": the element-wise maximum of c*r and minimum of |c-r| (the closest reference per feature),
      the mean of r;
    - "mean-max": "mean" and "max" side by side;
    - "concat": the paper's fixed layout of exactly two references in the order s, c, r, c*r, |c-r|,
      c*s, |c-s|, c*i, |c-i|; a third and later reference is not used.

    A sample without references gets a learned vector in place of its only reference, a sample
    without image one in place of its image.

    Args:
        width: encoder width d.
        poolings: number of poolings P.
        aggregation: one of AGGREGATIONS.
        image_width: width of the image features, or None for a model without image.
        blocks: which of BLOCKS to use; None is all that apply; none of them leaves no feature at all.
    """

    def __init__(
        self,
        width: int,
        poolings: int,
        aggregation: str = "mean",
        image_width: int | None = None,
        blocks: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        if aggregation not in AGGREGATIONS:
            raise ConfigError(
                f"no reference aggregation {aggregation!r}; there are: {', '.join(AGGREGATIONS)}"
            )
        self.aggregation = aggregation
        self.blocks = _check_blocks(blocks, has_image=image_width is not None)
        self.missing_reference = nn.Parameter(torch.zeros(poolings, width))
        nn.init.normal_(self.missing_reference, std=0.02)
        self.project: nn.Linear | None = None
        if image_width is not None:
            self.project = nn.Linear(image_width, width)
            self.missing_image = nn.Parameter(torch.zeros(width))
            nn.init.normal_(self.missing_image, std=0.02)
        self.out_features = self._count_blocks() * poolings * width

    def forward(
        self,
        candidate: Tensor,
        references: Tensor,
        reference_mask: Tensor,
        image: Tensor | None = None,
        image_mask: Tensor | None = None,
    ) -> Tensor:
        """Fuse to [B, out_features].

        Args:
            candidate: [B, P, d].
            references: [B, R, P, d]; R may be 0.
            reference_mask: bool [B, R], True where there is a reference.
            image: [B, d_image], any finite values where there is none; None for a model without image.
            image_mask: bool [B], True where there is an image.
        """
        references, reference_mask = self._widen(references, reference_mask)
        projected = self._project_image(candidate, image, image_mask)
        if self.aggregation == "concat":
            parts = self._concatenated(candidate, references, reference_mask, projected)
        else:
            parts = self._aggregated(candidate, references, reference_mask, projected)
        if not parts:
            return candidate.new_zeros(len(candidate), 0)
        return torch.cat(parts, dim=-1).flatten(1)

    def _widen(self, references: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Add empty places where a batch has fewer than are read."""
        batch, places = mask.shape
        wanted = CONCATENATED_REFERENCES if self.aggregation == "concat" else 1
        if places >= wanted:
            return references, mask
        shape = (batch, wanted - places)
        references = torch.cat([references, references.new_zeros(*shape, *references.shape[2:])], dim=1)
        return references, torch.cat([mask, mask.new_zeros(shape)], dim=1)

    def _project_image(self, candidate: Tensor, image: Tensor | None, mask: Tensor | None) -> Tensor | None:
        """Return the projected image as [B, 1, d], to be broadcast over poolings."""
        if self.project is None:
            return None
        if image is None or mask is None:
            return self.missing_image.to(candidate.dtype).expand(len(candidate), 1, -1)
        projected = self.project(image)
        return torch.where(mask[:, None], projected, self.missing_image.to(projected.dtype))[:, None]

    def _aggregated(self, c: Tensor, r: Tensor, mask: Tensor, image: Tensor | None) -> list[Tensor]:
        """Return the blocks, each [B, P, d].

        The learned vector comes in after the aggregation: vectors of a frozen encoder then need no way
        back through all references.
        """
        weights = (mask / mask.sum(dim=1, keepdim=True).clamp(min=1)).to(r.dtype)[..., None, None]
        outside, present = ~mask[..., None, None], mask.any(dim=1)[:, None, None]
        learned = self.missing_reference.to(r.dtype)
        parts: list[Tensor] = []
        if "candidate" in self.blocks:
            parts.append(c)
        mean = (r * weights).sum(dim=1)
        if "reference" in self.blocks:
            parts.append(torch.where(present, mean, learned))
        if "reference-product" in self.blocks:
            reduced = [] if self.aggregation == "max" else [c * mean]
            if self.aggregation != "mean":
                reduced.append((c[:, None] * r).masked_fill(outside, -torch.inf).amax(dim=1))
            parts += [torch.where(present, block, c * learned) for block in reduced]
        if "reference-difference" in self.blocks:
            difference = (c[:, None] - r).abs()
            reduced = [] if self.aggregation == "max" else [(difference * weights).sum(dim=1)]
            if self.aggregation != "mean":
                reduced.append(difference.masked_fill(outside, torch.inf).amin(dim=1))
            parts += [torch.where(present, block, (c - learned).abs()) for block in reduced]
        return parts + self._image_blocks(c, image)

    def _concatenated(self, c: Tensor, r: Tensor, mask: Tensor, image: Tensor | None) -> list[Tensor]:
        learned = self.missing_reference.to(r.dtype)
        first, second = (torch.where(mask[:, n, None, None], r[:, n], learned) for n in (0, 1))
        named = [
            ("reference", first),
            ("candidate", c),
            ("reference", second),
            ("reference-product", c * second),
            ("reference-difference", (c - second).abs()),
            ("reference-product", c * first),
            ("reference-difference", (c - first).abs()),
        ]
        return [part for name, part in named if name in self.blocks] + self._image_blocks(c, image)

    def _image_blocks(self, c: Tensor, image: Tensor | None) -> list[Tensor]:
        if image is None:
            return []
        parts = []
        if "image-product" in self.blocks:
            parts.append(c * image)
        if "image-difference" in self.blocks:
            parts.append((c - image).abs())
        return parts

    def _count_blocks(self) -> int:
        per_reference = {"concat": 2, "mean-max": 2}.get(self.aggregation, 1)
        counts = {
            "candidate": 1,
            "reference": 2 if self.aggregation == "concat" else 1,
            "reference-product": per_reference,
            "reference-difference": per_reference,
            "image-product": 1,
            "image-difference": 1,
        }
        return sum(counts[block] for block in self.blocks)


def _check_blocks(blocks: Sequence[str] | None, *, has_image: bool) -> tuple[str, ...]:
    known = BLOCKS if has_image else tuple(block for block in BLOCKS if not block.startswith("image"))
    chosen = known if blocks is None else tuple(blocks)
    unknown = [block for block in chosen if block not in known]
    if unknown:
        why = "" if has_image else " for a model without image"
        raise ConfigError(f"fusion blocks {list(chosen)} are not usable{why}; there are: {', '.join(known)}")
    return tuple(block for block in known if block in chosen)

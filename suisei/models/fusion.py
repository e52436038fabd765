"""RUSE-style fusion of candidate, references and image into one feature vector.

Shape letters: B samples, R references (padded), P poolings, d encoder width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from suisei.errors import ConfigError
from suisei.models.blocks import BLOCKS, PAPER, Block, applicable_blocks

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
        blocks: which of BLOCKS to use; None is those of PAPER that apply, an empty list leaves no feature.
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
            image: [B, d_img], any finite values where there is none; None for a model without image.
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

    @property
    def looks(self) -> bool:
        """Whether any block reads the image."""
        return bool(self._chosen("image"))

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
        mean, present = (r * weights).sum(dim=1), mask.any(dim=1)[:, None, None]
        learned = self.missing_reference.to(r.dtype)
        parts: list[Tensor] = []
        for block in self._chosen("candidate"):
            parts.append(block.combine(c, c))
        for block in self._chosen("reference"):
            each = None if block.linear and not self._wants_nearest(block) else block.combine(c[:, None], r)
            if self._wants_mean(block):
                averaged = block.combine(c, mean) if each is None or block.linear else (each * weights).sum(1)
                parts.append(torch.where(present, averaged, block.combine(c, learned)))
            if each is not None and self._wants_nearest(block):
                parts.append(torch.where(present, _nearest(each, mask, block), block.combine(c, learned)))
        return parts + self._image_blocks(c, image)

    def _wants_mean(self, block: Block) -> bool:
        return block.raw or self.aggregation != "max"

    def _wants_nearest(self, block: Block) -> bool:
        return not block.raw and self.aggregation != "mean"

    def _concatenated(self, c: Tensor, r: Tensor, mask: Tensor, image: Tensor | None) -> list[Tensor]:
        """Return the blocks in the paper's order: s, c, r, then r's and s's blocks, each [B, P, d]."""
        learned = self.missing_reference.to(r.dtype)
        s, second = (torch.where(mask[:, n, None, None], r[:, n], learned) for n in (0, 1))
        own = [block.combine(c, c) for block in self._chosen("candidate")]
        raw = [block for block in self._chosen("reference") if block.raw]
        met = [block for block in self._chosen("reference") if not block.raw]
        return [
            *(block.combine(c, s) for block in raw),
            *own,
            *(block.combine(c, second) for block in raw),
            *(block.combine(c, reference) for reference in (second, s) for block in met),
            *self._image_blocks(c, image),
        ]

    def _image_blocks(self, c: Tensor, image: Tensor | None) -> list[Tensor]:
        return [] if image is None else [block.combine(c, image) for block in self._chosen("image")]

    def _chosen(self, reads: str) -> list[Block]:
        """Return the blocks of this model that read "candidate", "reference" or "image", in order."""
        return [BLOCKS[name] for name in self.blocks if BLOCKS[name].reads == reads]

    def _count_blocks(self) -> int:
        references = self._chosen("reference")
        if self.aggregation == "concat":
            of_references = CONCATENATED_REFERENCES * len(references)
        else:
            of_references = sum(self._wants_mean(block) + self._wants_nearest(block) for block in references)
        return len(self._chosen("candidate")) + of_references + len(self._chosen("image"))


def _nearest(each: Tensor, mask: Tensor, block: Block) -> Tensor:
    """Return, feature by feature, the value [B, P, d] of the nearest reference of ``each`` [B, R, P, d]."""
    outside = ~mask[..., None, None]
    if block.nearest == "max":
        return each.masked_fill(outside, -torch.inf).amax(dim=1)
    return each.masked_fill(outside, torch.inf).amin(dim=1)


def _check_blocks(blocks: Sequence[str] | None, *, has_image: bool) -> tuple[str, ...]:
    known = applicable_blocks(has_image)
    chosen = applicable_blocks(has_image, PAPER) if blocks is None else tuple(blocks)
    unknown = [block for block in chosen if block not in known]
    if unknown:
        why = "" if has_image else " for a model without image"
        raise ConfigError(f"fusion blocks {list(chosen)} are not usable{why}; there are: {', '.join(known)}")
    return tuple(block for block in known if block in chosen)

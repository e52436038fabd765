"""The numbers of the alignment, of token vectors at hand: differentiable, so that an encoder learns by them.

Shape letters: B samples, T captions, R references (padded), L and M tokens (padded), d width, A numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from suisei.encoders.text import TextEncoder
from suisei.models.batch import Batch
from suisei.models.greedy_matching import NOWHERE, greedy_match, weighted_mean
from suisei.models.inputs import ALIGNMENTS


def ordinary_tokens(text: TextEncoder, ids: Tensor, mask: Tensor) -> Tensor:
    """Return which tokens of int64 [T, L] are neither padding nor special, bool [T, L].

    The unknown token is one like any other, though nothing is known of it.
    """
    unknown = text.tokenizer.unk_token_id
    special = torch.tensor([own for own in text.special_ids if own != unknown], device=ids.device)
    return mask.bool() & ~torch.isin(ids, special)


def batch_matches(batch: Batch, hidden: Tensor, weights: Tensor) -> Tensor:
    """Return the alignment's numbers of a batch [B, A]; NaN for samples without references.

    Args:
        batch: the samples.
        hidden: token vectors of the batch's captions, [T, L, d].
        weights: idf of the tokens, [T, L]; negative where there is none.
    """
    vectors = F.normalize(hidden.float(), dim=-1)
    shape = batch.references.shape
    references = vectors.index_select(0, batch.references.flatten()).unflatten(0, shape)
    own = weights[batch.references].masked_fill(~batch.reference_mask[..., None], -1.0)
    again = said_before(batch.references)
    return aligned(vectors[batch.candidate], weights[batch.candidate], references, own, again)


def said_before(references: Tensor) -> Tensor:
    """Return which references are the same caption as an earlier one of their sample, bool [B, R].

    Args:
        references: the captions' numbers, int64 [B, R]; padding stands last.
    """
    same = references[:, :, None] == references[:, None]
    return same.tril(-1).any(dim=2)


def aligned(
    candidate: Tensor, weights: Tensor, references: Tensor, reference_weights: Tensor, again: Tensor
) -> Tensor:
    """Return the numbers named in ``ALIGNMENTS``, [B, A]; NaN where either side has no token.

    Args:
        candidate: token vectors of unit length, [B, L, d].
        weights: idf of the candidate's tokens, [B, L]; negative where there is none.
        references: token vectors of unit length, [B, R, M, d].
        reference_weights: idf of the references' tokens, [B, R, M]; negative where there is none. A
            reference without any token is not there.
        again: which references repeat an earlier one, bool [B, R]; they do not agree with it.
    """
    present = weights >= 0
    reference_present = reference_weights >= 0
    if not references.shape[1]:  # no sample of the batch has a reference
        return candidate.new_full((len(candidate), len(ALIGNMENTS)), torch.nan)
    there = reference_present.any(dim=2)
    matched, found = greedy_match(candidate[:, None], references, present[:, None], reference_present)
    anywhere = matched.masked_fill(~there[..., None], NOWHERE).amax(dim=1)  # [B, L]
    shared = present[:, None].expand_as(matched)
    pairwise = [
        weighted_mean(matched, shared.float()),
        weighted_mean(matched, shared * weights[:, None]),
        matched.masked_fill(~shared, 2.0).amin(dim=2),
        weighted_mean(found, reference_present.float()),
        weighted_mean(found, reference_present * reference_weights),
        found.masked_fill(~reference_present, 2.0).amin(dim=2),
    ]
    numbers = []
    for values in pairwise:  # [B, R]
        numbers.append(values.masked_fill(~there, NOWHERE).amax(dim=1))
        numbers.append((values * there).sum(dim=1) / there.sum(dim=1).clamp(min=1))
    numbers += [
        weighted_mean(anywhere, present.float()),
        weighted_mean(anywhere, present * weights),
        anywhere.masked_fill(~present, 2.0).amin(dim=1),
        _agreement(references, reference_weights.clamp(min=0), there & ~again),
    ]
    empty = ~present.any(dim=1) | ~there.any(dim=1)
    return torch.stack(numbers, dim=1).masked_fill(empty[:, None], torch.nan)


def _agreement(references: Tensor, weights: Tensor, there: Tensor) -> Tensor:
    """Mean cosine between the idf-pooled vectors of the references; 1 for a single one, [B]."""
    vectors = F.normalize((weights[..., None] * references).sum(dim=2), dim=-1) * there[..., None]
    count = there.sum(dim=1)
    squared = vectors.sum(dim=1).square().sum(dim=-1)  # all pairs, those with itself included
    return torch.where(count > 1, (squared - count) / (count * (count - 1)).clamp(min=1), 1.0)

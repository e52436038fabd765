"""How well the words of a candidate and of its references match, token by token, as numbers.

Every token is matched with the most similar token of the other caption (greedy matching by cosine, as in
BERTScore, Zhang et al. 2020, equations 1 to 3). The sentence vectors of the fusion cannot say that one
word of an otherwise fitting caption has no counterpart; these numbers can.

Shape letters: B samples, R references (padded), L and M tokens (padded), d encoder width, A numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from suisei.encoders.batch_sizes import samples_per_batch, tokens_per_batch
from suisei.encoders.text import TextEncoder
from suisei.models.features import ignore_progress, token_batches
from suisei.models.inputs import ALIGNMENTS
from suisei.models.lower_layers import LowerStates
from suisei.models.regressor import Regressor
from suisei.models.table import SampleTable
from suisei.models.token_matches import aligned, ordinary_tokens, said_before


def alignment_inputs(
    model: Regressor,
    table: SampleTable,
    advance: Callable[[int], Any] = ignore_progress,
    *,
    rows: Iterable[int] | None = None,
    pooled: dict[int, Tensor] | None = None,
    lower: Sequence[LowerStates] = (),
    known: LowerStates | None = None,
) -> np.ndarray:
    """Return the alignment of samples, float32 [N, A]; NaN for samples without references.

    Args:
        model: the regressor, whose text encoder is not being trained.
        table: the samples.
        advance: called with the number of captions of each batch.
        rows: the N samples to align, in this order; None for all.
        pooled: takes the pooled vectors [P, d] of the captions, by their row, so that none is encoded twice.
        lower: take what lower layers say of captions.
        known: what the layers of the encoder, which are the lower ones of another, have said already.
    """
    chosen = range(len(table)) if rows is None else [int(row) for row in rows]
    values = np.full((len(chosen), len(ALIGNMENTS)), np.nan, dtype=np.float32)
    place = {row: number for number, row in enumerate(chosen)}
    compared = [row for row in chosen if len(table.references[row])]
    if not compared:
        return values
    used = {int(caption) for row in compared for caption in (table.candidate[row], *table.references[row])}
    captions = {caption: table.captions[caption] for caption in sorted(used)}
    known = known if known is not None and known.covers(captions.values()) else None
    tokens = _Tokens(model, captions, advance, pooled, lower, known)
    compared.sort(key=lambda row: (len(table.references[row]), tokens.count(int(table.candidate[row]))))
    size = samples_per_batch(len(table.references[compared[-1]]) * tokens.longest, tokens.device.type)
    for start in range(0, len(compared), size):
        batch = compared[start : start + size]
        values[[place[row] for row in batch]] = _align(tokens, table, batch).cpu().numpy()
    return values


def _align(tokens: _Tokens, table: SampleTable, rows: Sequence[int]) -> Tensor:
    places = max(len(table.references[row]) for row in rows)
    padded = [[*table.references[row], *[-1] * (places - len(table.references[row]))] for row in rows]
    candidate, candidate_weights = tokens.padded([int(table.candidate[row]) for row in rows])
    references, reference_weights = tokens.padded([int(caption) for own in padded for caption in own])
    shape = (len(rows), places)
    return aligned(
        candidate,
        candidate_weights,
        references.unflatten(0, shape),
        reference_weights.unflatten(0, shape),
        said_before(torch.tensor(padded, device=candidate.device)),
    )


class _Tokens:
    """The token vectors of captions at unit length, and their idf; special tokens left out.

    They stand one caption after the other, after a row for no token: zeros, and an idf of -1.
    """

    def __init__(
        self,
        model: Regressor,
        captions: Mapping[int, str],
        advance: Callable[[int], Any],
        pooled: dict[int, Tensor] | None,
        lower: Sequence[LowerStates],
        known: LowerStates | None,
    ) -> None:
        text, self.device = model.text, model.idf_weights.device
        ids = dict(zip(captions, text.tokenize(list(captions.values())), strict=True))
        rows = 1 + sum(map(len, ids.values()))  # more than enough: special tokens are left out
        self._vectors = torch.zeros(rows, text.width, device=self.device)
        self._weights = torch.full((rows,), -1.0, device=self.device)
        self._counts = np.zeros(max(captions) + 2, dtype=np.int64)  # by caption; the last, -1, has none
        self._starts = np.zeros_like(self._counts)
        end = 1
        was_training = model.training
        model.eval()
        budget = tokens_per_batch(text.width, self.device.type)
        numbers = list(ids)
        for positions in token_batches([len(own) for own in ids.values()], budget):
            own = [numbers[position] for position in positions]
            batch, mask = (part.to(self.device) for part in text.pad([ids[caption] for caption in own]))
            texts = [captions[caption] for caption in own]
            with torch.inference_mode():
                states = _states(text, batch, mask, texts, lower, known)
                hidden = F.normalize(states[-1].float(), dim=-1)
                if pooled is not None:
                    vectors = model.mix_layers(model.pool(states, batch, mask)).float().cpu()
                    pooled |= dict(zip(own, vectors, strict=True))
            kept = ordinary_tokens(text, batch, mask)
            counts = kept.sum(dim=1).cpu().numpy()
            start, end = end, end + int(counts.sum())
            self._vectors[start:end], self._weights[start:end] = hidden[kept], model.idf_weights[batch[kept]]
            self._counts[own], self._starts[own] = counts, start + np.cumsum(counts) - counts
            advance(len(positions))
        model.train(was_training)

    def count(self, caption: int) -> int:
        """Return the number of tokens of a caption."""
        return int(self._counts[caption])

    @property
    def longest(self) -> int:
        """The number of tokens of the longest caption, at least 1."""
        return int(self._counts.max(initial=1))

    def padded(self, captions: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return vectors [T, L, d] and idf [T, L], -1 where there is no token; caption -1 has none."""
        counts, starts = self._counts[captions, None], self._starts[captions, None]
        places = np.arange(counts.max(initial=1))
        rows = torch.from_numpy(np.where(places < counts, starts + places, 0)).to(self.device)
        return self._vectors.index_select(0, rows.flatten()).unflatten(0, rows.shape), self._weights[rows]


def _states(
    text: TextEncoder,
    ids: Tensor,
    mask: Tensor,
    captions: Sequence[str],
    lower: Sequence[LowerStates],
    known: LowerStates | None,
) -> list[Tensor]:
    """Return hidden states S x [T, L, d] of captions, and keep what lower layers say of them."""
    if known is not None:
        return [known.padded(captions)]
    states, passed = text.passing(ids, mask, [kept.depth for kept in lower])
    lengths = mask.sum(dim=1).tolist()
    for kept in lower:
        kept.keep(captions, passed[kept.depth], lengths)
    return states

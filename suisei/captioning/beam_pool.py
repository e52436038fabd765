"""Beam search as transformers has it: a finished caption leaves its place to another and waits in a pool.

A search that lets it stay looks at fewer and fewer continuations, and misses likelier captions. Shape
letters: n images, W beams, C continuations of them, L tokens at most, V pieces.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


class Rows(Protocol):
    """The rows of a decoding: :class:`suisei.captioning.caption_search.DecodingState`."""

    def step(self, tokens: Tensor) -> Tensor:
        """Add one token to each row, int64 [N], and return the logits of the next, float32 [N, V]."""

    def select(self, rows: Tensor) -> None:
        """Keep these rows, int64 [N'], in this order; a row may be taken several times."""


class _Captions(NamedTuple):
    """Captions of n images, K of each."""

    tokens: Tensor  # int64 [n, K, L]
    log_probs: Tensor  # float32 [n, K, L]
    score: Tensor  # float32 [n, K]; -inf of no caption

    def of(self, images: Tensor) -> _Captions:
        """Return those of some of the images."""
        return _Captions(*(part[images] for part in self))

    def best(self, score: Tensor, count: int) -> tuple[_Captions, Tensor]:
        """Return the best by another score, best first, and where they stood, [n, count]."""
        score, places = score.topk(count, dim=-1)
        return _Captions(_taken(self.tokens, places), _taken(self.log_probs, places), score), places


def _taken(values: Tensor, places: Tensor) -> Tensor:
    return values.gather(1, places[..., None].expand(-1, -1, values.shape[-1]))


def pooled_beams(
    state: Rows,
    logits: Tensor,
    *,
    width: int,
    longest: int,
    length_penalty: float,
    end_id: int,
    pad_id: int,
) -> tuple[Tensor, Tensor]:
    """Return the best W captions that end, or reach the limit, among the beams, best first.

    The search of an image ends when the pool is full and the likeliest beam, over its length now, is no
    better than the worst of it: ``early_stopping=False`` of transformers.

    Args:
        state: the rows after the first token, one per image.
        logits: of the next, float32 [n, V].
        width: W, at most V.
        longest: L, most tokens of a caption, its end included.
        length_penalty: captions are compared by their log probability over their length to this power.
        end_id: the end of a caption.
        pad_id: what stands after it.

    Returns:
        Tokens, int64 [n, W, L'], and their log probabilities, float32; L' is the longest search.
    """
    count = len(logits)
    tokens = torch.full((count, width, longest), pad_id, device=logits.device)
    log_probs = torch.zeros(count, width, longest, device=logits.device)
    score = torch.full((count, width), -torch.inf, device=logits.device)
    pool = _Captions(tokens, log_probs, score)
    live = _Captions(tokens[:, :1], log_probs[:, :1], torch.zeros_like(score[:, :1]))
    found = _Captions(tokens.clone(), log_probs.clone(), score)
    images = torch.arange(count, device=logits.device)
    for place in range(longest):
        before, power = live.score.shape[1], (place + 1) ** length_penalty
        more, parents = _continued(live, logits, place, 2 * width)
        last = place + 1 == longest
        ended = (more.tokens[..., place] == end_id) | last
        pool = _pooled(pool, more, ended, power)
        found.tokens[images], found.log_probs[images] = pool.tokens, pool.log_probs
        live, kept = more.best(more.score.masked_fill(ended, -torch.inf), min(width, ended.shape[1]))
        going = (live.score[:, 0] / power > pool.score[:, -1]).nonzero()[:, 0]
        if not len(going):
            break
        rows = parents.gather(1, kept) + torch.arange(len(images), device=logits.device)[:, None] * before
        images, live, pool = images[going], live.of(going), pool.of(going)
        state.select(rows[going].flatten())
        logits = state.step(live.tokens[..., place].flatten())
    return found.tokens[..., : place + 1], found.log_probs[..., : place + 1]


def _continued(live: _Captions, logits: Tensor, place: int, most: int) -> tuple[_Captions, Tensor]:
    """Return the likeliest continuations of each image's beams, [n, C], and the beams that they continue."""
    gains = F.log_softmax(logits, dim=-1).view(*live.score.shape, -1)
    totals = (live.score[..., None] + gains).flatten(1)
    score, chosen = totals.topk(min(most, totals.shape[1]), dim=-1)
    parents, pieces = chosen // gains.shape[-1], chosen % gains.shape[-1]
    tokens, log_probs = _taken(live.tokens, parents), _taken(live.log_probs, parents)
    tokens[..., place], log_probs[..., place] = pieces, gains.flatten(1).gather(1, chosen)
    return _Captions(tokens, log_probs, score), parents


def _pooled(pool: _Captions, more: _Captions, ended: Tensor, power: float) -> _Captions:
    """Return the best of a pool and of what has just ended among the W likeliest continuations."""
    width = pool.score.shape[1]
    ended = ended & (torch.arange(ended.shape[1], device=ended.device) < width)
    fresh = (more.score / power).masked_fill(~ended, -torch.inf)
    both = _Captions(*(torch.cat(parts, dim=1) for parts in zip(pool, more, strict=True)))
    return both.best(torch.cat([pool.score, fresh], dim=1), width)[0]

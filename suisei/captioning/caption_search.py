"""Greedy decoding, sampling and beam search, for any captioner, a token of every row at a time.

Rows that are finished leave: a caption that is greedy or drawn with its end, the beams of an image when all
of them have theirs; in the search of ``beam_pool.py`` they leave one by one. Shape letters: B images, K
captions of an image, L tokens at most, V pieces, N rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from suisei.captioning.beam_pool import pooled_beams
from suisei.errors import ConfigError, ModelError
from suisei.ranges import Range, Rule, Word, at_least, check_settings

METHODS = ("greedy", "beam", "sample")
MAX_LENGTH = 1000
"""Most tokens that a caption may be asked to have."""
DECODING: dict[str, Rule] = {
    "method": Word(METHODS),
    "beams": at_least(1, 1000),
    "samples": at_least(1, 1000),
    "max_length": at_least(1, MAX_LENGTH),
    "temperature": Range(0, 1000, above=True),
    "top_p": Range(0, 1, above=True),
    "length_penalty": Range(-10, 10),
}


@dataclass(frozen=True)
class Decoding:
    """How captions are chosen.

    Attributes:
        method: "greedy" (the likeliest token, one caption), "beam" (the ``beams`` best of a search, the
            best first) or "sample" (``samples`` captions drawn).
        beams: width of the search.
        samples: captions drawn of an image.
        max_length: most tokens of a caption, its end included.
        temperature: divides the logits before a token is drawn.
        top_p: tokens are drawn from the likeliest that have this probability together.
        length_penalty: finished beams are compared by their log probability over their length to this power;
            0 compares the log probabilities themselves.
    """

    method: str = "beam"
    beams: int = 5
    samples: int = 1
    max_length: int = 20
    temperature: float = 1.0
    top_p: float = 1.0
    length_penalty: float = 0.0

    def __post_init__(self) -> None:
        check_settings("decoding", self, DECODING)

    @property
    def captions(self) -> int:
        """Captions of an image, K."""
        return {"greedy": 1, "beam": self.beams, "sample": self.samples}[self.method]


@dataclass(frozen=True)
class Generated:
    """Captions as a search or a draw found them.

    Attributes:
        tokens: int64 [B, K, L]; the start is left out, the end is in, padding comes after it. A caption that
            reached the limit has no end. Beams stand best first.
        log_probs: float32 [B, K, L]; of the model itself, whatever the temperature; 0 after the end. Without
            gradient.
    """

    tokens: Tensor
    log_probs: Tensor


class DecodingState(ABC):
    """The rows of a decoding that goes on, with the keys and values of all tokens so far."""

    @abstractmethod
    def step(self, tokens: Tensor) -> Tensor:
        """Add one token to each row, int64 [N], and return the logits of the next, float32 [N, V]."""

    @abstractmethod
    def select(self, rows: Tensor) -> None:
        """Keep these rows, int64 [N'], in this order; a row may be taken several times."""


class Writer(Protocol):
    """What is searched with: a captioner, see :class:`suisei.captioning.captioner_interface.CaptionModel`."""

    pad_id: int
    end_id: int
    pools_beams: bool
    training: bool

    def begin(self, memory: Tensor, language: str | None = None) -> DecodingState:
        """Return the state before the first token."""

    def first(self, rows: int, language: str | None = None) -> Tensor:
        """Return the token that captions start from."""

    def train(self, mode: bool = True) -> Any:
        """Set training or not."""


Choose = Callable[[Tensor], Tensor]
"""Takes logits [N, V], returns the chosen tokens, int64 [N]."""


@torch.no_grad()
def decode(
    model: Writer,
    memory: Tensor,
    decoding: Decoding,
    generator: torch.Generator | None = None,
    language: str | None = None,
) -> Generated:
    """Write captions of images; see :meth:`suisei.captioning.captioner_interface.CaptionModel.generate`.

    Raises:
        ModelError: weights that give no numbers.
        ConfigError: more beams than there are pieces.
    """
    was_training = model.training
    model.train(False)
    try:
        state = model.begin(memory, language)
        logits = _checked(state.step(model.first(len(memory), language)))
        if decoding.method == "beam":
            if decoding.beams > logits.shape[-1]:
                raise ConfigError(
                    f"a search of {decoding.beams:,} beams over a vocabulary of {logits.shape[-1]:,} pieces; "
                    "take no more beams (--beams, model.captions)"
                )
            if model.pools_beams:
                return _pooled(model, state, logits, decoding)
            return _beams(model, state, logits, decoding)
        rows = torch.arange(len(memory), device=logits.device).repeat_interleave(decoding.captions)
        if decoding.captions > 1:
            state.select(rows)
            logits = logits[rows]
        choose = _greedy if decoding.method == "greedy" else _drawing(decoding, generator)
        found = _rows(model, state, logits, choose, decoding.max_length)
        shape = (len(memory), decoding.captions, -1)
        return Generated(found.tokens.view(shape), found.log_probs.view(shape))
    finally:
        model.train(was_training)


def _checked(logits: Tensor) -> Tensor:
    if bool(logits.isnan().any()):
        raise ModelError("the captioner gives no numbers (NaN): its weights or its input are damaged")
    return logits


def _greedy(logits: Tensor) -> Tensor:
    return logits.argmax(dim=-1)


def _drawing(decoding: Decoding, generator: torch.Generator | None) -> Choose:
    def draw(logits: Tensor) -> Tensor:
        chances = (logits / decoding.temperature).softmax(dim=-1)
        if decoding.top_p < 1:
            chances = _likeliest(chances, decoding.top_p)
        return torch.multinomial(chances, 1, generator=generator)[:, 0]

    return draw


def _likeliest(chances: Tensor, share: float) -> Tensor:
    """Leave the likeliest tokens that have a share of the probability together, [N, V]; at least one."""
    ordered, places = chances.sort(dim=-1, descending=True)
    ordered = ordered.masked_fill(ordered.cumsum(dim=-1) - ordered >= share, 0.0)
    return torch.zeros_like(chances).scatter_(-1, places, ordered)


def _rows(model: Writer, state: DecodingState, logits: Tensor, choose: Choose, max_length: int) -> Generated:
    """Write one caption per row, [N, L], with log probabilities [N, L]."""
    count = len(logits)
    tokens = torch.full((count, max_length), model.pad_id, device=logits.device)
    log_probs = torch.zeros(count, max_length, device=logits.device)
    alive = torch.arange(count, device=logits.device)
    for place in range(max_length):
        chosen = choose(logits)
        tokens[alive, place] = chosen
        log_probs[alive, place] = F.log_softmax(logits, dim=-1).gather(-1, chosen[:, None])[:, 0]
        going = (chosen != model.end_id).nonzero()[:, 0]
        if not len(going) or place + 1 == max_length:
            return Generated(tokens[:, : place + 1], log_probs[:, : place + 1])
        if len(going) < len(chosen):
            state.select(going)
            alive, chosen = alive[going], chosen[going]
        logits = state.step(chosen)
    raise AssertionError("unreachable")


def _pooled(model: Writer, state: DecodingState, logits: Tensor, decoding: Decoding) -> Generated:
    found = pooled_beams(
        state,
        logits,
        width=decoding.beams,
        longest=decoding.max_length,
        length_penalty=decoding.length_penalty,
        end_id=model.end_id,
        pad_id=model.pad_id,
    )
    return Generated(*found)


class _Beams(NamedTuple):
    """Of n images with K beams each: what is written, and how likely it is."""

    tokens: Tensor  # int64 [n, K, L]
    log_probs: Tensor  # float32 [n, K, L]
    total: Tensor  # float32 [n, K]
    length: Tensor  # int64 [n, K]
    done: Tensor  # bool [n, K]

    def of(self, images: Tensor) -> _Beams:
        """Return the beams of some of the images."""
        return _Beams(*(part[images] for part in self))


def _beams(model: Writer, state: DecodingState, logits: Tensor, decoding: Decoding) -> Generated:
    count, width, longest = len(logits), decoding.beams, decoding.max_length
    device = logits.device
    tokens = torch.full((count, width, longest), model.pad_id, device=device)
    result = Generated(tokens, torch.zeros(count, width, longest, device=device))
    beams = _Beams(
        tokens[:, :1],
        result.log_probs[:, :1],
        torch.zeros(count, 1, device=device),
        torch.zeros(count, 1, dtype=torch.long, device=device),
        torch.zeros(count, 1, dtype=torch.bool, device=device),
    )
    images = torch.arange(count, device=device)
    last = 0
    for place in range(longest):
        beams, parents = _grown(model, beams, logits, place, decoding)
        last = place + 1
        going = (~beams.done).any(dim=-1).nonzero()[:, 0]
        if not len(going) or last == longest:
            going = going[:0]
        leaving = torch.ones(len(images), dtype=torch.bool, device=device)
        leaving[going] = False
        result.tokens[images[leaving]] = beams.tokens[leaving]
        result.log_probs[images[leaving]] = beams.log_probs[leaving]
        if not len(going):
            break
        images, beams = images[going], beams.of(going)
        state.select(parents[going].flatten())
        written = beams.tokens[:, :, place].flatten()
        logits = state.step(written.masked_fill(beams.done.flatten(), model.end_id))
    return Generated(result.tokens[:, :, :last], result.log_probs[:, :, :last])


def _grown(
    model: Writer, beams: _Beams, logits: Tensor, place: int, decoding: Decoding
) -> tuple[_Beams, Tensor]:
    """Return the best continuations of each image's beams, best first, and the rows they continue, [n, K].

    A beam that is done goes on as it is, with padding.
    """
    count, before = beams.total.shape
    gains = F.log_softmax(logits, dim=-1).view(count, before, -1)
    width, pieces = decoding.beams, gains.shape[-1]
    best, piece = gains.topk(min(width, pieces), dim=-1)  # no beam has more than so many among the best
    best = best.masked_fill(beams.done[..., None], -torch.inf)
    piece = piece.masked_fill(beams.done[..., None], model.pad_id)
    best[..., 0].masked_fill_(beams.done, 0.0)
    length = (beams.length + (~beams.done).long())[..., None].expand_as(best)
    total = beams.total[..., None] + best
    rank = total / length.float() ** decoding.length_penalty
    chosen = rank.flatten(1).topk(width, dim=-1).indices
    parent = chosen // best.shape[-1]

    def of_parent(values: Tensor) -> Tensor:
        index = parent.view(*parent.shape, *(1,) * (values.ndim - 2)).expand(-1, -1, *values.shape[2:])
        return values.gather(1, index)

    def of_choice(values: Tensor) -> Tensor:
        return values.flatten(1).gather(1, chosen)

    tokens, log_probs = of_parent(beams.tokens), of_parent(beams.log_probs)
    written = of_choice(piece)
    tokens[:, :, place] = written
    log_probs[:, :, place] = of_choice(best)
    done = of_parent(beams.done) | (written == model.end_id)
    offset = torch.arange(count, device=logits.device)[:, None] * before
    return _Beams(tokens, log_probs, of_choice(total), of_choice(length), done), parent + offset

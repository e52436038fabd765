"""What a captioner is: an image goes in once, captions with their log probabilities come out.

Two kinds stand behind it: the one that is trained here (``captioner.py``) and those of Hugging Face
(``hf_captioner.py``). Shape letters: B images, P places of an image, c width of a tower's grid, d width of
the memory, K captions of an image, L tokens of a caption, V pieces of the vocabulary, N rows of a step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from suisei.errors import ConfigError
from suisei.ranges import Range, Rule, Word, at_least, check_settings

METHODS = ("greedy", "beam", "sample")
DECODING: dict[str, Rule] = {
    "method": Word(METHODS),
    "beams": at_least(1, 1000),
    "samples": at_least(1, 1000),
    "max_length": at_least(1, 1000),
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


class CaptionModel(nn.Module, ABC):
    """A model that captions images.

    Attributes:
        languages: the languages it writes, such as ("en", "ja"); the first is the one it writes unasked.
        pad_id: padding, which stands after the end alone.
        end_id: the end of a caption.
        tower_is_frozen: whether :meth:`grid` never learns, so that what it says can be kept.
    """

    languages: tuple[str, ...]
    pad_id: int
    end_id: int
    tower_is_frozen: bool

    @property
    def language(self) -> str:
        """The language it writes unasked."""
        return self.languages[0]

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return next(self.parameters()).device

    def language_or_own(self, language: str | None) -> str:
        """Return a language that it writes.

        Raises:
            ConfigError: it does not.
        """
        if language is not None and language not in self.languages:
            raise ConfigError(
                f"language is {language!r}; this captioner writes {' and '.join(self.languages)}"
            )
        return language or self.language

    @abstractmethod
    def read(self, images: Sequence[Any]) -> Tensor:
        """Return pixels of images (paths or PIL images), float32 [B, 3, H, W], on the CPU.

        Raises:
            DataError: an image that cannot be read; it is named.
        """

    @abstractmethod
    def grid(self, pixels: Tensor) -> Tensor:
        """Return what the tower says of pixels [B, 3, H, W]: [B, P, c]."""

    @abstractmethod
    def memory(self, grid: Tensor) -> Tensor:
        """Return what the decoder looks at, [B, P, d], of a tower's grid, [B, P, c]."""

    def encode(self, pixels: Tensor) -> Tensor:
        """Return the memory of pixels, [B, P, d]; once for all captions of an image."""
        return self.memory(self.grid(pixels))

    @abstractmethod
    def begin(self, memory: Tensor, language: str | None = None) -> DecodingState:
        """Return the state before the first token: a row per image; :meth:`first` begins it."""

    @abstractmethod
    def first(self, rows: int, language: str | None = None) -> Tensor:
        """Return the token that captions start from, int64 [rows]."""

    def generate(
        self,
        memory: Tensor,
        decoding: Decoding,
        generator: torch.Generator | None = None,
        language: str | None = None,
    ) -> Generated:
        """Write captions of images, without gradient.

        Args:
            memory: of the images, [B, P, d].
            decoding: how.
            generator: what draws samples; of the memory's device.
            language: one of ``languages``; the first where None.
        """
        from suisei.captioning.decoding import decode

        return decode(self, memory, decoding, generator, language)

    @abstractmethod
    def logits(self, memory: Tensor, tokens: Tensor, language: str | None = None) -> Tensor:
        """Return the logits of every token, [B, K, L, V], given those before it in ``tokens``, [B, K, L].

        What can never be written, such as padding, has -inf.
        """

    def log_probs(self, memory: Tensor, tokens: Tensor, language: str | None = None) -> Tensor:
        """Return the log probability of every token, [B, K, L], with gradient; 0 after the end."""
        logits = self.logits(memory, tokens, language).float()
        padding = tokens == self.pad_id
        wanted = tokens.masked_fill(padding, self.end_id)[..., None]
        found = logits.gather(-1, wanted)[..., 0] - logits.logsumexp(dim=-1)
        return found.masked_fill(padding, 0.0)

    @abstractmethod
    def texts(self, tokens: Tensor) -> list[list[str]]:
        """Return the captions of tokens [B, K, L] as [B][K] texts; "" of one that has nothing but its end."""

    @abstractmethod
    def tokens_of(self, captions: Sequence[str], max_length: int | None = None) -> Tensor:
        """Return the tokens of captions, int64 [N, L]: end in, padded, cut to ``max_length`` where longer."""

    @abstractmethod
    def save(self, folder: Path | str) -> None:
        """Write a model folder, which :func:`load_caption_model` reads: no pickle in it."""


def load_caption_model(name_or_folder: str | Path) -> CaptionModel:
    """Return a captioner, ready to write: of our own folder, or of Hugging Face's by folder or name.

    Raises:
        ModelError: a folder that is none, or is damaged.
        UnavailableError: a name that is not on disk while the hub cannot be reached.
    """
    from suisei.captioning.caption_folder import is_captioner_folder, load_captioner

    if is_captioner_folder(name_or_folder):
        return load_captioner(name_or_folder)
    from suisei.captioning.hf_captioner import load_hf_captioner

    return load_hf_captioner(str(name_or_folder))

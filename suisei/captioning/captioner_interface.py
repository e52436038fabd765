"""What a captioner is: an image goes in once, captions with their log probabilities come out.

Two kinds stand behind it: the one that is trained here (``captioner.py``) and those of Hugging Face
(``hf_captioner.py``). Shape letters: B images, P places of an image, c width of a tower's grid, d width of
the memory, K captions of an image, L tokens of a caption, V pieces of the vocabulary, N rows of a step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from suisei.captioning.caption_search import Decoding, DecodingState, Generated, decode
from suisei.errors import ConfigError


class CaptionModel(nn.Module, ABC):
    """A model that captions images.

    Attributes:
        languages: the languages it writes, such as ("en", "ja"); the first is the one it writes unasked.
        pad_id: padding, which stands after the end alone.
        end_id: the end of a caption.
        longest: most tokens of a caption, its end included; None where nothing says.
        pools_beams: whether a finished beam of a search leaves its place to another, as in transformers, or
            keeps it, as in Cornia et al., 2020.
        tower_is_frozen: whether :meth:`grid` never learns, so that what it says can be kept.
    """

    languages: tuple[str, ...]
    pad_id: int
    end_id: int
    longest: int | None = None
    pools_beams: bool = False
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

    def check_length(self, max_length: int, name: str = "max_length") -> None:
        """Refuse captions that are longer than it can write.

        Args:
            max_length: most tokens of a caption.
            name: what the setting is called.

        Raises:
            ConfigError: it cannot.
        """
        if self.longest is not None and max_length > self.longest:
            raise ConfigError(
                f"{name} is {max_length:,}; this captioner writes at most {self.longest:,} tokens: lower it"
            )

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

        Raises:
            ConfigError: captions that are longer than it can write.
        """
        self.check_length(decoding.max_length)
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
        """Write a model folder, which can be loaded again: no pickle in it."""

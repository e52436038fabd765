"""The captioner that is trained here: a visual tower's grid, an encoder over it, and a decoder of tokens.

PAC-S++ (Sarto et al., 2024, section 5.1) fine-tunes such a model. Shape letters: B images, P places, c width
of the grid, d width of the memory, K captions of an image, L tokens, V pieces, N rows of a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from suisei.captioning.caption_folder import save_captioner
from suisei.captioning.captioner_interface import CaptionModel
from suisei.captioning.grid_tower import GridTower
from suisei.captioning.pieces import Pieces
from suisei.captioning.transformer import GridEncoder, KeptState, TokenDecoder, TransformerConfig
from suisei.data.images import read_image


class Captioner(CaptionModel):
    """A captioner with random weights but for its tower's.

    Args:
        tower: what looks at images.
        layers: the size of encoder and decoder.
        pieces: the vocabulary.
        languages: what it writes; each has a token of its own that captions start from.
        trained_tower: whether the tower learns.
    """

    def __init__(
        self,
        tower: GridTower,
        layers: TransformerConfig,
        pieces: Pieces,
        languages: Sequence[str],
        *,
        trained_tower: bool = False,
    ) -> None:
        super().__init__()
        self.languages = tuple(languages)
        self.config = layers
        self.pieces = pieces
        self.pad_id, self.end_id = pieces.pad_id, pieces.end_id
        self.longest = layers.positions
        self.tower = tower
        self.encoder = GridEncoder(layers, tower.places, tower.width)
        self.decoder = TokenDecoder(layers, len(pieces), len(self.languages))
        self.banned: Tensor
        self.register_buffer("banned", torch.tensor(pieces.banned), persistent=False)
        self.tower_is_frozen = True
        self.let_tower_learn(trained_tower)

    def let_tower_learn(self, learns: bool) -> None:
        """Let the tower learn, or freeze it."""
        self.tower_is_frozen = not learns
        self.tower.requires_grad_(learns)
        self.tower.train(learns and self.training)

    def train(self, mode: bool = True) -> Captioner:
        """Set training; a frozen tower stays as it scores."""
        super().train(mode)
        if self.tower_is_frozen:
            self.tower.eval()
        return self

    def read(self, images: Sequence[Any]) -> Tensor:
        """Return pixels, float32 [B, 3, s, s]."""
        return torch.stack([read_image(image, self.tower.image.preprocess) for image in images])

    def grid(self, pixels: Tensor) -> Tensor:
        """Return what the tower says of every place, [B, P, c]."""
        if self.tower_is_frozen:
            with torch.no_grad():
                grid: Tensor = self.tower(pixels)
        else:
            grid = self.tower(pixels)
        return grid

    def memory(self, grid: Tensor) -> Tensor:
        """Return the memory, [B, P, d]."""
        memory: Tensor = self.encoder(grid)
        return memory

    def first(self, rows: int, language: str | None = None) -> Tensor:
        """Return the start token of a language, int64 [rows]."""
        number = self.languages.index(self.language_or_own(language))
        return torch.full((rows,), len(self.pieces) + number, device=self.device)

    def starts(self, languages: Sequence[str]) -> Tensor:
        """Return the start token of each of some languages, int64 [len(languages)], on the CPU."""
        return torch.tensor([len(self.pieces) + self.languages.index(language) for language in languages])

    def begin(self, memory: Tensor, language: str | None = None) -> KeptState:
        """Return the state before the first token."""
        self.language_or_own(language)
        return KeptState(self.decoder, memory, self.banned)

    def logits(self, memory: Tensor, tokens: Tensor, language: str | None = None) -> Tensor:
        """Return the logits of every token given those before it, [B, K, L, V]."""
        start = self.first(tokens.shape[0] * tokens.shape[1], language).view(*tokens.shape[:2], 1)
        return self.raw_logits(memory, start, tokens).index_fill(-1, self.banned, -torch.inf)

    def raw_logits(self, memory: Tensor, starts: Tensor, tokens: Tensor) -> Tensor:
        """Return logits [B, K, L, V] with all pieces possible, of captions [B, K, L] with starts [B, K, 1].

        What is unknown, and what comes after the end, is looked at as it is: nothing before it sees it.
        """
        shown = torch.cat([starts, tokens[..., :-1]], dim=-1)
        logits: Tensor = self.decoder(memory, shown)
        return logits

    def texts(self, tokens: Tensor) -> list[list[str]]:
        """Return captions of tokens, [B][K]."""
        return [[self.pieces.decode(ids) for ids in own] for own in tokens.tolist()]

    def tokens_of(self, captions: Sequence[str], max_length: int | None = None) -> Tensor:
        """Return the tokens of captions, [N, L]."""
        longest = min(max_length or self.config.positions, self.config.positions)
        ids = [torch.tensor(own[:longest]) for own in self.pieces.encode(captions)]
        if not ids:
            return torch.zeros(0, 1, dtype=torch.long)
        return nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=self.pad_id)

    def save(self, folder: Path | str) -> None:
        """Write the model folder, see :mod:`suisei.captioning.caption_folder`."""
        save_captioner(self, Path(folder))

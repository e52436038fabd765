"""DualEncoder: images and captions in one space, with any open_clip model.

Shape letters: N items, U unique items, L tokens, d width of the shared space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from suisei.data.images import check_unchanged, content_keys
from suisei.encoders.batch_sizes import images_per_batch
from suisei.encoders.decoding import decoded_batches
from suisei.encoders.locks import Lock
from suisei.encoders.memory import FeatureMemory
from suisei.encoders.precision import DTYPES, check_tf32, matrix_products, of_images
from suisei.progress import progress_bar
from suisei.ranges import Word, check

if TYPE_CHECKING:
    from PIL.Image import Image

    from suisei.data.image_bytes import ImageBytes

_JAPANESE_PROBE = "犬が公園で走っている写真"


class DualEncoder:
    """A CLIP-like pair with its tokenizer and its image preprocessing.

    Args:
        model: an open_clip model.
        tokenizer: texts -> int64 [N, L], padded; open_clip's for the model.
        transform: PIL image -> float32 [3, s, s]; open_clip's for the model.
        name: the model's name, for signatures.
        weights: pretraining tag, checkpoint hash or seed, for signatures.
        precision: "fp32", "tf32", "bf16" or "fp16"; the lower ones run under autocast. "int8" is fp32 here.
        device: a torch device.
        architecture: open_clip's description of the model, where it is to be saved.

    Attributes:
        memory: where features are kept from call to call; None, as it must be while the weights change.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Callable[[list[str]], Tensor],
        transform: Callable[[Any], Tensor],
        *,
        name: str,
        weights: str,
        precision: str = "fp32",
        device: str = "cpu",
        architecture: dict[str, Any] | None = None,
    ) -> None:
        check("precision", precision, Word(tuple(DTYPES)))
        check_tf32(precision, device)
        self.memory: FeatureMemory | None = None
        self.compiled = False
        self.device = torch.device(device)
        self.model: Any = model.eval().to(self.device)
        self.tokenizer = tokenizer
        self._lock = Lock()
        self.transform = transform
        self.name = name
        self.weights = weights
        self.precision = of_images(precision)
        self.architecture = architecture

    def settings(self) -> dict[str, str]:
        """Return what decides the features, for a metric's signature."""
        given = getattr(self.model.visual, "preprocess_cfg", {})
        steps = [str(given.get("interpolation")), str(given.get("resize_mode")), str(given.get("size"))]
        return {
            "model": self.name,
            "weights": self.weights,
            "preprocess": "-".join(steps).replace(" ", ""),
            "precision": self.precision + ("-compiled" if self.compiled else ""),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.compiled:  # what was compiled is not pickled
            self.compile()

    def tokenize(self, texts: Sequence[str], **options: Any) -> Tensor:
        """Return token ids int64 [N, L], padded; threads take turns, for a tokenizer may keep its options."""
        with self._lock:
            return self.tokenizer(list(texts), **options)

    def compile(self) -> None:
        """Compile both towers: slow at first, then faster."""
        self.compiled = True
        text = getattr(self.model, "text", None) or self.model.transformer
        for tower in (self.model.visual, text):
            tower.compile(dynamic=True)

    @property
    def reads_japanese(self) -> bool:
        """Whether the tokenizer knows Japanese, rather than falling back to bytes or unknowns.

        OpenAI's vocabulary was built on English; it spends about two tokens on every Japanese
        character and its model has seen next to none of them.
        """
        from open_clip import SimpleTokenizer

        if isinstance(self.tokenizer, SimpleTokenizer):
            return False
        inner = getattr(self.tokenizer, "tokenizer", None)
        if inner is None:
            return True  # a tokenizer of the caller's own
        with self._lock:
            pieces = inner.tokenize(_JAPANESE_PROBE)
        return len(pieces) <= len(_JAPANESE_PROBE) and inner.unk_token not in pieces

    def encode_images(
        self,
        sources: Sequence[str | Path | Image | ImageBytes],
        *,
        batch_size: int = 64,
        progress: bool = False,
    ) -> np.ndarray:
        """Encode images, each different one once.

        Args:
            sources: N paths or PIL images.
            batch_size: images per forward pass at most; never changes a feature beyond rounding.
            progress: whether to show a progress bar on standard error.

        Returns:
            float32 [N, d], not normalised, in input order.

        Raises:
            DataError: an image cannot be read.
        """
        keys = content_keys(sources)
        first: dict[str, int] = {}
        for position, key in enumerate(keys):
            first.setdefault(key, position)

        def encode(some: list[tuple[str, Any]]) -> Tensor:
            size = min(batch_size, images_per_batch(self.model.visual, self.device.type))
            own = [source for _, source in some]
            pixels = decoded_batches(own, self.transform, size)
            with self._computing(), progress_bar("encoding images", len(some), shown=progress) as advance:
                batches = []
                for batch in pixels:
                    batches.append(self._forward(self.model.encode_image, batch))
                    advance(len(batch))
            check_unchanged([key for key, _ in some], own)
            return torch.cat(batches)

        unique = [(key, sources[position]) for key, position in first.items()]
        rows = {key: row for row, key in enumerate(first)}
        return self._look_up("images", list(first), unique, encode)[[rows[key] for key in keys]]

    def encode_texts(
        self, texts: Sequence[str], *, prompt: str = "", batch_size: int = 256, progress: bool = False
    ) -> np.ndarray:
        """Encode texts, each different one once, longest first.

        A text over the context length is cut, and its last token is then the end of text, as in
        OpenAI's ``clip.tokenize(..., truncate=True)``.

        Args:
            texts: N texts.
            prompt: put before every text as it is, so it ends with a space where one is wanted.
            batch_size: texts per forward pass; never changes a feature beyond rounding.
            progress: whether to show a progress bar on standard error.

        Returns:
            float32 [N, d], not normalised, in input order.
        """
        unique = list(dict.fromkeys(texts))

        def encode(some: list[str]) -> Tensor:
            tokens = self.tokenize([prompt + text for text in some])
            order = torch.argsort(_lengths(tokens), descending=True, stable=True)
            batches = []
            with self._computing(), progress_bar("encoding captions", len(some), shown=progress) as advance:
                for rows in order.split(batch_size):
                    batches.append(self._forward(self._encode_tokens, tokens[rows]))
                    advance(len(rows))
            return torch.cat(batches)[torch.argsort(order)]

        features = self._look_up("texts", [prompt + text for text in unique], unique, encode)
        position = {text: row for row, text in enumerate(unique)}
        return features[[position[text] for text in texts]]

    def _look_up(
        self, kind: str, keys: list[str], items: list[Any], encode: Callable[..., Tensor]
    ) -> np.ndarray:
        """Return float32 [len(items), d] of different items, from memory where this encoder has one."""
        if not items:
            return np.zeros((0, 0), dtype=np.float32)
        found = encode(items) if self.memory is None else self.memory.look_up(kind, keys, items, encode)
        return found.numpy()

    def _encode_tokens(self, tokens: Tensor) -> Tensor:
        """Encode int64 [N, L]; what cannot reach the pooled token is not computed."""
        if not is_causal(self.model):
            return self.model.encode_text(without_padding(self.model, tokens))
        model = self.model
        length = int(tokens.argmax(dim=-1).max()) + 1  # the end of text has the highest id
        short = tokens[:, :length]
        states = causal_states(model, short)
        pooled = states[torch.arange(len(short), device=short.device), short.argmax(dim=-1)]
        return projected(model.text_projection, pooled)

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Compute in this encoder's precision; weights are then converted once for all batches."""
        dtype, low = DTYPES[self.precision], DTYPES[self.precision] != torch.float32
        with matrix_products(self.precision), torch.autocast(self.device.type, dtype, enabled=low):
            yield

    @torch.inference_mode()
    def _forward(self, encode: Callable[[Tensor], Tensor], batch: Tensor) -> Tensor:
        return encode(batch.to(self.device)).float().cpu()


def normalised(features: np.ndarray) -> np.ndarray:
    """Return float features [N, d] scaled to unit length; a zero vector stays zero."""
    lengths = np.sqrt((features * features).sum(axis=-1, keepdims=True))
    return features / np.where(lengths > 0, lengths, 1)


def without_padding(model: Any, tokens: Tensor) -> Tensor:
    """Return tokens [N, L] without the columns that are padding in every row, where the tower masks them."""
    padding = getattr(getattr(getattr(model, "text", None), "config", None), "pad_token_id", None)
    if padding is None:  # not a Hugging Face tower
        return tokens
    return tokens[:, : max(1, int((tokens != padding).sum(dim=-1).max()))]


def is_causal(model: Any) -> bool:
    """Whether the text tower is CLIP's own: causal attention, pooled at the end of text."""
    from open_clip import CLIP

    mask = getattr(model, "attn_mask", None)
    return type(model) is CLIP and model.text_pool_type == "argmax" and mask is not None


def causal_states(model: Any, tokens: Tensor) -> Tensor:
    """Return the states of CLIP's own text tower before its projection, float [N, L, h], of int64 [N, L]."""
    length = tokens.shape[1]
    states = model.token_embedding(tokens) + model.positional_embedding[:length]
    after: Tensor = model.ln_final(model.transformer(states, attn_mask=model.attn_mask[:length, :length]))
    return after


def projected(projection: nn.Module | Tensor | None, states: Tensor) -> Tensor:
    """Return states float [..., h] projected to [..., d] by a layer or a matrix, if open_clip has one."""
    if projection is None:
        return states
    found: Tensor = projection(states) if isinstance(projection, nn.Module) else states @ projection
    return found


def _lengths(tokens: Tensor) -> Tensor:
    """Return the number of tokens of each row that differ from its last one, which pads all but full rows."""
    return (tokens != tokens[:, -1:]).sum(dim=-1)

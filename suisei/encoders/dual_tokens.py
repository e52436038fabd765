"""The token-level side of a dual encoder: every token of a caption in the shared space.

Shape letters: N captions, L tokens of a caption with its start and end, d width of the shared space.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suisei.encoders.dual import DualEncoder, causal_states, is_causal, projected
from suisei.errors import ConfigError


@dataclass(frozen=True, slots=True)
class TokenFeatures:
    """One caption, token by token; nothing is normalised.

    Attributes:
        ids: token ids int64 [L], from the start of text to the end of text.
        tokens: float32 [L, d], after the final layer norm and the projection.
        pooled: float32 [d], what :meth:`DualEncoder.encode_texts` gives for the caption.
    """

    ids: np.ndarray
    tokens: np.ndarray
    pooled: np.ndarray


@dataclass(frozen=True, slots=True)
class TokenRows:
    """Tokenised captions.

    Attributes:
        ids: int64 [N, context length], padded.
        lengths: int64 [N], tokens of each caption with its start and end.
        cut: bool [N], whether a caption was longer than the context.
    """

    ids: Tensor
    lengths: Tensor
    cut: Tensor


def tokenize(encoder: DualEncoder, texts: Sequence[str], *, prompt: str = "") -> TokenRows:
    """Tokenise captions for a dual encoder, and say which of them did not fit.

    Args:
        encoder: the dual encoder.
        texts: N captions, N >= 1.
        prompt: put before every caption as it is.

    Raises:
        ConfigError: a text tower whose tokens do not lie in the shared space.
    """
    from open_clip.tokenizer import HFTokenizer, SimpleTokenizer

    _check_tower(encoder)
    given = [prompt + text for text in texts]
    ids = encoder.tokenize(given)
    lengths = _lengths(encoder, ids)
    cut = torch.zeros(len(ids), dtype=torch.bool)
    full = torch.nonzero(lengths == ids.shape[1]).flatten().tolist()
    if full and isinstance(encoder.tokenizer, HFTokenizer | SimpleTokenizer):
        cut[full] = _cut(encoder, [given[row] for row in full])
    return TokenRows(ids, lengths, cut)


def overlong_texts(encoder: DualEncoder, texts: Iterable[str], *, prompt: str = "") -> set[str]:
    """Return the texts that a dual encoder cuts, because they have more tokens than it reads.

    Args:
        encoder: the dual encoder; one whose tokenizer cannot tell is taken to cut none.
        texts: the texts.
        prompt: put before every text as it is.
    """
    from open_clip.tokenizer import HFTokenizer, SimpleTokenizer

    tokenizer = getattr(encoder, "tokenizer", None)
    if not isinstance(tokenizer, HFTokenizer | SimpleTokenizer) or not tokenizer.context_length:
        return set()
    # A token stands for at least one byte, and two mark the ends: most captions need no tokenizer.
    long = sorted(text for text in texts if len((prompt + text).encode()) > tokenizer.context_length - 2)
    if not long:
        return set()
    cut = _cut(encoder, [prompt + text for text in long]).tolist()
    return {text for text, is_cut in zip(long, cut, strict=True) if is_cut}


def _cut(encoder: DualEncoder, texts: list[str]) -> Tensor:
    """Return whether texts, with their prompt, have more tokens than the tokenizer keeps, bool [N]."""
    from open_clip.tokenizer import SimpleTokenizer

    tokenizer: Any = encoder.tokenizer
    ids = encoder.tokenize(texts, context_length=tokenizer.context_length + 1)
    if isinstance(tokenizer, SimpleTokenizer):
        return ids.argmax(dim=-1) + 1 > tokenizer.context_length  # the end of text has the highest id
    return (ids != (tokenizer.tokenizer.pad_token_id or 0)).sum(dim=-1) > tokenizer.context_length


def encode_tokens(
    encoder: DualEncoder, texts: Sequence[str], *, prompt: str = "", batch_size: int = 256
) -> list[TokenFeatures]:
    """Encode captions token by token, each different one once, longest first.

    Args:
        encoder: a dual encoder whose text tower is CLIP's own, or a Hugging Face encoder. In the
            latter the projection is applied to every token as it is to the pooled one.
        texts: N captions.
        prompt: put before every caption as it is.
        batch_size: captions per forward pass; never changes a feature beyond rounding.

    Returns:
        One entry per caption, in input order.

    Raises:
        ConfigError: another kind of text tower.
    """
    unique = list(dict.fromkeys(texts))
    if not unique:
        return []
    rows = tokenize(encoder, unique, prompt=prompt)
    found: dict[str, TokenFeatures] = {}
    order = torch.argsort(rows.lengths, descending=True, stable=True)
    for chosen in order.split(batch_size):
        longest = int(rows.lengths[chosen].max())
        batch = rows.ids[chosen, :longest]
        with encoder._computing():
            features = encoder._forward(_encode_function(encoder, rows.lengths[chosen]), batch).numpy()
        for position, row in enumerate(chosen.tolist()):
            length = int(rows.lengths[row])
            found[unique[row]] = TokenFeatures(
                batch[position, :length].numpy(),
                features[position, 1 : length + 1].copy(),
                features[position, 0].copy(),
            )
    return [found[text] for text in texts]


def _encode_function(encoder: DualEncoder, lengths: Tensor) -> Any:
    """Return what encodes int64 [N, L] to [N, 1 + L, d]: the pooled feature, then every token."""
    model = encoder.model
    if not is_causal(model):
        return lambda batch: _encode_hugging_face(model.text, batch)

    def encode(batch: Tensor) -> Tensor:
        tokens = projected(model.text_projection, causal_states(model, batch))
        pooled = tokens[torch.arange(len(tokens)), lengths - 1]
        return torch.cat([pooled[:, None], tokens], dim=1)

    return encode


def _encode_hugging_face(tower: Any, batch: Tensor) -> Tensor:
    mask = (batch != tower.config.pad_token_id).long()
    output = tower.transformer(input_ids=batch, attention_mask=mask)
    pooled = tower.proj(tower.pooler(output, mask))
    return torch.cat([pooled[:, None], tower.proj(output.last_hidden_state)], dim=1)


def _lengths(encoder: DualEncoder, ids: Tensor) -> Tensor:
    if is_causal(encoder.model):
        return ids.argmax(dim=-1) + 1  # the end of text has the highest id
    return (ids != encoder.model.text.config.pad_token_id).sum(dim=-1)


def _check_tower(encoder: DualEncoder) -> None:
    from open_clip.hf_model import HFTextEncoder

    if not is_causal(encoder.model) and not isinstance(getattr(encoder.model, "text", None), HFTextEncoder):
        raise ConfigError(
            f"the text tower of {encoder.name} gives no features of single tokens; use a CLIP model such as "
            "ViT-B-32, or one with a Hugging Face text encoder"
        )

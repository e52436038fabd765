"""BERT's encoder in plain PyTorch, for scoring with a model whose weights are at hand.

BERT, RoBERTa, XLM-RoBERTa and CamemBERT share it. Importing transformers takes longer than scoring a
thousand captions and a third of a gigabyte; the names of the weights here are the same, and so are the
numbers. Shape letters: T captions, L tokens (padded), N tokens of all captions together, d width.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from suisei.encoders.attention import Attend, Packing, Padded
from suisei.encoders.dropout import dropout
from suisei.encoders.half_weights import waits_for_calls

_ROBERTA = ("roberta", "xlm-roberta", "camembert")
_SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
    "layer_norm_eps",
    "pad_token_id",
)


def is_bert(settings: Mapping[str, Any]) -> bool:
    """Return whether transformers' settings, as in a ``config.json``, describe what is built here."""
    return (
        settings.get("model_type") in ("bert", *_ROBERTA)
        and all(settings.get(name) is not None for name in _SIZES)
        and settings.get("hidden_act") == "gelu"
        and settings.get("position_embedding_type", "absolute") == "absolute"
        and not settings.get("is_decoder")
        and not settings.get("add_cross_attention")
    )


@dataclass
class Encoded:
    """What the encoder returns.

    Attributes:
        last_hidden_state: [T, L, d].
        hidden_states: the embeddings and every layer where they are asked for, each [T, L, d].
    """

    last_hidden_state: Tensor
    hidden_states: tuple[Tensor, ...]


class BertEncoder(nn.Module):
    """Embeddings and layers of self-attention, each sum normalised afterwards (Devlin et al., 2019).

    In training, embeddings, hidden states and attention are dropped as the settings say.

    Args:
        settings: transformers' settings of the encoder, for which :func:`is_bert` holds.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self._describe(settings)
        self.embeddings = _Embeddings(self.config)
        layers = nn.ModuleList(_Layer(self.config) for _ in range(self.config.num_hidden_layers))
        self.encoder = nn.ModuleDict({"layer": layers})

    def _describe(self, settings: Mapping[str, Any]) -> None:
        self.settings = dict(settings)
        self.config = SimpleNamespace(
            **{"is_encoder_decoder": False, "name_or_path": "", **settings}, to_diff_dict=self.settings.copy
        )

    def lower(self, depth: int) -> BertEncoder:
        """Return an encoder of these embeddings and the first ``depth`` of these layers, not of copies."""
        view = BertEncoder.__new__(BertEncoder)
        nn.Module.__init__(view)
        view._describe({**self.settings, "num_hidden_layers": depth})
        view.embeddings, view.encoder = self.embeddings, nn.ModuleDict({"layer": self.layers[:depth]})
        return view.train(self.training)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, output_hidden_states: bool = False
    ) -> Encoded:
        """Encode int64 [T, L], padded on the right where the mask [T, L] is 0."""
        depths = range(len(self.layers) + 1) if output_hidden_states else ()
        last, states = self.passing(input_ids, attention_mask, depths)
        return Encoded(last, tuple(states.values()))

    def passing(self, ids: Tensor, mask: Tensor, depths: Collection[int]) -> tuple[Tensor, dict[int, Tensor]]:
        """Return the last hidden state [T, L, d], and those after some numbers of layers, 0 for none."""
        states, attend = self.embeddings(ids), Padded(mask).attend
        found = {0: states} if 0 in depths else {}
        for depth, layer in enumerate(self.layers, 1):
            states = layer(states, attend)
            if depth in depths:
                found[depth] = states
        return states, found

    @property
    def layers(self) -> nn.ModuleList:
        """The layers, first to last."""
        return cast(nn.ModuleList, self.encoder["layer"])

    def get_input_embeddings(self) -> nn.Module:
        """Return what holds the word vectors, by transformers' name."""
        words: nn.Module = self.embeddings.word_embeddings
        return words

    def set_input_embeddings(self, words: nn.Module) -> None:
        """Put something else in its place."""
        self.embeddings.word_embeddings = words  # type: ignore[assignment]

    def below(self, ids: Tensor, mask: Tensor, trained: int) -> Tensor:
        """Return what the layers below the last ``trained`` ones say, [T, L, d]."""
        states: Tensor = self.embeddings(ids)
        for layer in self.layers[: len(self.layers) - trained]:
            states = layer(states, Padded(mask).attend)
        return states

    def packed(self, ids: Tensor, packing: Packing) -> list[Tensor]:
        """Return the embeddings of int64 [T, L], packed, and what every layer makes of them, [N, d] each."""
        embeddings = self.embeddings
        positions = embeddings.positions(ids).expand_as(ids)
        states = embeddings.of(packing.pack(ids), packing.pack(positions))
        return [states, *self.above(states, packing, len(self.layers))]

    def above(self, states: Tensor, packing: Packing, trained: int) -> list[Tensor]:
        """Return what each of the last ``trained`` layers makes of the packed states [N, d] below them."""
        found = []
        for layer in self.layers[len(self.layers) - trained :]:
            states = layer(states, packing.attend)
            found.append(states)
        return found


def _dropout(config: SimpleNamespace, name: str) -> float:
    """Return the probability that the settings name, which scoring never reads; 0 where it is none."""
    value = getattr(config, name, None)
    return float(value) if isinstance(value, int | float) and 0 <= value < 1 else 0.0


class _Embeddings(nn.Module):
    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        width = config.hidden_size
        self.pad = config.pad_token_id
        self.dropout = _dropout(config, "hidden_dropout_prob")
        self.counts_from_pad = config.model_type in _ROBERTA
        self.word_embeddings = nn.Embedding(config.vocab_size, width)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)

    def forward(self, ids: Tensor) -> Tensor:
        """Embed int64 [T, L], [T, L, d]."""
        return self.of(ids, self.positions(ids))

    def positions(self, ids: Tensor) -> Tensor:
        """Return the positions of int64 [T, L], of the same shape or [1, L]."""
        if not self.counts_from_pad:
            return torch.arange(ids.shape[1], device=ids.device)[None]
        real = ids.ne(self.pad).long()  # the first token's position is the one after the padding's
        return real.cumsum(dim=1) * real + self.pad

    def of(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Embed tokens int64 [...] at their positions, [..., d]."""
        summed = self.word_embeddings(ids) + self.token_type_embeddings.weight[0]
        normalised: Tensor = self.LayerNorm(summed + self.position_embeddings(positions))
        return dropout(normalised, self.dropout) if self.training else normalised


class _Layer(nn.Module):
    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.heads = config.num_attention_heads
        self.dropout = _dropout(config, "hidden_dropout_prob")
        self.attention_dropout = _dropout(config, "attention_probs_dropout_prob")
        names = ("query", "key", "value")
        self.attention = nn.ModuleDict(
            {
                "self": nn.ModuleDict({name: nn.Linear(width, width) for name in names}),
                "output": _added(width, width, config),
            }
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, inner)})
        self.output = _added(inner, width, config)

    def forward(self, states: Tensor, attend: Attend) -> Tensor:
        """Transform [T, L, d] or [N, d]."""
        attention: Any = self.attention
        parts = attention["self"].values()
        learning = waits_for_calls(states) and torch.is_grad_enabled()
        query, key, value = at_once(states, *parts) if learning else (part(states) for part in parts)
        share, dropped = (self.dropout, self.attention_dropout) if self.training else (0.0, 0.0)
        attended = attend(query, key, value, self.heads, dropped)
        states = _add(attention["output"], attended, states, share)
        return _add(self.output, F.gelu(self.intermediate["dense"](states)), states, share)


def at_once(states: Tensor, *parts: nn.Linear) -> Sequence[Tensor]:
    """Return what linear layers of one shape make of states [..., d], by one product.

    In training that is fewer calls for a GPU, which with the few tokens of captions waits for them.
    """
    weight = torch.cat([part.weight for part in parts])
    return F.linear(states, weight, torch.cat([part.bias for part in parts])).chunk(len(parts), dim=-1)


def _added(inner: int, width: int, config: SimpleNamespace) -> nn.ModuleDict:
    norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
    return nn.ModuleDict({"dense": nn.Linear(inner, width), "LayerNorm": norm})


def _add(parts: nn.ModuleDict, change: Tensor, states: Tensor, share: float) -> Tensor:
    changed = dropout(parts["dense"](change), share)
    normalised: Tensor = parts["LayerNorm"](changed + states)
    return normalised

"""From the hidden states of every layer to a few vectors per caption.

Shape letters: T captions, L tokens (padded), S encoder states (embedding output and every layer, or
the last layer alone), P poolings, d encoder width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from suisei.encoders.half_weights import waits_for_calls
from suisei.errors import ConfigError
from suisei.models.poolings import POOLINGS


def pooling_weights(pooling: str, attention_mask: Tensor, idf: Tensor) -> Tensor:
    """Return the weight of every token in a pooled vector, [T, L].

    "mean" averages all tokens that are not padding, special tokens included. "idf" multiplies by the
    token's idf and divides by the number of tokens, not by the sum of idf (SuiSei, equation 3 and the
    research code); "idf-normalised" divides by the sum of idf, falling back to the mean where every
    token weighs nothing.

    Args:
        pooling: one of POOLINGS.
        attention_mask: 1 for tokens, 0 for padding, [T, L].
        idf: the idf weight of every token, [T, L].

    Raises:
        ConfigError: there is no such pooling.
    """
    if pooling not in POOLINGS:
        raise ConfigError(f"no pooling {pooling!r}; there are: {', '.join(POOLINGS)}")
    return POOLINGS[pooling].weigh(attention_mask.to(idf.dtype), idf)


def pool_layers(
    states: Sequence[Tensor],
    attention_mask: Tensor,
    idf: Tensor,
    poolings: Sequence[str],
    *,
    normalise: bool = True,
) -> Tensor:
    """Pool every layer: hidden states S x [T, L, d] to [T, S, P, d].

    Each token's vector is normalised on its own (zero mean, unit variance over d), so a caption's
    features never depend on the batch it is in. Pooling is linear and comes before the layer mix,
    which is linear too: the order changes nothing but the cost, and pooled layers are small enough
    to be kept when the encoder is frozen.
    """
    weights = torch.stack([pooling_weights(name, attention_mask, idf) for name in poolings], dim=1)
    if waits_for_calls(states[0]) and torch.is_grad_enabled():  # in training alone: it takes memory
        return _pooled(torch.stack(list(states), dim=1), weights[:, None], normalise=normalise)
    return torch.stack([_pooled(state, weights, normalise=normalise) for state in states], dim=1)


def _pooled(states: Tensor, weights: Tensor, *, normalise: bool) -> Tensor:
    """Pool hidden states [T, ..., L, d] by weights [T, ..., P, L] to [T, ..., P, d]."""
    states = states.float()  # encoders may compute in half precision, what follows does not
    if normalise:
        states = F.layer_norm(states, states.shape[-1:])
    with torch.autocast(states.device.type, enabled=False):
        return weights.to(states.dtype) @ states


class LayerMix(nn.Module):
    """Learned softmax mixture of encoder states with a common scale.

    In training each state is left out of the mixture with probability ``dropout``, so that the
    mixture does not settle on one layer (the scalar mix of ELMo, as COMET uses it).
    """

    def __init__(self, states: int, dropout: float = 0.1) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise ConfigError(f"layer dropout must be in [0, 1), got {dropout}")
        self.logits = nn.Parameter(torch.zeros(states))
        self.scale = nn.Parameter(torch.ones(()))
        self.dropout = dropout

    def forward(self, pooled: Tensor) -> Tensor:
        """Mix [T, S, P, d] over S to [T, P, d]."""
        logits: Tensor = self.logits
        if self.training and self.dropout > 0 and len(logits) > 1:
            drop = torch.rand_like(logits) < self.dropout
            if not bool(drop.all()):
                logits = logits.masked_fill(drop, -torch.inf)
        mixture = torch.softmax(logits, dim=0).to(pooled.dtype)
        rows = mixture.expand(len(pooled), 1, -1)  # a product per caption copies nothing, an einsum does
        mixed = torch.bmm(rows, pooled.flatten(2)).view(len(pooled), *pooled.shape[2:])
        return self.scale.to(pooled.dtype) * mixed

"""The arithmetic of self-critical training: what a caption is worth against others, and how far a model went.

Shape letters: B images, K captions of an image, L tokens of a caption, V pieces of the vocabulary.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

BASELINES = ("beam-mean", "greedy", "sample-mean")
"""Which captions are rewarded, and against what: the beams of a search against their mean reward (Cornia et
al., 2020, whose search is that of suisei's captioners; those of Hugging Face have that of transformers);
captions drawn at random against the greedy one (Rennie et al., 2017, equation 9), or against their mean."""


def advantages(rewards: np.ndarray, baseline: str) -> tuple[np.ndarray, np.ndarray]:
    """Return by how much each caption's reward exceeds its image's baseline, and the baseline.

    A mean is over the captions of the image that have a reward. Where there is no baseline (the greedy
    caption has no reward, or fewer than two captions of a mean have one), the image teaches nothing; nor
    does it where all of them are worth the same, whose advantages are 0.

    Args:
        rewards: float64 [B, K]; NaN where a caption has none. With "greedy" one more column, [B, K + 1]: the
            last is the greedy caption's.
        baseline: one of BASELINES.

    Returns:
        Advantages float64 [B, K], NaN where there is none, and baselines float64 [B].
    """
    if baseline == "greedy":
        rewards, base = rewards[:, :-1], rewards[:, -1]
    else:
        there = ~np.isnan(rewards)
        counts = there.sum(axis=1)
        base = np.full(len(rewards), np.nan)
        np.divide(np.where(there, rewards, 0.0).sum(axis=1), counts, out=base, where=counts > 1)
        # A mean lies between its values; rounding puts that of equal ones beside them.
        base = base.clip(np.fmin.reduce(rewards, axis=1), np.fmax.reduce(rewards, axis=1))
    return rewards - base[:, None], base


def teach_nothing(advantage: np.ndarray) -> np.ndarray:
    """Return of which images no caption is worth more or less than the baseline, bool [B].

    Args:
        advantage: float64 [B, K]; NaN where a caption has none.
    """
    different = np.nan_to_num(advantage, nan=0.0) != 0
    return ~different.any(axis=1)


def policy_loss(log_probs: Tensor, advantage: np.ndarray, length: int) -> Tensor:
    """Return minus the mean over captions of advantage times log probability.

    Its gradient is minus that of the expected reward (Rennie et al., 2017, equation 8) of captions drawn from
    the distribution that the log probabilities are of.

    Args:
        log_probs: of the tokens at the temperature they were drawn at, float32 [B, K, L], 0 after the end.
        advantage: float64 [B, K]; NaN for captions that are left out.
        length: what the sum over tokens is divided by, the same for all captions.
    """
    weights = torch.from_numpy(np.nan_to_num(advantage, nan=0.0)).to(log_probs)
    counted = max(1, int((~np.isnan(advantage)).sum()))
    return -(weights * log_probs.sum(dim=-1)).sum() / (counted * length)


def token_log_probs(
    logits: Tensor, tokens: Tensor, pad_id: int, end_id: int, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Return the log probabilities of all tokens, and of those that were written at a temperature.

    Args:
        logits: [B, K, L, V].
        tokens: int64 [B, K, L].
        pad_id: padding.
        end_id: the end of a caption.
        temperature: what divided the logits when the captions were drawn.

    Returns:
        float32 [B, K, L, V], at temperature 1, and [B, K, L], at the temperature, with 0 after the end.
    """
    all_tokens = logits.float().log_softmax(dim=-1)
    drawn = all_tokens if temperature == 1 else (logits.float() / temperature).log_softmax(dim=-1)
    padding = tokens == pad_id
    wanted = tokens.masked_fill(padding, end_id)[..., None]
    return all_tokens, drawn.gather(-1, wanted)[..., 0].masked_fill(padding, 0.0)


def divergence(log_probs: Tensor, start: Tensor, written: Tensor) -> Tensor:
    """Return the mean over written tokens of the KL divergence from the start model's distribution to ours.

    Args:
        log_probs: of all tokens, float32 [B, K, L, V], with gradient.
        start: the same of the start model.
        written: which tokens count, bool [B, K, L].
    """
    possible = torch.isfinite(log_probs) & torch.isfinite(start)
    gap = (log_probs - start).masked_fill(~possible, 0.0)
    each = (log_probs.exp() * gap).sum(dim=-1)
    return each.masked_fill(~written, 0.0).sum() / written.sum().clamp(min=1)

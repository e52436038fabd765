"""Contrastive losses of dual encoders: symmetric InfoNCE and its positive-augmented form.

Shape letters: N pairs of a batch over all processes, n of one process, d width of the shared space.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from suisei.errors import ConfigError

MAX_SCALE = math.log(100)
"""Largest logarithm of 1 / tau, as CLIP's training clips it."""


def symmetric_info_nce(
    images: Tensor, texts: Tensor, scale: Tensor | float, owners: Tensor | None = None
) -> Tensor:
    """Symmetric InfoNCE of images and their texts: every other item of the batch is a negative.

    Equations 2 and 3 of Sarto et al. (2023): the sum, not the mean, of the mean cross-entropies of
    finding each image's text and each text's image, over ``cos / tau``. Where images have several texts,
    an image's part is the mean over its texts of the cross-entropy of finding them among all, and
    its least value the logarithm of their number.

    Args:
        images: float [N, d], of any length.
        texts: float [T, d], of any length.
        scale: 1 / tau.
        owners: row of each text's image, int64 [T], every image with one or more; None where row i of
            the texts belongs to row i of the images.

    Returns:
        The loss, a scalar >= 0; its value with nothing learned is about ln N + ln T.
    """
    similarities = scale * F.normalize(texts, dim=-1) @ F.normalize(images, dim=-1).T  # [T, N]
    if owners is None:
        owners = torch.arange(len(images), device=images.device)
    by_text = F.cross_entropy(similarities, owners)
    own = F.log_softmax(similarities, dim=0)[torch.arange(len(texts), device=texts.device), owners]
    counts = torch.bincount(owners, minlength=len(images))
    return by_text - (own / counts[owners]).sum() / len(images)


def positive_augmented_loss(
    images: Tensor,
    texts: Tensor,
    scale: Tensor | float,
    *,
    generated_images: Tensor | None = None,
    generated_texts: Tensor | None = None,
    lambda_v: float = 0.05,
    lambda_t: float = 0.1,
) -> Tensor:
    """Positive-augmented contrastive loss, equation 4 of Sarto et al. (2023).

    ``L(V, T) + lambda_v L(V', T) + lambda_t L(V, T')``: real pairs, generated images with real texts
    and real images with generated texts. A term whose features are not given is left out.

    Args:
        images: features of the real images V, float [N, d].
        texts: features of the real texts T, float [N K, d]: K of the first image, K of the next, ...
        scale: 1 / tau.
        generated_images: features of V', float [N, d].
        generated_texts: features of T', float [N, d].
        lambda_v: weight of the generated images; 0.05 for PAC-S, 0.1 for PAC-S++.
        lambda_t: weight of the generated texts; 0.1 for PAC-S, 0.001 for PAC-S++.

    Raises:
        ConfigError: a negative weight.
    """
    if lambda_v < 0 or lambda_t < 0:
        raise ConfigError(f"lambda_v and lambda_t must not be negative, got {lambda_v} and {lambda_t}")
    each = len(texts) // len(images)
    owners = torch.arange(len(images), device=images.device).repeat_interleave(each)
    loss = symmetric_info_nce(images, texts, scale, owners)
    if generated_images is not None and lambda_v:
        loss = loss + lambda_v * symmetric_info_nce(generated_images, texts, scale, owners)
    if generated_texts is not None and lambda_t:
        loss = loss + lambda_t * symmetric_info_nce(images, generated_texts, scale)
    return loss


def gather_features(features: Tensor) -> Tensor:
    """Return the features of all processes, in rank order, with gradients to the process they are of.

    Every process then computes the loss of the whole batch. The gradients that reach a process's own
    rows are summed over processes; the mean over processes that data-parallel training takes of
    parameter gradients makes up for it, and the result is the gradient of one process with the whole
    batch.

    Args:
        features: float [n, d]; n must be the same in every process.

    Returns:
        float [N, d], or the features themselves where there is one process.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return features
    if torch.distributed.get_world_size() == 1:
        return features
    return _Gather.apply(features)


class _Gather(torch.autograd.Function):
    """All-gather along the first dimension whose gradient is the sum over processes."""

    @staticmethod
    def forward(context: object, features: Tensor) -> Tensor:
        features = features.contiguous()
        parts = [torch.empty_like(features) for _ in range(torch.distributed.get_world_size())]
        torch.distributed.all_gather(parts, features)
        return torch.cat(parts)

    @staticmethod
    def backward(context: object, gradient: Tensor) -> Tensor:
        gradient = gradient.contiguous()
        torch.distributed.all_reduce(gradient)
        own = len(gradient) // torch.distributed.get_world_size()
        rank = torch.distributed.get_rank()
        return gradient[rank * own : (rank + 1) * own]

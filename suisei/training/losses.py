"""A loss that is no number ends a training at once, instead of weights that are none either."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from suisei.errors import ModelError


def require_finite(loss: Tensor, module: nn.Module, place: str, rate: str) -> None:
    """Refuse to go on from a loss that is NaN or infinite.

    Args:
        loss: the loss of a batch, a scalar.
        module: what is trained, for the likely cause.
        place: where in the training it is, such as "epoch 3, step 120".
        rate: the setting that holds the learning rate.

    Raises:
        ModelError: the loss is not finite.
    """
    if bool(torch.isfinite(loss)):
        return
    if _has_finite_weights(module):
        cause = (
            "the weights are finite, so that numbers overflowed on the way: set trainer.precision to 32-true "
            f"or lower {rate}"
        )
    else:
        cause = f"the weights have run away: lower {rate}, or set trainer.gradient_clip_val to 1"
    raise ModelError(f"{place}: the loss is {float(loss.detach())}; {cause}")


def require_finite_weights(module: nn.Module, rate: str) -> None:
    """Refuse to keep trained weights that are NaN or infinite.

    Args:
        module: what was trained.
        rate: the setting that holds the learning rate.

    Raises:
        ModelError: a weight is not finite.
    """
    if not _has_finite_weights(module):
        raise ModelError(
            f"training ended with weights that are not finite, and no model is written: lower {rate}, or set "
            "trainer.precision to 32-true"
        )


def _has_finite_weights(module: nn.Module) -> bool:
    return all(bool(p.detach().isfinite().all()) for p in module.parameters() if p.requires_grad)

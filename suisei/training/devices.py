"""Where models compute outside of the trainer's own steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def moved(model: nn.Module, device: torch.device | str | None) -> Iterator[None]:
    """Have a model on a device for a while; None leaves it where it is.

    The trainer has a model on its device while it fits, and on the CPU before and after.
    """
    if device is None:
        yield
        return
    home = next(model.parameters()).device
    try:
        model.to(device)
        yield
    finally:
        model.to(home)

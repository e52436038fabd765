"""Random numbers of a seed of one's own, which leave those of the program as they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Draw torch's random numbers from a seed inside this block; afterwards they go on as before it.

    ``torch.manual_seed`` would start those of every GPU anew, and nothing puts them back where the block
    draws none there.

    Args:
        seed: of the numbers drawn on the CPU, and on the device.
        device: where else numbers are drawn; where new tensors are made by default.
    """
    place = torch.get_default_device() if device is None else device
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        torch.default_generator.manual_seed(int(seed))  # NumPy's are refused
        if place.type == "cuda":
            with torch.cuda.device(place):
                torch.cuda.manual_seed(seed)
        elif place.type in ("mps", "xpu"):  # which have one generator, seeded and not put back
            torch.get_device_module(place).manual_seed(seed)
        yield

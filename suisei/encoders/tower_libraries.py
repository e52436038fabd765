"""The libraries of image towers, imported when one is first needed."""

from __future__ import annotations

import importlib
from typing import Any


def tower_library(name: str) -> Any:
    """Import open_clip or timm, also where models are made without memory.

    Both bring torchvision along, which PyTorch 2.8 cannot import while another device than the CPU is the
    default.

    Args:
        name: "open_clip" or "timm".
    """
    import torch

    with torch.device("cpu"):
        return importlib.import_module(name)

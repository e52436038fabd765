"""PyTorch's settings for what fp32 products and convolutions are rounded to, one for the whole process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def round_products(tf32: bool) -> Callable[[], None]:
    """Have all fp32 products and convolutions computed in TF32, or none, and return what puts it back.

    PyTorch has two interfaces, the newer since 2.9, and refuses to read the older one where the two disagree:
    both are set, so that whoever reads either inside is answered. A program that set the newer one alone may
    be answered by the older afterwards too. That convolutions and recurrent layers on GPUs are TF32 unless a
    program says otherwise cannot be set again: it is stated afterwards, and a program that then sets all
    parts at once (``torch.backends.fp32_precision``) has to set these too.
    """
    products, convolutions = _products(), _convolutions()
    parts = _parts()
    before = [part.fp32_precision for part in parts]

    def put_back() -> None:
        if products is not None:
            torch.set_float32_matmul_precision(products)
        if convolutions is not None:
            torch.backends.cudnn.allow_tf32 = convolutions
        for part, precision in zip(parts, before, strict=True):
            part.fp32_precision = "none"  # what followed the setting of all parts follows it again
            if part.fp32_precision != precision:
                part.fp32_precision = precision

    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    for part in parts:  # by the older interface they would still follow the setting of all parts
        part.fp32_precision = "tf32" if tf32 else "ieee"
    return put_back


def _products() -> str | None:
    """Return the older interface's setting for matrix products, None where the newer one contradicts it."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


def _convolutions() -> bool | None:
    """Return the older interface's setting for convolutions, None where the newer one contradicts it."""
    try:
        return torch.backends.cudnn.allow_tf32
    except RuntimeError:
        return None


def _parts() -> list[Any]:
    """Return what has a setting of its own by the newer interface; nothing before PyTorch 2.9."""
    backends: Any = torch.backends
    if not hasattr(backends, "fp32_precision"):
        return []
    cudnn, cpu = backends.cudnn, backends.mkldnn
    return [backends.cuda.matmul, cudnn.conv, cudnn.rnn, cpu.matmul, cpu.conv, cpu.rnn]

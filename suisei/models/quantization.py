"""Weights in 8 or 4 bits: how a model folder holds large matrices in a quarter or an eighth of the bytes.

Rounding is symmetric. A row is cut into blocks, each with a scale of its own in half precision; an entry
is ``scale * q`` with a whole number q from -127 to 127 (8 bits) or from -7 to 7 (4 bits). A matrix W is
stored as ``W.q8`` (int8 [rows, columns]) or ``W.q4`` (uint8 [rows, columns / 2]: the even column in the low
half of a byte, the odd one in the high half, 8 added) beside ``W.scale`` (float16 [rows, blocks]).

Models compute in full or half precision: the numbers are unpacked when they are read.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from suisei.errors import ConfigError, ModelError

BITS = (4, 8)
BLOCK = 32
"""Entries that share a scale."""
SUFFIXES = {4: ".q4", 8: ".q8"}
SCALE = ".scale"
_LIMIT = {4: 7, 8: 127}


def quantize(weight: Tensor, bits: int) -> dict[str, Tensor]:
    """Return the parts of a matrix float [rows, columns], by suffix.

    Raises:
        ConfigError: other bits than 4 or 8, no matrix, columns that blocks do not divide, or an entry that
            is not finite.
    """
    if bits not in BITS:
        raise ConfigError(f"weights are stored in 4 or 8 bits, got {bits}")
    if weight.ndim != 2 or weight.shape[1] % BLOCK:
        raise ConfigError(
            f"only matrices whose columns {BLOCK} divides are rounded, got {tuple(weight.shape)}"
        )
    if not weight.isfinite().all():
        raise ConfigError("a weight is not finite; train the model again")
    blocks = weight.detach().float().unflatten(1, (-1, BLOCK))  # [rows, blocks, BLOCK]
    scale = (blocks.abs().amax(dim=2) / _LIMIT[bits]).half()
    step = torch.where(scale > 0, scale.float(), 1.0)[..., None]
    whole = (blocks / step).round().clamp(-_LIMIT[bits], _LIMIT[bits]).to(torch.int8).flatten(1)
    return {SUFFIXES[bits]: _pack(whole) if bits == 4 else whole, SCALE: scale}


def dequantize(parts: Mapping[str, Tensor]) -> Tensor:
    """Return the matrix float32 [rows, columns] whose parts :func:`quantize` gave.

    Raises:
        ModelError: the parts do not belong together.
    """
    scale = parts.get(SCALE)
    stored = [(bits, parts[suffix]) for bits, suffix in SUFFIXES.items() if suffix in parts]
    if scale is None or len(stored) != 1:
        raise ModelError(f"a rounded matrix needs its numbers and its scale, got {', '.join(parts)}")
    bits, numbers = stored[0]
    whole = _unpack(numbers) if bits == 4 else numbers
    if numbers.dtype != (torch.uint8 if bits == 4 else torch.int8) or scale.dtype != torch.float16:
        raise ModelError(f"a rounded matrix of {bits} bits has the types {numbers.dtype} and {scale.dtype}")
    if whole.ndim != 2 or scale.shape != (whole.shape[0], whole.shape[1] // BLOCK) or whole.shape[1] % BLOCK:
        raise ModelError(f"a rounded matrix of {tuple(whole.shape)} has scales of {tuple(scale.shape)}")
    return (whole.unflatten(1, (-1, BLOCK)).float() * scale.float()[..., None]).flatten(1)


def quantize_state(state: Mapping[str, Tensor], bits: Mapping[str, int]) -> dict[str, Tensor]:
    """Return a model's weights with some matrices rounded.

    Args:
        state: {name: weight}.
        bits: {name: 4 or 8} of the matrices to round.

    Raises:
        ConfigError: a name that is not there, or a weight that cannot be rounded; it is named.
    """
    absent = sorted(set(bits) - set(state))
    if absent:
        raise ConfigError(f"no weight {absent[0]!r} to round")
    stored: dict[str, Tensor] = {}
    for name, weight in state.items():
        if name not in bits:
            stored[name] = weight
            continue
        try:
            stored |= {name + suffix: part for suffix, part in quantize(weight, bits[name]).items()}
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from None
    return stored


def dequantize_state(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights that :func:`quantize_state` stored, those that were rounded as float32.

    Raises:
        ModelError: the parts of a matrix do not belong together; it is named.
    """
    names = {key.removesuffix(s): s for key in stored for s in SUFFIXES.values() if key.endswith(s)}
    state = {}
    for key, value in stored.items():
        if not any(key.endswith(suffix) and key.removesuffix(suffix) in names for suffix in _ENDINGS):
            state[key] = value
    for name in names:
        parts = {suffix: stored[name + suffix] for suffix in _ENDINGS if name + suffix in stored}
        try:
            state[name] = dequantize(parts)
        except ModelError as error:
            raise ModelError(f"{name}: {error}") from None
    return state


_ENDINGS = (*SUFFIXES.values(), SCALE)


def _pack(whole: Tensor) -> Tensor:
    """Put int8 [rows, columns] from -7 to 7 into uint8 [rows, columns / 2]."""
    shifted = (whole + 8).to(torch.uint8)
    return shifted[:, 0::2] | (shifted[:, 1::2] << 4)


def _unpack(packed: Tensor) -> Tensor:
    low, high = (packed & 15).to(torch.int8) - 8, (packed >> 4).to(torch.int8) - 8
    return torch.stack([low, high], dim=-1).flatten(-2)

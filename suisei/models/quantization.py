"""Weights in 8 or 4 bits: how a model folder holds large matrices in a quarter or an eighth of the bytes.

A row is cut into blocks of 32, each with a scale of its own in half precision; an entry is ``scale * q`` with
a whole number q. In 8 bits q goes from -127 to 127. In 4 bits it goes from -8 to 7, as in GGML's q4_0, where
the entry of a block that is largest by size becomes -8, whatever its sign: weights that were published on
that grid are stored without any loss. Others get the scale, of a few, that moves the block least. A matrix W
is stored as ``W.q8`` (int8 [rows, columns]) or ``W.q4`` (uint8 [rows, columns / 2]: the even column in the
low half of a byte, the odd one in the high half, 8 added) beside ``W.scale`` (float16 [rows, blocks]).

Training changes a pretrained matrix by far less than a step of such a grid, so rounding the trained matrix
undoes the training. It is stored as a base (the matrix before training, as above) and the change from it, on
a grid of its own: ``W.change4`` or ``W.change8``, from -7 to 7 or from -127 to 127, beside
``W.change_scale`` (float32 [rows], one step per row).

Models compute in full or half precision: the numbers are unpacked when they are read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from suisei.errors import ConfigError, ModelError

BITS = (4, 8)
BLOCK = 32
"""Entries that share a scale."""
SUFFIXES = {4: ".q4", 8: ".q8"}
SCALE = ".scale"
CHANGES = {4: ".change4", 8: ".change8"}
CHANGE_SCALE = ".change_scale"
_ENDINGS = (*SUFFIXES.values(), SCALE, *CHANGES.values(), CHANGE_SCALE)
_LIMIT = {4: 7, 8: 127}
ENDS = (-8, -7, -6, 6, 7, -6.5, -7.5, -8.5, -9, -9.5, -10, 6.5, 7.5, 8, 8.5)
"""What the largest entry of a block may become in 4 bits, before it is rounded and cut off. By the whole ones
among them, what was rounded once is found again."""
_TYPES = {4: torch.uint8, 8: torch.int8}
_BYTES = np.array([[(byte & 15) - 8, (byte >> 4) - 8] for byte in range(256)], np.float32)
_PAIRS = _BYTES.view(np.float64)[:, 0]
"""Both numbers of every byte in 4 bits, side by side in 64: unpacking is much of what loading a small model
takes, and to look them up is the quickest way."""


@dataclass(frozen=True)
class Rounding:
    """How a matrix is stored.

    Attributes:
        bits: 4 or 8, of its entries, or of the base's entries where there is one.
        base: the matrix before training, float [rows, columns]; None rounds the matrix itself.
        change_bits: 4 or 8, of the change from the base.
    """

    bits: int
    base: Tensor | None = None
    change_bits: int = 4


def is_roundable(weight: Tensor) -> bool:
    """Return whether a weight is a matrix that blocks divide."""
    return weight.ndim == 2 and weight.is_floating_point() and not weight.shape[1] % BLOCK


def quantize(weight: Tensor, rounding: Rounding) -> dict[str, Tensor]:
    """Return the parts of a matrix float [rows, columns], by suffix; a change of nothing is no part.

    Raises:
        ConfigError: other bits than 4 or 8, no matrix, columns that blocks do not divide, a base of another
            shape, or an entry that is not finite or too large.
    """
    base = rounding.base
    if base is None:
        return _in_blocks(weight, rounding.bits)
    if base.shape != weight.shape:
        raise ConfigError(f"its base is {tuple(base.shape)}, and it is {tuple(weight.shape)}")
    parts = _in_blocks(base, rounding.bits)
    _check(weight, rounding.change_bits)
    change = weight.detach().float() - dequantize(parts)
    if bool(change.any()):
        limit = _LIMIT[rounding.change_bits]
        scale = change.abs().amax(dim=1) / limit
        whole = (change / _divisor(scale)[:, None]).round().clamp(-limit, limit).to(torch.int8)
        parts |= {CHANGES[rounding.change_bits]: _stored(whole, rounding.change_bits), CHANGE_SCALE: scale}
    return parts


def dequantize(parts: Mapping[str, Tensor], into: Tensor | None = None) -> Tensor:
    """Return the matrix float32 [rows, columns] whose parts :func:`quantize` gave.

    Args:
        parts: the parts.
        into: numbers float32, as many as the matrix has, that become it; by default memory of its own.

    Raises:
        ModelError: the parts do not belong together.
    """
    bits, change_bits = _bits_of(parts, SUFFIXES, SCALE), None
    if bits is None:
        raise ModelError(f"a rounded matrix needs its numbers and its scale, got {', '.join(parts)}")
    if any(suffix in parts for suffix in (*CHANGES.values(), CHANGE_SCALE)):
        change_bits = _bits_of(parts, CHANGES, CHANGE_SCALE)
        if change_bits is None:
            raise ModelError(f"a rounded change needs its numbers and its scale, got {', '.join(parts)}")
    numbers, scale = parts[SUFFIXES[bits]], parts[SCALE]
    shape = _shape(tuple(numbers.shape), bits)
    if numbers.dtype != _TYPES[bits] or scale.dtype != torch.float16:
        raise ModelError(f"a rounded matrix of {bits} bits has the types {numbers.dtype} and {scale.dtype}")
    if len(shape) != 2 or shape[1] % BLOCK or scale.shape != (shape[0], shape[1] // BLOCK):
        raise ModelError(f"a rounded matrix of {shape} has scales of {tuple(scale.shape)}")
    weight = _whole(numbers, bits, into)
    weight.unflatten(1, (-1, BLOCK)).mul_(scale.float()[..., None])
    return weight if change_bits is None else weight.add_(_change(parts, change_bits, shape))


def _change(parts: Mapping[str, Tensor], bits: int, shape: tuple[int, ...]) -> Tensor:
    numbers, scale = parts[CHANGES[bits]], parts[CHANGE_SCALE]
    own = _shape(tuple(numbers.shape), bits)
    if numbers.dtype != _TYPES[bits] or scale.dtype != torch.float32:
        raise ModelError(f"a rounded change of {bits} bits has the types {numbers.dtype} and {scale.dtype}")
    if own != shape or scale.shape != shape[:1]:
        raise ModelError(
            f"a rounded matrix of {shape} has a change of {own} with scales of {tuple(scale.shape)}"
        )
    return _whole(numbers, bits).mul_(scale[:, None])


def quantize_state(state: Mapping[str, Tensor], roundings: Mapping[str, Rounding]) -> dict[str, Tensor]:
    """Return a model's weights with some matrices rounded.

    Args:
        state: {name: weight}.
        roundings: {name: how} of the matrices to round.

    Raises:
        ConfigError: a name that is not there, or a weight that cannot be rounded; it is named.
    """
    absent = sorted(set(roundings) - set(state))
    if absent:
        raise ConfigError(f"no weight {absent[0]!r} to round")
    stored: dict[str, Tensor] = {}
    for name, weight in state.items():
        if name not in roundings:
            stored[name] = weight
            continue
        try:
            parts = quantize(weight, roundings[name])
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from None
        stored |= {name + suffix: part for suffix, part in parts.items()}
    return stored


def dequantize_state(
    stored: Mapping[str, Tensor], types: Mapping[str, torch.dtype] | None = None
) -> dict[str, Tensor]:
    """Return the weights that :func:`quantize_state` stored.

    None shares memory with a part, which may be that of a file.

    Args:
        stored: the parts.
        types: of weights that were rounded; float32 by default. Each is converted before the next is
            unpacked, so that no two are in memory in full precision.

    Raises:
        ModelError: the parts of a matrix do not belong together; it is named.
    """
    rounded, types = _rounded_names(stored), types or {}
    state = {}
    for key, value in stored.items():
        name, suffix = _split(key)
        if not suffix or name not in rounded:
            state[key] = value.clone()
    room = _room(stored, [name for name in rounded if types.get(name, torch.float32) == torch.float32])
    for name in rounded:
        if name in stored:
            raise ModelError(f"{name}: a rounded matrix that is stored whole as well")
        try:
            weight = dequantize(parts_of(stored, name), room.get(name))
        except ModelError as error:
            raise ModelError(f"{name}: {error}") from None
        state[name] = weight if name in room else weight.to(types[name])
    return state


def _room(stored: Mapping[str, Tensor], names: Sequence[str]) -> dict[str, Tensor]:
    """Return memory for the numbers of weights, in one piece.

    NumPy asks for a large piece in pages of 2 MB. In pages of 4 KB, which many small pieces get, most of the
    time of unpacking goes into asking for them. Each weight is a tensor of its own part, not a view of one
    tensor: a view is pickled with all of it.
    """
    shapes = dequantized_shapes({key: tuple(part.shape) for key, part in stored.items()})
    ends = np.cumsum([math.prod(shapes[name]) for name in names], dtype=np.int64)
    pieces = np.split(np.empty(ends[-1] if names else 0, np.float32), ends[:-1])
    return {name: torch.from_numpy(piece) for name, piece in zip(names, pieces, strict=bool(names))}


def parts_of(stored: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """Return the parts of a weight by suffix; nothing where it is stored whole or not at all."""
    return {suffix: stored[name + suffix] for suffix in _ENDINGS if name + suffix in stored}


def dequantized_shapes(stored: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Return {name: shape} of the weights that stored parts of these shapes stand for."""
    rounded = _rounded_names(stored)
    shapes = {}
    for key, shape in stored.items():
        name, suffix = _split(key)
        bits = next((bits for bits, own in SUFFIXES.items() if own == suffix), None)
        if bits is not None:
            shapes[name] = _shape(shape, bits)
        elif not suffix or name not in rounded:
            shapes[key] = shape
    return shapes


def is_rounded(stored: Mapping[str, object]) -> bool:
    """Return whether any weight among these names is stored in parts."""
    return bool(_rounded_names(stored))


def _rounded_names(stored: Mapping[str, object]) -> list[str]:
    found = dict.fromkeys(name for name, suffix in map(_split, stored) if suffix in SUFFIXES.values())
    return list(found)


def _split(key: str) -> tuple[str, str]:
    """Return the name of a weight and which part of it a key is of, "" for the whole."""
    for suffix in _ENDINGS:
        if key.endswith(suffix):
            return key.removesuffix(suffix), suffix
    return key, ""


def _bits_of(parts: Mapping[str, Tensor], suffixes: Mapping[int, str], scale: str) -> int | None:
    """Return in how many bits numbers are stored; None unless they are there once, with their scale."""
    found = [bits for bits, suffix in suffixes.items() if suffix in parts]
    return found[0] if len(found) == 1 and scale in parts else None


def _shape(stored: tuple[int, ...], bits: int) -> tuple[int, ...]:
    return (*stored[:-1], 2 * stored[-1]) if bits == 4 and stored else stored


def _check(weight: Tensor, bits: int) -> None:
    if bits not in BITS:
        raise ConfigError(f"weights are stored in 4 or 8 bits, got {bits}")
    if not is_roundable(weight):
        raise ConfigError(
            f"only matrices whose columns {BLOCK} divides are rounded, got {tuple(weight.shape)}"
        )
    if not weight.isfinite().all():
        raise ConfigError("a weight is not finite; train the model again")


def _in_blocks(weight: Tensor, bits: int) -> dict[str, Tensor]:
    _check(weight, bits)
    blocks = weight.detach().float().unflatten(1, (-1, BLOCK))  # [rows, blocks, BLOCK]
    scale = _best_scale(blocks) if bits == 4 else (blocks.abs().amax(dim=2) / _LIMIT[bits]).half()
    if not scale.isfinite().all():
        raise ConfigError("a weight is too large for a scale in half precision; train the model again")
    return {
        SUFFIXES[bits]: _stored(_on_grid(blocks, scale, bits).to(torch.int8).flatten(1), bits),
        SCALE: scale,
    }


def _best_scale(blocks: Tensor) -> Tensor:
    """Return of every block [rows, blocks, BLOCK] the scale that moves it least in 4 bits, float16."""
    ends = blocks.gather(2, blocks.abs().argmax(dim=2, keepdim=True))[..., 0]
    best = (ends / ENDS[0]).half()
    least = _moved(blocks, best)
    for end in ENDS[1:]:
        scale = (ends / end).half()
        moved = _moved(blocks, scale)
        best, least = torch.where(moved < least, scale, best), torch.minimum(moved, least)
    return best


def _moved(blocks: Tensor, scale: Tensor) -> Tensor:
    """Return by how much rounding to 4 bits moves every block, squared."""
    return (_on_grid(blocks, scale, 4) * scale.float()[..., None] - blocks).square().sum(dim=2)


def _on_grid(blocks: Tensor, scale: Tensor, bits: int) -> Tensor:
    """Return the whole numbers of blocks, float32."""
    least = -8 if bits == 4 else -_LIMIT[bits]
    return (blocks / _divisor(scale.float())[..., None]).round().clamp(least, _LIMIT[bits])


def _divisor(scale: Tensor) -> Tensor:
    """Return scales to divide by: 1 where everything is 0."""
    return torch.where(scale != 0, scale, 1.0)


def _stored(whole: Tensor, bits: int) -> Tensor:
    """Put int8 [rows, columns] from -8 to 7 into uint8 [rows, columns / 2]; 8 bits stay as they are."""
    if bits == 8:
        return whole
    shifted = (whole + 8).to(torch.uint8)
    return shifted[:, 0::2] | (shifted[:, 1::2] << 4)


def _whole(numbers: Tensor, bits: int, into: Tensor | None = None) -> Tensor:
    """Return what :func:`_stored` was given, as float32 [rows, columns], in the memory of ``into``."""
    shape = _shape(tuple(numbers.shape), bits)
    # Of NumPy, for PyTorch's own would be of the type and on the device that the program has as its default.
    weight = torch.from_numpy(np.empty(shape, np.float32)) if into is None else into.view(shape)
    if bits == 8:
        return weight.copy_(numbers)
    # A byte is never outside of 256 pairs: "clip" says that nothing need be held back for an error.
    np.take(_PAIRS, numbers.numpy(), out=weight.numpy().view(_PAIRS.dtype), mode="clip")
    return weight

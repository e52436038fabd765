"""What decides the features of an encoder: its weights, how it computes, and the libraries that do it."""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch import Tensor, nn

from suisei.cli import usable_cores

_PASSING = ("training", "name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures")
_LIBRARIES = ("torch", "transformers", "tokenizers", "open_clip_torch", "torchvision", "pillow")


def module_digest(module: nn.Module) -> bytes:
    """Return a hash of every weight and buffer of a module, with its name, type and shape, and of its layers.

    Weights alone do not say how many heads share them, or which function follows.
    """

    def digest(item: tuple[str, Tensor]) -> bytes:
        name, tensor = item
        content = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
        hashed = hashlib.sha256(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        hashed.update(content)  # twice as fast as BLAKE2 where the processor has instructions for it
        return hashed.digest()

    with ThreadPoolExecutor(min(4, usable_cores())) as pool:  # hashing releases the interpreter lock
        parts = pool.map(digest, module.state_dict().items())
        hashed = hashlib.blake2b(b"".join(parts), digest_size=20)
    hashed.update(repr(list(_layers(module))).encode())
    return hashed.digest()


def _layers(module: nn.Module) -> Iterator[tuple[Any, ...]]:
    """Yield the name, kind and settings of every part of a module, and the config of the whole."""
    config: Any = getattr(module, "config", None)
    if hasattr(config, "to_dict"):
        yield ("config", _plain(config.to_dict()))
    for name, part in module.named_modules():
        yield name, type(part).__name__, _plain(vars(part))


def _plain(value: Any) -> Any:
    """Return what a setting says, the same in every process; of other objects their kind."""
    if value is None or isinstance(value, bool | int | float | str | torch.dtype):
        return value
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return sorted((str(key), _plain(each)) for key, each in value.items() if not _is_passing(str(key)))
    if isinstance(value, functools.partial):
        return _plain(value.func), _plain(value.args), _plain(value.keywords)
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType):
        return value.__qualname__
    return type(value).__name__


def _is_passing(key: str) -> bool:
    """Say whether a setting has no part in what is computed."""
    return key.startswith("_") or key in _PASSING


def library_versions() -> tuple[str, ...]:
    """Return the versions of the libraries whose numbers these are."""
    found = []
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return tuple(found)

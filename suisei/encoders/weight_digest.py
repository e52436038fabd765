"""What decides the features of an encoder: its weights, and the libraries that compute with them."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version

import torch
from torch import Tensor, nn

from suisei.cli import usable_cores

_LIBRARIES = ("torch", "transformers", "tokenizers", "open_clip_torch", "torchvision", "pillow")


def module_digest(module: nn.Module) -> bytes:
    """Return a hash of every weight and buffer of a module, with its name, type and shape."""

    def digest(item: tuple[str, Tensor]) -> bytes:
        name, tensor = item
        content = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
        hashed = hashlib.sha256(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        hashed.update(content)  # twice as fast as BLAKE2 where the processor has instructions for it
        return hashed.digest()

    with ThreadPoolExecutor(min(4, usable_cores())) as pool:  # hashing releases the interpreter lock
        parts = pool.map(digest, module.state_dict().items())
        return hashlib.blake2b(b"".join(parts), digest_size=20).digest()


def library_versions() -> tuple[str, ...]:
    """Return the versions of the libraries whose numbers these are."""
    found = []
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return tuple(found)

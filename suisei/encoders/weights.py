"""Reading weight files that others wrote: no code of theirs is ever run."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from suisei.data.checksums import sha256_of
from suisei.encoders.torch_files import TORCH_ERRORS, load_tensors
from suisei.errors import ModelError, one_line

SMALL_MODEL = 10_000_000
"""Numbers that a model may have beyond what its file could hold: they cost little memory."""
SHOWN_KEYS = 5
"""How many keys an error message lists."""

_Model = TypeVar("_Model", bound=nn.Module)


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Read a state dict from safetensors or a PyTorch file, without running anything inside it.

    A training checkpoint's ``state_dict`` entry is unwrapped, and the ``module.`` that
    data-parallel training puts before every key is removed.

    Args:
        path: a ``.safetensors`` file, or a file that ``torch.save`` wrote.

    Returns:
        The tensors on the CPU, by name.

    Raises:
        ModelError: no such file, a pickle that holds more than tensors, or no tensors in it.
    """
    path = Path(path)
    if not path.is_file():
        raise ModelError(f"no checkpoint file at {path}")
    content = _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)
    if isinstance(content, Mapping) and isinstance(content.get("state_dict"), Mapping):
        content = content["state_dict"]
    if not isinstance(content, Mapping):
        raise ModelError(f"{path}: expected a state dict, found {type(content).__name__}")
    tensors = {str(key): value for key, value in content.items() if isinstance(value, Tensor)}
    if not tensors:
        raise ModelError(f"{path}: holds no tensors; its entries: {_some(map(str, content))}")
    if all(key.startswith("module.") for key in tensors):
        tensors = {key.removeprefix("module."): value for key, value in tensors.items()}
    return tensors


def fit_weights(model: nn.Module, tensors: Mapping[str, Tensor], source: str) -> None:
    """Load tensors into a model, every one of them and nothing else.

    Args:
        model: what to load into.
        tensors: the state dict.
        source: where it came from, for the message.

    Raises:
        ModelError: a key is missing or unknown, or a shape differs; a few of each are listed.
    """
    check_fit(model, {key: tuple(tensor.shape) for key, tensor in tensors.items()}, source)
    model.load_state_dict(dict(tensors))


class Unfilled(TorchFunctionMode):
    """Inside this context modules are made without the random numbers that weights begin with.

    For what gets all of its weights from a file: drawing them takes longer than reading a file, and on the
    device "meta" it imports PyTorch's compiler.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Call a function, save for those of ``torch.nn.init``, which return their tensor as it is."""
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)


def built_and_filled(make: Callable[[], _Model], path: Path) -> _Model:
    """Build a model, first without memory, to compare its size with that of its weights, and fill it.

    Args:
        make: builds the model, with whatever weights.
        path: a safetensors file with all of its weights.

    Returns:
        The model in evaluation mode, on the CPU.

    Raises:
        ModelError: as :func:`fit_weights`, or no readable file.
    """
    with torch.device("meta"), Unfilled():
        check_fit(make(), weight_shapes(path), str(path))
    with Unfilled():
        model = make()
    model.load_state_dict(_read_safetensors(path))
    return model.eval()


def take_weights(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Make tensors the weights of a model, without a copy where the type is the same.

    Args:
        model: what has just these weights, see :func:`check_fit`; what it held before is let go.
        tensors: the state dict, which is emptied.
    """
    own = model.state_dict()
    kept = {name: tensors.pop(name).to(own[name].dtype) for name in list(tensors)}
    model.load_state_dict(kept, assign=True)


def filled_by(model: nn.Module, given: Collection[str]) -> bool:
    """Say whether a model on the device "meta" has no tensors there but the weights of these names."""
    for place, module in model.named_modules():
        own = {**vars(module), **module._parameters, **module._buffers}
        names = [name for name, held in own.items() if isinstance(held, Tensor) and held.is_meta]
        if any(f"{place}.{name}".lstrip(".") not in given for name in names):
            return False
    return True


def check_fit(model: nn.Module, given: Mapping[str, tuple[int, ...]], source: str) -> None:
    """Compare the shapes of a file's tensors with those of a model, which may be on the device "meta".

    Args:
        model: what they are for.
        given: {name: shape}.
        source: where they are from, for the message.

    Raises:
        ModelError: as :func:`fit_weights`.
    """
    own = {key: tuple(tensor.shape) for key, tensor in model.state_dict().items()}
    missing = [key for key in own if key not in given]
    unknown = [key for key in given if key not in own]
    shapes = [
        f"{key} {list(given[key])} instead of {list(own[key])}"
        for key in own
        if key in given and given[key] != own[key]
    ]
    problems = [
        f"{len(keys)} {what}: {_some(keys)}"
        for what, keys in (("missing", missing), ("unknown", unknown), ("of another shape", shapes))
        if keys
    ]
    if problems:
        raise ModelError(f"{source} does not fit the model: {'; '.join(problems)}")


def weight_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return {name: shape} of a safetensors file's tensors, from its first bytes alone.

    Raises:
        ModelError: not such a file, or cut off.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return {key: tuple(file.get_slice(key).get_shape()) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path}: not a readable safetensors file: {error}") from None


def check_size(model: nn.Module, path: Path) -> None:
    """Refuse a model on the device "meta" that is far larger than the weights meant for it.

    Raises:
        ModelError: it describes more numbers than the file could hold.
    """
    described = sum(tensor.numel() for tensor in model.state_dict().values())
    held = path.stat().st_size  # a number takes a byte at least
    if described > 2 * held + SMALL_MODEL:
        raise ModelError(
            f"{path} cannot hold the {described:,} numbers of the model that its folder describes"
        )


def save_weights(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write a safetensors file that may be read by whoever may read its folder's other files."""
    from safetensors.torch import save_file

    path.touch()
    mode = path.stat().st_mode & 0o777
    save_file({key: value.detach().cpu().contiguous() for key, value in tensors.items()}, path)
    path.chmod(mode)  # the library leaves it to the owner alone


_DESCRIBING = (
    *("config.json", "open_clip_config.json", "tokenizer*.json", "special_tokens_map.json"),
    *("vocab.*", "merges.txt", "*.model"),
)


def file_hash(path: str | Path) -> str:
    """Return the first 12 hexadecimal digits of a file's SHA-256, for signatures."""
    return sha256_of(Path(path))[:12]


def described_by(folder: Path) -> list[Path]:
    """Return the files of an encoder's folder that decide its features beside the weights, in order.

    Two folders of the same weights may cut captions, prepare images or compute otherwise.
    """
    return sorted({path for name in _DESCRIBING for path in folder.glob(name) if path.is_file()})


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise ModelError(f"{path}: not a readable safetensors file: {error}") from error


def _read_torch(path: Path) -> Any:
    try:
        return load_tensors(path)
    except pickle.UnpicklingError as error:
        raise ModelError(
            f"{path}: refused, because it holds Python objects besides tensors and reading them could run "
            "code; save the plain state dict in its own environment (safetensors is best)"
        ) from error
    except TORCH_ERRORS as error:
        if "TorchScript" in str(error):
            raise ModelError(
                f"{path}: refused, because it is a TorchScript program; save its state_dict() instead"
            ) from error
        raise ModelError(f"{path}: not a readable PyTorch checkpoint: {one_line(error)}") from error


def _some(items: Iterable[str]) -> str:
    listed = list(items)
    rest = len(listed) - SHOWN_KEYS
    return ", ".join(listed[:SHOWN_KEYS]) + (f" and {rest} more" if rest > 0 else "")

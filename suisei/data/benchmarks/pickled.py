"""Arrays from pickle files of others, without running anything that is in them.

A pickle names the functions that rebuild its objects. Here each name that NumPy writes for a plain
array stands for a small record of ours, and every other name is refused.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np

from suisei.errors import DataError

_PLAIN_KINDS = "biufSU"
_DAMAGE = (
    *(pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError),
    SystemError,  # NumPy's, of code points that there are none of
)


def read_pickled_array(path: Path) -> np.ndarray:
    """Return the array or (nested) list that a pickle file holds.

    Args:
        path: a file that ``pickle.dump`` wrote of a NumPy array of text or numbers, or of lists of them.

    Raises:
        DataError: the file is absent, damaged, or holds anything else.
    """
    content = read_pickled(path)
    try:
        if isinstance(content, dict):
            raise ValueError("it holds dict")
        return np.array(content)
    except ValueError as error:
        raise DataError(f"{path}: not a pickled array of text or numbers ({str(error)[:120]})") from None


def read_pickled(path: Path) -> Any:
    """Return the lists, objects, text and numbers that a pickle file holds; arrays become lists.

    Raises:
        DataError: the file is absent, damaged, or holds anything else.
    """
    try:
        content = path.read_bytes()
        _refuse_large_memo(content)
        return _plain(_Reader(io.BytesIO(content)).load())
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (*_DAMAGE, OverflowError, MemoryError, RecursionError) as error:
        raise DataError(f"{path}: not a pickled array of text or numbers ({str(error)[:120]})") from None


def _refuse_large_memo(content: bytes) -> None:
    """Refuse to remember an object under a number beyond the file's size: room is made for all below."""
    for opcode, number, _ in pickletools.genops(content):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and int(number) > len(content):  # type: ignore[arg-type]
            raise ValueError(f"it numbers an object {number}")


class _Dtype:
    """What a pickle says of a data type."""

    def __init__(self, name: str, *_: Any) -> None:
        self.name, self.order = str(name), "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = state[1]

    def made(self) -> np.dtype:
        if self.name[:1] not in (*_PLAIN_KINDS, "O"):
            raise ValueError(f"the array's type is {self.name[:20]!r}")
        return np.dtype(self.name).newbyteorder({"|": "="}.get(self.order, self.order))  # type: ignore[arg-type]


class _Array:
    """What a pickle says of an array; begins empty, as NumPy's own reconstruction does."""

    state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def made(self) -> Any:
        _, shape, dtype, fortran, data = self.state
        kind = dtype.made()
        if kind.kind == "O":
            flat = np.empty(len(data), dtype=object)
            flat[:] = [_plain(item) for item in data]
            return flat.reshape(shape, order="F" if fortran else "C").tolist()
        data = data.encode("latin1") if isinstance(data, str) else data
        return np.frombuffer(data, dtype=kind).reshape(shape, order="F" if fortran else "C").tolist()


def _reconstruct(*_: Any) -> _Array:
    return _Array()


def _from_buffer(data: bytes, dtype: _Dtype, shape: Any, order: str) -> Any:
    return np.frombuffer(data, dtype=dtype.made()).reshape(shape, order="F" if order == "F" else "C").tolist()


def _scalar(dtype: _Dtype, data: bytes) -> Any:
    return np.frombuffer(data, dtype=dtype.made())[0].item()


def _encode(text: str, encoding: str = "latin1") -> bytes:
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes encoded as {encoding[:20]!r}")
    return text.encode("latin1")


_STAND_INS = {
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _Array,
    ("_codecs", "encode"): _encode,
    **{
        (f"{core}.{module}", name): stand_in
        for core in ("numpy.core", "numpy._core")
        for module, name, stand_in in (
            ("multiarray", "_reconstruct", _reconstruct),
            ("multiarray", "scalar", _scalar),
            ("numeric", "_frombuffer", _from_buffer),
        )
    },
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"it wants {module[:40]}.{name[:40]}, which arrays do not need")
        return _STAND_INS[module, name]

    def persistent_load(self, _: Any) -> Any:
        raise pickle.UnpicklingError("it refers to other files")


def _plain(value: Any) -> Any:
    """Return lists, text and numbers for what the stand-ins recorded."""
    if isinstance(value, _Array):
        return value.made()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if value is None or isinstance(value, str | int | float):
        return value
    raise ValueError(f"it holds {type(value).__name__.lstrip('_')}")

"""Files that ``torch.save`` wrote, somebody else's: looked at before torch reads them as tensors alone."""

from __future__ import annotations

import io
import pickle
import pickletools
import struct
import zipfile
from pathlib import Path
from typing import IO, Any

import torch

from suisei.encoders.rules import BUILD_ERRORS

LONGEST_NAME = 300
"""Characters of a class's name. Of a longer one torch makes a message that it then searches, in a time that
grows with the square of the length."""
MOST_UNPACKED = 4
"""How many times its own size an archive may hold; torch compresses nothing."""
_SMALL = 1 << 20
_OLD_PICKLES = 5  # of the layout before archives: a number, a version, a system, the object, its keys

TORCH_ERRORS = (*BUILD_ERRORS, EOFError, struct.error, zipfile.BadZipFile)
"""What torch raises of files that are damaged, by experience."""


def load_tensors(path: Path, *, mmap: bool = False) -> Any:
    """Return what ``torch.save`` put into a file, on the CPU: tensors and plain values; no code is run.

    Args:
        path: the file.
        mmap: whether tensors stay in the file until they are used.

    Raises:
        pickle.UnpicklingError: it holds something else.
        Exception: it is damaged; one of TORCH_ERRORS.
    """
    with path.open("rb") as file:
        if zipfile.is_zipfile(file):
            _check_archive(file, path.stat().st_size)
        else:
            file.seek(0)
            _check_names(file, _OLD_PICKLES)
    return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)


def _check_archive(file: IO[bytes], size: int) -> None:
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)
        if unpacked > MOST_UNPACKED * size + _SMALL:
            raise ValueError(f"an archive of {size:,} bytes that says it holds {unpacked:,}")
        for member in members:
            if member.filename.endswith("data.pkl"):
                with archive.open(member) as stream:
                    _check_names(stream, 1)


def _check_names(stream: IO[bytes], pickles: int) -> None:
    """Read the instructions of pickles, following none, and refuse names that no class has."""
    for number in range(pickles):
        if number and not stream.read(1):  # a pickle alone, which torch will not take either
            return
        if number:
            stream.seek(-1, io.SEEK_CUR)
        for instruction, argument, _ in pickletools.genops(stream):
            if instruction.name in ("GLOBAL", "INST") and len(str(argument)) > LONGEST_NAME:
                raise pickle.UnpicklingError(f"it wants {str(argument)[:40]}..., which no class is called")

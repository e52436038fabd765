"""The image of a row of a table: a file that its name leads to, or the picture inside Parquet."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from suisei.data.benchmarks.benchmark import ImageFolder
from suisei.data.joins import IMAGE_SUFFIXES
from suisei.data.writers import replacing
from suisei.errors import DataError

NAMES, PIXELS = ("imgid", "file_name"), ("img", "image")


class Pictures:
    """Images by name in a folder; those inside Parquet are unpacked into the folder that the user named.

    Args:
        images: the user's folder, or None.
        usual: where the images may be otherwise.
    """

    def __init__(self, images: Path | None, *usual: Path) -> None:
        self._unpacked = images
        self._files = ImageFolder.find(images, *usual)
        self._digests: dict[str, str] = {}

    def of(self, record: Mapping[str, Any]) -> tuple[str, Path | None]:
        """Return the name of a record's image, and its file or None.

        Raises:
            DataError: the record names no image and holds none, or the file is not there.
        """
        fields = (record.get(name) for name in PIXELS)
        held: Mapping[str, Any] = next((field for field in fields if isinstance(field, Mapping)), {})
        data: bytes | None = held.get("bytes")
        name = next((str(record[key]) for key in NAMES if record.get(key) not in (None, "")), None)
        name = name or self._name_inside(Path(str(held.get("path") or "")).name, data)
        if data and self._unpacked is not None:
            return name, _unpacked(self._unpacked / Path(name).name, data)
        if data and self._files.folder is None:
            return name, None
        has_suffix = Path(name).suffix.lower() in IMAGE_SUFFIXES
        return name, self._files.path(name, () if has_suffix else IMAGE_SUFFIXES)

    def _name_inside(self, name: str, data: bytes | None) -> str:
        """Return the name of a picture that its row does not name, one name per picture.

        Args:
            name: what Parquet calls it, which may be the same of all ("image.png"); "" if nothing.
            data: the picture, or None.

        Raises:
            DataError: there is neither.
        """
        if not data:
            if not name:
                raise DataError(f"it has no image name in {' or '.join(NAMES)}, and no image")
            return name
        digest = _digest(data)
        if not name:
            return f"{digest}.jpg"
        return name if self._digests.setdefault(name, digest) == digest else _beside(Path(name), digest).name


def _unpacked(path: Path, data: bytes) -> Path:
    """Return the file of a picture, written if it is not there: another's file of that name is left alone."""
    if path.is_file() and not _holds(path, data):
        path = _beside(path, _digest(data))
    if not path.is_file():
        with replacing(path) as temporary:
            temporary.write_bytes(data)
    return path


def _holds(path: Path, data: bytes) -> bool:
    return path.stat().st_size == len(data) and path.read_bytes() == data


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def _beside(path: Path, digest: str) -> Path:
    return path.with_name(f"{path.stem}-{digest}{path.suffix}")

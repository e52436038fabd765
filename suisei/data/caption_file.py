"""Captions by image, as a file has them."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from suisei.errors import DataError


@dataclass(slots=True)
class CaptionFile:
    """What one or more files say of their images.

    Attributes:
        name: of the file, for messages.
        form: what it was taken for, in words.
        captions: {image: its captions}, in the file's order.
        file_names: {file name: image}, where an annotation file lists its images.
        row_files: {file name: image}, where rows name both and a file stands for one image alone.
        by_line: the file names no images, so that they are its line numbers, from 1.
        bad: what is wrong with the rows left out.
        repeated: rows left out since they repeat an earlier one.
    """

    name: str
    form: str
    captions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    file_names: dict[str, str] = field(default_factory=dict)
    row_files: dict[str, str] = field(default_factory=dict)
    by_line: bool = False
    bad: list[DataError] = field(default_factory=list)
    repeated: int = 0
    _like: dict[str, str] | None = None

    def find(self, name: str | None) -> tuple[str, ...] | None:
        """Return the captions of an image by its id or, where files are listed, by its file's name."""
        return None if name is None else self.captions.get(self.image_of(name))

    def image_of(self, name: str) -> str:
        """Return the image that an id or a file's name stands for; the name itself where it is neither."""
        return name if name in self.captions else self._of_file(name) or name

    def contradiction(self, image: str, file: str | None) -> str:
        """Say that a file is of another image here than the one it is said to be of; else ""."""
        known = self._of_file(file) if file is not None else None
        if known is None or known == image:
            return ""
        return f"{file!r} is said to be image {image!r}, and {self.name} says that it is image {known!r}"

    def _of_file(self, name: str) -> str | None:
        return self.file_names.get(name) or self.row_files.get(name) or self._of_like(name)

    def _of_like(self, name: str) -> str | None:
        """Return the image whose file has this name in a folder, or composed otherwise, as macOS names files.

        None where several have.
        """
        if self._like is None:
            found: dict[str, set[str]] = {}
            named = {**{image: image for image in self.captions}, **self.file_names}
            for file, image in named.items():
                for like in {file.rpartition("/")[2], file}:
                    if like != file or not file.isascii():
                        found.setdefault(_composed(like), set()).add(image)
            self._like = {file: images.pop() for file, images in found.items() if len(images) == 1}
        return self._like.get(_composed(name))

    def describe(self) -> str:
        """Return what the file was taken for and how much is in it, in one line."""
        names = ", ".join(Path(name).name for name in self.name.split(", "))
        text = f"{names}: taken for {self.form}, {len(self.captions):,} images"
        return text + (f"; {self.repeated:,} rows repeat another" if self.repeated else "")


def _composed(name: str) -> str:
    return name if name.isascii() else unicodedata.normalize("NFC", name)

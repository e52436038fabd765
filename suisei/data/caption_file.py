"""Captions by image, as a file has them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from suisei.cli import counted
from suisei.errors import DataError

KEEP_ZEROS = "write ids alike in both, and read them as text (pandas: dtype=str), which keeps the zeros"
"""What to do about ids that lost leading zeros."""
_SHOWN = 5


@dataclass(slots=True)
class CaptionFile:
    """What one or more files say of their images.

    Attributes:
        name: of the file, for messages.
        form: what it was taken for, in words.
        captions: {image: its captions}, in the file's order.
        file_names: {file name: image}, where an annotation file lists its images.
        row_files: {file name: images}, where rows name both.
        row_groups: {group: images}, where rows name an image by their own id and a group beside it.
        kinds: which names of a row may stand for an image here, those that "image_names" has by default.
        other: the same captions by what else names their images; None where there is nothing else.
        whole: it has the images of a whole data set, so that rows with names it lacks use other names.
        by_line: the file names no images, so that they are its line numbers, from 1.
        bad: what is wrong with the rows left out.
        repeated: rows left out since they repeat an earlier one.
        doubt: what speaks against the names that rows are joined by, in words; "" for nothing.
    """

    name: str
    form: str
    captions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    file_names: dict[str, str] = field(default_factory=dict)
    row_files: dict[str, set[str]] = field(default_factory=dict)
    row_groups: dict[str, set[str]] = field(default_factory=dict)
    kinds: tuple[str, ...] = ("group", "image", "id")
    other: CaptionFile | None = None
    whole: bool = False
    by_line: bool = False
    bad: list[DataError] = field(default_factory=list)
    repeated: int = 0
    doubt: str = ""
    _like: dict[str, str] | None = None
    _bare: dict[str, str] | None = None

    def find(self, name: str | None) -> tuple[str, ...] | None:
        """Return the captions of an image by its id or, where files are listed, by its file's name."""
        return None if name is None else self.captions.get(self.image_of(name))

    def image_of(self, name: str) -> str:
        """Return the image that an id or a file's name stands for; the name itself where it is neither."""
        return name if name in self.captions else self._of_file(name) or name

    def without_zeros(self, names: Iterable[str | None]) -> str:
        """Say which of some names differ from those of images here in leading zeros alone; "" for none.

        Programs that take ids for numbers drop the zeros.

        Args:
            names: of images that are not found here.
        """
        if self._bare is None:
            self._bare = {image.lstrip("0"): image for image in self.captions if image.isdecimal()}
        for name in names:
            like = self._bare.get(name.lstrip("0")) if name and name.isdecimal() else None
            if like is not None:
                return f"{name!r} differs from {like!r} in leading zeros alone; {KEEP_ZEROS}"
        return ""

    def contradiction(self, image: str, names: Mapping[str, str | None]) -> str:
        """Say that a file or group is of another image here than the one it is said to be of; else "".

        Args:
            image: as :meth:`image_of` returns it.
            names: what else names it: "image" is its file, "group" its group.
        """
        for kind, images_of in (("image", self._images_of_file), ("group", self.row_groups.get)):
            name = names[kind]
            known = images_of(name) if name else None
            if known and image not in known:
                images = ", ".join(map(repr, sorted(known)[:_SHOWN]))
                return (
                    f"{name!r} is said to be image {image!r}, and {self.name} says that it is image {images}"
                )
        return ""

    def named_for(self, rows: Sequence[Mapping[str, str | None]]) -> CaptionFile:
        """Return these captions by the names that the rows use: these, or those of ``other``.

        An ``id`` may number the rows of its file: where files or groups contradict most of what ids join, or
        what they join is of other files or groups, the captions are those of files or groups.

        Where both join rows, and some with other captions, their ``doubt`` says so.

        Args:
            rows: what may name the image of each, by what it is.
        """
        if self.other is None or not rows:
            return self
        agreeing, against = self._joined(rows)
        better, _ = self.other._joined(rows)
        mostly = self.whole or better >= 2 * agreeing
        chosen = self.other if better > agreeing and mostly and (against or not agreeing) else self
        return replace(chosen, doubt=self._doubt(self.other, rows, by_id=chosen is self))

    def _doubt(self, other: CaptionFile, rows: Sequence[Mapping[str, str | None]], *, by_id: bool) -> str:
        """Say for how many rows the names here and those of ``other`` are of different images; else ""."""
        kind, also = self._best_kind(rows), other._best_kind(rows)
        both = [(self.find(names[kind]), other.find(names[also])) for names in rows]
        count = sum(not set(mine) <= set(theirs) for mine, theirs in both if mine and theirs)
        if not count or (kind == also and self.whole):  # its numbers are nearly all ids of others in it
            return ""
        share = f"{count:,} of {len(rows):,} rows looked at"
        if kind != also:
            return f"by {kind} {share} are of other images than by {also}"
        taken = "id" if by_id else "group or file"
        return f"as an id the {kind} of {share} is of other images than as a group or file; taken as {taken}"

    def _best_kind(self, rows: Sequence[Mapping[str, str | None]]) -> str:
        return max(self.kinds, key=lambda kind: sum(self.find(names[kind]) is not None for names in rows))

    def _joined(self, rows: Sequence[Mapping[str, str | None]]) -> tuple[int, int]:
        """Return how many rows the best name joins without contradiction, and how many speak against it."""
        kind = self._best_kind(rows)
        found = [names for names in rows if self.find(names[kind]) is not None]
        named = {
            "image": _by_image({_composed(file): images for file, images in self.row_files.items()}),
            "group": _by_image(self.row_groups),
        }
        joined = [(self.image_of(str(names[kind])), names) for names in found]
        agreeing = sum(
            not self.contradiction(image, names) and not _is_of_others(image, names, named)
            for image, names in joined
        )
        return agreeing, (len(rows) if self.whole else len(found)) - agreeing

    def _of_file(self, name: str) -> str | None:
        images = self._images_of_file(name)
        return next(iter(images)) if len(images) == 1 else None

    def _images_of_file(self, name: str) -> set[str]:
        listed = self.file_names.get(name)
        like = self._of_like(name) if listed is None and name not in self.row_files else None
        return self.row_files.get(name, set()) | {each for each in (listed, like) if each is not None}

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
        text = f"{names}: taken for {self.form}, {counted(len(self.captions), 'image')}"
        text += f"; {counted(self.repeated, 'repeated row')}" if self.repeated else ""
        return text + (f"; {self.doubt}" if self.doubt else "")


def _by_image(images_of: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return {image: the names it has}."""
    found: dict[str, set[str]] = {}
    for name, images in images_of.items():
        for image in images:
            found.setdefault(image, set()).add(name)
    return found


def _is_of_others(
    image: str, names: Mapping[str, str | None], named: Mapping[str, Mapping[str, set[str]]]
) -> bool:
    """Say whether an image has files or groups, and a row's own is none of them."""
    for kind, of_image in named.items():
        name, known = names[kind], of_image.get(image)
        if name and known and _composed(name) not in known and name not in known:
            return True
    return False


def _composed(name: str) -> str:
    return name if name.isascii() else unicodedata.normalize("NFC", name)

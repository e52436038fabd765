"""Which captions of several systems are of the same image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from suisei.cli import counted
from suisei.data.caption_file import CaptionFile
from suisei.data.fields import without_fraction
from suisei.data.joins import image_names
from suisei.data.sample import CaptionSample, language_of, plain_name
from suisei.data.system_files import SystemFile
from suisei.errors import DataError

_SURER = ("id", "group", "image")
"""What may name an image, the surest last: an id may be that of the row."""


def image_keys(
    files: Sequence[SystemFile], given: CaptionFile | None, notes: list[str]
) -> tuple[list[tuple[str, ...]], bool]:
    """Return what names the image of every sample of every file, and whether that is a row's number.

    Args:
        files: the systems.
        given: references of all of them, or None.
        notes: gets a line on what was guessed.

    Raises:
        DataError: the images of the files cannot be told, or one name stands for different ones.
    """
    if given is not None and not given.by_line:
        keys = [_keys_among(file, given, notes) for file in files]
        conflict = _conflict(files, keys)
        if conflict:
            raise DataError(f"{conflict}; give the rows of one image the same id in all files")
        return keys, False
    written = [_with_plain_keys(file) for file in files]
    like = {kind: found for kind in _SURER if (found := _like_zeros(written, kind))}
    files = [_renamed(file, like) for file in written]
    if given is None:
        kinds = [kind for kind in _SURER if all(kind in file.keys for file in files)]
        keys_by = {kind: [file.keys[kind] for file in files] for kind in kinds}
        kinds = [kind for kind in kinds if not _conflict(files, keys_by[kind], ids_name=True, like=like)]
        common = {kind: len(set.intersection(*(set(file.keys[kind]) for file in files))) for kind in kinds}
        best = max(kinds, key=lambda kind: (common[kind], _SURER.index(kind)), default=None)
        if best is not None and (common[best] or all(file.has_ids for file in files)):
            if best in like:
                notes.append(_zeros_note(written, best))
            if best != "id" or not all(file.has_ids for file in files):
                notes.append(f"systems are joined by {best}")
            return [file.keys[best] for file in files], False
    return _by_line(files, given, notes), True


def _with_plain_keys(file: SystemFile) -> SystemFile:
    """Return a file whose names are written as in any other: "1.0" as 1, marks over letters as one character.

    Those of a kind that would not tell its samples apart any more stay as they are.
    """
    keys = dict(file.keys)
    for kind, names in file.keys.items():
        plain = tuple(plain_name(without_fraction(name)) for name in names)
        if len(set(plain)) == len(plain):
            keys[kind] = plain
    return replace(file, keys=keys)


def _like_zeros(files: Sequence[SystemFile], kind: str) -> dict[str, str]:
    """Return {name: with the leading zeros that it has in any file}, where that joins more names of a kind.

    A program that takes ids for numbers drops zeros. Names that they alone tell apart stay as they are.
    """
    names = [file.keys.get(kind, ()) for file in files]
    bare = [set(map(_bare, own)) for own in names]
    if any(len(each) < len(own) for each, own in zip(bare, names, strict=True)):
        return {}
    if len(set.intersection(*bare)) <= len(set.intersection(*map(set, names))):
        return {}
    full = {_bare(name): name for name in sorted(chain(*names), key=len)}  # the longest stays
    return {name: full[_bare(name)] for own in names for name in own}


def _renamed(file: SystemFile, like: Mapping[str, Mapping[str, str]]) -> SystemFile:
    """Return a file with other names, {kind: {name: what is written for it}}."""
    keys = {
        kind: tuple(like[kind][name] for name in names) if kind in like else names
        for kind, names in file.keys.items()
    }
    return replace(file, keys=keys)


def _zeros_note(files: Sequence[SystemFile], kind: str) -> str:
    """Return which names of a kind are joined though their leading zeros differ, by one of them."""
    spelt = [{_bare(name): name for name in file.keys[kind]} for file in files]
    common = (each for each in spelt[0] if all(each in own for own in spelt))
    first = next(each for each in common if len({own[each] for own in spelt}) > 1)
    shown = " and ".join(f"{own[first]!r} in {file.name}" for own, file in zip(spelt, files, strict=True))
    return f"names ({kind}) that differ in leading zeros alone are joined: {shown}"


def _bare(name: str) -> str:
    return name.lstrip("0") if name.isdecimal() else name


def _conflict(
    files: Sequence[SystemFile],
    keys: Sequence[Sequence[str]],
    *,
    copies: bool = True,
    ids_name: bool = False,
    like: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> str:
    """Say which key stands for images of different names, as where ids number the rows of each file; else "".

    Args:
        files: the files.
        keys: of their samples.
        copies: whether a system may have copies of the images, of other names: those that no two files share
            say nothing then.
        ids_name: whether in files of captions by image id the ids name the images.
        like: {kind: {name: the one that it is compared as}}, of names that are written in several ways.
    """
    for kind in ("image", "group"):
        same = like.get(kind, {})
        first: dict[str, tuple[str, str]] = {}
        known: set[str | None] = set()
        for file, own_keys in zip(files, keys, strict=True):
            names = file.image_names() if ids_name else map(image_names, file.samples)
            named = [same.get(each[kind] or "", each[kind]) for each in names]
            for key, own in zip(own_keys, named, strict=True):
                name, other = first.setdefault(key, (file.name, own)) if own else (file.name, own)
                if own != other and (own in known or not copies):
                    return f"{key!r} is {kind} {other!r} in {name} and {kind} {own!r} in {file.name}"
            known.update(named)
    return ""


def _keys_among(file: SystemFile, given: CaptionFile, notes: list[str]) -> tuple[str, ...]:
    """Return the keys of a file that most references have."""
    resolved = {
        kind: tuple(map(given.image_of, keys)) for kind, keys in file.keys.items() if kind in given.kinds
    }
    found = {kind: sum(key in given.captions for key in keys) for kind, keys in resolved.items()}
    best = max(found, key=lambda kind: (found[kind], _SURER.index(kind)), default=None)
    if best is None or not found[best]:
        ours = "; ".join(f"{kind} such as {keys[0]!r}" for kind, keys in file.keys.items())
        theirs = next(iter(given.captions))
        zeros = given.without_zeros(key for keys in file.keys.values() for key in keys)
        raise DataError(
            f"{file.name}: none of its {counted(len(file.samples), 'row')} has an image of {given.name}, "
            f"which has ids such as {theirs!r}; the rows have {ours or 'nothing that names an image once'}"
            f"{zeros and f' ({zeros})'}"
        )
    for sample, key in zip(file.samples, resolved[best], strict=True):
        if problem := given.contradiction(key, image_names(sample)):
            raise DataError(f"{file.name}: {problem}; name the images alike in both")
    if not file.has_ids or resolved[best] != file.keys[best]:
        notes.append(f"{file.name}: joined with the references by {best}")
    return resolved[best]


def _by_line(
    files: Sequence[SystemFile], given: CaptionFile | None, notes: list[str]
) -> list[tuple[str, ...]]:
    """Return row numbers, where all files have as many rows and no file says that their order differs."""
    gaps = [file.name for file in files if file.skipped]
    if gaps:
        raise DataError(
            f"{gaps[0]}: bad rows were skipped, and nothing names each row once and alike in all files, so "
            f"that rows cannot be joined; fix the rows, or {_with_ids(files)}"
        )
    counts = {file.name: len(file.samples) for file in files}
    if given is not None:
        counts[given.name] = len(given.captions)
    if len(set(counts.values())) > 1:
        _refuse_repeated(files)
        shown = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        raise DataError(
            f"nothing names the images alike in all files, and they differ in rows ({shown}); give every row "
            "the image's id, or the same rows in the same order"
        )
    _refuse_other_orders(files)
    _refuse_strangers(files)
    number = next(iter(counts.values()))
    keys = [tuple(str(line) for line in range(1, number + 1))] * len(files)
    conflict = _conflict(files, keys, copies=False)
    if conflict:
        raise DataError(f"row {conflict}, so that rows cannot be joined line by line; {_with_ids(files)}")
    notes.append(
        f"joined line by line: row n of every file is taken for the same image ({counted(number, 'row')})"
    )
    return keys


def _with_ids(files: Sequence[SystemFile]) -> str:
    """Return how rows can be told to belong together whose images do not say so."""
    if any(file.together for file in files):
        return "give a file per system, whose rows have an id each, the same in all files"
    return "give every row an id of its own that is the same in all files"


def _refuse_repeated(files: Sequence[SystemFile]) -> None:
    """Refuse a file with several captions of an image: nothing in it tells them apart."""
    for file in files:
        first: dict[str | int, tuple[int, CaptionSample]] = {}
        for number, sample in enumerate(file.samples, 1):
            image = sample.group or (str(sample.image) if isinstance(sample.image, str | Path) else number)
            row, other = first.setdefault(image, (number, sample))
            if other is sample:
                continue
            languages = [language_of(other), language_of(sample)]
            spoken = f" ({' and '.join(languages)})" if len(set(languages)) > 1 else ""
            raise DataError(
                f"{file.name}: rows {row} and {number} are both of image {image!r}{spoken}, so that its "
                f"name does not join them; keep one caption of each, compare each language by itself, or "
                f"{_with_ids(files)}"
            )


def _refuse_other_orders(files: Sequence[SystemFile]) -> None:
    """Refuse files of which one name stands in different rows."""
    for kind in _SURER:
        first: dict[str, tuple[int, str]] = {}
        for file in files:
            for row, key in enumerate(file.keys.get(kind, ()), 1):
                other, name = first.setdefault(key, (row, file.name))
                if other != row:
                    raise DataError(
                        f"the files have their images in another order: {kind} {key!r} is row {other} of "
                        f"{name} and row {row} of {file.name}, and the references name no images; sort the "
                        "files alike, or give references by id"
                    )


def _refuse_strangers(files: Sequence[SystemFile]) -> None:
    """Refuse captions by image, which have no order, beside rows that name images, none of them alike."""
    for file in files:
        own = set().union(*file.keys.values()) if file.has_ids else set()
        for other in files:
            names = set().union(*other.keys.values())
            if own and names and not own & names:
                shown = "; ".join(f"{kind} such as {keys[0]!r}" for kind, keys in other.keys.items())
                raise DataError(
                    f"{file.name} is a file of captions by image, such as {min(own)!r}, whose order says "
                    f"nothing, and {other.name} names no image of it ({shown}); name the images alike in both"
                )

"""The outputs of several captioning systems, brought together image by image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from suisei.cli import counted
from suisei.data.caption_file import CaptionFile
from suisei.data.coco import read_references
from suisei.data.formats import NamedColumns, OnError
from suisei.data.joins import IMAGE_NAMES, IMAGE_SUFFIXES, image_file, image_names
from suisei.data.paths import Allowed, Root
from suisei.data.sample import CaptionSample
from suisei.data.splits import group_of
from suisei.data.system_files import Reading, SystemFile, named_files, read_system, split_systems
from suisei.data.system_keys import image_keys
from suisei.errors import DataError

_SHOWN = 3
_CAPTIONS = "captions"


@dataclass(frozen=True, slots=True)
class Systems:
    """The captions that all systems have, of the same images in the same order.

    Attributes:
        keys: what the N captions of each system were joined by.
        samples: {system: N samples}, which share image, references and ``group``, the name of the image.
        notes: what was guessed, skipped and left out, a line each.
    """

    keys: tuple[str, ...]
    samples: Mapping[str, tuple[CaptionSample, ...]]
    notes: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The systems, in the order they were given."""
        return list(self.samples)

    @property
    def images(self) -> tuple[str, ...]:
        """The name of the image of each of the N captions; a system may have several of one image."""
        return tuple(group_of(sample) for sample in self.samples[self.names[0]])

    @property
    def size(self) -> str:
        """How many images there are, in words, and how many captions of each system where those are more."""
        images, captions = len(set(self.images)), len(self.keys)
        shown = counted(images, "image")
        return shown if images == captions else f"{captions:,} captions of {shown}"


def load_systems(
    files: Sequence[str],
    *,
    references: Sequence[str] = (),
    images: str | None = None,
    columns: NamedColumns | None = None,
    on_error: OnError = "raise",
    allowed: Allowed | None = None,
) -> Systems:
    """Read the outputs of systems and join them by image.

    Args:
        files: ``FILE`` or ``NAME=FILE`` per system, or one file whose rows name their systems.
        references: one file of references, or one text file per reference; those of the rows by default.
        images: the folder of the images.
        columns: {field: the column that fills it}, in the files of rows.
        on_error: "raise" stops at the first bad row, "skip" leaves it out.
        allowed: what files of rows may name beside images in ``images`` or their own folder.

    Raises:
        ConfigError: a name given twice, or fewer than two systems.
        DataError: an unusable file or row, systems without common images, or different references.
    """
    notes: list[str] = []
    found = read_systems(files, Reading(images, columns, on_error, allowed, notes))
    given = read_references(references) if references else None
    if given is not None:
        given = given.named_for([names for file in found for names in file.image_names()])
        notes.append(given.describe())
    root = None if images is None else Root(images, allowed=allowed)
    return _join(found, given, root, notes)


def read_systems(files: Sequence[str], how: Reading, *, alone: bool = False) -> list[SystemFile]:
    """Read what systems say, each by itself.

    Args:
        files: ``FILE`` or ``NAME=FILE`` per system, or one file whose rows name their systems.
        how: how files are read.
        alone: whether one system will do.

    Raises:
        ConfigError: a name given twice, or fewer than two systems where one will not do.
        DataError: an unusable file or row.
    """
    named = named_files(files)
    try:
        found = [read_system(name, path, how) for name, path in named]
    except DataError as error:
        if alone or len(named) > 1:
            raise
        image_named = "where it names the image, alike for all systems: --column group=id"
        raise DataError(str(error).replace("to do without: --column id=", image_named)) from None
    several = [len({sample.system for sample in file.samples} - {None}) > 1 for file in found]
    if len(found) == 1:
        return found if alone and not several[0] else split_systems(found[0], named[0][1])
    for (_, path), mixed in zip(named, several, strict=True):
        if mixed:
            raise DataError(f"{path}: its rows name several systems; give it alone, or a file per system")
    return found


def join_people(
    humans: Sequence[CaptionSample], files: Sequence[SystemFile], name: str
) -> tuple[Systems, list[CaptionSample]]:
    """Join systems with captions of people, by image; both get the references of the person's caption.

    Args:
        humans: one sample per image, whose ``id`` may be the name of the image's file.
        files: at least one system.
        name: of the data that the captions of people are from, for messages.

    Returns:
        The captions of N images that all systems have, and N samples of people, in the same order.

    Raises:
        DataError: the images of a file cannot be told, or fewer than two are common.
    """
    by_image = {group_of(sample): sample for sample in humans}
    given = CaptionFile(name, "captions of people", {image: s.references for image, s in by_image.items()})
    for image, sample in by_image.items():
        names = image_names(sample)
        file = names["id"] if names["image"] is None else names["image"]
        if file is not None and Path(file).suffix.lower() in IMAGE_SUFFIXES:
            given.file_names[file] = image
    notes: list[str] = []
    bare = [replace(file, samples=tuple(replace(s, references=()) for s in file.samples)) for file in files]
    found = _join(bare, given, None, notes)
    own = [by_image[key] for key in found.keys]
    shown = [sample.image for sample in found.samples[found.names[0]]]
    own = [s if s.image is not None else replace(s, image=image) for s, image in zip(own, shown, strict=True)]
    joined = {
        system: tuple(
            replace(sample, group=human.group, image=human.image, language=human.language)
            for sample, human in zip(samples, own, strict=True)
        )
        for system, samples in found.samples.items()
    }
    return Systems(found.keys, joined, tuple(notes)), own


def _join(
    files: Sequence[SystemFile], given: CaptionFile | None, images: Root | None, notes: list[str]
) -> Systems:
    names, numbered = image_keys(files, given, notes)
    keyed = [dict(zip(keys, file.samples, strict=True)) for keys, file in zip(names, files, strict=True)]
    _note_left_out(files, keyed, given, notes)
    common = [
        key
        for key in keyed[0]
        if all(key in samples for samples in keyed) and (given is None or key in given.captions)
    ]
    groups = {key: _image_of(key, keyed) for key in common}
    if (count := len(set(groups.values()))) < 2:
        shown = ", ".join(f"{keys[0]!r} in {file.name}" for keys, file in zip(names, files, strict=True))
        such = "" if count or given is not None else f" (the first is {shown})"
        raise DataError(
            f"the systems have {counted(count, 'image')} in common{such}; a comparison needs two at least"
        )
    shared = {key: _shared_references(key, files, keyed, given) for key in common}
    if given is not None and any(sample.references for file in files for sample in file.samples):
        notes.append("references in the systems' own rows are not used: --references is given")
    if not any(shared.values()):
        notes.append("no image has references; metrics that need them want --references FILE")
    pictures = _pictures(common, keyed, given, images, notes, numbered=numbered)
    joined = {
        file.name: tuple(
            replace(
                samples[key], id=key, group=groups[key], system=file.name, rating=None,
                references=shared[key], image=pictures.get(key),
            )
            for key in common
        )
        for file, samples in zip(files, keyed, strict=True)
    }  # fmt: skip
    return Systems(tuple(common), joined, tuple(notes))


def _image_of(key: str, keyed: Sequence[Mapping[str, CaptionSample]]) -> str:
    """Return the image that the first system to name one says, else a name of its own."""
    for sample in (samples[key] for samples in keyed if key in samples):
        if (sample.group, sample.image, getattr(sample, "video", None)) == (None, None, None):
            continue
        try:
            return group_of(sample)
        except DataError:  # an image in memory that cannot be read, which metrics that look at it will say
            continue
    return f"id:{key}"


def _things(keys: Sequence[str], keyed: Sequence[Mapping[str, CaptionSample]]) -> str:
    """Return what is counted by its key: captions, where several are of one image."""
    return _CAPTIONS if len({_image_of(key, keyed) for key in keys}) < len(keys) else "images"


def _note_left_out(
    files: Sequence[SystemFile],
    keyed: Sequence[Mapping[str, CaptionSample]],
    given: CaptionFile | None,
    notes: list[str],
) -> None:
    """Note the images, or captions, that some system or the file of references says nothing about."""
    every = list(dict.fromkeys(key for samples in keyed for key in samples))
    things = _things(every, keyed)
    if given is not None:
        every.sort(key=lambda key: key not in given.captions)
    for file, samples in zip(files, keyed, strict=True):
        lacks = "lacks" if things == _CAPTIONS else "has no caption for"
        _note_absent(f"{file.name} {lacks}", every, things, samples, notes)
    if given is not None:
        why = given.without_zeros(key for key in every if key not in given.captions)
        _note_absent(f"{given.name} has no reference for", every, things, given.captions, notes, why)
        unused = len(given.captions) - sum(key in given.captions for key in every)
        if unused:
            notes.append(f"{given.name}: references of {counted(unused, 'other image')} are not used")


def _note_absent(
    what: str, every: Sequence[str], things: str, there: Iterable[str], notes: list[str], why: str = ""
) -> None:
    known = set(there)
    absent = [key for key in every if key not in known]
    if absent:
        more = ", ..." if len(absent) > _SHOWN else ""
        shown = ", ".join(absent[:_SHOWN]) + more
        left = f"{what} {len(absent):,} of {len(every):,} {things} ({shown}): left out for all systems"
        notes.append(f"{left}; {why}" if why else left)


def _shared_references(
    key: str,
    files: Sequence[SystemFile],
    keyed: Sequence[Mapping[str, CaptionSample]],
    given: CaptionFile | None,
) -> tuple[str, ...]:
    """Return the references of an image, which all systems must be measured by."""
    if given is not None:
        return given.captions[key]
    shared: tuple[str, ...] = ()
    owner = ""
    for file, samples in zip(files, keyed, strict=True):
        own = samples[key].references
        if own and shared and sorted(own) != sorted(shared):
            raise DataError(
                f"image {key!r}: {owner} and {file.name} have different references, so their scores cannot "
                "be compared; give the same to both, or --references FILE"
            )
        if own and not shared:
            shared, owner = own, file.name
    return shared


def _pictures(
    common: Sequence[str],
    keyed: Sequence[Mapping[str, CaptionSample]],
    given: CaptionFile | None,
    images: Root | None,
    notes: list[str],
    *,
    numbered: bool,
) -> dict[str, Any]:
    """Return {image: its file}: what the rows name, else a file in the folder with the image's name or id.

    Raises:
        DataError: the folder has none of the images, or nothing but numbers names the rows.
    """
    found = {
        key: next((samples[key].image for samples in keyed if samples[key].image is not None), None)
        for key in common
    }
    if images is None or all(picture is not None for picture in found.values()):
        return found
    if numbered and all(picture is None for picture in found.values()):
        raise DataError(
            f"--images {images.folder}: rows that are joined line by line name no images; give every row its "
            "image or the image's id"
        )
    names = {image: name for name, image in given.file_names.items()} if given is not None else {}
    for key in common:
        if found[key] is None and not numbered:
            found[key] = image_file(images, key, names.get(key))
    absent = [key for key in common if found[key] is None]
    if len(absent) == len(common):
        tried = ", ".join(pattern.format(common[0]) for pattern in IMAGE_NAMES)
        raise DataError(f"--images {images.folder}: no file of image {common[0]!r} is there; tried {tried}")
    if absent:
        shown = ", ".join(absent[:_SHOWN]) + (", ..." if len(absent) > _SHOWN else "")
        count = f"{len(absent):,} of {len(common):,} {_things(common, keyed)}"
        notes.append(f"{images.folder} has no file for {count} ({shown})")
    return found

"""The outputs of several captioning systems, brought together image by image."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from suisei.data.coco import (
    CaptionFile,
    has_result_rows,
    is_json,
    is_json_lines,
    read_references,
    read_results,
)
from suisei.data.compressed import plain_suffix
from suisei.data.formats import NamedColumns, OnError, Row, collect, iter_rows
from suisei.data.joins import IMAGE_NAMES, image_file, image_names
from suisei.data.paths import Allowed, Root
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, DataError

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class SystemFile:
    """What one system says, before it is joined with the others.

    Attributes:
        name: of the system.
        samples: its captions, in the file's order.
        keys: {"id", "group" or "image": what it is per sample}, those that tell the samples apart; none
            where the file names no images.
        has_ids: whether it is a file of captions by image id.
        skipped: bad rows left out.
    """

    name: str
    samples: tuple[CaptionSample, ...]
    keys: Mapping[str, tuple[str, ...]]
    has_ids: bool = False
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Systems:
    """The captions that all systems have, on the same images in the same order.

    Attributes:
        images: the N images, by the name they were joined by.
        samples: {system: N samples}, which share image and references.
        notes: what was guessed, skipped and left out, a line each.
    """

    images: tuple[str, ...]
    samples: Mapping[str, tuple[CaptionSample, ...]]
    notes: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The systems, in the order they were given."""
        return list(self.samples)


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
    named = named_files(files)
    how = _How(images, columns, on_error, allowed, notes)
    found = [_read(name, path, how) for name, path in named]
    if len(found) == 1:
        found = _split(found[0], named[0][1])
    else:
        for file, (_, path) in zip(found, named, strict=True):
            if len({sample.system for sample in file.samples} - {None}) > 1:
                raise DataError(f"{path}: its rows name several systems; give it alone, or a file per system")
    given = read_references(references) if references else None
    if given is not None:
        notes.append(given.describe())
    root = None if images is None else Root(images, allowed=allowed)
    return _join(found, given, root, notes)


def named_files(files: Sequence[str]) -> list[tuple[str, str]]:
    """Return (name, path) of each system."""
    pairs = []
    for text in files:
        name, equals, path = text.partition("=")
        if not equals or Path(text).exists():
            base = Path(text).name
            name, path = Path(base.removesuffix(".gz")).stem, text
        if not name.strip() or not path:
            raise ConfigError(f"system {text!r} must be FILE or NAME=FILE")
        pairs.append((name, path))
    twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if twice:
        raise ConfigError(f"two systems are called {twice[0]!r}; name them: A=FILE B=FILE")
    return pairs


@dataclass(frozen=True, slots=True)
class _How:
    """How files are read, and where what was guessed is noted."""

    images: str | None
    columns: NamedColumns | None
    on_error: OnError
    allowed: Allowed | None
    notes: list[str] = field(default_factory=list)


def _read(name: str, path: str, how: _How) -> SystemFile:
    text = plain_suffix(path) in ("", ".txt")
    if text or ((is_json(path) or is_json_lines(path)) and not how.columns and has_result_rows(path)):
        return _from_results(name, read_results(path, on_error=how.on_error), how.notes)
    skipped: list[Row] = []
    columns = {"rating": None, **(how.columns or {})}  # a comparison has no use for ratings
    rows = iter_rows(path, images=how.images, columns=columns, note=how.notes.append, allowed=how.allowed)
    samples = tuple(collect(rows, on_error=how.on_error, skipped=skipped))
    if skipped:
        how.notes.append(f"{path}: {len(skipped):,} bad rows skipped, the first: {skipped[0].error}")
    return SystemFile(name, samples, _keys(samples), skipped=len(skipped))


def _from_results(name: str, found: CaptionFile, notes: list[str]) -> SystemFile:
    notes.append(found.describe())
    if found.bad:
        notes.append(f"{found.name}: {len(found.bad):,} bad rows skipped, the first: {found.bad[0]}")
    samples = tuple(CaptionSample(captions[0]) for captions in found.captions.values())
    ids = tuple(found.captions)
    keys = {} if found.by_line else {"id": ids, "group": ids}
    return SystemFile(name, samples, keys, has_ids=not found.by_line, skipped=len(found.bad))


def _keys(samples: Sequence[CaptionSample]) -> dict[str, tuple[str, ...]]:
    """Return what may name the image of each sample, where every one has it and no two have the same."""
    names = [image_names(sample) for sample in samples]
    columns = {kind: [each[kind] for each in names] for kind in ("id", "group", "image")}
    return {
        kind: tuple(value for value in values if value is not None)
        for kind, values in columns.items()
        if None not in values and len(set(values)) == len(values)
    }


def _split(file: SystemFile, path: str) -> list[SystemFile]:
    """Return a system per value of ``system`` of one file."""
    nameless = sum(sample.system is None for sample in file.samples)
    if nameless:
        raise ConfigError(
            f"{path} is one file, and {nameless:,} of its {len(file.samples):,} rows name no system; a "
            "comparison needs a file per system, or the system of every row in the field 'system'"
        )
    parts: dict[str, list[CaptionSample]] = {}
    for sample in file.samples:
        parts.setdefault(str(sample.system), []).append(sample)
    if len(parts) < 2:
        raise ConfigError(f"{path}: all rows are of system {next(iter(parts))!r}; a comparison needs two")
    return [SystemFile(name, tuple(samples), _keys(samples)) for name, samples in parts.items()]


def _join(
    files: Sequence[SystemFile], given: CaptionFile | None, images: Root | None, notes: list[str]
) -> Systems:
    keys = _image_keys(files, given, notes)
    conflict = _conflict(files, keys)
    if conflict:
        raise DataError(f"{conflict}; give the rows of one image the same id in all files, or leave ids out")
    keyed = [dict(zip(own, file.samples, strict=True)) for own, file in zip(keys, files, strict=True)]
    _note_left_out(files, keyed, given, notes)
    common = [
        key
        for key in keyed[0]
        if all(key in samples for samples in keyed) and (given is None or key in given.captions)
    ]
    if len(common) < 2:
        raise DataError(f"the systems have {len(common)} images in common; a comparison needs two at least")
    shared = {key: _shared_references(key, files, keyed, given) for key in common}
    if given is not None and any(sample.references for file in files for sample in file.samples):
        notes.append("references in the systems' own rows are not used: --references is given")
    if not any(shared.values()):
        notes.append("no image has references; metrics that need them want --references FILE")
    pictures = _pictures(common, files, keyed, given, images, notes)
    joined = {
        file.name: tuple(
            replace(
                samples[key], id=key, group=key, system=file.name, rating=None,
                references=shared[key], image=pictures.get(key),
            )
            for key in common
        )
        for file, samples in zip(files, keyed, strict=True)
    }  # fmt: skip
    return Systems(tuple(common), joined, tuple(notes))


def _note_left_out(
    files: Sequence[SystemFile],
    keyed: Sequence[Mapping[str, CaptionSample]],
    given: CaptionFile | None,
    notes: list[str],
) -> None:
    """Note the images that some system, or the file of references, says nothing about."""
    every = list(dict.fromkeys(key for samples in keyed for key in samples))
    if given is not None:
        every.sort(key=lambda key: key not in given.captions)
    for file, samples in zip(files, keyed, strict=True):
        _note_absent(f"{file.name} has no caption for", every, samples, notes)
    if given is not None:
        _note_absent(f"{given.name} has no reference for", every, given.captions, notes)
        unused = len(given.captions) - sum(key in given.captions for key in every)
        if unused:
            notes.append(f"{given.name}: references of {unused:,} other images are not used")


def _note_absent(what: str, every: Sequence[str], there: Iterable[str], notes: list[str]) -> None:
    known = set(there)
    absent = [key for key in every if key not in known]
    if absent:
        more = ", ..." if len(absent) > _SHOWN else ""
        shown = ", ".join(absent[:_SHOWN]) + more
        notes.append(f"{what} {len(absent):,} of {len(every):,} images ({shown}): left out for all systems")


def _image_keys(
    files: Sequence[SystemFile], given: CaptionFile | None, notes: list[str]
) -> list[tuple[str, ...]]:
    """Return what names the image of every sample of every file."""
    if given is not None and not given.by_line:
        return [_keys_among(file, given, notes) for file in files]
    if given is None:
        kinds = [kind for kind in ("id", "group", "image") if all(kind in file.keys for file in files)]
        kinds = [kind for kind in kinds if not _conflict(files, [file.keys[kind] for file in files])]
        common = {kind: len(set.intersection(*(set(file.keys[kind]) for file in files))) for kind in kinds}
        best = max(kinds, key=lambda kind: common[kind], default=None)
        if best is not None and (common[best] or all(file.has_ids for file in files)):
            if best != "id" or not all(file.has_ids for file in files):
                notes.append(f"systems are joined by {best}")
            return [file.keys[best] for file in files]
    return _by_line(files, given, notes)


def _conflict(files: Sequence[SystemFile], keys: Sequence[Sequence[str]]) -> str:
    """Say which key stands for images of different names, as where ids number the rows of each file; else "".

    Names that no two files share, such as those of other copies of the images, say nothing.
    """
    for kind in ("image", "group"):
        first: dict[str, tuple[str, str]] = {}
        known: set[str | None] = set()
        for file, own_keys in zip(files, keys, strict=True):
            named = [image_names(sample)[kind] for sample in file.samples]
            for key, own in zip(own_keys, named, strict=True):
                name, other = first.setdefault(key, (file.name, own)) if own else (file.name, own)
                if own != other and own in known:
                    return f"{key!r} is {kind} {other!r} in {name} and {kind} {own!r} in {file.name}"
            known.update(named)
    return ""


def _keys_among(file: SystemFile, given: CaptionFile, notes: list[str]) -> tuple[str, ...]:
    """Return the keys of a file that most references have."""
    resolved = {
        kind: tuple(key if key in given.captions else given.file_names.get(key, key) for key in keys)
        for kind, keys in file.keys.items()
    }
    found = {kind: sum(key in given.captions for key in keys) for kind, keys in resolved.items()}
    best = max(found, key=lambda kind: found[kind], default=None)
    if best is None or not found[best]:
        ours = "; ".join(f"{kind} such as {keys[0]!r}" for kind, keys in file.keys.items())
        theirs = next(iter(given.captions))
        raise DataError(
            f"{file.name}: none of its {len(file.samples):,} rows has an image of {given.name}, which has "
            f"ids such as {theirs!r}; the rows have {ours or 'nothing that names an image once'}"
        )
    if best != "id" or resolved[best] != file.keys[best]:
        notes.append(f"{file.name}: joined with the references by {best}")
    return resolved[best]


def _by_line(
    files: Sequence[SystemFile], given: CaptionFile | None, notes: list[str]
) -> list[tuple[str, ...]]:
    """Return row numbers, where all files have as many rows and no file says that their order differs."""
    gaps = [file.name for file in files if file.skipped]
    if gaps:
        raise DataError(
            f"{gaps[0]}: bad rows were skipped, and nothing names the images in all files, so that rows "
            "cannot be joined; fix the rows, or give every row the image's id"
        )
    counts = {file.name: len(file.samples) for file in files}
    if given is not None:
        counts[given.name] = len(given.captions)
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        raise DataError(
            f"nothing names the images in all files, and they differ in rows ({shown}); give every row the "
            "image's id, or the same rows in the same order"
        )
    for kind in ("id", "image"):
        orders = [file.keys[kind] for file in files if kind in file.keys]
        other = next((order for order in orders[1:] if order != orders[0]), None)
        if other is not None and set(other) == set(orders[0]):
            raise DataError(
                f"the files have the same images in another order (by {kind}), and the references name none; "
                "sort the files alike, or give references by id"
            )
    _check_lines(files)
    number = next(iter(counts.values()))
    notes.append(f"joined line by line: row n of every file is taken for the same image ({number:,} rows)")
    return [tuple(str(line) for line in range(1, number + 1))] * len(files)


def _check_lines(files: Sequence[SystemFile]) -> None:
    """Refuse files that are joined line by line and whose rows themselves say that the images differ.

    Raises:
        DataError: row n of two files has different images.
    """
    for kind in ("image", "group"):
        owner: dict[int, tuple[str, str]] = {}
        for file in files:
            for line, sample in enumerate(file.samples, 1):
                own = image_names(sample)[kind]
                name, other = owner.setdefault(line, (file.name, own)) if own else (file.name, own)
                if own != other:
                    raise DataError(
                        f"row {line:,} is of {kind} {other!r} in {name} and of {own!r} in {file.name}, so "
                        "that rows cannot be joined line by line; give every row an id, the same in all files"
                    )


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
    files: Sequence[SystemFile],
    keyed: Sequence[Mapping[str, CaptionSample]],
    given: CaptionFile | None,
    images: Root | None,
    notes: list[str],
) -> dict[str, Any]:
    """Return {image: its file}: what the rows name, else a file in the folder with the image's name or id."""
    found = {
        key: next((samples[key].image for samples in keyed if samples[key].image is not None), None)
        for key in common
    }
    if images is None or all(picture is not None for picture in found.values()):
        return found
    names = {image: name for name, image in given.file_names.items()} if given is not None else {}
    for key in common:
        if found[key] is None:
            found[key] = image_file(images, key, names.get(key))
    absent = [key for key in common if found[key] is None]
    if len(absent) == len(common):
        tried = ", ".join(pattern.format(common[0]) for pattern in IMAGE_NAMES)
        raise DataError(f"--images {images.folder}: no file of image {common[0]!r} is there; tried {tried}")
    if absent:
        shown = ", ".join(absent[:_SHOWN]) + (", ..." if len(absent) > _SHOWN else "")
        notes.append(f"{len(absent):,} of {len(common):,} images have no file in {images.folder} ({shown})")
    return found

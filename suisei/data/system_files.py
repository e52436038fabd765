"""What one captioning system says: its file, read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from suisei.data.caption_file import CaptionFile
from suisei.data.caption_texts import is_json, is_json_lines
from suisei.data.coco import has_result_rows, read_results
from suisei.data.compressed import plain_suffix
from suisei.data.file_rows import skipped_note
from suisei.data.formats import UNRATED, NamedColumns, OnError, Row, collect, iter_rows
from suisei.data.joins import image_names
from suisei.data.paths import Allowed
from suisei.data.sample import CaptionSample, language_of, plain_name, without_surrogates
from suisei.errors import ConfigError


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
        together: whether other systems are in the same file, which has each id once.
    """

    name: str
    samples: tuple[CaptionSample, ...]
    keys: Mapping[str, tuple[str, ...]]
    has_ids: bool = False
    skipped: int = 0
    together: bool = False

    def image_names(self) -> list[Mapping[str, str | None]]:
        """Return what may name the image of each sample, by what it is."""
        if self.has_ids:
            return [{"group": key, "image": None, "id": key} for key in self.keys["id"]]
        return [image_names(sample) for sample in self.samples]


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read, and where what was guessed is noted."""

    images: str | None
    columns: NamedColumns | None
    on_error: OnError
    allowed: Allowed | None
    notes: list[str] = field(default_factory=list)


def named_files(files: Sequence[str]) -> list[tuple[str, str]]:
    """Return (name, path) of each system; bytes of a file's name that are no UTF-8 are escapes in its own.

    Raises:
        ConfigError: a system without a name or a file, or two of one name.
    """
    pairs = []
    for text in files:
        name, equals, path = text.partition("=")
        if not equals or Path(text).exists():
            base = Path(text).name
            name, path = Path(base.removesuffix(".gz")).stem, text
        name = without_surrogates(plain_name(name))
        if not name or not path:
            raise ConfigError(f"system {text!r} must be FILE or NAME=FILE")
        pairs.append((name, path))
    twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if twice:
        raise ConfigError(f"two systems are called {twice[0]!r}; name them: A=FILE B=FILE")
    return pairs


def read_system(name: str, path: str, how: Reading) -> SystemFile:
    """Return what a system says: a result file, text, or rows.

    Raises:
        DataError: a file or row that cannot be used.
    """
    text = plain_suffix(path) in ("", ".txt")
    if text or ((is_json(path) or is_json_lines(path)) and not how.columns and has_result_rows(path)):
        return _from_results(name, read_results(path, on_error=how.on_error), how.notes)
    skipped: list[Row] = []
    columns = {**UNRATED, **(how.columns or {})}
    rows = iter_rows(path, images=how.images, columns=columns, note=how.notes.append, allowed=how.allowed)
    samples = tuple(collect(rows, on_error=how.on_error, skipped=skipped))
    if skipped:
        how.notes.append(f"{path}: {skipped_note([row.error for row in skipped])}")
    return SystemFile(name, samples, _keys(samples), skipped=len(skipped))


def _from_results(name: str, found: CaptionFile, notes: list[str]) -> SystemFile:
    notes.append(found.describe())
    if found.bad:
        notes.append(f"{found.name}: {skipped_note(found.bad)}")
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


def in_language(file: SystemFile, language: str) -> SystemFile:
    """Return what a system says in a language alone."""
    kept = [number for number, sample in enumerate(file.samples) if language_of(sample) == language]
    samples = tuple(file.samples[number] for number in kept)
    keys = _keys(samples)
    if file.has_ids:
        keys = {kind: tuple(names[number] for number in kept) for kind, names in file.keys.items()}
    return replace(file, samples=samples, keys=keys)


def split_systems(file: SystemFile, path: str) -> list[SystemFile]:
    """Return a system per value of ``system`` of one file.

    Raises:
        ConfigError: a row names none, or all rows the same.
    """
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
    # Whose the skipped rows are is not known, so that any system may lack some.
    return [
        SystemFile(name, tuple(samples), _keys(samples), skipped=file.skipped, together=True)
        for name, samples in parts.items()
    ]

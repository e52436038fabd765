"""What stands beside the rows: references in files of their own, and images that are called after an id.

Rows stream through. References of plain text are read line by line beside them; those by image id are held
in memory, as one file per image's captions is small beside its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, islice, zip_longest
from pathlib import Path

from suisei.cli import counted
from suisei.data.caption_cells import is_literal, refuse_literal
from suisei.data.caption_file import CaptionFile
from suisei.data.caption_tables import begins_with_token
from suisei.data.caption_texts import is_json, is_text
from suisei.data.coco import read_references
from suisei.data.compressed import open_plain
from suisei.data.file_rows import Note, Row
from suisei.data.lines import (
    LONE_RETURN,
    has_lone_return,
    is_broken,
    is_cut,
    numbered_lines,
    utf8_lines,
    whole_utf8,
)
from suisei.data.paths import Root, is_stream, spellings
from suisei.data.plain_text import caption_lines
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, DataError

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
IMAGE_NAMES = (
    "{}",
    *(name + suffix for name in ("{}", "{:0>12}") for suffix in IMAGE_SUFFIXES),
    *("{}" + suffix.upper() for suffix in IMAGE_SUFFIXES),  # as cameras call them
    *("COCO_val2014_{:0>12}.jpg", "COCO_train2014_{:0>12}.jpg"),
)
"""How image files are called after an image's id."""
_LOOKED_AT = 1000
"""So many rows say by which of their names they are joined."""


class References:
    """References in files of their own, which can be read for several passes over the rows.

    Args:
        paths: COCO annotations, JSON, JSONL or a table by image id; or text, one file per reference.

    Raises:
        ConfigError: no file, or one of another kind.
        DataError: a file is not there.
    """

    def __init__(self, paths: Sequence[Path | str]) -> None:
        if isinstance(paths, str | Path) or not paths:
            raise ConfigError("references must be a list of one file or more")
        self.paths = [Path(path) for path in paths]
        for path in self.paths:
            if not path.exists():
                raise DataError(f"--references {path}: no such file")
            if path.is_dir():
                raise DataError(f"--references {path}: is a folder; give a file")
        self.name = ", ".join(map(str, paths))
        self.streamed = all(is_text(path) and not is_stream(path) for path in self.paths) and not (
            len(self.paths) == 1 and begins_with_token(self.paths[0])
        )
        self._loaded: CaptionFile | None = None

    def loaded(self) -> CaptionFile:
        """Return the references by image, read once."""
        if self._loaded is None:
            self._loaded = read_references(self.paths)
        return self._loaded

    def lines(self) -> Iterator[tuple[str, ...]]:
        """Yield the references of line after line of the text files, blank ones left out.

        Raises:
            DataError: the files differ in length, or hold what is no UTF-8 text or no caption.
        """
        with ExitStack() as stack:
            streams = [_text_lines(path, stack) for path in self.paths]
            for number, lines in enumerate(zip_longest(*streams), 1):
                if None in lines:
                    short = self.paths[lines.index(None)]
                    raise DataError(
                        f"{short} has {number - 1:,} lines, and another file of references more; they must "
                        "have a line per row each"
                    )
                yield tuple(line for line in lines if line.strip())


def _text_lines(path: Path, stack: ExitStack) -> Iterator[str]:
    try:
        stream = stack.enter_context(open_plain(path))
        text = utf8_lines(stream, newline="\n")
        for number, line in caption_lines(whole_utf8(numbered_lines(text)), "references"):
            if is_broken(line) or is_cut(line):
                what = "is not valid UTF-8; save the file as UTF-8" if is_broken(line) else "is too long"
                raise DataError(f"line {number:,} {what}")
            if has_lone_return(line):
                raise DataError(f"line {number:,}: {LONE_RETURN}")
            if is_literal(line):
                refuse_literal(f"line {number:,}", line)
            yield line.rstrip("\r\n")
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def joined(
    rows: Iterator[Row],
    given: References | None,
    images: Root | None,
    name: str,
    note: Note,
    *,
    waits: bool = False,
) -> Iterator[Row]:
    """Put references and images that stand beside the rows into their samples.

    Args:
        rows: the rows of a file.
        given: their references; None to keep what the rows have.
        images: a folder in which rows that name no image find one by their image's id; None for none.
        name: of the file, for messages.
        note: told how rows are joined, and at the end what was not found.
        waits: whether rows come as they are made, so that the first one has to say what the others are like.

    Raises:
        DataError: no row has an image that the references know, or text with another number of lines.
    """
    if given is None and images is None:
        return rows
    return _joined(rows, given, images, name, note, 1 if waits else _LOOKED_AT)


def _joined(
    rows: Iterator[Row], given: References | None, images: Root | None, name: str, note: Note, look: int
) -> Iterator[Row]:
    head, problem = _head(rows, look)
    samples = [row.sample for row in head if row.sample is not None]
    every: Iterable[Row] = chain(head, rows if problem is None else _raising(problem))
    files: dict[str, str] = {}  # of the references' images, once it is known how rows are joined with them
    if given is not None:
        if any(sample.references for sample in samples):
            note(f"{name}: references in its rows are not used, for there are files of references")
        if given.streamed or given.loaded().by_line:
            every = _with_lines(every, given, name, note)
        else:
            every = _with_references(every, given.loaded(), samples, name, note, files)
    if images is not None:  # whatever the first rows have: a later one may be the first to name no image
        every = _with_images(every, images, files, name, note)
    yield from every


def _raising(problem: DataError) -> Iterator[Row]:
    """Raise where the rows ended, so that nobody counts those before the problem as all there are."""
    yield from ()
    raise problem


def _head(rows: Iterator[Row], count: int) -> tuple[list[Row], DataError | None]:
    """Return the first rows, and the problem that ended them early."""
    head: list[Row] = []
    try:
        head.extend(islice(rows, count))
    except DataError as error:
        return head, error
    return head, None


def image_names(sample: CaptionSample) -> dict[str, str | None]:
    """Return what may name a sample's image, by what it is: its group, image file and id."""
    file = Path(sample.image).name if isinstance(sample.image, str | Path) else None
    return {"group": sample.group, "image": file, "id": sample.id}


def _with_references(
    rows: Iterable[Row],
    known: CaptionFile,
    samples: Sequence[CaptionSample],
    name: str,
    note: Note,
    files: dict[str, str],
) -> Iterator[Row]:
    kind = None
    absent = _Absent(f"{name}: {known.name} has no references", note)
    for row in absent.among(rows):
        if row.sample is None:
            yield row
            continue
        if kind is None:  # the first good row, which may come after all that were looked at
            names_there = [image_names(sample) for sample in samples or [row.sample]]
            known = known.named_for(names_there)
            kind = _best_kind(known, names_there, name)
            files.update((image, file) for file, image in known.file_names.items())
            note(f"{known.describe()}; rows of {name} are joined with it by {kind}")
        names = image_names(row.sample)
        found = known.find(names[kind])
        if found is None:
            absent.add(row, known.without_zeros([names[kind]]))
        elif problem := known.contradiction(known.image_of(str(names[kind])), names):
            error = DataError(f"{name}, row {row.number}: {problem}; name the images alike in both")
            yield replace(row, sample=None, error=error)
            continue
        yield _replaced(row, found or (), name)


def _best_kind(known: CaptionFile, names: Sequence[Mapping[str, str | None]], name: str) -> str:
    """Return by which of their names most samples have references.

    Raises:
        DataError: none of them has any.
    """
    found = {kind: sum(known.find(each[kind]) is not None for each in names) for kind in known.kinds}
    best = max(found, key=lambda kind: found[kind])
    if not found[best]:
        ours = "; ".join(f"{kind} such as {value!r}" for kind, value in names[0].items() if value)
        theirs = next(iter(known.captions))
        zeros = known.without_zeros(each[kind] for kind in known.kinds for each in names)
        raise DataError(
            f"{name}: none of its first {counted(len(names), 'row')} has an image of {known.name}, which has "
            f"ids such as {theirs!r}; the rows have {ours or 'nothing that names an image'} "
            f"({zeros and f'{zeros}; or '}--column group=NAME says which column does)"
        )
    return best


def _with_lines(rows: Iterable[Row], given: References, name: str, note: Note) -> Iterator[Row]:
    lines = given.lines() if given.streamed else iter(given.loaded().captions.values())
    one, more = ("entry", "entries") if any(map(is_json, given.paths)) else ("line", "lines")
    note(f"row n of {name} is joined with {one} n of {given.name}")
    absent, number = _Absent(f"{name}: {given.name} has no references", note), 0
    for number, row in enumerate(absent.among(rows), 1):
        found = next(lines, None)
        if found is None:
            raise DataError(
                f"{given.name} has {number - 1:,} {more}, and {name} more rows; it must have one per row"
            )
        if row.sample is not None and not found:
            absent.add(row)
        yield _replaced(row, found, name)
    if next(lines, None) is not None:
        raise DataError(f"{given.name} has more than the {number:,} {more} that {name} has rows")


def _replaced(row: Row, references: tuple[str, ...], name: str) -> Row:
    if row.sample is None:
        return row
    try:
        return replace(row, sample=replace(row.sample, references=references))
    except DataError as error:  # too long, say
        return replace(row, sample=None, error=DataError(f"{name}, row {row.number}: {error}"))


def _with_images(
    rows: Iterable[Row], images: Root, files: Mapping[str, str], name: str, note: Note
) -> Iterator[Row]:
    absent, found = _Absent(f"{images.folder} has no image", note), 0
    for row in absent.among(rows):
        sample = row.sample
        if sample is None or sample.image is not None or not sample.group:
            yield row
            continue
        try:
            image = image_file(images, sample.group, files.get(sample.group))
        except DataError as error:
            yield replace(row, sample=None, error=DataError(f"{name}, row {row.number}: {error}"))
            continue
        if image is None:
            absent.add(row)
        elif not found:
            note(f"{name}: images are found in {images.folder} by their ids, such as {image.name}")
        found += image is not None
        yield replace(row, sample=replace(sample, image=image))


def image_file(images: Root, image: str, file: str | None) -> Path | None:
    """Return the file of an image in a folder: by its name, else by what files are called after its id.

    Raises:
        DataError: there is one, and it leads out of the folder.
    """
    patterns = [file] if file else [pattern.format(image) for pattern in IMAGE_NAMES]
    names = [name for pattern in patterns for name in spellings(pattern)]
    try:
        found = next((each for each in names if (images.folder / each).is_file()), None)
    except (OSError, ValueError):  # an id that cannot be a file's name
        return None
    return None if found is None else images.file(found)


class _Absent:
    """Counts the rows for which something is not there.

    Args:
        what: is said of them.
        note: is told so, after the last row.
    """

    def __init__(self, what: str, note: Note) -> None:
        self._what, self._note = what, note
        self._count, self._first, self._why = 0, "", ""

    def among(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows, and tell at their end, where a problem ends them too, how many were added."""
        try:
            yield from rows
        except DataError:
            self._tell()
            raise
        self._tell()

    def add(self, row: Row, why: str = "") -> None:
        self._count += 1
        self._why = self._why or why
        if self._count == 1:
            named = row.sample.group or row.id if row.sample is not None else row.id
            self._first = f"row {row.number}" + (f", {named!r}" if named else "")

    def _tell(self) -> None:
        if self._count:
            why = f"; {self._why}" if self._why else ""
            self._note(f"{self._what} for {counted(self._count, 'row')} (the first: {self._first}){why}")

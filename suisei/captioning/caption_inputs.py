"""Which images are to be captioned: files, folders, rows of a file, or data with references."""

from __future__ import annotations

import io
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from suisei.captioning.caption_sources import load_captioned
from suisei.data.caption_texts import is_json_lines, is_text, read_text, text_lines
from suisei.data.compressed import plain_suffix
from suisei.data.fields import json_cell
from suisei.data.json_files import parse_object
from suisei.data.lines import delimited_records, numbered_lines
from suisei.data.paths import Allowed, Root, address_error, is_address
from suisei.data.sample import LANGUAGES, check_captions, detect_language
from suisei.errors import ConfigError, DataError

logger = logging.getLogger(__name__)

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm")
"""Of the files in a folder, those whose names end so are images."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """An image that is to be captioned.

    Attributes:
        id: its name, unique.
        image: path of the file.
        references: what people said, with the language of each; none where nobody did.
    """

    id: str
    image: Path
    references: tuple[tuple[str, str], ...] = ()

    def references_in(self, language: str) -> list[str]:
        """Return the references in a language."""
        return [text for text, spoken in self.references if spoken == language]


def images_to_caption(
    images: Sequence[str] | None,
    file: str | None,
    data: str | None,
    root: str | None,
    allowed: Allowed | None = None,
) -> list[Wanted]:
    """Return the images that the options of a command name, in order.

    Args:
        images: files and folders; with ``file``, or ``data`` that are a file, the folder where relative paths
            start.
        file: rows with an image each.
        data: a data set with references, see :func:`suisei.captioning.caption_sources.load_captioned`.
        root: its folder.
        allowed: what a file may name beside images in that folder or its own.

    Raises:
        DataError: no image, or a file that cannot be read.
    """
    if data is not None:
        start = images[0] if images else None
        return _unique(
            Wanted(found.id, found.image, tuple(zip(found.captions, found.languages, strict=True)))
            for found in load_captioned(data, root=root, images=start, allowed=allowed)
        )
    if file is not None:
        own = Path(file).parent
        found = _unique(_rows(file, Root(images[0] if images else own, own, allowed=allowed)))
    else:
        found = _unique(_files(images or ()))
    if not found:
        raise DataError(f"{file or ', '.join(images or ())}: no image ({', '.join(SUFFIXES)})")
    return found


def _unique(wanted: Iterable[Wanted]) -> list[Wanted]:
    """Return images under ids that no other has: paths in place of ids that different images share."""
    found = _once(wanted)
    count, shared = len(found), list[str]()
    while repeated := _repeated(found):  # again where a path is the id of another image
        shared += repeated
        found = _once(
            replace(image, id=str(image.image)) if image.id in repeated else image for image in found
        )
    if shared:
        first, fewer = repr(shared[0][:60]), count - len(found)
        logger.warning(
            "%s of several images, whose paths are written instead%s",
            f"id {first} is that" if len(shared) == 1 else f"{len(shared)} ids, such as {first}, are those",
            f"; an image that has several such ids is written once: {fewer} fewer rows" if fewer else "",
        )
    return found


def _repeated(found: Iterable[Wanted]) -> dict[str, None]:
    """Return the ids that several images have."""
    return {name: None for name, count in Counter(image.id for image in found).items() if count > 1}


def _once(wanted: Iterable[Wanted]) -> list[Wanted]:
    """Return what is wanted, an image that comes again by the same id once, with all of its references."""
    found: dict[tuple[str, Path], Wanted] = {}
    for image in wanted:
        known = found.setdefault((image.id, image.image), image)
        if known is not image:
            references = tuple(dict.fromkeys((*known.references, *image.references)))
            found[image.id, image.image] = replace(known, references=references)
    return list(found.values())


def _files(paths: Sequence[str]) -> Iterator[Wanted]:
    for name in paths:
        path = Path(name)
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
            yield from (Wanted(p.relative_to(path).as_posix(), p) for p in inside)
        elif path.is_file():
            yield Wanted(path.name, path)
        elif is_address(name):
            raise address_error("--images", name)
        else:
            raise DataError(f"{name}: no such image or folder")


def _rows(file: str, root: Root) -> Iterator[Wanted]:
    for place, row in _records(file):
        image = row.get("image")
        if not isinstance(image, str) or not image.strip():
            raise DataError(f"{file}, {place}: no image; every row names one in its column or field image")
        id_ = row.get("id")
        references = row.get("references") or []
        if not isinstance(references, list) or not all(isinstance(text, str) for text in references):
            raise DataError(f"{file}, {place}: references must be a list of texts")
        check_captions(f"{file}, {place}: reference", references)  # for which captions could not be scored
        name = image if id_ in (None, "") else str(id_)
        try:
            if is_address(image):
                raise address_error("image", image)
            path = root.found(image)
        except DataError as error:
            raise DataError(f"{file}, {place}: {error}") from None
        own = row.get("language") if row.get("language") in LANGUAGES else None
        yield Wanted(name, path, tuple((text, own or detect_language(text)) for text in references))


def _records(file: str) -> Iterator[tuple[str, dict[str, Any]]]:
    text = read_text(file)
    suffix = plain_suffix(file)
    if suffix in (".csv", ".tsv"):
        yield from _cells(file, text, "\t" if suffix == ".tsv" else ",")
    elif is_json_lines(file):
        for number, line in enumerate(text_lines(text), 1):
            if line.strip():
                yield f"line {number}", _object(file, number, line)
    elif is_text(file):
        for number, line in enumerate(text_lines(text), 1):
            if line.strip():
                yield f"line {number}", {"image": line.strip()}
    else:
        raise ConfigError(
            f"--input {file}: give .jsonl, .csv or .tsv with a column image, or .txt of paths, also with .gz"
        )


def _cells(file: str, text: str, delimiter: str) -> Iterator[tuple[str, dict[str, Any]]]:
    names: list[str] | None = None
    try:
        for record in delimited_records(numbered_lines(io.StringIO(text, newline="")), delimiter):
            place = f"line {record.line}"
            if record.problem is not None:
                raise DataError(f"{place}: {record.problem}")
            if names is None:
                names = record.fields
                if "image" not in names:
                    raise DataError(f"no column image; its columns: {', '.join(names)}")
            elif record.fields:
                row = dict(zip(names, record.fields, strict=False))
                yield place, _from_cells(place, row)
    except DataError as error:
        raise DataError(f"{file}: {error}") from None
    if names is None:
        raise DataError(f"{file}: no column image; it is empty")


def _from_cells(place: str, row: dict[str, str]) -> dict[str, Any]:
    """Return what is taken of a row of a table, whose references are a list as JSON, as data are written."""
    taken: dict[str, Any] = {name: row.get(name) for name in ("id", "image", "language")}
    cell = (row.get("references") or "").strip()
    try:
        return {**taken, "references": json_cell("references", cell, '["a cat", "the cat"]') if cell else []}
    except DataError as error:
        raise DataError(f"{place}: {error}") from None


def _object(file: str, number: int, line: str) -> dict[str, Any]:
    try:
        return parse_object(line)
    except DataError as error:
        raise DataError(f"{file}, line {number}: {error}") from None

"""Captions by image: COCO's result and annotation files, and what else holds captions or references.

A result file holds one caption per image, ``[{"image_id": 1, "caption": "..."}]``; an annotation file
``{"images": [...], "annotations": [...]}`` any number. In use are also Karpathy's splits, ``{id: caption}``,
``{id: [caption, ...]}`` and a list of such objects with one key each, JSON Lines, tables, lines of numbered
captions and plain text with a caption a line. Each but Parquet may be compressed by gzip. Which of them a
file is, its name or content says.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from suisei.cli import counted
from suisei.data.caption_cells import refuse_any, refuse_several
from suisei.data.caption_file import CaptionFile
from suisei.data.caption_objects import Record, id_text
from suisei.data.caption_records import ANNOTATIONS, KARPATHY, lines_of_captions, records_of
from suisei.data.caption_texts import is_json, is_text, read_text
from suisei.data.column_names import is_of_several, match_columns
from suisei.data.documents import (
    RESULT_FIELDS,
    alone_in,
    are_rows_by_id,
    caption_in,
    is_by_image,
    is_row,
)
from suisei.data.file_rows import none_usable
from suisei.data.sample import checked_caption
from suisei.errors import DataError

_Named = tuple[str, tuple[str, ...], str | None]
"""An image, its captions and its other name, if any."""
_SHOWN = 8


def has_result_rows(path: Path | str) -> bool:
    """Say whether a file is a result file, or captions by image id, by the first thing in it.

    Rows under ids are rows like others where any holds more than a caption.

    Raises:
        DataError: it cannot be read.
    """
    text = read_text(path)
    if not is_json(path):
        text = next((line for line in text.splitlines() if line.strip()), "")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if is_json(path) and isinstance(content, dict):
        return not is_row(content) and not are_rows_by_id(content) and _are_captions(content.values())
    row = content[0] if isinstance(content, list) and content else content
    if is_json(path) and isinstance(content, list) and isinstance(row, dict) and is_by_image(row):
        items = (item for item in content if isinstance(item, dict) and len(item) == 1)
        return _are_captions(next(iter(item.values())) for item in items)
    return isinstance(row, dict) and (_is_result(row) or (is_json(path) and len(row) == 1))


def _are_captions(values: Iterable[Any]) -> bool:
    """Say whether what stands under ids are captions, and no rows, alone or in lists of one, of more."""
    return all(not isinstance(said, dict) or _has_caption_alone(said) for said in map(alone_in, values))


def _is_result(row: Mapping[str, Any]) -> bool:
    """Say whether a row says what a result file does, and no more that a comparison needs."""
    return set(row) >= RESULT_FIELDS and _has_caption_alone(row)


def _has_caption_alone(row: Mapping[str, Any]) -> bool:
    """Say whether a row has its candidate in the field "caption", and no more that a comparison needs."""
    if not is_row(row):
        return False
    columns = match_columns(tuple(row))
    more = columns.references or {"image", "system", "language"} & set(columns.of)
    return columns.of["candidate"] == "caption" and not more


def read_results(path: Path | str, *, on_error: str = "raise") -> CaptionFile:
    """Read what one system says: a caption per image.

    Args:
        path: .json, .jsonl or text, or one of them compressed by gzip.
        on_error: "raise" stops at the first bad row, "skip" leaves it out.

    Raises:
        DataError: an unreadable file or another layout, an image with several captions that differ, or,
            under "raise", a caption that is no text, empty, or what stands where there is none.
    """
    found = CaptionFile(str(path), "plain text, a caption a line", by_line=True)
    records = records_of(path, found, results=True)
    if found.form in (ANNOTATIONS, KARPATHY):
        raise DataError(f"{path}: {found.form} hold references, not a system's captions (--references)")
    places: dict[str, str] = {}
    table = not is_text(path)
    for record in records:
        try:
            image, captions = _checked(record, table=table)
            _add_one(found, image, captions, record.place, places)
        except DataError as error:
            problem = DataError(f"{path}, {record.place}: {error}")
            if on_error == "raise":
                raise problem from None
            found.bad.append(problem)
    return _not_empty(found)


def read_references(paths: Sequence[Path | str]) -> CaptionFile:
    """Read the references of images.

    Args:
        paths: one file, .json, .jsonl, .csv, .tsv, .parquet or text, or one text file per reference, line by
            line as sacreBLEU takes them (a blank line is no reference); all but Parquet may be compressed by
            gzip. Of a Karpathy split all parts are taken, and of each image the captions that are there.

    Raises:
        DataError: an unreadable file or another layout, a reference that is no text, empty, or what stands
            where there is none, or text files of different lengths.
    """
    if len(paths) > 1:
        return _text_references(paths)
    found = CaptionFile(str(paths[0]), "plain text, a reference a line", by_line=True)
    table = not is_text(paths[0])
    named = [
        (*_checked_in(paths[0], record, table=table), record.other) for record in records_of(paths[0], found)
    ]
    found.captions = _by_image(named)
    if any(other is not None for _, _, other in named):
        found.other = _by_other_name(named, found)
    return _not_empty(found)


def _by_image(named: Iterable[_Named]) -> dict[str, tuple[str, ...]]:
    collected: dict[str, list[str]] = {}
    for image, captions, _ in named:
        collected.setdefault(image, []).extend(captions)
    return {image: tuple(captions) for image, captions in collected.items()}


def _by_other_name(named: Sequence[_Named], found: CaptionFile) -> CaptionFile:
    """Return captions by what else names images; rows of one image that repeat a whole list are one."""
    lists: dict[str, list[tuple[str, ...]]] = {}
    for image, said, other in named:
        own = lists.setdefault(other or image, [])
        if len(said) == 1 or said not in own:
            own.append(said)
    captions = {image: tuple(chain.from_iterable(own)) for image, own in lists.items()}
    form = found.form + (", by imgid" if found.form == KARPATHY else "")
    others = {image: other for image, _, other in named if other is not None}
    files = {file: others[image] for file, image in found.file_names.items() if image in others}
    return CaptionFile(found.name, form, captions, files, kinds=("group", "image"))


def _checked_in(path: Path | str, record: Record, *, table: bool) -> tuple[str, tuple[str, ...]]:
    """Return the image and its captions.

    Raises:
        DataError: what is wrong with them, with the file and the place.
    """
    try:
        return _checked(record, table=table)
    except DataError as error:
        raise DataError(f"{path}, {record.place}: {error}") from None


def _checked(record: Record, *, table: bool) -> tuple[str, tuple[str, ...]]:
    """Return the image and its captions.

    Args:
        record: what the file has.
        table: it is JSON, whose writers put words where there is no value; not lines that somebody wrote.

    Raises:
        DataError: what is wrong with them, without the place.
    """
    image, captions = record.image, record.captions
    if isinstance(image, float) and image.is_integer():
        image = id_text(image)
    if isinstance(image, bool) or not isinstance(image, int | str) or not str(image).strip():
        raise DataError(f"the image's id must be a number or text, got {image!r:.60} beside {captions!r:.60}")
    if record.without is not None:
        there = ", ".join(f"{name!r:.40}" for name in record.without[:_SHOWN]) or "none"
        more = ", ..." if len(record.without) > _SHOWN else ""
        raise DataError(
            "no field holds captions, as 'captions', 'references' or 'caption' would; its fields: "
            f"{there}{more}"
        )
    every = captions if isinstance(captions, list) else [captions]
    if not every:
        raise DataError(f"image {image!r:.60} has an empty list of captions; leave it out or fill it in")
    what = f"the caption of image {image!r:.60}"
    texts = tuple(checked_caption(what, caption_in(caption)) for caption in every)
    refuse_any(what, texts, table=table)
    if isinstance(captions, str) and is_of_several(record.column):
        refuse_several(record.column, captions)
    return str(image).strip(), texts


def _add_one(
    found: CaptionFile, image: str, captions: tuple[str, ...], place: str, places: dict[str, str]
) -> None:
    if len(captions) > 1:
        raise DataError(
            f"{len(captions)} captions for image {image!r}, and a system says one of each; keep one, or pass "
            "a file of references as --references"
        )
    before = found.captions.get(image)
    if before is None:
        found.captions[image], places[image] = captions, place
    elif before == captions:
        found.repeated += 1
    else:
        raise DataError(
            f"image {image!r} has another caption in {places[image]} ({before[0][:60]!r}); a system says one "
            "of each image: keep one, or give every system a file of its own"
        )


def _text_references(paths: Sequence[Path | str]) -> CaptionFile:
    documents = [path for path in paths if not is_text(path)]
    if documents:
        raise DataError(
            f"{documents[0]}: several --references are plain text, one file per reference; "
            "give a JSON file or a table alone"
        )
    columns = [lines_of_captions(path, read_text(path), "references") for path in paths]
    if len({len(column) for column in columns}) > 1:
        counts = ", ".join(f"{path} {len(column):,}" for path, column in zip(paths, columns, strict=True))
        raise DataError(f"reference files must have a line per image each; they have {counts} lines")
    form = f"{counted(len(paths), 'reference')} a line in plain text"
    found = CaptionFile(", ".join(map(str, paths)), form, by_line=True)
    for number, lines in enumerate(zip(*columns, strict=True), 1):
        there = [(path, line) for path, line in zip(paths, lines, strict=True) if line.strip()]
        if not there:
            raise DataError(f"{paths[0]}, line {number}: none of the reference files has a reference here")
        checked = (
            _checked_in(path, Record(f"line {number}", number, line), table=False)[1] for path, line in there
        )
        found.captions[str(number)] = tuple(chain.from_iterable(checked))
    return _not_empty(found)


def _not_empty(found: CaptionFile) -> CaptionFile:
    if found.captions:
        return found
    if found.bad:
        raise none_usable(len(found.bad), found.bad[0])
    raise DataError(f"{found.name}: the file has no captions")

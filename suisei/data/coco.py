"""Captions by image: COCO's result and annotation files, and what else holds captions or references.

A result file holds one caption per image, ``[{"image_id": 1, "caption": "..."}]``; an annotation file
``{"images": [...], "annotations": [...]}`` any number. In use are also Karpathy's splits, ``{id: caption}``,
``{id: [caption, ...]}`` and a list of such objects with one key each, JSON Lines, and plain text with a
caption a line. Each may be compressed by gzip. Which of them a file is, its content says.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from suisei.data.caption_cells import refuse_any, refuse_several
from suisei.data.caption_file import CaptionFile
from suisei.data.column_names import ALIASES, is_of_several, match_columns
from suisei.data.compressed import open_plain, plain_suffix
from suisei.data.documents import RESULT_FIELDS, are_rows_by_id, caption_in, is_row, parse_json
from suisei.data.karpathy import karpathy_images, read_karpathy
from suisei.data.lines import LONE_RETURN, has_lone_return, refuse_iso_2022_jp
from suisei.data.plain_text import caption_lines
from suisei.data.sample import checked_caption
from suisei.errors import DataError

_FILE_FIELDS = tuple(name for tier in ALIASES["image"] for name in tier)
IMAGE_FIELDS = (*ALIASES["group"][1], "id", *_FILE_FIELDS, "group")
"""Fields of a JSON Lines row that may name its image, the first that is there; an id may be the row's."""
_IMAGE_IDS = frozenset(ALIASES["group"][1])
CAPTION_FIELDS = (
    *(name for tier in ALIASES["references"] for name in tier),
    *("reference", "ref", *ALIASES["candidate"][2]),
)
"""Fields of a row that may hold its captions, the first that is there."""

_JSON_LINES = (".jsonl", ".ndjson")
_TABLES = (".csv", ".tsv", ".parquet", ".xlsx", ".xls")
_SHOWN = 80


class Record(NamedTuple):
    """Captions of one image as a file has them, unchecked, where they stand, and its other name, if any.

    ``column`` is the field of a row that holds the captions; "" where the file's form says which does.
    """

    place: str
    image: Any
    captions: Any
    other: str | None = None
    column: str = ""


_Named = tuple[str, tuple[str, ...], str | None]
"""An image, its captions and its other name, if any."""


def is_json(path: Path | str) -> bool:
    """Say whether a file is one JSON document, by its name."""
    return plain_suffix(path) == ".json"


def is_json_lines(path: Path | str) -> bool:
    """Say whether a file holds a JSON object a line, by its name."""
    return plain_suffix(path) in _JSON_LINES


def is_text(path: Path | str) -> bool:
    """Say whether a file is plain text, by its name: what is called otherwise than the other kinds."""
    return not (is_json(path) or is_json_lines(path) or plain_suffix(path) in _TABLES)


def has_result_rows(path: Path | str) -> bool:
    """Say whether a file is a result file, or captions by image id, by the first thing in it.

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
        return not is_row(content) and not are_rows_by_id(content)
    row = content[0] if isinstance(content, list) and content else content
    return isinstance(row, dict) and (_is_result(row) or (is_json(path) and len(row) == 1))


def _is_result(row: Mapping[str, Any]) -> bool:
    """Say whether a row says what a result file does, and no more that a comparison needs."""
    if not set(row) >= RESULT_FIELDS or not is_row(row):
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
    records = _records(path, found, results=True)
    if found.form in (_ANNOTATIONS, _KARPATHY):
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
        paths: one file, .json, .jsonl or text, or one text file per reference, line by line as sacreBLEU
            takes them (a blank line is no reference); each may be compressed by gzip. Of a Karpathy split all
            parts are taken, and of each image the captions that are there.

    Raises:
        DataError: an unreadable file or another layout, a reference that is no text, empty, or what stands
            where there is none, or text files of different lengths.
    """
    tables = [path for path in paths if plain_suffix(path) in _TABLES]
    if tables:
        raise DataError(
            f"{tables[0]}: references are read from COCO annotations, JSON, JSONL or text, one file per "
            "reference; of a table, name the column: --column references=NAME"
        )
    if len(paths) > 1:
        return _text_references(paths)
    found = CaptionFile(str(paths[0]), "plain text, a reference a line", by_line=True)
    table = not is_text(paths[0])
    named = [
        (*_checked_in(paths[0], record, table=table), record.other) for record in _records(paths[0], found)
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
    form = found.form + (", by imgid" if found.form == _KARPATHY else "")
    others = {image: other for image, _, other in named if other is not None}
    files = {file: others[image] for file, image in found.file_names.items() if image in others}
    return CaptionFile(found.name, form, captions, files, kinds=("group", "image"))


def read_text(path: Path | str) -> str:
    """Return the text of a UTF-8 file, decompressed where its name ends in ``.gz``.

    Raises:
        DataError: the file cannot be read, is damaged or is not UTF-8.
    """
    try:
        with open_plain(path) as stream:
            content = stream.read()
        text = content.decode("utf-8-sig")
        if text.isascii():
            refuse_iso_2022_jp(text, 1)
        return text
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        if content[:2] == b"\x1f\x8b":
            raise DataError(
                f"{path}: compressed by gzip; let the name end in .gz, or decompress it"
            ) from None
        kind = (
            "UTF-16"
            if content[:2] in (b"\xff\xfe", b"\xfe\xff")
            else f"not valid UTF-8 at byte {error.start:,}"
        )
        raise DataError(f"{path}: {kind}; save it as UTF-8") from None


_ANNOTATIONS, _KARPATHY = "COCO annotations", "Karpathy's splits"


def _records(path: Path | str, found: CaptionFile, *, results: bool = False) -> Iterator[Record]:
    """Return the records of a file; its form, and whether it names images, are put into ``found``."""
    text = read_text(path)
    if is_json(path):
        found.by_line = False
        return _document_records(path, _parsed(path, text), found)
    if is_json_lines(path):
        rows = list(_json_lines(path, text))
        found.by_line = not any(name in row for _, row in rows for name in IMAGE_FIELDS)
        found.form = "a JSON object a line" + (", in the order of the captions" if found.by_line else "")
        found.row_files, found.row_groups = _row_files(rows), _row_groups(rows)
        return _row_records(rows, found.by_line)
    lines = _caption_lines(path, text, "captions" if results else "references")
    return (Record(f"line {number}", number, line) for number, line in enumerate(lines, 1))


def _caption_lines(path: Path | str, text: str, what: str) -> list[str]:
    lines = text_lines(text)
    try:
        found = [line for _, line in caption_lines(iter(enumerate(lines, 1)), what)]
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    lone = next((number for number, line in enumerate(lines, 1) if has_lone_return(line)), None)
    if lone is not None:
        raise DataError(f"{path}, line {lone:,}: {LONE_RETURN}")
    return found


def text_lines(text: str) -> list[str]:
    """Return the lines of a text file; only a line feed ends one, and the last may lack it."""
    lines = text.split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def _parsed(path: Path | str, text: str) -> Any:
    try:
        return parse_json(text)
    except json.JSONDecodeError as error:
        lines = "; if each line is an object of its own, name the file .jsonl" if error.lineno == 2 else ""
        place = f"line {error.lineno}, character {error.colno}"
        raise DataError(f"{path}: not valid JSON: {error.msg} at {place}{lines}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not usable JSON: {error}") from None


def _document_records(path: Path | str, content: Any, found: CaptionFile) -> Iterator[Record]:
    if isinstance(content, dict) and "annotations" in content:
        found.form = _ANNOTATIONS
        found.file_names = _file_names(path, content.get("images", []))
        rows = _list_of(path, content, "annotations")
        return _field_records(rows, "annotation")
    listed = karpathy_images(content)
    if listed is not None:
        found.form = _KARPATHY
        return _karpathy_records(path, listed, found)
    if isinstance(content, dict):
        found.form = "captions by image id"
        return _keyed_records([(f"image {key!r:.60}", key, said) for key, said in content.items()], found)
    if isinstance(content, list) and content and isinstance(content[0], dict):
        if set(content[0]) >= RESULT_FIELDS:
            found.form = "a COCO result file"
            return _field_records(content, "row")
        if len(content[0]) == 1:
            found.form = "a list of captions by image id"
            return _keyed_records(
                [(f"row {n}", *_only_entry(row)) for n, row in enumerate(content, 1)], found
            )
    start = json.dumps(content, ensure_ascii=False)[:_SHOWN]
    raise DataError(
        f'{path}: expected [{{"image_id": 1, "caption": "..."}}], {{"1": "..."}}, {{"1": ["...", "..."]}} or '
        f'COCO annotations {{"images": [...], "annotations": [...]}}; it begins {start}'
    )


def _list_of(path: Path | str, content: Mapping[str, Any], name: str) -> list[Any]:
    if not isinstance(content[name], list):
        raise DataError(f"{path}: {name!r} must be a list, got {type(content[name]).__name__}")
    return content[name]


def _file_names(path: Path | str, images: Any) -> dict[str, str]:
    """Return {file name: image id} of an annotation file's images."""
    names = {}
    for number, image in enumerate(_list_of(path, {"images": images}, "images"), 1):
        if not isinstance(image, dict) or "id" not in image:
            raise DataError(f"{path}, image {number}: expected an object with an 'id', got {image!r:.60}")
        if isinstance(image.get("file_name"), str):
            names[image["file_name"]] = str(image["id"])
    return names


def _karpathy_records(path: Path | str, images: list[Any], found: CaptionFile) -> Iterator[Record]:
    records, numbers = [], set[int | None]()
    for image in read_karpathy(str(path), images):
        found.file_names[image.file] = str(image.id)
        numbers.add(image.number)
        if image.captions != []:  # a part whose captions are kept secret
            number = None if image.number is None else str(image.number)
            records.append(Record(image.place, image.id, image.captions, number))
    if None in numbers or len(numbers) < len(images):
        return iter(record._replace(other=None) for record in records)
    found.whole = True
    return iter(records)


def _field_records(rows: Iterable[Any], noun: str) -> Iterator[Record]:
    for number, row in enumerate(rows, 1):
        place = f"{noun} {number}"
        if not isinstance(row, dict):
            yield Record(place, None, row)
        else:
            yield Record(place, row.get("image_id"), row.get("caption"))


def _only_entry(row: Any) -> tuple[str | None, Any]:
    """Return the key of an object with one and what is under it; None and the object of any other."""
    return next(iter(row.items())) if isinstance(row, dict) and len(row) == 1 else (None, row)


def _keyed_records(entries: Sequence[tuple[str, str | None, Any]], found: CaptionFile) -> Iterator[Record]:
    """Yield the records of (place, key, what is under it); a row is as in JSON Lines with the key as id."""
    rows = [_row_under(key, said) for _, key, said in entries]
    found.row_files, found.row_groups = _row_files(enumerate(rows)), _row_groups(enumerate(rows))
    numbered = any(_image_field(row) != "id" for row in rows)
    for (place, _key, said), row in zip(entries, rows, strict=True):
        field = str(_image_field(row))
        image = row[field]
        if numbered and field == "id" and isinstance(said, dict) and not _IMAGE_IDS.isdisjoint(said):
            image = None  # its own is null, and the key may be the id of another row's image
        yield Record(place, image, said, _other_name(row))


def _row_under(key: str | None, said: Any) -> dict[str, Any]:
    if key is None or not isinstance(said, dict):
        return {"id": key}
    return {name: value for name, value in said.items() if value is not None} | {"id": key}


def _json_lines(path: Path | str, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text_lines(text), 1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}, row {number}: not valid JSON: {error}") from None
        if not isinstance(row, dict):
            raise DataError(f"{path}, row {number}: expected an object, got {line.strip()[:60]!r}")
        yield number, row


def _row_records(rows: Sequence[tuple[int, dict[str, Any]]], by_line: bool) -> Iterator[Record]:
    for order, (number, row) in enumerate(rows, 1):
        name, column = _image_field(row), _fields(tuple(row)).captions
        image = order if by_line else row.get(str(name))
        yield Record(f"row {number}", image, row.get(column), _other_name(row), column)


class _Fields(NamedTuple):
    """What the fields of a row may hold: its image, its captions and files of its image."""

    image: str | None
    captions: str
    files: tuple[str, ...]


@lru_cache(maxsize=256)
def _fields(names: tuple[str, ...]) -> _Fields:
    """Return which of a row's fields are which; looked up, as nearly all rows of a file have the same."""
    return _Fields(
        next((name for name in IMAGE_FIELDS if name in names), None),
        next((name for name in CAPTION_FIELDS if name in names), ""),
        tuple(name for name in _FILE_FIELDS if name in names),
    )


def _image_field(row: Mapping[str, Any]) -> str | None:
    """Return which field names the image of a row: where it is the id, that may as well be the row's own."""
    return _fields(tuple(row)).image


def _other_name(row: Mapping[str, Any]) -> str | None:
    """Return what else names the image of a row that is known by its id."""
    return (_file_of(row) or _group_of(row)) if _image_field(row) == "id" else None


def _file_of(row: Mapping[str, Any]) -> str | None:
    for name in _fields(tuple(row)).files:
        if isinstance(row[name], str):
            return row[name] or None
    return None


def _group_of(row: Mapping[str, Any]) -> str | None:
    group = row.get("group")
    return _id_text(group) or None if isinstance(group, int | float | str) else None


def _row_files(rows: Iterable[tuple[int, dict[str, Any]]]) -> dict[str, set[str]]:
    """Return {file name: images} of rows that name both."""
    found: dict[str, set[str]] = {}
    for _, row in rows:
        if file := _file_of(row):
            name = Path(file).name if "/" in file or "\\" in file else file  # a path costs far more
            found.setdefault(name, set()).add(_id_text(row[str(_image_field(row))]))
    return found


def _row_groups(rows: Iterable[tuple[int, dict[str, Any]]]) -> dict[str, set[str]]:
    """Return {group: images} of rows that name an image by their own id."""
    found: dict[str, set[str]] = {}
    for _, row in rows:
        if "group" in row and _image_field(row) == "id" and (group := _group_of(row)):
            found.setdefault(group, set()).add(_id_text(row["id"]))
    return found


def _id_text(image: Any) -> str:
    """Return an image's id as text; pandas writes whole numbers of a column that has gaps as 1.0."""
    return str(int(image) if isinstance(image, float) and image.is_integer() else image).strip()


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
        image = _id_text(image)
    if isinstance(image, bool) or not isinstance(image, int | str) or not str(image).strip():
        raise DataError(f"the image's id must be a number or text, got {image!r:.60} beside {captions!r:.60}")
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
    documents = [path for path in paths if is_json(path) or is_json_lines(path)]
    if documents:
        raise DataError(
            f"{documents[0]}: several --references are plain text, one file per reference; "
            "give a JSON file alone"
        )
    columns = [_caption_lines(path, read_text(path), "references") for path in paths]
    if len({len(column) for column in columns}) > 1:
        counts = ", ".join(f"{path} {len(column):,}" for path, column in zip(paths, columns, strict=True))
        raise DataError(f"reference files must have a line per image each; they have {counts} lines")
    form = f"{len(paths)} references a line in plain text"
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
        raise DataError(f"none of the {len(found.bad):,} rows is usable; the first problem: {found.bad[0]}")
    raise DataError(f"{found.name}: the file has no captions")

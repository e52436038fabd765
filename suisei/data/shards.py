"""Sets that are too large for one file: their shards by pattern, and the rows of one shard.

A shard is a tar archive as WebDataset and img2dataset lay it out (``KEY.jpg``, ``KEY.txt``, ``KEY.json``, one
sample after the other), or a file of rows as :mod:`suisei.data.formats` reads them. Rows of an archive refer
to nothing outside of it.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from suisei.data.beside_uids import UidsBeside
from suisei.data.column_names import NoCandidateError, chosen_columns, match_columns
from suisei.data.compressed import open_plain, plain_suffix
from suisei.data.documents import parse_json
from suisei.data.fields import Settings, make_sample
from suisei.data.file_rows import Note, Row
from suisei.data.formats import FORMATS, NamedColumns, iter_rows
from suisei.data.idset import IdSet
from suisei.data.image_bytes import ImageBytes
from suisei.data.json_files import invalid_json
from suisei.data.parquet import import_pyarrow
from suisei.data.paths import Allowed, Root
from suisei.data.sample import LANGUAGES, CaptionSample, refuse_surrogate
from suisei.data.shard_names import TAR
from suisei.data.tar_members import Member, TrailingDataError, tar_members
from suisei.errors import DataError, UnavailableError

MOST_IMAGE_BYTES = 64 << 20
"""Largest image file that is read out of an archive."""
MOST_TEXT_BYTES = 1 << 20
"""Largest caption or JSON that is read out of an archive."""
IMAGES = ("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff", "ppm")

_KEY = re.compile(r"((?:.*/)?[^./][^./]*)\.([^/]*)", re.DOTALL)
_DOTTED = "dotted"
"""Kind of a member such as KEY.2.txt: of a sample that is called KEY.2, or something beside that of KEY."""
_OF_CAPTIONS = ("candidate", "references", "language", "system")
"""What a row of an archive may be filled with; an image or a video is a member, never a path."""
_NEVER: dict[str, Any] = dict.fromkeys(
    ("image", "video", "segment", "rating", "rating_scale", "group", "id"), ()
)


@dataclass(frozen=True, slots=True)
class ShardRow:
    """A row of a shard.

    Attributes:
        row: the sample, or what is wrong with it; its id is the sample's key.
        uid: the set's own name of the sample, such as DataComp's 32 hexadecimal digits; None without one.
        size: bytes of its image in memory.
    """

    row: Row
    uid: str | None = None
    size: int = 0


def shard_rows(
    path: Path,
    columns: NamedColumns,
    *,
    images: Path | str | None = None,
    allowed: Allowed | None = None,
    pictured: bool = True,
    note: Note = lambda _: None,
    uids_note: Note = lambda _: None,
) -> Iterator[ShardRow]:
    """Yield the rows of a shard, bad ones included.

    Args:
        path: a tar archive, or a file of rows.
        columns: {field: the column, or entry of an archive's JSON, that fills it}.
        images: where relative image paths of a file of rows start; by default its folder.
        allowed: what rows of a file may name beside images in these folders.
        pictured: whether images are wanted; an archive's are passed over otherwise.
        note: told what is guessed about the columns of a file of rows.
        uids_note: told why the uids beside an archive cannot be read.

    Raises:
        DataError: the shard cannot be read, or not to its end; its rows before that have been yielded.
    """
    if path.suffix.lower() == TAR:
        yield from _tar_rows(
            path, columns, UidsBeside(path.with_suffix(".parquet"), uids_note), pictured=pictured
        )
        return
    names = _column_names(path)
    own: dict[str, Any] = {"rating": [], "rating_scale": []}
    if "key" in names and "id" not in names:
        own["id"] = ["key"]
    for row in iter_rows(path, images=images, columns={**own, **columns}, note=note, allowed=allowed):
        yield _file_row(path, row)


def _file_row(path: Path, row: Row) -> ShardRow:
    try:
        refuse_surrogate("uid", row.uid or "")
    except DataError as problem:
        error = row.error or DataError(f"{path}, row {row.number}: {problem}")
        return ShardRow(replace(row, sample=None, error=error, uid=None))
    return ShardRow(row, row.uid)


def _column_names(path: Path) -> Sequence[str]:
    """Return the names of a file's columns, of JSONL its first row's; none where they are not seen."""
    kind = FORMATS.get(plain_suffix(path))
    try:
        if kind == "parquet":
            names: list[str] = import_pyarrow(path).parquet.read_schema(path).names
            return names
        with open_plain(path) as stream:
            line = stream.readline(MOST_TEXT_BYTES)
        if kind == "jsonl":
            first = json.loads(line)
            return list(first) if isinstance(first, dict) else []
        header = line.decode("utf-8-sig").strip()
        cells = csv.reader([header], delimiter=max(",;\t", key=header.count))
        return [name.strip() for name in next(cells, [])]
    except UnavailableError:
        raise
    except (OSError, ValueError, RecursionError, csv.Error):  # said by what reads the rows, pyarrow's too
        return []


# -- archives ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Archive:
    """What the samples of an archive share."""

    path: Path
    columns: NamedColumns
    uids: UidsBeside
    seen: IdSet = field(default_factory=IdSet)

    @property
    def captioned(self) -> bool:
        """Whether the caption is that of the ``.txt`` where there is one."""
        return "txt" in dict(chosen_columns(self.columns)).get("candidate", ("txt",))


def _tar_rows(path: Path, columns: NamedColumns, uids: UidsBeside, *, pictured: bool) -> Iterator[ShardRow]:
    archive = _Archive(path, {name: columns[name] for name in _OF_CAPTIONS if name in columns}, uids)
    number = 0
    try:
        with path.open("rb") as stream:
            for key, members in _samples(tar_members(stream, lambda name: _limit(name, pictured))):
                number += 1
                yield _tar_row(archive, number, key, members)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    if not number:
        raise DataError(f"{path}: holds no sample (KEY.jpg, KEY.txt, KEY.json)")


def _limit(name: str, pictured: bool) -> int:
    found = _KEY.fullmatch(name)
    kind = found[2].lower() if found else ""
    if kind in IMAGES:
        return MOST_IMAGE_BYTES if pictured else 0
    return MOST_TEXT_BYTES if kind in ("txt", "json") else 0


def _samples(members: Iterator[Member]) -> Iterator[tuple[str, dict[str, Member]]]:
    """Yield neighbours of one key together, by kind; of several images the first."""
    key: str | None = None
    found: dict[str, Member] = {}
    problem: DataError | None = None
    try:
        for member in members:
            parts = _KEY.fullmatch(member.name)
            if parts is None:
                continue
            if parts[1] != key:
                if key is not None and found:
                    yield key, found
                key, found = parts[1], {}
            kind = parts[2].lower()
            kind = "image" if kind in IMAGES else kind
            if kind in ("image", "txt", "json"):
                found.setdefault(kind, member)
            elif kind.rpartition(".")[2] in (*IMAGES, "txt", "json"):
                found.setdefault(_DOTTED, member)
    except TrailingDataError as error:  # what came before the end mark is whole
        problem = error
    except DataError as error:  # the last sample may lack what comes after the break: it is not scored
        found, problem = {}, error
    if key is not None and found:
        yield key, found
    if problem is not None:
        raise problem


def _tar_row(archive: _Archive, number: int, key: str, members: Mapping[str, Member]) -> ShardRow:
    uid = None
    try:
        record = _record(members, captioned=archive.captioned)
        uid = _own_uid(record) or archive.uids.of(key)
        if not archive.seen.add(key):
            raise DataError("the key is that of an earlier sample; every key must be unique")
        image = members.get("image")
        if image is not None and image.problem:
            raise DataError(f"the image {image.problem}")
        sample = _sample(record, archive, texted="txt" in members)
    except DataError as error:
        refused = Row(number, key, None, DataError(f"{archive.path}, row {number}: {error}"))
        return ShardRow(refused, uid or archive.uids.of(key))
    if image is None or image.content is None:
        return ShardRow(Row(number, key, sample, None), uid)
    content = ImageBytes(f"{archive.path}/{image.name}", image.content)
    return ShardRow(Row(number, key, replace(sample, image=content), None), uid, len(image.content))


def _own_uid(record: Mapping[str, Any]) -> str | None:
    uid = record.get("uid")
    if not isinstance(uid, str):
        return None
    refuse_surrogate("uid", uid)
    return uid


def _sample(record: Mapping[str, Any], archive: _Archive, *, texted: bool) -> CaptionSample:
    """Return the sample of a record; a language that is not one of ours counts as not stated.

    In a file of rows it is an error; crawlers write there what they guess, in any spelling.
    """
    own = {"candidate": ("txt",)} if texted else {}
    chosen = chosen_columns({**_NEVER, **own, **archive.columns})
    try:
        columns = match_columns(tuple(record), chosen)
    except NoCandidateError as error:
        if "candidate" in archive.columns:
            raise
        raise DataError(f"no caption, since there is no .txt, and in its .json {error}") from None
    stated = columns.of.get("language")
    if stated is not None and record.get(stated) not in LANGUAGES:
        record = {**record, stated: None}
    return make_sample(record, columns, Settings(Root(archive.path.parent), chosen=chosen))


def _record(members: Mapping[str, Member], *, captioned: bool) -> dict[str, Any]:
    """Return a sample's JSON, with its text under ``txt``.

    Args:
        members: of the sample, by kind.
        captioned: whether the caption is that of the text, where there is one.

    Raises:
        DataError: a member that cannot be read as what its name says, or neither of the two.
    """
    record: dict[str, Any] = {}
    if "json" in members:
        record = _json(members["json"])
    if "txt" in members:
        try:
            record["txt"] = _text(members["txt"], "txt").strip("\r\n")
        except DataError as error:
            raise DataError(f"no caption, since {error}" if captioned else str(error)) from None
    if not record and _DOTTED in members:
        raise DataError(
            f"no caption: {members[_DOTTED].name[:80]!r} has a dot before its ending, and keys end at the "
            "first dot; write the shard with other names"
        )
    if not record:
        raise DataError("no caption, since there is neither a .txt nor a .json with one")
    return record


def _json(member: Member) -> dict[str, Any]:
    try:
        content = parse_json(_text(member, "json"))
    except DataError:
        raise
    except (ValueError, RecursionError) as error:
        raise DataError(f".json is {invalid_json(error, fix='write the shard again')}") from None
    if not isinstance(content, dict):
        raise DataError(f".json holds {type(content).__name__}, expected an object")
    return content


def _text(member: Member, kind: str) -> str:
    if member.problem or member.content is None:
        raise DataError(f".{kind} {member.problem}")
    try:
        return member.content.decode("utf-8-sig")  # a byte order mark is none of the text
    except UnicodeDecodeError:
        raise DataError(f".{kind} is not valid UTF-8") from None

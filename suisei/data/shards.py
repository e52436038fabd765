"""Sets that are too large for one file: their shards by pattern, and the rows of one shard.

A shard is a tar archive as WebDataset and img2dataset lay it out (``KEY.jpg``, ``KEY.txt``, ``KEY.json``, one
sample after the other), or a file of rows as :mod:`suisei.data.formats` reads them. Rows of an archive refer
to nothing outside of it.
"""

from __future__ import annotations

import csv
import glob
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from suisei.data.column_names import chosen_columns, match_columns
from suisei.data.compressed import open_plain, plain_suffix
from suisei.data.documents import parse_json
from suisei.data.fields import Settings, make_sample
from suisei.data.file_rows import Note, Row
from suisei.data.formats import FORMATS, NamedColumns, iter_rows
from suisei.data.idset import IdSet
from suisei.data.image_bytes import ImageBytes
from suisei.data.parquet import import_pyarrow
from suisei.data.paths import Allowed, Root
from suisei.data.tar_members import Member, tar_members
from suisei.errors import ConfigError, DataError, UnavailableError

MOST_SHARDS = 1_000_000
MOST_IMAGE_BYTES = 64 << 20
"""Largest image file that is read out of an archive."""
MOST_TEXT_BYTES = 1 << 20
"""Largest caption or JSON that is read out of an archive."""
IMAGES = ("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff", "ppm")
TAR = ".tar"

_RANGE = re.compile(r"\{(\d{1,12})\.\.(\d{1,12})\}|\{([^{}]*,[^{}]*)\}")
_MAGIC = re.compile(r"[*?\[]")
_KEY = re.compile(r"((?:.*/)?[^./][^./]*)\.([^/]*)", re.DOTALL)
_OF_CAPTIONS = ("candidate", "references", "language", "system")
"""What a row of an archive may be filled with; an image or a video is a member, never a path."""


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


def is_pattern(text: str) -> bool:
    """Say whether an input names shards: a tar archive, or a pattern that is no file's own name."""
    if Path(text).suffix.lower() == TAR:
        return True
    return bool(_RANGE.search(text) or _MAGIC.search(text)) and not os.path.exists(text)  # noqa: PTH110


def shard_paths(pattern: str) -> list[Path]:
    """Return the shards that a pattern names, in order; those of a range whether they are there or not.

    ``{00000..00999}`` counts with leading zeros, ``{a,b}`` lists, ``*``, ``?`` and ``[]`` match files.

    Raises:
        ConfigError: too many, or none.
    """
    found: dict[str, None] = {}
    for name in _expanded(pattern):
        matches = sorted(glob.glob(name)) if _MAGIC.search(name) else [name]  # noqa: PTH207 - may be absolute
        found.update(dict.fromkeys(matches))
    if not found:
        raise ConfigError(f"--input {pattern}: no file has such a name")
    return [Path(name) for name in found]


def _expanded(pattern: str) -> list[str]:
    names = [pattern]
    while any(_RANGE.search(name) for name in names):
        wider: list[str] = []
        for name in names:
            match = _RANGE.search(name)
            parts = [""] if match is None else _choices(match)
            before, after = (name, "") if match is None else (name[: match.start()], name[match.end() :])
            if len(wider) + len(parts) > MOST_SHARDS:
                raise ConfigError(f"--input {pattern[:200]}: names more than {MOST_SHARDS:,} shards")
            wider += [f"{before}{part}{after}" for part in parts]
        names = wider
    return names


def _choices(match: re.Match[str]) -> list[str]:
    if match[3] is not None:
        return match[3].split(",")
    first, last = int(match[1]), int(match[2])
    width = max(len(match[1]), len(match[2])) if match[1].startswith("0") or match[2].startswith("0") else 0
    step = 1 if first <= last else -1
    if abs(last - first) >= MOST_SHARDS:
        raise ConfigError(f"{match[0]} names more than {MOST_SHARDS:,} shards")
    return [f"{number:0{width}d}" for number in range(first, last + step, step)]


def check_kind(path: Path) -> None:
    """Refuse a shard whose name says no format.

    Raises:
        ConfigError: the format is not known.
    """
    if path.suffix.lower() != TAR and plain_suffix(path) not in FORMATS:
        raise ConfigError(f"{path}: unknown shard format; expected {TAR}, {', '.join(FORMATS)}")


def shard_rows(
    path: Path,
    columns: NamedColumns,
    *,
    images: Path | str | None = None,
    allowed: Allowed | None = None,
    pictured: bool = True,
    note: Note = lambda _: None,
) -> Iterator[ShardRow]:
    """Yield the rows of a shard, bad ones included.

    Args:
        path: a tar archive, or a file of rows.
        columns: {field: the column, or entry of an archive's JSON, that fills it}.
        images: where relative image paths of a file of rows start; by default its folder.
        allowed: what rows of a file may name beside images in these folders.
        pictured: whether images are wanted; an archive's are passed over otherwise.
        note: told what is guessed about the columns of a file of rows.

    Raises:
        DataError: the shard cannot be read, or not to its end; its rows before that have been yielded.
    """
    if path.suffix.lower() == TAR:
        yield from _tar_rows(path, columns, pictured=pictured)
        return
    names = _column_names(path)
    own: dict[str, Any] = {"rating": [], "rating_scale": []}
    if "key" in names and "id" not in names:
        own["id"] = ["key"]
    for row in iter_rows(path, images=images, columns={**own, **columns}, note=note, allowed=allowed):
        yield ShardRow(row, row.uid)


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


def _tar_rows(path: Path, columns: NamedColumns, *, pictured: bool) -> Iterator[ShardRow]:
    chosen = {name: value for name, value in columns.items() if name in _OF_CAPTIONS}
    uids = _UidsBeside(path.with_suffix(".parquet"))
    seen = IdSet()
    number = 0
    try:
        with path.open("rb") as stream:
            for key, members in _samples(tar_members(stream, lambda name: _limit(name, pictured))):
                number += 1
                yield _tar_row(path, number, key, members, chosen, seen, uids)
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
    except DataError as error:  # the last sample may lack what comes after the break: it is not scored
        found, problem = {}, error
    if key is not None and found:
        yield key, found
    if problem is not None:
        raise problem


def _tar_row(
    path: Path,
    number: int,
    key: str,
    members: Mapping[str, Member],
    columns: NamedColumns,
    seen: IdSet,
    uids: _UidsBeside,
) -> ShardRow:
    uid = None
    try:
        record = _record(members)
        uid = record.get("uid")
        uid = uid if isinstance(uid, str) and uid else uids.of(key)
        if not seen.add(key):
            raise DataError("the key is that of an earlier sample; every key must be unique")
        image = members.get("image")
        if image is not None and image.problem:
            raise DataError(f"the image {image.problem}")
        given: dict[str, Any] = dict.fromkeys(
            ("image", "video", "segment", "rating", "rating_scale", "group", "id"), ()
        )
        if "txt" in members:
            given["candidate"] = ("txt",)
        chosen = chosen_columns({**given, **columns})
        settings = Settings(Root(path.parent), chosen=chosen)
        sample = make_sample(record, match_columns(tuple(record), chosen), settings)
    except DataError as error:
        return ShardRow(Row(number, key, None, DataError(f"{path}, row {number}: {error}")), uid)
    if image is None or image.content is None:
        return ShardRow(Row(number, key, sample, None), uid)
    content = ImageBytes(f"{path}/{image.name}", image.content)
    return ShardRow(Row(number, key, replace(sample, image=content), None), uid, len(image.content))


def _record(members: Mapping[str, Member]) -> dict[str, Any]:
    """Return a sample's JSON, with its text under ``txt``.

    Raises:
        DataError: a member that cannot be read as what its name says.
    """
    record: dict[str, Any] = {}
    for kind in ("json", "txt"):
        member = members.get(kind)
        if member is None:
            continue
        if member.problem or member.content is None:
            raise DataError(f".{kind} {member.problem}")
        try:
            text = member.content.decode("utf-8")
            if kind == "txt":
                record["txt"] = text.strip("\r\n")
            else:
                content = parse_json(text)
                if not isinstance(content, dict):
                    raise DataError(f".json holds {type(content).__name__}, expected an object")
                record = content
        except UnicodeDecodeError:
            raise DataError(f".{kind} is not valid UTF-8") from None
        except (ValueError, RecursionError) as error:
            raise DataError(
                str(error) if isinstance(error, DataError) else f".json is no JSON: {error}"
            ) from None
    if not record:
        raise DataError("there is neither a .txt nor a .json with a caption")
    return record


class _UidsBeside:
    """The uids of the Parquet file beside an archive, read when the first sample lacks its own.

    Args:
        path: the file, which need not be there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._uids: dict[str, str] | None = None

    def of(self, key: str) -> str | None:
        """Return the uid of a sample, None where there is none."""
        if self._uids is None:
            self._uids = self._read()
        return self._uids.get(key.rpartition("/")[2])

    def _read(self) -> dict[str, str]:
        if not self._path.is_file():
            return {}
        try:
            parquet = import_pyarrow(self._path).parquet
            if not {"key", "uid"} <= set(parquet.read_schema(self._path).names):
                return {}
            table = parquet.read_table(self._path, columns=["key", "uid"])
        except UnavailableError:
            return {}
        except (OSError, ValueError) as error:
            raise DataError(f"the uids of {self._path} cannot be read: {error}") from None
        pairs = zip(table["key"].to_pylist(), table["uid"].to_pylist(), strict=True)
        return {str(key): str(uid) for key, uid in pairs if uid}

"""Members of a tar archive, read one after the other from memory: nothing is extracted, nothing followed.

The archive is somebody else's. A header says how long a name and a member are; both are held to limits before
anything is read, and what is no regular file is named and passed over. Formats: ustar, GNU's long names and
POSIX extended headers for name and size, which are what WebDataset and img2dataset write.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from suisei.errors import DataError

BLOCK = 512
MOST_HEADER_BYTES = 64 * 1024
"""Longest extended header or long name that is read, in bytes."""
MOST_NAME_CHARACTERS = 1000
_PORTION = 1 << 20
_REGULAR = (b"0", b"\0", b"7")
_FOLDER, _LONG_NAME, _LONG_LINK, _EXTENDED, _GLOBAL, _SPARSE = b"5", b"L", b"K", b"x", b"g", b"S"
_KINDS = {
    b"1": "a link", b"2": "a link", b"3": "a device", b"4": "a device", b"6": "a pipe",
    _SPARSE: "a sparse file",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an archive.

    Attributes:
        name: its path in the archive, which is no path on this machine.
        size: its length in bytes.
        content: its bytes; None where they were not asked for, or cannot be had.
        problem: why they cannot be had; "" where they can.
    """

    name: str
    size: int
    content: bytes | None = None
    problem: str = ""


@dataclass(slots=True)
class _Header:
    name: str
    size: int
    kind: bytes


class TrailingDataError(DataError):
    """An archive goes on after its end mark; what comes before it is whole."""


def tar_members(stream: BinaryIO, limit: Callable[[str], int]) -> Iterator[Member]:
    """Yield the regular files of an archive, and what takes the place of one, in order.

    Args:
        stream: the archive, open for reading and seekable.
        limit: the largest size in bytes that a member of a name may have; 0 for one that is not wanted.

    Raises:
        DataError: the archive is damaged, cut off or no archive; what comes before has been yielded.
        TrailingDataError: something follows the block of zeros that ends it.
    """
    end, at = os.fstat(stream.fileno()).st_size, 0
    given: dict[str, str] = {}
    while True:
        block = _read(stream, BLOCK, at)
        if block == bytes(BLOCK):
            _check_rest(stream, at + BLOCK, end)
            return
        header = _header(block, at)
        at += BLOCK
        if header.kind == _SPARSE:
            at = _after_holes(stream, block, at)
        size = _number(given.pop("size").encode(), at) if "size" in given else header.size
        if at + size > end:
            raise DataError(
                f"is cut off: {header.name[:200]!r} has {size:,} bytes, and {max(0, end - at):,} are there"
            )
        if header.kind in (_LONG_NAME, _EXTENDED):
            if size > MOST_HEADER_BYTES:
                raise DataError(f"has a header of {size:,} bytes at byte {at:,}; it is damaged")
            given.update(_extended(_read(stream, size, at), header.kind, at))
        elif header.kind not in (_LONG_LINK, _GLOBAL):  # a folder's name and size are no other member's
            if header.kind != _FOLDER:
                name = given.get("sparse") or given.get("path", header.name)
                kind = _SPARSE if "sparse" in given else header.kind
                yield _member(stream, name, size, kind, limit)
            given.clear()
        at += -(-size // BLOCK) * BLOCK
        stream.seek(min(at, end))


def _member(stream: BinaryIO, name: str, size: int, kind: bytes, limit: Callable[[str], int]) -> Member:
    name = name[:MOST_NAME_CHARACTERS]
    most = limit(name)
    if not most:
        return Member(name, size)
    if kind not in _REGULAR:
        return Member(name, size, problem=f"is {_KINDS.get(kind, 'no regular file')}, which is not read")
    if size > most:
        return Member(name, size, problem=f"has {size:,} bytes; at most {most:,} are read")
    content = stream.read(size)
    if len(content) < size:
        raise DataError(f"is cut off within {name[:200]!r}")
    return Member(name, size, content)


def _read(stream: BinaryIO, size: int, at: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        what = "is empty" if not at and not content else f"is cut off after {at + len(content):,} bytes"
        raise DataError(f"{what}: an archive ends in a block of zeros")
    return content


def _after_holes(stream: BinaryIO, block: bytes, at: int) -> int:
    """Pass over the rest of a list of parts, of which a sparse file's header holds four; returns its end."""
    more = block[482]
    while more:
        more = _read(stream, BLOCK, at)[504]
        at += BLOCK
    return at


def _check_rest(stream: BinaryIO, at: int, end: int) -> None:
    """Make sure that nothing but zeros, which fill an archive up, follows its end mark."""
    while portion := stream.read(_PORTION):
        if rest := portion.lstrip(b"\0"):
            first = at + len(portion) - len(rest)
            raise TrailingDataError(
                f"has data after its end mark, from byte {first:,} of {end:,} on, which is not read; if "
                "it is several archives joined, give each by itself"
            )
        at += len(portion)


def _header(block: bytes, at: int) -> _Header:
    stated = block[148:156]
    counted = sum(block) - sum(stated) + 8 * ord(" ")
    if _number(stated, at) != counted:
        raise DataError(
            "is no tar archive" if not at else f"is damaged at byte {at:,}: a header's checksum differs"
        )
    name = _text(block[:100])
    if block[257:263] == b"ustar\0" and block[345]:
        name = f"{_text(block[345:500])}/{name}"
    return _Header(name, _number(block[124:136], at), block[156:157])


def _number(field: bytes, at: int) -> int:
    """Return a number in octal digits, or in binary where it is large."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    try:
        if not (digits or b"0").isdigit():  # int() takes signs and underscores
            raise ValueError
        return int(digits or b"0", 8)
    except ValueError:
        raise DataError(
            "is no tar archive" if not at else f"is damaged at byte {at:,}: {field[:20]!r} is no number"
        ) from None


def _extended(content: bytes, kind: bytes, at: int) -> dict[str, str]:
    """Return the path and the size (in octal digits) that a header states for the member after it.

    Of a sparse file also ``sparse``, its real name where ``path`` is a stand-in, or else "".
    """
    if kind == _LONG_NAME:
        return {"path": _text(content)}
    given: dict[str, str] = {}
    while content.strip(b"\0"):
        length, _, _ = content.partition(b" ")
        whole = int(length) if length.isdigit() and len(length) < 8 else 0
        key, equals, value = content[len(length) + 1 : whole].partition(b"=")
        if not equals or whole > len(content):
            raise DataError(f"is damaged at byte {at:,}: an extended header that cannot be read")
        if key == b"path":
            given["path"] = _text(value.rstrip(b"\n"))
        elif key == b"size":
            digits = value.strip()
            if not digits.isdigit() or len(digits) > 20:
                raise DataError(f"is damaged at byte {at:,}: {digits[:20]!r} is no size")
            given["size"] = f"{int(digits):o}"
        elif key == b"GNU.sparse.name":
            given["sparse"] = _text(value.rstrip(b"\n"))
        elif key.startswith(b"GNU.sparse."):
            given.setdefault("sparse", "")
        content = content[whole:]
    return given


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "replace")

"""Text files as streams of lines and CSV records, where one broken line costs one row and no more."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TextIO

from suisei.errors import DataError

MAX_LINE_CHARACTERS = 1 << 20
"""A longer line is cut off and reported, so that a file without line ends cannot fill the memory."""

TOO_LONG = (
    f"the line has over {MAX_LINE_CHARACTERS:,} characters; it is no caption, and probably a lost line end"
)

LONE_RETURN = "a carriage return (CR) within the line, which ends none here; save the file with LF line ends"

Line = tuple[int, str]
"""Line number, counted from 1, and the text with its line end."""

_BYTE = re.compile("[\udc80-\udcff]")
_ISO_2022_JP = re.compile(r"\x1b(?:\$[@B]|\(J)")
_KANA = re.compile("[\u3041-\u30fa]")
_LOOKED_AT = 4000


def utf8_lines(stream: IO[bytes], newline: str) -> io.TextIOWrapper:
    """Decode bytes as UTF-8 so that a wrong byte becomes a lone surrogate instead of an exception."""
    return io.TextIOWrapper(stream, encoding="utf-8", errors="surrogateescape", newline=newline)


def count_lines(path: Path, *, quoted: bool) -> int:
    """Count the lines of a file, blank ones at its end left out.

    Args:
        path: the file.
        quoted: whether a line end inside quotation marks ends no line, as in CSV.
    """
    lines, inside, ended = 0, False, True
    blank = 0
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            for number, part in enumerate(block.split(b'"') if quoted else [block]):
                if number:
                    inside, ended, blank = not inside, False, 0
                if not inside:
                    found = part.count(b"\n")
                    rest = part.rstrip(b"\r\n")
                    lines += found
                    blank = (blank if not rest else 0) + part[len(rest) :].count(b"\n")
                if part:
                    ended = part.endswith(b"\n") and not inside
    return lines - max(0, blank - 1) + (not ended)


def is_broken(text: str) -> bool:
    """Say whether the text held bytes that are not UTF-8."""
    return not text.isascii() and _BYTE.search(text) is not None


def has_lone_return(line: str) -> bool:
    """Say whether a carriage return stands within a line, as where each of a file ends in nothing else."""
    return "\r" in line and "\r" in line.rstrip("\r\n")


def is_cut(text: str) -> bool:
    """Say whether ``numbered_lines`` cut the line off."""
    return len(text) >= MAX_LINE_CHARACTERS - 1 and not text.endswith(("\n", "\r"))


def numbered_lines(stream: TextIO) -> Iterator[Line]:
    """Yield the lines of a stream with their numbers; a line that is too long arrives cut off.

    Raises:
        DataError: the first line shows that the file is UTF-16 or not text at all.
    """
    number = 0
    while line := stream.readline(MAX_LINE_CHARACTERS):
        number += 1
        if number == 1:
            line = checked_first(line)
        if len(line) == MAX_LINE_CHARACTERS and not line.endswith("\n"):
            _skip_rest_of_line(stream)
        yield number, line


def checked_first(line: str) -> str:
    """Return a file's first line without its byte order mark.

    Raises:
        DataError: it shows that the file is compressed, UTF-16, ISO-2022-JP, or not text at all.
    """
    if line.startswith("\x1f\udc8b"):
        raise DataError("the content is compressed by gzip; let the name end in .gz, or decompress it")
    if line.startswith("PK\x03\x04"):
        raise DataError(
            "the file is a ZIP archive or an Excel workbook; save it as UTF-8 (Excel: 'CSV UTF-8')"
        )
    if line.startswith(("\udcff\udcfe", "\udcfe\udcff")) or "\0" in line[:1000]:
        raise DataError("the file is UTF-16 or not text; save it as UTF-8 (Excel: 'CSV UTF-8')")
    refuse_iso_2022_jp(line, 1)
    return line.removeprefix("\ufeff")


def refuse_iso_2022_jp(text: str, line: int) -> None:
    """Refuse text that switches to Japanese characters as ISO-2022-JP does, all of whose bytes are ASCII.

    Args:
        text: one line or more.
        line: the number of the first.

    Raises:
        DataError: it does so.
    """
    found = _ISO_2022_JP.search(text) if "\x1b" in text else None
    if found is not None:
        number = line + text.count("\n", 0, found.start())
        raise DataError(
            f"line {number:,} is in ISO-2022-JP (JIS), not UTF-8, and so is the whole file; save it as UTF-8 "
            "(Excel: 'CSV UTF-8')"
        )


def whole_utf8(lines: Iterator[Line]) -> Iterator[Line]:
    """Pass lines on, and refuse a file in Shift_JIS or ISO-2022-JP, whose ASCII would be read all the same.

    A broken byte in a file that has other characters in UTF-8 before it is a broken line, and no more.

    Raises:
        DataError: a line is in Shift_JIS or ISO-2022-JP.
    """
    for number, line in lines:
        if "\x1b" in line:
            refuse_iso_2022_jp(line, number)
        if not line.isascii():
            if not is_broken(line):
                yield number, line
                break
            if _is_shift_jis(line[:_LOOKED_AT]):
                raise DataError(
                    f"line {number} is in Shift_JIS (cp932), not UTF-8, and so is the whole file; save it "
                    "as UTF-8 (Excel: 'CSV UTF-8')"
                )
        yield number, line
    yield from lines


def _is_shift_jis(line: str) -> bool:
    """Say whether a broken line has kana in cp932, and fewer characters in UTF-8 than bytes that are not.

    Kana tell it from Latin-1, whose text rarely has their first bytes; the count from one broken byte amid
    UTF-8, whose other bytes may be kana by chance.
    """
    broken = len(_BYTE.findall(line))
    if 2 * broken <= sum(not character.isascii() for character in line):
        return False
    decoder = codecs.getincrementaldecoder("cp932")()  # does not mind half a character at the end
    try:
        text = decoder.decode(line.encode("utf-8", "surrogateescape"))
    except UnicodeError:
        return False
    return len(_KANA.findall(text)) >= 2


def _skip_rest_of_line(stream: TextIO) -> None:
    while (rest := stream.readline(MAX_LINE_CHARACTERS)) and not rest.endswith(("\n", "\r")):
        pass


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a delimited file: where it began, and its fields or what is wrong with it."""

    line: int
    fields: list[str]
    problem: str | None = None


def delimited_records(lines: Iterator[Line], delimiter: str) -> Iterator[Record]:
    """Yield the records of a CSV or TSV stream, and go on after a malformed one.

    Python's reader swallows everything from an opening quote that is never closed to the end of the
    file. Here a record that fails costs its first line; the lines read past it are read again. A
    blank line is a record without fields. In TSV a record fails as well that goes on in a
    quotation although its first line has all fields, unless the header is in quotation marks: then all is.

    Args:
        lines: numbered lines.
        delimiter: "," or a tab.
    """
    feed, width, quoted = _Feed(lines), 0, False
    reader = csv.reader(feed, delimiter=delimiter, strict=True)
    while True:
        feed.taken.clear()
        try:
            fields = next(reader)
            if not width:
                width, quoted = len(fields), feed.taken[0][1].startswith('"')
            elif delimiter == "\t" and len(feed.taken) > 1 and not quoted:
                _refuse_swallowed(fields, feed.taken[0][1], width)
        except StopIteration:
            return
        except csv.Error as error:
            first, *rest = feed.taken
            feed.again.extendleft(reversed(rest))
            yield Record(first[0], [], _explain(str(error)))
        else:
            yield Record(feed.taken[0][0], fields)


def _refuse_swallowed(fields: Sequence[str], line: str, width: int) -> None:
    """Refuse a field of TSV that a mark of a later row closes.

    Args:
        fields: of a record of several lines.
        line: the first of them.
        width: how many fields the header has.

    Raises:
        csv.Error: a field has a tab and a line end, and the first line would be a row of its own.
    """
    both = any("\t" in field and not {"\n", "\r"}.isdisjoint(field) for field in fields)
    if both and line.count("\t") + 1 == width:
        raise csv.Error(
            "a quotation mark opens a field with tabs and line ends in it, probably of rows below; write "
            "a quotation mark in a caption twice, and put the caption in quotation marks"
        )


def _explain(problem: str) -> str:
    """Put the csv module's message into terms of the file."""
    if "unexpected end of data" in problem:
        return "a quotation mark opens a field and none closes it; write a quotation mark in a caption twice"
    if "field larger than field limit" in problem:
        return (
            f"a field has over {csv.field_size_limit():,} characters, or a quotation mark opens it and none "
            "closes it; fix the row"
        )
    if "expected after" in problem:
        return "text follows the closing quotation mark of a field; write quotation marks in captions twice"
    return problem


class _Feed:
    """Gives lines to the csv reader, remembers which, and takes back those it should not have read.

    Not a generator: after its end it can be refilled and read on.
    """

    def __init__(self, lines: Iterator[Line]) -> None:
        self.again: deque[Line] = deque()
        self.taken: list[Line] = []
        self._lines = lines

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self.again.popleft() if self.again else next(self._lines)
        self.taken.append(line)
        if is_cut(line[1]):
            raise csv.Error(TOO_LONG)
        return line[1]

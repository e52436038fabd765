"""Files of captions: what they are by their names, and their text."""

from __future__ import annotations

from pathlib import Path

from suisei.data.compressed import open_plain, plain_suffix
from suisei.data.lines import refuse_iso_2022_jp
from suisei.errors import DataError

_JSON_LINES = (".jsonl", ".ndjson")
TABLES = (".csv", ".tsv", ".parquet", ".xlsx", ".xls")
"""What tables are called, which hold captions in columns."""


def is_json(path: Path | str) -> bool:
    """Say whether a file is one JSON document, by its name."""
    return plain_suffix(path) == ".json"


def is_json_lines(path: Path | str) -> bool:
    """Say whether a file holds a JSON object a line, by its name."""
    return plain_suffix(path) in _JSON_LINES


def is_table(path: Path | str) -> bool:
    """Say whether a file holds captions in columns, by its name."""
    return plain_suffix(path) in TABLES


def is_text(path: Path | str) -> bool:
    """Say whether a file is plain text, by its name: what is called otherwise than the other kinds."""
    return not (is_json(path) or is_json_lines(path) or is_table(path))


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


def text_lines(text: str) -> list[str]:
    """Return the lines of a text file; only a line feed ends one, and the last may lack it."""
    lines = text.split("\n")
    return [line.rstrip("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]

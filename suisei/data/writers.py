"""Writing samples to JSONL, CSV, TSV and Parquet, so that reading them back gives the same samples.

Files, and folders of models, are in their place once they are whole.
"""

from __future__ import annotations

import csv
import glob
import hashlib
import json
import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from suisei.data.parquet import import_pyarrow
from suisei.data.paths import descriptor_of, full_path, is_stream, real_path
from suisei.data.sample import CaptionSample
from suisei.errors import ConfigError, DataError, SuiseiError

COLUMNS = (
    "id",
    "candidate",
    "references",
    "image",
    "rating",
    "rating_scale",
    "language",
    "system",
    "group",
)
VIDEO_COLUMNS = ("video", "segment")
"""Columns of files with samples that have a video."""
SAMPLE_FIELDS = frozenset({*COLUMNS, *VIDEO_COLUMNS, "src", "mt", "ref", "imgid", "error"})
"""What columns beside scores may be called, by our own names and those of other projects."""

_MOST_CHARACTERS = 40  # of a name in its temporary file's: each may take four of the 255 bytes of a name
_TOKEN_BYTES = 6
_OS_ERROR = re.compile(r"\(os error (\d+)\)")
"""How Rust says what the system answered."""


def write_samples(path: Path | str, samples: Sequence[CaptionSample]) -> None:
    """Write samples in the format of the path's suffix: .jsonl, .csv, .tsv or .parquet.

    The file appears whole or not at all. An image or video inside the file's folder is written relative
    to it, so that the folder can be moved; any other is written with its full path.

    Raises:
        ConfigError: an unknown suffix.
        DataError: no sample, a sample whose image is in memory only, or the folder cannot be
            written to.
        UnavailableError: Parquet without the extra of that name.
    """
    path = Path(path)
    write = _WRITERS.get(path.suffix.lower())
    if write is None:
        raise ConfigError(f"{path}: unknown file format {path.suffix!r}; expected {', '.join(_WRITERS)}")
    if not samples:
        raise DataError(f"{path}: there are no samples to write")
    if write is _write_parquet:
        import_pyarrow(path)  # refused by the name that was asked for, not that of the file beside it
    records = [_record(sample, position, path) for position, sample in enumerate(samples)]
    with replacing(path) as temporary:
        write(temporary, records)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path; what is written there is at ``path`` when the block ends well.

    A file is replaced whole or not at all, and a link to it stays. A pipe, a device or a descriptor such as
    /dev/stdout is written to and never replaced.

    Raises:
        DataError: the folder does not exist or cannot be written to, or the path is a folder.
    """
    stream = is_stream(path)
    target = path if stream else real_path(path)
    if target.is_dir():
        raise DataError(f"{path}: is a folder; give the name of a file")
    folder = Path(tempfile.gettempdir()) if stream else target.parent
    start, end = _around_token(path)
    temporary = folder / f"{start}{secrets.token_hex(_TOKEN_BYTES)}{end}"
    try:
        yield temporary
        if stream:
            _copy_to_stream(temporary, path)
        else:
            temporary.replace(target)
    except UnicodeEncodeError as error:
        raise DataError(f"{path}: a text holds half of a surrogate pair: {error.object[:40]!a}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Give a new folder, which is in the place of ``folder`` when the block ends well.

    Where it cannot be put there, what was there stays.

    Raises:
        OSError: it cannot be written, or not be put there.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name[:_MOST_CHARACTERS]}-") as name:
        new, aside = Path(name) / folder.name, Path(name) / "old"
        new.mkdir()
        with raised_by_the_system():
            yield new
        try:
            if folder.exists():
                folder.rename(aside)
            new.rename(folder)
        except BaseException:  # Ctrl-C between the two would lose both
            if aside.exists() and not folder.exists():
                aside.rename(folder)
            raise


@contextmanager
def raised_by_the_system() -> Iterator[None]:
    """Turn what libraries in Rust (safetensors, tokenizers) raise of a write that failed into an OSError."""
    try:
        yield
    except Exception as error:
        found = _OS_ERROR.search(str(error))
        if found is None or isinstance(error, OSError | SuiseiError):
            raise
        raise OSError(int(found[1]), os.strerror(int(found[1]))) from error


def temporaries(path: Path) -> Iterator[Path]:
    """Yield what :func:`replacing` has left of a path where its process was killed, and of no other path.

    Another process that writes the same path has its file there too.
    """
    start, end = map(glob.escape, _around_token(path))
    yield from path.parent.glob(f"{start}{'[0-9a-f]' * (2 * _TOKEN_BYTES)}{end}")


def _around_token(path: Path) -> tuple[str, str]:
    """Return how names of a path's temporary files begin and end, which are no other path's."""
    name = path.name
    if len(name) > _MOST_CHARACTERS:
        digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        name = f"{name[:_MOST_CHARACTERS]}.{digest}"
    return f".{name}.", path.suffix


def _copy_to_stream(source: Path, path: Path) -> None:
    with source.open("rb") as content, open_stream(path) as stream:
        shutil.copyfileobj(content, stream)


def open_stream(path: Path) -> BinaryIO:
    """Open what :func:`~suisei.data.paths.is_stream` says is no file, for writing, and change nothing else.

    Raises:
        OSError: it cannot be written to.
    """
    number = descriptor_of(path)
    if number is None:
        return os.fdopen(os.open(path, os.O_WRONLY), "wb")
    for own in (sys.stdout, sys.stderr):  # what was printed so far comes first
        if own is not None:
            own.flush()
    return os.fdopen(
        os.dup(number), "wb"
    )  # opened anew, a redirected file would be overwritten from its start


def _record(sample: CaptionSample, position: int, path: Path) -> dict[str, Any]:
    rating = sample.rating
    from suisei.data.video import VideoSample

    video, segment = None, None
    if isinstance(sample, VideoSample) and sample.video is not None:
        video = stored_name(sample.video, path)
        segment = None if sample.segment is None else list(sample.segment)
    return {
        "id": sample.id,
        "candidate": sample.candidate,
        "references": list(sample.references),
        "image": _image_name(sample, position, path),
        **({} if video is None else {"video": video, "segment": segment}),
        "rating": None if rating is None else list(rating.values),
        "rating_scale": None if rating is None else [rating.low, rating.high],
        "language": sample.language,
        "system": sample.system,
        "group": sample.group,
    }


def _image_name(sample: CaptionSample, position: int, path: Path) -> str | None:
    if sample.image is None:
        return None
    if not isinstance(sample.image, str | Path):
        raise DataError(f"sample {position}: the image is in memory; save it and give its path instead")
    return stored_name(sample.image, path)


def stored_name(file: str | Path, path: Path) -> str:
    """Return a file's name relative to the folder of ``path`` where it is inside that, else in full."""
    full, folder = Path(full_path(file)), Path(full_path(path.parent))
    return full.relative_to(folder).as_posix() if full.is_relative_to(folder) else str(full)


def _columns(records: list[dict[str, Any]]) -> tuple[str, ...]:
    return (*COLUMNS, *VIDEO_COLUMNS) if any("video" in record for record in records) else COLUMNS


def _write_jsonl(path: Path, records: list[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        for record in records:
            kept = {name: value for name, value in record.items() if value is not None}
            stream.write(json.dumps(kept, ensure_ascii=False) + "\n")


def _write_delimited(path: Path, records: list[dict[str, Any]], delimiter: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        columns = _columns(records)
        rows = [[_cell(record.get(name)) for name in columns] for record in records]
        # In TSV a field with a tab and a line end is taken for rows below, unless the header is quoted too.
        mixed = delimiter == "\t" and any(
            "\t" in cell and not {"\n", "\r"}.isdisjoint(cell) for row in rows for cell in row
        )
        writer = csv.writer(
            stream,
            delimiter=delimiter,
            lineterminator="\r\n",  # with "\n" alone the csv module would leave a "\r" in a caption unquoted
            quoting=csv.QUOTE_ALL if mixed else csv.QUOTE_MINIMAL,
        )
        writer.writerows([columns, *rows])


def _cell(value: Any) -> str:
    if value is None or value == []:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value


def _write_parquet(path: Path, records: list[dict[str, Any]]) -> None:
    pyarrow = import_pyarrow(path)
    text, numbers = pyarrow.string(), pyarrow.list_(pyarrow.float64())
    types = {
        "references": pyarrow.list_(text),
        "rating": numbers,
        "rating_scale": numbers,
        "segment": numbers,
    }
    schema = pyarrow.schema([(name, types.get(name, text)) for name in _columns(records)])
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records, schema=schema), path)


_WRITERS: dict[str, Callable[[Path, list[dict[str, Any]]], None]] = {
    ".jsonl": _write_jsonl,
    ".ndjson": _write_jsonl,
    ".csv": lambda path, records: _write_delimited(path, records, ","),
    ".tsv": lambda path, records: _write_delimited(path, records, "\t"),
    ".parquet": _write_parquet,
}

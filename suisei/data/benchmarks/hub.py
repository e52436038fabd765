"""Tables of rated captions as their authors put them on the Hugging Face hub or beside their code.

One layout with small differences: the caption in ``mt`` or ``cand``, the references in ``refs`` (a list in
Parquet, a Python list as text in CSV), the rating in ``score`` or ``human_score``, and the image's name in
``imgid`` or ``file_name``; Parquet also holds the image itself in ``img`` or ``image``.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from suisei.data.benchmarks.benchmark import Benchmark, make_row, not_found
from suisei.data.benchmarks.pictures import Pictures
from suisei.data.file_rows import NOT_UTF8
from suisei.data.formats import Row
from suisei.data.lines import Line, delimited_records, is_broken, numbered_lines, utf8_lines, whole_utf8
from suisei.data.lines import Record as LineRecord
from suisei.data.parquet import import_pyarrow
from suisei.data.sample import CaptionSample, Rating
from suisei.errors import DataError

CANDIDATES, SCORES = ("mt", "cand", "caption"), ("score", "human_score")
SHARDS = ("data/test-*.parquet", "test-*.parquet")
"""The test part of a set as the hub lays it out, in a copy of the repository or of its folder."""
_SHARD = re.compile(r"(?P<start>.+)-[0-9]{5}-of-(?P<total>[0-9]{5})(?P<end>\.\w+)")
MOST_LISTED = 5
"""So many absent shards are named."""
Record = tuple[int, Mapping[str, Any], str | None]
"""Row number, the fields, and what is wrong with the row or None."""


@dataclass(frozen=True, slots=True)
class HubTable:
    """Where the files are, and what the numbers in them mean.

    Attributes:
        patterns: file names below the root, with wildcards; those of the first that fits anything are read.
        scale: worst and best rating.
        language: of the captions.
    """

    patterns: tuple[str, ...]
    scale: tuple[float, float]
    language: str = "en"

    def rows(self, root: Path, images: Path | None) -> Iterator[Row]:
        """Yield a row per rated caption."""
        seen: set[str] = set()
        files = self.files(root)
        pictures = Pictures(images, files[0].parent / "images")
        for path in files:
            for number, record, problem in read_table(path):
                row = make_row(
                    path, number, partial(self._sample, path, number, record, problem, pictures), seen
                )
                if row is not None:
                    yield row

    def files(self, root: Path) -> list[Path]:
        """Return the files of the table.

        Raises:
            LayoutError: there are none.
            DataError: they are some of several shards.
        """
        return find_tables(root, self.patterns)

    def _sample(
        self, path: Path, number: int, record: Mapping[str, Any], problem: str | None, pictures: Pictures
    ) -> CaptionSample:
        if problem is not None:
            raise DataError(problem)
        name, image = pictures.of(record)
        return CaptionSample(
            str(first_of(record, CANDIDATES)),
            caption_list(record.get("refs")),
            image=image,
            rating=Rating((score_of(record),), *self.scale),
            language=self.language,
            group=name,
            id=f"{path.stem}/{number}",
        )


def find_tables(root: Path, patterns: tuple[str, ...]) -> list[Path]:
    """Return the file itself, or the files below a folder that fit the first pattern that any file fits.

    Raises:
        LayoutError: there are none.
        DataError: they are some of several shards.
    """
    found = [root] if root.is_file() else next(filter(None, (sorted(root.glob(p)) for p in patterns)), None)
    if found is not None:
        _check_shards(found)
        return found
    raise not_found(root, patterns)


def _check_shards(paths: Sequence[Path]) -> None:
    """Refuse shards without the others that their names count: a part would pass for the whole."""
    matches = [match for path in paths if (match := _SHARD.fullmatch(path.name))]
    there = {match[0] for match in matches}
    for match in matches:
        start, total, end = match["start"], match["total"], match["end"]
        names = [f"{start}-{number:05d}-of-{total}{end}" for number in range(int(total))]
        absent = [name for name in names if name not in there]
        if absent:
            listed = ", ".join(absent[:MOST_LISTED]) + (", ..." if len(absent) > MOST_LISTED else "")
            raise DataError(
                f"{paths[0].parent}: {match[0]} is one of {len(names)} shards, and {len(absent)} of them "
                f"would not be read ({listed}); copy what is missing there, and give the folder, not a shard"
            )


def read_table(path: Path) -> Iterator[Record]:
    """Yield the numbered records of a CSV or Parquet file.

    Raises:
        DataError: the file is neither, empty or damaged.
    """
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise DataError(f"{path}: expected a .csv or .parquet file")
    number = 0
    for number, (record, problem) in enumerate(_records(path), start=1):
        yield number, record, problem
    if number == 0:
        raise DataError(f"{path}: it has no rows; copy it again")


def _records(path: Path) -> Iterator[tuple[Mapping[str, Any], str | None]]:
    try:
        if path.suffix.lower() == ".csv":
            with path.open("rb") as stream:
                yield from _csv_records(path, whole_utf8(numbered_lines(utf8_lines(stream, newline=""))))
        else:
            yield from _parquet_records(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def _csv_records(path: Path, lines: Iterator[Line]) -> Iterator[tuple[Mapping[str, Any], str | None]]:
    records = _named_in_errors(path, delimited_records(lines, ","))
    header = next(records, None)
    names = [] if header is None else [name.strip() for name in header.fields]
    for record in records:
        problem = record.problem
        if not record.fields and problem is None:
            continue
        if problem is None and any(map(is_broken, record.fields)):
            problem = NOT_UTF8
        if problem is None and len(record.fields) != len(names):
            problem = f"{len(record.fields)} fields where the header has {len(names)} ({', '.join(names)})"
        yield dict(zip(names, record.fields, strict=False)), problem


def _named_in_errors(path: Path, records: Iterator[LineRecord]) -> Iterator[LineRecord]:
    try:
        yield from records
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def _parquet_records(path: Path) -> Iterator[tuple[Mapping[str, Any], str | None]]:
    pyarrow = import_pyarrow(path)
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=64):  # rows may hold images
                yield from ((record, None) for record in batch.to_pylist())
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as Parquet: {error}") from None


def first_of(record: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Return the first of a record's fields that is there.

    Raises:
        DataError: none is.
    """
    there = [name for name in names if name in record]
    for name in there:
        if record[name] not in (None, ""):
            return record[name]
    if there:
        raise DataError(f"{' and '.join(there)} without a value")
    raise DataError(f"no {' or '.join(names)} in it; its fields are {', '.join(record)}")


def score_of(record: Mapping[str, Any]) -> float:
    """Return the rating of a record.

    Raises:
        DataError: it has none, or one that is no number.
    """
    value = first_of(record, SCORES)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise DataError(f"the rating ({' or '.join(SCORES)}) must be a number, got {value!r:.40}") from None


def caption_list(value: Any) -> tuple[str, ...]:
    """Return captions from a list, or from a list written as Python or JSON text; nothing in it is run.

    >>> caption_list("['a dog', 'two dogs']")
    ('a dog', 'two dogs')

    Raises:
        DataError: it is none of that.
    """
    found = value
    if isinstance(value, str):
        try:
            found = ast.literal_eval(value) if len(value) < MAX_LIST_CHARACTERS else None
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            found = _json_list(value)
        else:
            _refuse_joined(value, found)
    if not isinstance(found, list | tuple) or not all(isinstance(text, str) for text in found):
        raise DataError(f"refs must be a list of captions such as ['a cat', 'the cat'], got {value!r:.80}")
    return tuple(found)


def _refuse_joined(text: str, found: Any) -> None:
    """Refuse captions with no comma between them, as NumPy prints arrays: Python makes one text of them."""
    tokens = tokenize.generate_tokens(io.StringIO(text.strip()).readline)
    if isinstance(found, list | tuple) and sum(each.type == tokenize.STRING for each in tokens) > len(found):
        raise DataError(
            f"refs has captions with no comma between them, as NumPy prints arrays, got {text!r:.80}; write "
            "them as lists: frame['refs'] = frame['refs'].map(list)"
        )


MAX_LIST_CHARACTERS = 1 << 20
"""A longer list of references is a broken row."""


def _json_list(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_POLARIS = HubTable(("polaris_test.csv", *SHARDS), (0.0, 1.0))
_NEBULA = HubTable(("nebula_test.csv", *SHARDS), (0.0, 1.0))

_SOURCE = (
    "Root is the folder that holds {files}, or one such file, from {page}; images are in its folder "
    "'images' or in --images, and those inside Parquet are unpacked into the folder that --images names "
    "(without one only the text is read)"
)

POLARIS = Benchmark(
    name="polaris",
    rows=_POLARIS.rows,
    language="en",
    rating_scale=_POLARIS.scale,
    summary="26,122 English captions (the test part of 131,020) by ten models and people, rated 0 to 1",
    source=_SOURCE.format(
        files=" or ".join(_POLARIS.patterns), page="https://huggingface.co/datasets/yuwd/Polaris"
    ),
    has_images=True,
)

NEBULA = Benchmark(
    name="nebula",
    rows=_NEBULA.rows,
    language="en",
    rating_scale=_NEBULA.scale,
    summary="3,298 English captions (the test part of 32,978), rated 0 to 1",
    source=_SOURCE.format(
        files=" or ".join(_NEBULA.patterns), page="https://huggingface.co/datasets/Ka2ukiMatsuda/Nebula"
    ),
    has_images=True,
)

"""Reading rated and unrated captions from JSONL, CSV, TSV, Parquet, JSON and text, one row at a time.

Every row that a file holds comes out as one ``Row``, good or bad, so nothing is lost silently and
memory stays bounded however long the file is, apart from 16 to 32 bytes per id, kept to find an id that
occurs twice. ``suisei.data.fields`` says which fields there are, ``suisei.data.documents`` which JSON.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TextIO

from suisei.data.column_names import (
    Columns,
    NoCandidateError,
    chosen_columns,
    field_called,
    field_near,
    match_columns,
    plain_name,
)
from suisei.data.compressed import is_gzip, plain_suffix
from suisei.data.fields import DEFAULT_SCALE, AbsentFileError, Settings, make_sample, record_id
from suisei.data.file_rows import LEFT_OUT, FileProblem, Note, RawRow, Row, none_usable, uid_text, warn
from suisei.data.idset import IdSet
from suisei.data.joins import References, joined
from suisei.data.paths import Allowed, Root, descriptor_of, is_stream
from suisei.data.row_readers import RowReader
from suisei.data.sample import CaptionSample, without_surrogates
from suisei.data.writers import write_samples
from suisei.errors import ConfigError, DataError
from suisei.progress import progress_bar

__all__ = ["FORMATS", "Row", "collect", "format_of", "iter_rows", "read_samples", "write_samples"]

FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".json": "json",
    ".txt": "text",
}
"""What a suffix stands for; each but Parquet may be followed by ``.gz``."""
KINDS = tuple(dict.fromkeys(FORMATS.values()))
OnError = Literal["raise", "skip"]
NamedColumns = Mapping[str, str | Sequence[str] | None]
"""{field: the column that fills it}; for references several columns, none for no column."""
UNRATED: NamedColumns = {"rating": None, "rating_scale": None}
"""For what has no use for ratings, on whatever scale they are."""

_EXCEL = (".xlsx", ".xls", ".ods")
_PACKED = (".zip", ".bz2", ".xz", ".zst", ".7z")
_NOTES = 3
"""So many notes about columns at most are told of one file, whose rows may differ in theirs."""


def format_of(path: Path | str) -> str:
    """Return the format that a file's suffix stands for, looking through ``.gz``.

    Raises:
        ConfigError: an unknown suffix; the valid ones are listed.
    """
    suffix = plain_suffix(path)
    if suffix == ".parquet" and is_gzip(path):
        raise ConfigError(f"{path}: Parquet is compressed inside; write it without .gz")
    if suffix not in FORMATS:
        hint = " (Excel: save it as 'CSV UTF-8')" if suffix in _EXCEL else ""
        hint = " (decompress it; of compressed files .gz alone is read)" if suffix in _PACKED else hint
        raise ConfigError(
            f"{path}: {f'unknown file format {suffix!r}' if suffix else 'no file format in the name'}{hint}; "
            f"expected {', '.join(FORMATS)}"
        )
    return FORMATS[suffix]


def iter_rows(
    source: Path | str | TextIO,
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    images: Path | str | None = None,
    rating_scale: tuple[float, float] | None = None,
    columns: NamedColumns | None = None,
    references: References | Sequence[Path | str] | None = None,
    note: Note = warn,
    allowed: Allowed | None = None,
) -> Iterator[Row]:
    """Stream the rows of a file, in file order, bad rows included.

    Args:
        source: a path, or an open text stream such as ``sys.stdin``.
        format: "jsonl", "csv", "tsv", "parquet", "json" or "text"; by default from the suffix, JSONL for a
            stream or pipe.
        images: folder where relative image and video paths start; by default the file's own folder, for a
            stream the working directory. Rows that name no image get the file in it with their group's name.
        rating_scale: (low, high) of rows that state no ``rating_scale``; (0, 1) by default.
        columns: {field: the column that fills it}, for columns that are called otherwise.
        references: files of references, which take the place of the rows' own: COCO annotations, JSON,
            JSONL or a table by image id, or text, one file per reference.
        note: told in a line what is guessed and what is left out; a warning by default.
        allowed: what rows may name beside images and videos in ``images`` or the file's own folder, for a
            stream the working directory; by default nothing, unless SUISEI_ANY_PATH is 1.

    Yields:
        One Row per data row; a bad row has its error and no sample.

    Raises:
        ConfigError: an unknown format, field or an impossible scale.
        DataError: the file as a whole is unusable: absent, empty, not UTF-8, a wrong header.
    """
    scale = DEFAULT_SCALE if rating_scale is None else _checked_scale(rating_scale)
    if isinstance(source, Path | str):
        path, name = Path(source), str(source)
        piped = is_stream(path) and plain_suffix(path) not in FORMATS
        kind = _checked_format(format or "jsonl") if format or piped else format_of(path)
        folder = Path() if descriptor_of(path) is not None else path.parent
        reader = RowReader(kind, name, note)
        raws = reader.rows_of_file(path)
    else:
        name = str(getattr(source, "name", "<stream>"))
        kind = _checked_format(format or "jsonl")
        folder = Path()
        reader = RowReader(kind, name, note)
        raws = reader.rows_of_stream(source)
    settings = Settings(
        Root(folder if images is None else images, folder, allowed=allowed),
        scale,
        cells=kind in ("csv", "tsv"),
        table=kind != "text",
        chosen=chosen_columns(columns),
    )
    reader.chosen = settings.chosen
    waits = not isinstance(source, Path | str) or is_stream(Path(source))
    rows = _checked_rows(raws, name, settings, note)
    if settings.root.web:
        from suisei.data.web_images import with_fetched

        rows = with_fetched(rows, name, waits=waits)
    given = references if isinstance(references, References | None) else References(references)
    pictures = None if images is None else settings.root
    return joined(rows, given, pictures, name, note, waits=waits)


def read_samples(
    source: Path | str | TextIO,
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    images: Path | str | None = None,
    rating_scale: tuple[float, float] | None = None,
    columns: NamedColumns | None = None,
    references: References | Sequence[Path | str] | None = None,
    note: Note = warn,
    on_error: OnError = "raise",
    skipped: list[Row] | None = None,
    allowed: Allowed | None = None,
) -> list[CaptionSample]:
    """Read all samples of a file; see ``iter_rows`` for all arguments but two.

    Args:
        source: a path or an open text stream.
        format: "jsonl", "csv", "tsv", "parquet", "json" or "text".
        images: folder where relative image and video paths start.
        rating_scale: (low, high) of rows that state no ``rating_scale``.
        columns: {field: the column that fills it}.
        references: files of references.
        note: told what is guessed and left out.
        on_error: "raise" stops at the first bad row, "skip" leaves bad rows out.
        skipped: a list that receives the rows left out.
        allowed: what rows may name beside images and videos in ``images`` or the file's folder.

    Raises:
        DataError: a bad row under "raise", no usable row at all, or an unusable file.
    """
    rows = iter_rows(
        source,
        format=format,
        images=images,
        rating_scale=rating_scale,
        columns=columns,
        references=references,
        note=note,
        allowed=allowed,
    )
    with progress_bar("fetching images", None, shown=allowed is not None and allowed.web) as advance:
        return collect(_counted(rows, advance), on_error=on_error, skipped=skipped)


def _counted(rows: Iterable[Row], advance: Callable[[int], Any]) -> Iterator[Row]:
    for row in rows:
        yield row
        advance(1)


def collect(
    rows: Iterable[Row], *, on_error: OnError = "raise", skipped: list[Row] | None = None
) -> list[CaptionSample]:
    """Return the samples of the rows, treating bad rows as ``read_samples`` does.

    Raises:
        ConfigError: an ``on_error`` that there is not.
        DataError: a bad row with "raise"; bad rows alone with "skip".
    """
    if on_error not in ("raise", "skip"):
        raise ConfigError(f"on_error is {on_error!r}; expected 'raise' or 'skip'")
    samples, bad, first = [], 0, None
    for row in rows:
        if row.sample is not None:
            samples.append(row.sample)
        elif row.error is not None:
            if on_error == "raise":
                raise row.error
            bad, first = bad + 1, first or row.error
            if skipped is not None:
                skipped.append(row)
    if first is not None and not samples:
        raise none_usable(bad, first)
    return samples


def _checked_format(name: str) -> str:
    if name not in KINDS:
        raise ConfigError(f"format is {name!r}; expected {', '.join(KINDS)}")
    return name


def _checked_scale(scale: tuple[float, float]) -> tuple[float, float]:
    low, high = scale
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ConfigError(f"rating scale must be LOW HIGH with LOW < HIGH, got {low:g} {high:g}")
    return float(low), float(high)


def _checked_rows(raws: Iterator[RawRow], name: str, settings: Settings, note: Note) -> Iterator[Row]:
    """Number the raw rows, make their samples and refuse an id that was used before."""
    seen, told = IdSet(), _Told(name, settings, note)
    number = 0
    try:
        for number, raw in enumerate(raws, start=1):
            row_id, sample, problem = _checked(raw, settings, seen, told)
            uid = uid_text(raw.record.get("uid")) if raw.record is not None else None
            if problem is None:
                yield Row(number, row_id, sample, None, uid=uid)
            else:
                line = f" (line {raw.line})" if raw.line is not None and raw.line != number else ""
                absent = problem.path if isinstance(problem, AbsentFileError) else None
                error = DataError(f"{name}, row {number}: {problem}{line}")
                yield Row(number, row_id, None, error, absent, uid)
    except FileProblem as error:
        raise DataError(f"{name}{error.place}: {error}") from None
    if number == 0:
        raise DataError(f"{name}: the file is empty; expected at least one data row (after a CSV's header)")


def _checked(
    raw: RawRow, settings: Settings, seen: IdSet, told: _Told
) -> tuple[str | None, CaptionSample | None, DataError | None]:
    if raw.record is None:
        return None, None, DataError(raw.problem)
    row_id = None
    try:
        columns = match_columns(tuple(raw.record), settings.chosen)
        row_id = record_id(raw.record, columns)
        if row_id is not None:
            _refuse_repeated(row_id, seen)
        told.of(columns)
        sample = make_sample(raw.record, columns, settings)
    except NoCandidateError as error:
        return row_id or record_id(raw.record), None, _marked_as_failed(raw.record) or error
    except DataError as error:
        return row_id or record_id(raw.record), None, error
    return row_id, sample, None


def _marked_as_failed(record: Mapping[str, Any]) -> DataError | None:
    """Return why a row has no caption, where what wrote it (``suisei caption``) says so in ``error``."""
    said = record.get("error")
    if not isinstance(said, str) or not said.strip():
        return None
    return DataError(f"no caption: {without_surrogates(' '.join(said.split()))[:500]}{LEFT_OUT}")


def _refuse_repeated(row_id: str, seen: IdSet) -> None:
    if not seen.add(row_id):
        raise DataError(
            f"id {row_id[:100]!r} is used by an earlier row; every id must be unique "
            "(to do without: --column id=)"
        )


class _Told:
    """Tells once what is made of a file's columns, whose rows may differ in theirs."""

    def __init__(self, name: str, settings: Settings, note: Note) -> None:
        self._name, self._note = name, note
        self._asked = {column for field, columns in settings.chosen for column in columns if column != field}
        self._unwanted = {field for field, columns in settings.chosen if not columns}
        self._last: Columns | None = None
        self._known: set[str] = set()
        self._count = 0

    def of(self, columns: Columns) -> None:
        """Tell what is new about the columns of a row."""
        if columns is self._last:
            return
        if self._last is None:
            self._missing(columns)
        self._last = columns
        ignored = [column for column in columns.ignored if not self._is_unwanted(column, columns)]
        new = {*columns.guessed, *ignored} - self._known
        if not new or self._count == _NOTES:
            return
        self._count += 1
        self._known |= new
        guessed = {column: field for column, field in columns.guessed.items() if column in new}
        left_out = tuple(column for column in ignored if column in new)
        self._note(f"{self._name}: columns {Columns({}, guessed=guessed, ignored=left_out).note()}")

    def _is_unwanted(self, column: str, columns: Columns) -> bool:
        """Return whether a column may be meant for a field that is to have none."""
        comet = plain_name(column) == "src" and "mt" in map(plain_name, columns.of.values())
        meant = "references" if comet else field_called(column) or field_near(column)
        return meant in self._unwanted

    def _missing(self, columns: Columns) -> None:
        absent = self._asked - {*columns.of.values(), *columns.references, *columns.raters}
        if absent:
            self._note(
                f"{self._name}: the first row has no column {', '.join(sorted(map(repr, absent)))} (--column)"
            )

"""From one record of a file to one sample: the field names, their types, and what each may hold.

suisei's own names are ``id``, ``candidate``, ``references``, ``image``, ``video``, ``segment``, ``rating``,
``rating_scale``, ``language``, ``system``, ``group``, where the references may also stand in columns of their
own, ``reference`` or ``reference_1`` to ``reference_n`` (or from 0), as may the ratings of several raters,
``rating_1`` to ``rating_n``; ``segment`` is ``[start, end]`` of the video in seconds.
``suisei.data.column_names`` says which column fills which field.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suisei.cli import unspelt
from suisei.data.caption_cells import (
    is_literal,
    refuse_literal,
    refuse_no_value,
    refuse_number,
    refuse_several,
)
from suisei.data.column_names import NO_CHOICE, Columns, NoCandidateError, is_of_several, may_be_numbers
from suisei.data.paths import Root, address_error, is_address, spellings
from suisei.data.sample import CaptionSample, Rating, checked_caption, checked_number, refuse_surrogate
from suisei.errors import DataError

DEFAULT_SCALE = (0.0, 1.0)
_WHOLE = re.compile(r"\s*(-?[0-9]+)\.0\s*")
"""A whole number as pandas writes it where an id is missing elsewhere in the column."""

_NO_RATING = frozenset({"n/a", "#n/a", "na", "<na>", "none", "null", "-", "\u2013", "\u2014", "."})
"""How tables write that a rater left a row out, in lower case."""


class AbsentFileError(DataError):
    """An image or video that is not there, or not within reach.

    Attributes:
        path: of the file.
    """

    path = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the caller fixes for all rows.

    Attributes:
        root: where relative image and video paths start, and where such files may lie.
        scale: the rating scale of rows that state none.
        cells: values are text cells of a CSV, so numbers and lists have to be parsed.
        table: rows are of a table or of JSON, whose writers put words where there is no value; lines of text
            and archives of images are what somebody wrote.
        chosen: which columns the caller says fill a field,
            as :func:`suisei.data.column_names.chosen_columns` returns it.
    """

    root: Root
    scale: tuple[float, float] = DEFAULT_SCALE
    cells: bool = False
    table: bool = False
    chosen: tuple[tuple[str, tuple[str, ...]], ...] = NO_CHOICE


def record_id(record: Mapping[str, Any], columns: Columns | None = None) -> str | None:
    """Return the id of a record as text, or None where it has none (or one of a wrong type).

    Args:
        record: field name to value.
        columns: what ``match_columns`` said of its names; None where that has failed.
    """
    try:
        return _text(record, columns.of.get("id") if columns else "id")
    except DataError:
        return None


def make_sample(record: Mapping[str, Any], columns: Columns, settings: Settings) -> CaptionSample:
    """Check one record and make its sample.

    Args:
        record: field name to value; a missing field and None (in CSV: a blank cell; of references and names
            also blank text) are the same.
        columns: what ``match_columns`` said of the record's names.
        settings: what the caller fixed for all rows.

    Raises:
        DataError: a field of the wrong type, out of range, or an image or video file that does not exist.
    """
    of = columns.of
    candidate = record.get(of["candidate"])
    references = _references(record, columns, settings)
    captions = [(of["candidate"], candidate), *references]
    for column, caption in captions:
        if isinstance(caption, str):
            _check_text(column, caption, columns, settings)
    if candidate is None or (isinstance(candidate, str) and not candidate.strip()):
        raise NoCandidateError(f"{of['candidate']} is empty; every row needs a candidate caption")
    fields: dict[str, Any] = {
        "candidate": candidate,
        "references": tuple(caption for _, caption in references),
        "image": _file(record, of.get("image"), settings, "image"),
        "rating": _rating(record, columns, settings),
        "language": _text(record, of.get("language")),
        "system": _text(record, of.get("system")),
        "group": _group(record, of.get("group"), settings),
        "id": _text(record, of.get("id")),
    }
    video = _file(record, of.get("video"), settings, "video")
    segment = _segment(record, of.get("segment"), settings)
    try:
        return _sample(fields, video, segment)
    except DataError:
        for column, caption in captions:  # which of them, by its column; made without, as nearly all are good
            checked_caption(column, caption)
        raise


def _sample(fields: dict[str, Any], video: Path | None, segment: Any) -> CaptionSample:
    if video is None:
        if segment is not None:
            raise DataError("segment is given without a video; name the file in 'video'")
        return CaptionSample(**fields)
    from suisei.data.video import VideoSample

    return VideoSample(**fields, video=video, segment=segment)


def _check_text(column: str, caption: str, columns: Columns, settings: Settings) -> None:
    refuse_surrogate(column, caption)
    refuse_literal(column, caption)
    if settings.table:
        refuse_no_value(column, caption)
    if settings.cells and column in columns.guessed and may_be_numbers(column):
        refuse_number(column, columns.guessed[column], caption)


def _text(record: Mapping[str, Any], column: str | None) -> str | None:
    if not column:
        return None
    value = record.get(column)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and value.is_integer():  # what pandas makes of ids beside a missing one
        return str(int(value))
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if not isinstance(value, str):
        raise DataError(f"{column} must be text, got {type(value).__name__} {value!r:.60}")
    refuse_surrogate(column, value)
    return value


def _group(record: Mapping[str, Any], column: str | None, settings: Settings) -> str | None:
    name = _text(record, column)
    return without_fraction(name) if settings.cells and name is not None else name


def without_fraction(name: str) -> str:
    """Return the whole number that pandas made "1.0" of; any other name as it is."""
    whole = _WHOLE.fullmatch(name)
    return whole[1] if whole else name


def _references(record: Mapping[str, Any], columns: Columns, settings: Settings) -> list[tuple[str, Any]]:
    """Return the references, each with what it is called in messages."""
    found: list[tuple[str, Any]] = []
    for column in columns.references:
        captions = _references_in(column, record.get(column), settings)
        if isinstance(captions, list):
            of = "" if column == "references" else f" of {column}"
            found += [(f"reference {number}{of}", caption) for number, caption in enumerate(captions, 1)]
        else:
            found.append((column, captions))
    return found


def _references_in(column: str, value: Any, settings: Settings) -> Any:
    """Return the references of one column: a list, or one caption where the name is not ``references``."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return []
    own = column == "references"
    if isinstance(value, str):
        listed = settings.cells and (own or value.lstrip().startswith('["'))
        if listed or is_literal(value):  # pandas writes lists as Python does: no caption either
            value = json_cell(column, value, '["a cat", "the cat"]')
        elif is_of_several(column) and not dict(settings.chosen).get("references"):
            refuse_several(column, value)
    if isinstance(value, dict) or (own and not isinstance(value, list)):
        raise DataError(
            f"{column} must be a list of captions, got {type(value).__name__} {value!r:.60}; "
            "wrap it: [caption]"
        )
    return value


def json_cell(column: str, text: str, example: str) -> Any:
    """Return the list that a cell of a table holds as JSON.

    Raises:
        DataError: it is no JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"{column} must be a JSON list such as {example}, got {text[:60]!r}") from None


def _segment(record: Mapping[str, Any], column: str | None, settings: Settings) -> Any:
    value = record.get(column) if column else None
    if settings.cells and isinstance(value, str):
        return json_cell("segment", value, "[0, 9.5]") if value.strip() else None
    return value


def _file(record: Mapping[str, Any], column: str | None, settings: Settings, what: str) -> Path | None:
    if isinstance(record.get(column or ""), bytes | dict):  # as Hugging Face's datasets write images
        raise DataError(
            f"{column} holds the {what} itself, not the name of its file; save it to a file and name that, "
            f"or do without: --column {what}="
        )
    name = _text(record, column)
    if name is None:
        return None
    if is_address(name):
        return _on_the_web(column or what, name, settings, what)
    paths = (settings.root.file(each, what=what, column=column) for each in spellings(name))
    found = next((path for path in paths if _is_there(path, f"{column} {name[:60]!r}")), None)
    if found is None:
        path = settings.root.folder / name
        raise _absent(
            path,
            f"{column} {name[:200]!r} is not there: no file {str(path)[:400]}{unspelt(path)}; fix the name "
            f"or pass the folder that holds the {what}s (--images DIR), or do without: --column {what}=",
        )
    return found


def _is_there(path: Path, called: str) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError) as error:  # a name too long for the file system, a NUL inside it
        raise _absent(path, f"{called} cannot be a file name: {error}") from None


def _absent(path: Path, text: str) -> AbsentFileError:
    error = AbsentFileError(text)
    error.path = str(path)
    return error


def _on_the_web(column: str, address: str, settings: Settings, what: str) -> Path:
    if not settings.root.web or what != "image":
        raise address_error(column, address, what)
    from suisei.data.web_images import fetcher

    try:
        return fetcher().start(address)
    except DataError as error:
        raise DataError(f"{column} {address[:200]!r} {error}") from None


def _rating(record: Mapping[str, Any], columns: Columns, settings: Settings) -> Rating | None:
    low, high = _scale(record, columns.of.get("rating_scale"), settings)
    names = columns.raters or [columns.of[name] for name in ("rating",) if name in columns.of]
    numbers = [number for name in names for number in _ratings_in(name, record.get(name), settings)]
    for name, number in numbers:
        if math.isnan(number):
            raise DataError(f"{name} is NaN; leave it out for an unrated row")
        if not low <= number <= high:
            other = "" if name in ("rating", *columns.raters) else "; if it is no rating: --column rating="
            raise DataError(
                f"{name} {_exactly(number)} is outside the rating scale {_exactly(low)} to {_exactly(high)}; "
                f"fix it, or say the right scale: --rating-scale LOW HIGH, or a column rating_scale{other}"
            )
    return Rating(tuple(number for _, number in numbers), low, high) if numbers else None


def _exactly(number: float) -> str:
    """Return a number as text, rounded only where that does not change it: 1.0000001 is not 1."""
    text = f"{number:g}"
    return text if float(text) == number else repr(number)


def _ratings_in(column: str, value: Any, settings: Settings) -> list[tuple[str, float]]:
    """Return the ratings of one column, each with its name: none where a rater left the row out."""
    if settings.cells and isinstance(value, str):
        value = _rating_cell(column, value)
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    if not values:
        raise DataError(f"{column} is an empty list; leave it out for an unrated row")
    if any(one is None for one in values):
        raise DataError(f"{column} is {values!r:.60}, with null for a number; leave the rater out")
    return [(column, checked_number(column, one)) for one in values]


def _scale(record: Mapping[str, Any], column: str | None, settings: Settings) -> tuple[float, float]:
    scale = record.get(column) if column else None
    if settings.cells and isinstance(scale, str):
        scale = json_cell("rating_scale", scale, "[1, 5]") if scale.strip() else None
    if scale is None:
        return settings.scale
    if not isinstance(scale, list) or len(scale) != 2:
        raise DataError(f"rating_scale must be [low, high], got {scale!r:.60}")
    low, high = (checked_number("rating_scale", value) for value in scale)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise DataError(f"rating_scale must be [low, high] with low < high, got {scale!r:.60}")
    return low, high


def _rating_cell(column: str, text: str) -> Any:
    if not text.strip():
        return None
    plain = unicodedata.normalize("NFKC", text)  # ３．５ too
    if plain.lstrip().startswith("["):
        return json_cell(column, plain, "[3, 4, 4]")
    try:
        return float(plain)
    except ValueError:
        hint = _rating_hint(plain.strip())
        raise DataError(
            f"{column} must be a number or a JSON list of numbers, got {text[:60]!r}{hint}"
        ) from None


def _rating_hint(text: str) -> str:
    if re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d*)?", text) and not text.lstrip("-").startswith("0"):
        return "; write decimals with a point, and thousands without a comma"
    if re.fullmatch(r"-?\d+,\d+", text):
        return "; write decimals with a point"
    return "; leave the cell blank where there is no rating" if text.lower() in _NO_RATING else ""

"""From one record of a file to one sample: the field names, their types, and what each may hold.

Two naming schemes are read. suisei's own: ``id``, ``candidate``, ``references``, ``image``,
``video``, ``segment``, ``rating``, ``rating_scale``, ``language``, ``system``, ``group``, where the
references may also stand in columns of their own, ``reference`` or ``reference_1`` to
``reference_n``, and ``segment`` is ``[start, end]`` of the video in seconds. And COMET's:
``mt`` is the candidate, ``src`` and ``ref`` are both references, ``score`` the rating, ``imgid`` the
group and ``img`` the image file. ``id``, ``language``, ``system`` and ``rating_scale`` belong to both.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from suisei.data.sample import CaptionSample, Rating, checked_number, has_surrogate
from suisei.errors import DataError

SHARED_FIELDS = ("id", "language", "system", "rating_scale")
OWN_FIELDS = ("candidate", "references", "image", "video", "segment", "rating", "group")
COMET_FIELDS = ("mt", "src", "ref", "score", "imgid", "img")
DEFAULT_SCALE = (0.0, 1.0)

_NUMBERED = re.compile(r"reference(_[1-9][0-9]*)?")


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column of a record fills which part of a sample."""

    candidate: str
    references: tuple[str, ...]
    image: str
    rating: str
    group: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What the caller fixes for all rows.

    Attributes:
        folder: where relative image and video paths start.
        scale: the rating scale of rows that state none.
        cells: values are text cells of a CSV, so numbers and lists have to be parsed.
    """

    folder: Path
    scale: tuple[float, float] = DEFAULT_SCALE
    cells: bool = False


@lru_cache(maxsize=256)
def match_columns(names: tuple[str, ...]) -> Columns:
    """Find the naming scheme of a record from its field names.

    Raises:
        DataError: an unknown name (the nearest valid one is suggested), the two schemes mixed, or
            no candidate.
    """
    own = [name for name in names if name in OWN_FIELDS or _NUMBERED.fullmatch(name)]
    comet = [name for name in names if name in COMET_FIELDS]
    unknown = [name for name in names if name not in SHARED_FIELDS and name not in own + comet]
    if unknown:
        raise DataError(_unknown_message(unknown[0]))
    if own and comet:
        raise DataError(
            f"the columns mix two naming schemes, suisei's ({_listed(own)}) and COMET's ({_listed(comet)}); "
            f"use one: {_listed(OWN_FIELDS)}; or {_listed(COMET_FIELDS)}"
        )
    if comet:
        if "mt" not in names:
            raise DataError(f"no column 'mt', which holds the candidate; the columns are {_listed(names)}")
        references = tuple(name for name in ("src", "ref") if name in names)
        return Columns("mt", references, "img", "score", "imgid")
    if "candidate" not in names:
        raise DataError(f"no column 'candidate' (or COMET's 'mt'); the columns are {_listed(names)}")
    numbered = sorted((name for name in own if _NUMBERED.fullmatch(name)), key=_reference_number)
    if numbered and "references" in names:
        raise DataError(
            f"references are given twice, in 'references' and in {_listed(numbered)}; keep one form"
        )
    return Columns("candidate", tuple(numbered) or ("references",), "image", "rating", "group")


def _unknown_message(name: str) -> str:
    valid = (*OWN_FIELDS, "reference", "reference_1 to reference_n", *SHARED_FIELDS)
    message = f"unknown column {name[:60]!r}"
    if any(mark in name for mark in ";\t,|"):
        message += "; is the delimiter right (comma in .csv, tab in .tsv)?"
    near = difflib.get_close_matches(name.strip().lower(), (*OWN_FIELDS, *SHARED_FIELDS, *COMET_FIELDS), 1)
    if near:
        message += f"; did you mean {near[0]!r}?"
    return f"{message}; valid are {', '.join(valid)}, or COMET's {', '.join(COMET_FIELDS)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _reference_number(name: str) -> int:
    return int(name.rpartition("_")[2]) if "_" in name else 0


def record_id(record: Mapping[str, Any]) -> str | None:
    """Return the id of a record as text, or None where it has none (or one of a wrong type)."""
    try:
        return _text(record, "id")
    except DataError:
        return None


def make_sample(record: Mapping[str, Any], columns: Columns, settings: Settings) -> CaptionSample:
    """Check one record and make its sample.

    Args:
        record: field name to value; a missing field and None (in CSV: a blank cell) are the same.
        columns: what ``match_columns`` said of the record's names.
        settings: what the caller fixed for all rows.

    Raises:
        DataError: a field of the wrong type, out of range, or an image or video file that does not exist.
    """
    candidate = record.get(columns.candidate)
    references = _references(record, columns, settings)
    for field, caption in [(columns.candidate, candidate), *(("references", text) for text in references)]:
        if isinstance(caption, str) and has_surrogate(caption):
            raise DataError(f"{field} holds a broken character (half of a surrogate pair): {caption[:40]!a}")
    if candidate is None or (isinstance(candidate, str) and not candidate.strip()):
        raise DataError(f"{columns.candidate} is empty; every row needs a candidate caption")
    fields: dict[str, Any] = {
        "candidate": candidate,
        "references": references,
        "image": _file(record, columns.image, settings.folder),
        "rating": _rating(record, columns.rating, settings),
        "language": _text(record, "language"),
        "system": _text(record, "system"),
        "group": _text(record, columns.group),
        "id": _text(record, "id"),
    }
    video, segment = _file(record, "video", settings.folder), _segment(record, settings)
    if video is None:
        if segment is not None:
            raise DataError("segment is given without a video; name the file in 'video'")
        return CaptionSample(**fields)
    from suisei.data.video import VideoSample

    return VideoSample(**fields, video=video, segment=segment)


def _text(record: Mapping[str, Any], field: str) -> str | None:
    value = record.get(field)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if not isinstance(value, str):
        raise DataError(f"{field} must be text, got {type(value).__name__} {value!r:.60}")
    if has_surrogate(value):
        raise DataError(f"{field} holds a broken character (half of a surrogate pair): {value[:40]!a}")
    return value


def _references(record: Mapping[str, Any], columns: Columns, settings: Settings) -> tuple[str, ...]:
    if columns.references != ("references",):
        values = [record.get(name) for name in columns.references]
        return tuple(
            value for value in values if value is not None and not (settings.cells and not value.strip())
        )
    value = record.get("references")
    if settings.cells and isinstance(value, str):
        if not value.strip():
            return ()
        value = _json_cell("references", value, '["a cat", "the cat"]')
    if value is None:
        return ()
    if not isinstance(value, list):
        raise DataError(
            f"references must be a list of captions, got {type(value).__name__} {value!r:.60}; "
            "wrap it: [caption]"
        )
    return tuple(value)


def _json_cell(field: str, text: str, example: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"{field} must be a JSON list such as {example}, got {text[:60]!r}") from None


def _segment(record: Mapping[str, Any], settings: Settings) -> Any:
    value = record.get("segment")
    if settings.cells and isinstance(value, str):
        return _json_cell("segment", value, "[0, 9.5]") if value.strip() else None
    return value


def _file(record: Mapping[str, Any], field: str, folder: Path) -> Path | None:
    name = _text(record, field)
    if name is None:
        return None
    path = folder / name
    try:
        found = path.is_file()
    except (OSError, ValueError) as error:  # a name too long for the file system, a NUL inside it
        raise DataError(f"{field} {name[:60]!r} cannot be a file name: {error}") from None
    if not found:
        raise DataError(
            f"{field} {name[:200]!r} is not there: no file {str(path)[:400]}; "
            f"fix the name or pass the folder that holds the {field if field == 'video' else 'image'}s "
            "(--images DIR)"
        )
    return path


def _rating(record: Mapping[str, Any], field: str, settings: Settings) -> Rating | None:
    low, high = settings.scale
    scale = record.get("rating_scale")
    if settings.cells and isinstance(scale, str):
        scale = _json_cell("rating_scale", scale, "[1, 5]") if scale.strip() else None
    if scale is not None:
        if not isinstance(scale, list) or len(scale) != 2:
            raise DataError(f"rating_scale must be [low, high], got {scale!r:.60}")
        low, high = (checked_number("rating_scale", value) for value in scale)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise DataError(f"rating_scale must be [low, high] with low < high, got {scale!r:.60}")
    value = record.get(field)
    if settings.cells and isinstance(value, str):
        value = _rating_cell(field, value)
    if value is None:
        return None
    values = value if isinstance(value, list) else [value]
    if not values:
        raise DataError(f"{field} is an empty list; leave it out for an unrated row")
    numbers = tuple(checked_number(field, one) for one in values)
    for number in numbers:
        if math.isnan(number):
            raise DataError(f"{field} is NaN; leave it out for an unrated row")
        if not low <= number <= high:
            raise DataError(
                f"{field} {number:g} is outside the rating scale {low:g} to {high:g}; "
                "fix it, or pass the right scale: --rating-scale LOW HIGH"
            )
    return Rating(numbers, low, high)


def _rating_cell(field: str, text: str) -> Any:
    if not text.strip():
        return None
    if text.lstrip().startswith("["):
        return _json_cell(field, text, "[3, 4, 4]")
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{field} must be a number or a JSON list of numbers, got {text[:60]!r}") from None

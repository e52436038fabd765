"""From one record of a file to one sample: the field names, their types, and what each may hold.

suisei's own names are ``id``, ``candidate``, ``references``, ``image``, ``video``, ``segment``, ``rating``,
``rating_scale``, ``language``, ``system``, ``group``, where the references may also stand in columns of their
own, ``reference`` or ``reference_1`` to ``reference_n``, and ``segment`` is ``[start, end]`` of the video in
seconds. Names that others use for the same are known too (``ALIASES``), COMET's among them, whose ``src`` and
``ref`` are both references; a caller may name any other column. Columns that are none of these are ignored.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from suisei.data.paths import Root, is_address
from suisei.data.sample import CaptionSample, Rating, checked_number, has_surrogate
from suisei.errors import ConfigError, DataError

ALIASES: dict[str, tuple[tuple[str, ...], ...]] = {
    "candidate": (
        ("candidate",),
        ("mt", "prediction", "predicted", "predicted_caption", "pred", "hypothesis", "hyp", "cand",
         "candidate_caption", "generated_caption", "generated"),
        ("caption", "text"),
    ),
    "references": (
        ("references",),
        ("refs", "reference_captions", "gts", "gt", "ground_truth", "ground_truths", "targets"),
        ("captions",),
    ),
    "image": (
        ("image",),
        ("image_path", "img_path", "image_file", "file_name", "filename", "image_name", "img", "file_path",
         "filepath"),
    ),
    "video": (("video",), ("video_path", "video_file")),
    "segment": (("segment",),),
    "rating": (
        ("rating",),
        ("ratings", "human_rating", "human_ratings", "human_score", "human_scores", "human", "mos"),
        ("score",),
    ),
    "rating_scale": (("rating_scale",),),
    "language": (("language",), ("lang",)),
    "system": (("system",), ("system_name", "model", "model_name")),
    "group": (("group",), ("image_id", "imgid", "img_id", "imageid", "cocoid")),
    "id": (("id",),),
}  # fmt: skip
"""What columns are called in the data of others, the surer names first.

Of names in one line either is as good; two of them in one file are a question for the candidate, the
references and the rating, and the first of them elsewhere.
"""
COMET_FIELDS = ("mt", "src", "ref", "score", "imgid", "img")
DEFAULT_SCALE = (0.0, 1.0)
NO_CHOICE: tuple[tuple[str, tuple[str, ...]], ...] = ()

_DECISIVE = ("candidate", "references", "rating")
_SINGLE = re.compile(r"(?:reference|ref)s?_?([1-9][0-9]*)|reference|ref")


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column of a record fills which part of a sample.

    Attributes:
        of: {field: column}, references aside; a field without a column is absent.
        references: the columns of references, in order.
        guessed: {column: field} of the names that are not suisei's own.
        ignored: columns that fill nothing.
    """

    of: Mapping[str, str]
    references: tuple[str, ...] = ()
    guessed: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    def note(self) -> str:
        """Return what was guessed and what is left out, in a line; "" where there is nothing to say."""
        parts = []
        if self.guessed:
            of: dict[str, list[str]] = {}
            for column, name in self.guessed.items():
                of.setdefault(name, []).append(_shown(column))
            pairs = (f"{', '.join(columns)} for the {name}" for name, columns in of.items())
            parts.append(f"taken: {', '.join(pairs)}")
        if self.ignored:
            parts.append(f"ignored: {', '.join(map(_with_hint, self.ignored[:_SHOWN]))}")
            if len(self.ignored) > _SHOWN:
                parts[-1] += f" and {len(self.ignored) - _SHOWN} more"
        return "; ".join(parts)


_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Settings:
    """What the caller fixes for all rows.

    Attributes:
        root: where relative image and video paths start, and where such files may lie.
        scale: the rating scale of rows that state none.
        cells: values are text cells of a CSV, so numbers and lists have to be parsed.
        chosen: which columns the caller says fill a field, as :func:`chosen_columns` returns it.
    """

    root: Root
    scale: tuple[float, float] = DEFAULT_SCALE
    cells: bool = False
    chosen: tuple[tuple[str, tuple[str, ...]], ...] = NO_CHOICE


def chosen_columns(
    columns: Mapping[str, str | Sequence[str] | None] | None,
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Check which columns a caller says fill a field.

    Args:
        columns: {field: its column, or for references several; none or "" for no column}.

    Raises:
        ConfigError: an unknown field, or several columns for one that takes one.
    """
    chosen = []
    for name, value in (columns or {}).items():
        if name not in ALIASES:
            near = difflib.get_close_matches(str(name).lower(), ALIASES, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigError(
                f"no field {str(name)[:60]!r} that a column could fill; {hint}there are {_listed(ALIASES)}"
            )
        names = (value,) if isinstance(value, str) else tuple(value or ())
        names = tuple(each for each in names if each)
        if len(names) > 1 and name != "references":
            raise ConfigError(f"{name} is filled by one column, got {_listed(names)}")
        chosen.append((name, names))
    return tuple(chosen)


@lru_cache(maxsize=256)
def match_columns(
    names: tuple[str, ...], chosen: tuple[tuple[str, tuple[str, ...]], ...] = NO_CHOICE
) -> Columns:
    """Find which column of a record fills which field.

    Args:
        names: the columns.
        chosen: what the caller says, as :func:`chosen_columns` returns it.

    Raises:
        DataError: no candidate, or several columns that may be the candidate, the references or the rating.
    """
    said = dict(chosen)
    taken = {column for columns in said.values() for column in columns}
    plain = {name: _plain(name) for name in names if name not in taken}
    comet = "mt" in plain.values()
    found: dict[str, tuple[str, ...]] = {}
    for name, tiers in ALIASES.items():
        if name in said:
            found[name] = tuple(column for column in said[name] if column in names)
        elif name == "references":
            found[name] = _reference_columns(plain, tiers, comet=comet)
        else:
            found[name] = _first_of(name, plain, tiers)
    _require_candidate(names, found["candidate"], chosen)
    known = COMET_FIELDS if comet else ()
    guessed = {
        column: name
        for name, columns in found.items()
        if name not in said
        for column in columns
        if plain[column] != name and plain[column] not in known and not _is_own_reference(plain[column])
    }
    used = {column for columns in found.values() for column in columns}
    return Columns(
        {name: columns[0] for name, columns in found.items() if columns and name != "references"},
        found["references"],
        guessed,
        tuple(name for name in names if name not in used),
    )


def _plain(name: str) -> str:
    """Return a column's name as names are compared: "Image ID" is image_id."""
    return re.sub(r"[^0-9a-z]+", "_", name.strip().lower()).strip("_")


def _first_of(name: str, plain: Mapping[str, str], tiers: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the column of a field, none where there is none.

    Raises:
        DataError: several may be it.
    """
    for tier in tiers:
        there = sorted(
            (column for column, known in plain.items() if known in tier),
            key=lambda column: (tier.index(plain[column]), column != plain[column]),
        )
        if len({plain[column] for column in there}) > 1 and name in _DECISIVE:
            raise DataError(f"the {name} may be {_listed(there)}; say which: --column {name}={there[0]}")
        if there:
            return (there[0],)
    return ()


def _reference_columns(
    plain: Mapping[str, str], tiers: Sequence[Sequence[str]], *, comet: bool
) -> tuple[str, ...]:
    single = [column for column, known in plain.items() if _SINGLE.fullmatch(known)]
    single.sort(key=lambda column: _reference_number(plain[column]))
    source = [column for column, known in plain.items() if comet and known == "src"]
    lists = _first_of("references", plain, tiers[:2] if single else tiers)
    if lists and single:
        raise DataError(
            f"references are given twice, in {lists[0]!r} and in {_listed(single)}; keep one form, or say "
            f"which: --column references={lists[0]}"
        )
    return (*source, *(lists or single))


def _reference_number(plain: str) -> int:
    found = _SINGLE.fullmatch(plain)
    return int(found[1]) if found and found[1] else 0


def _is_own_reference(plain: str) -> bool:
    return re.fullmatch(r"reference(_[1-9][0-9]*)?", plain) is not None


def _require_candidate(
    names: Sequence[str], found: Sequence[str], chosen: tuple[tuple[str, tuple[str, ...]], ...]
) -> None:
    if dict(chosen).get("candidate"):
        require_chosen(names, [pair for pair in chosen if pair[0] == "candidate"])
    elif not found:
        hints = [_with_hint(name) for name in names if _near(name) == "candidate"]
        hint = f"; {hints[0]}" if hints else ""
        if any(mark in name for name in names for mark in ";\t,|"):
            hint += "; is the delimiter right (comma in .csv, tab in .tsv)?"
        usual = _listed(name for tier in ALIASES["candidate"] for name in tier)
        raise DataError(
            f"no column 'candidate'{hint}; the columns are {_listed(names)[:300]}. Name the one that holds "
            f"the captions to be scored: --column candidate=NAME (known: {usual})"
        )


def require_chosen(names: Sequence[str], chosen: Iterable[tuple[str, tuple[str, ...]]]) -> None:
    """Refuse a column that a caller names and that is not there.

    Raises:
        DataError: the first such column.
    """
    for name, columns in chosen:
        for column in columns:
            if column not in names and column != name:
                near = difflib.get_close_matches(column, names, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise DataError(
                    f"no column {column!r}, which is to be the {name}{hint}; the columns are {_listed(names)}"
                )


def _near(name: str) -> str | None:
    """Return the field whose name is near to that of an unknown column."""
    near = difflib.get_close_matches(_plain(name), ALIASES, 1, cutoff=0.75)
    return near[0] if near else None


def _with_hint(name: str) -> str:
    near = _near(name)
    return f"{_shown(name)} (did you mean {near!r}?)" if near and near != _plain(name) else _shown(name)


def _shown(name: str) -> str:
    return repr(name[:60]) if name else "a column without a name"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


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
        record: field name to value; a missing field and None (in CSV: a blank cell) are the same.
        columns: what ``match_columns`` said of the record's names.
        settings: what the caller fixed for all rows.

    Raises:
        DataError: a field of the wrong type, out of range, or an image or video file that does not exist.
    """
    of = columns.of
    candidate = record.get(of["candidate"])
    references = _references(record, columns, settings)
    for column, caption in [(of["candidate"], candidate), *(("references", text) for text in references)]:
        if isinstance(caption, str) and has_surrogate(caption):
            raise DataError(f"{column} holds a broken character (half of a surrogate pair): {caption[:40]!a}")
    if candidate is None or (isinstance(candidate, str) and not candidate.strip()):
        raise DataError(f"{of['candidate']} is empty; every row needs a candidate caption")
    fields: dict[str, Any] = {
        "candidate": candidate,
        "references": references,
        "image": _file(record, of.get("image"), settings, "image"),
        "rating": _rating(record, of, settings),
        "language": _text(record, of.get("language")),
        "system": _text(record, of.get("system")),
        "group": _text(record, of.get("group")),
        "id": _text(record, of.get("id")),
    }
    video = _file(record, of.get("video"), settings, "video")
    segment = _segment(record, of.get("segment"), settings)
    if video is None:
        if segment is not None:
            raise DataError("segment is given without a video; name the file in 'video'")
        return CaptionSample(**fields)
    from suisei.data.video import VideoSample

    return VideoSample(**fields, video=video, segment=segment)


def _text(record: Mapping[str, Any], column: str | None) -> str | None:
    value = record.get(column) if column else None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and value.is_integer():  # what pandas makes of ids beside a missing one
        return str(int(value))
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if not isinstance(value, str):
        raise DataError(f"{column} must be text, got {type(value).__name__} {value!r:.60}")
    if has_surrogate(value):
        raise DataError(f"{column} holds a broken character (half of a surrogate pair): {value[:40]!a}")
    return value


def _references(record: Mapping[str, Any], columns: Columns, settings: Settings) -> tuple[Any, ...]:
    found: list[Any] = []
    for column in columns.references:
        found += _references_in(column, record.get(column), settings)
    return tuple(found)


def _references_in(column: str, value: Any, settings: Settings) -> list[Any]:
    """Return the references of one column: a list, or one caption where the name is not ``references``."""
    if value is None or (settings.cells and isinstance(value, str) and not value.strip()):
        return []
    own = column == "references"
    if settings.cells and isinstance(value, str) and (own or value.lstrip().startswith('["')):
        value = _json_cell(column, value, '["a cat", "the cat"]')
    if isinstance(value, list):
        return value
    if own:
        raise DataError(
            f"references must be a list of captions, got {type(value).__name__} {value!r:.60}; "
            "wrap it: [caption]"
        )
    return [value]


def _json_cell(column: str, text: str, example: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"{column} must be a JSON list such as {example}, got {text[:60]!r}") from None


def _segment(record: Mapping[str, Any], column: str | None, settings: Settings) -> Any:
    value = record.get(column) if column else None
    if settings.cells and isinstance(value, str):
        return _json_cell("segment", value, "[0, 9.5]") if value.strip() else None
    return value


def _file(record: Mapping[str, Any], column: str | None, settings: Settings, what: str) -> Path | None:
    name = _text(record, column)
    if name is None:
        return None
    if is_address(name):
        return _on_the_web(column or what, name, settings, what)
    path = settings.root.file(name, what=what, column=column)
    try:
        found = path.is_file()
    except (OSError, ValueError) as error:  # a name too long for the file system, a NUL inside it
        raise DataError(f"{column} {name[:60]!r} cannot be a file name: {error}") from None
    if not found:
        without = "" if column == what else f", or do without: --column {what}="
        raise DataError(
            f"{column} {name[:200]!r} is not there: no file {str(path)[:400]}; fix the name or pass the "
            f"folder that holds the {what}s (--images DIR){without}"
        )
    return path


def _on_the_web(column: str, address: str, settings: Settings, what: str) -> Path:
    if not settings.root.web or what != "image":
        fetched = "; suisei score and suisei evaluate fetch them with --web-images" if what == "image" else ""
        raise DataError(
            f"{column} {address[:200]!r} is an address, and nothing is fetched; download the {what}s into a "
            f"folder, name them as they are called there, and pass the folder (--images DIR){fetched}"
        )
    from suisei.data.web_images import fetcher

    try:
        return fetcher().start(address)
    except DataError as error:
        raise DataError(f"{column} {address[:200]!r} {error}") from None


def _rating(record: Mapping[str, Any], of: Mapping[str, str], settings: Settings) -> Rating | None:
    low, high = _scale(record, of.get("rating_scale"), settings)
    column = of.get("rating")
    value = record.get(column) if column else None
    if column and settings.cells and isinstance(value, str):
        value = _rating_cell(column, value)
    if column is None or value is None:
        return None
    values = value if isinstance(value, list) else [value]
    if not values:
        raise DataError(f"{column} is an empty list; leave it out for an unrated row")
    numbers = tuple(checked_number(column, one) for one in values)
    for number in numbers:
        if math.isnan(number):
            raise DataError(f"{column} is NaN; leave it out for an unrated row")
        if not low <= number <= high:
            other = "" if column == "rating" else "; if it is no rating: --column rating="
            raise DataError(
                f"{column} {number:g} is outside the rating scale {low:g} to {high:g}; "
                f"fix it, or pass the right scale: --rating-scale LOW HIGH{other}"
            )
    return Rating(numbers, low, high)


def _scale(record: Mapping[str, Any], column: str | None, settings: Settings) -> tuple[float, float]:
    scale = record.get(column) if column else None
    if settings.cells and isinstance(scale, str):
        scale = _json_cell("rating_scale", scale, "[1, 5]") if scale.strip() else None
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
    if text.lstrip().startswith("["):
        return _json_cell(column, text, "[3, 4, 4]")
    try:
        return float(text)
    except ValueError:
        hint = "; write decimals with a point" if re.fullmatch(r"-?\d+,\d+", text.strip()) else ""
        raise DataError(
            f"{column} must be a number or a JSON list of numbers, got {text[:60]!r}{hint}"
        ) from None

"""Which column of a file fills which field of a sample: suisei's own names, and what others call the same.

The names of others are in ``ALIASES``, COMET's among them, whose ``src`` and ``ref`` are both references; a
caller may name any other column.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

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
NO_CHOICE: tuple[tuple[str, tuple[str, ...]], ...] = ()

_DECISIVE = ("candidate", "references", "rating")
_SEVERAL = ("references", "rating")
_SINGLE = re.compile(r"(?:reference|ref)s?_?([0-9]{1,9})|reference|ref")
_OF_RATER = re.compile(r"(?:human_)?ratings?_?([0-9]{1,9})")


class NoCandidateError(DataError):
    """A row has no caption to be scored."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column of a record fills which part of a sample.

    Attributes:
        of: {field: column}, references aside; a field without a column is absent.
        references: the columns of references, in order.
        raters: the columns of ratings, in order, where there is more than one.
        guessed: {column: field} of the names that are not suisei's own.
        ignored: columns that fill nothing.
    """

    of: Mapping[str, str]
    references: tuple[str, ...] = ()
    raters: tuple[str, ...] = ()
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


def chosen_columns(
    columns: Mapping[str, str | Sequence[str] | None] | None,
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Check which columns a caller says fill a field.

    Args:
        columns: {field: its column, or for references and the rating several; none or "" for no column}.

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
        if len(names) > 1 and name not in _SEVERAL:
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
        NoCandidateError: no candidate.
        DataError: several columns that may be the candidate, the references or the rating.
    """
    said = dict(chosen)
    taken = {column for columns in said.values() for column in columns}
    plain = {name: plain_name(name) for name in names if name not in taken}
    comet = "mt" in plain.values()
    found: dict[str, tuple[str, ...]] = {}
    for name, tiers in ALIASES.items():
        if name in said:
            found[name] = tuple(column for column in said[name] if column in names)
        elif name == "references":
            found[name] = _reference_columns(plain, tiers, comet=comet)
        elif name == "rating":
            found[name] = _rating_columns(plain, tiers)
        else:
            found[name] = _first_of(name, plain, tiers)
    _require_candidate(names, found["candidate"], chosen)
    known = COMET_FIELDS if comet else ()
    guessed = {
        column: name
        for name, columns in found.items()
        if name not in said
        for column in columns
        if plain[column] != name and plain[column] not in known and not _is_numbered(plain[column])
    }
    used = {column for columns in found.values() for column in columns}
    references, ratings = found.pop("references"), found["rating"]
    raters = found.pop("rating") if len(ratings) > 1 else ()
    return Columns(
        {name: columns[0] for name, columns in found.items() if columns},
        references,
        raters,
        guessed,
        tuple(name for name in names if name not in used and name != "uid"),  # which shards read
    )


def candidate_of(
    names: Sequence[str], chosen: tuple[tuple[str, tuple[str, ...]], ...] = NO_CHOICE
) -> str | None:
    """Return which of the names of columns is the candidate's; None where none is, or not one alone.

    Args:
        names: the columns.
        chosen: what the caller says, as :func:`chosen_columns` returns it.
    """
    try:
        return match_columns(tuple(names), chosen).of.get("candidate")
    except DataError:
        return None


def field_called(name: str) -> str | None:
    """Return the field that a column of this name may fill, by its name alone; None where it fills none."""
    plain = plain_name(name)
    if _SINGLE.fullmatch(plain):
        return "references"
    if _OF_RATER.fullmatch(plain):
        return "rating"
    return next((field for field, tiers in ALIASES.items() if any(plain in tier for tier in tiers)), None)


@lru_cache
def is_of_several(name: str) -> bool:
    """Return whether a column's name says that it holds several references each: refs, but not ref_1."""
    return field_called(name) == "references" and plain_name(name).endswith("s")


@lru_cache
def may_be_numbers(name: str) -> bool:
    """Return whether a column of captions, by its name, may hold numbers too: prediction, but not text."""
    return re.search("caption|text", plain_name(name)) is None


def plain_name(name: str) -> str:
    """Return a column's name as names are compared: "Image ID" is image_id, in full width too.

    Letters of every script count: "自動評価score" is not the score.
    """
    return re.sub(r"[\W_]+", "_", unicodedata.normalize("NFKC", name).lower()).strip("_")


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
        if len(there) > 1 and name in _DECISIVE:
            raise DataError(f"the {name} may be {_listed(there)}; say which: --column {name}={there[0]}")
        if there:
            return (there[0],)
    return ()


def _reference_columns(
    plain: Mapping[str, str], tiers: Sequence[Sequence[str]], *, comet: bool
) -> tuple[str, ...]:
    single = single_references(plain)
    source = [column for column, known in plain.items() if comet and known == "src"]
    lists = _first_of("references", plain, tiers[:2] if single else tiers)
    if lists and single:
        raise DataError(
            f"references are given twice, in {lists[0]!r} and in {_listed(single)}; keep one form, or say "
            f"which: --column references={lists[0]}"
        )
    return (*source, *(lists or single))


def single_references(plain: Mapping[str, str]) -> list[str]:
    """Return the columns that hold one reference each, in the order of their numbers.

    Args:
        plain: {column: its name as names are compared}.
    """
    single = [column for column, known in plain.items() if _SINGLE.fullmatch(known)]
    return sorted(single, key=lambda column: _number(_SINGLE, plain[column]))


def _rating_columns(plain: Mapping[str, str], tiers: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the column of the rating, or one of every rater; a "score" is a rating only without either."""
    of_raters = [column for column, known in plain.items() if _OF_RATER.fullmatch(known)]
    of_raters.sort(key=lambda column: _number(_OF_RATER, plain[column]))
    sure = _first_of("rating", plain, tiers[:2])
    return sure or tuple(of_raters) or _first_of("rating", plain, tiers)


def _number(pattern: re.Pattern[str], plain: str) -> int:
    found = pattern.fullmatch(plain)
    return int(found[1]) if found and found[1] else -1  # one without a number, then that of number 0


def _is_numbered(plain: str) -> bool:
    """Whether a name is suisei's own for one of several references, or for one rater's ratings."""
    return re.fullmatch(r"reference(_[0-9]+)?|rating_[0-9]+", plain) is not None


def _require_candidate(
    names: Sequence[str], found: Sequence[str], chosen: tuple[tuple[str, tuple[str, ...]], ...]
) -> None:
    if dict(chosen).get("candidate"):
        try:
            require_chosen(names, [pair for pair in chosen if pair[0] == "candidate"])
        except DataError as error:
            raise NoCandidateError(str(error)) from None
    elif not found:
        hints = [_with_hint(name) for name in names if field_near(name) == "candidate"]
        hint = f"; {hints[0]}" if hints else ""
        if any(mark in name for name in names for mark in ";\t,|"):
            hint += "; is the delimiter right (comma in .csv, tab in .tsv)?"
        usual = _listed(name for tier in ALIASES["candidate"] for name in tier)
        raise NoCandidateError(
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


def field_near(name: str) -> str | None:
    """Return the field whose name is near to that of an unknown column."""
    near = difflib.get_close_matches(plain_name(name), ALIASES, 1, cutoff=0.75)
    return near[0] if near else None


def _with_hint(name: str) -> str:
    near, plain = field_near(name), plain_name(name)
    known = near in (None, plain) or _is_numbered(plain)  # left out for another column, not misspelt
    return _shown(name) if known else f"{_shown(name)} (did you mean {near!r}?)"


def _shown(name: str) -> str:
    return repr(name[:60]) if name else "a column without a name"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"

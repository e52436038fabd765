"""Rows and images that parts or sources of the data share under different names, and what follows."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from suisei.cli import counted
from suisei.data.copies import copies_among, real_paths, same_files
from suisei.data.sample import CaptionSample
from suisei.data.splits import caption_key, group_of
from suisei.errors import DataError

_LOG = logging.getLogger(__name__)

_TESTED = "what was trained on is tested again, and the figures are too good"
_CHOSEN = "the weights are chosen by what they learned from, and those of a better epoch may be lost"
CONSEQUENCES = {
    "test and train": ("test and training", _TESTED),
    "test and validation": (
        "test and validation",
        "what chose the weights is tested again, and the figures are too good",
    ),
    "test and support": (
        "test and support",
        "captions of what is tested were learned from, and the figures may be too good",
    ),
    "validation and train": ("validation and training", _CHOSEN),
    "validation and support": ("validation and support", _CHOSEN),
}
"""{two parts that share content: (what they are called, what follows from it)}, what matters most first."""
_KINDS = {
    "rows": ("row", "rows"),
    "images": ("image", "images"),
    "references": ("set of references", "sets of references"),
}


class Pictured(Protocol):
    """What has an image file."""

    @property
    def image(self) -> Path:
        """Path of the image."""


@dataclass(frozen=True, slots=True)
class _Contents:
    """What a part holds: rows and sets of references by the keys of captions, image files by real path."""

    rows: list[tuple[str, frozenset[str], str | None]]
    references: list[frozenset[str]]
    images: list[str]


def linked_groups(sources: Sequence[Sequence[CaptionSample]]) -> dict[str, str]:
    """Return the groups that have an image file in common with one of another source.

    Args:
        sources: the samples of each source, with group names that no two sources share.

    Returns:
        {group: the first of the groups that it goes with}, by source and name; that one itself is left out.
    """
    source_of: dict[str, int] = {}
    groups_of: dict[str, set[str]] = {}
    for number, samples in enumerate(sources):
        places = _image_places(samples)
        for sample in samples:
            if isinstance(sample.image, str | Path):
                source_of[group_of(sample)] = number
                groups_of.setdefault(places[sample.image], set()).add(group_of(sample))
    first: dict[str, str] = {}

    def first_of(name: str) -> str:
        while name in first:
            name = first[name]
        return name

    for groups in groups_of.values():
        if len({source_of[name] for name in groups}) > 1:
            leader, *others = sorted(set(map(first_of, groups)), key=lambda name: (source_of[name], name))
            first.update(dict.fromkeys(others, leader))
    return {name: first_of(name) for name in first}


def shared_contents(held_out: Sequence[CaptionSample], others: Sequence[CaptionSample]) -> dict[str, int]:
    """Count what a part shares with another, whatever their groups are called.

    Image files are the same where their content is (:func:`suisei.data.copies.same_files`). Captions are the
    same where :func:`suisei.data.splits.caption_key` is, so that case and punctuation make no other.

    Args:
        held_out: samples for validation or test.
        others: samples of another part, usually the training samples.

    Returns:
        ``rows``: samples of ``held_out`` with candidate, references and image of one of ``others``;
        ``images``: different images of ``held_out`` that are in ``others``; ``references``: different sets of
        references of ``held_out`` of which ``others`` have one with more than half of the smaller in common:
        the captions of one image, of which each was a candidate beside the rest. A caption or two that two
        images share is no such thing. Empty where nothing is shared.
    """
    places = [_image_places(held_out), _image_places(others)]
    hashes = same_files(*(part.values() for part in places))
    own, other = (
        _contents(samples, {image: hashes.get(place, place) for image, place in part.items()})
        for samples, part in zip((held_out, others), places, strict=True)
    )
    rows, images = set(other.rows), set(other.images)
    counts = {
        "rows": sum(row in rows for row in own.rows),
        "images": len(images.intersection(own.images)),
        "references": _shared_sets(set(own.references), set(other.references)),
    }
    return counts if any(counts.values()) else {}


def _shared_sets(held_out: set[frozenset[str]], others: set[frozenset[str]]) -> int:
    """Count the sets of references with more than half in common with another part's, of the smaller."""
    sets_with: dict[str, list[frozenset[str]]] = {}
    for other in others:
        for reference in other:
            sets_with.setdefault(reference, []).append(other)

    def shared(own: frozenset[str]) -> bool:
        near = {other for reference in own for other in sets_with.get(reference, ())}
        return any(2 * len(own & other) > min(len(own), len(other)) for other in near)

    return sum(own in others or shared(own) for own in held_out)


def shared_between(parts: Mapping[str, Sequence[CaptionSample]]) -> dict[str, dict[str, int]]:
    """Return what the parts of the data share, {two parts, as in CONSEQUENCES: counts}; only where any is.

    Args:
        parts: {"train", "validation", "test" and "support": its samples}.
    """
    counts = {
        names: shared_contents(*(parts[part] for part in names.split(" and "))) for names in CONSEQUENCES
    }
    return {names: found for names, found in counts.items() if found}


def shared_image(
    parts: Mapping[str, Sequence[CaptionSample]], shared: Mapping[str, Mapping[str, int]]
) -> str:
    """Return which file of a part is a copy of one of another part, the first that is found; "" for none.

    Args:
        parts: as for :func:`shared_between`.
        shared: what it returned of them: files of parts that share no image are not read again.
    """
    for names in (names for names, counts in shared.items() if counts["images"]):
        own, other = (_image_places(parts[part]) for part in names.split(" and "))
        for name, original in copies_among(own, other).items():
            return f"{name} is a copy of {original}"
    return ""


def describe_shared(*shared: Mapping[str, Mapping[str, int]]) -> str:
    """Return a sentence on what parts share and what follows from it; nothing where nothing is shared.

    Args:
        shared: {two parts, as in CONSEQUENCES: counts of :func:`shared_contents`}; of several, one for each
            fold of a cross-validation, counts are added up.
    """
    parts = []
    for names, (called, consequence) in CONSEQUENCES.items():
        found = [counts[names] for counts in shared if names in counts]
        if found:
            totals = {kind: sum(counts[kind] for counts in found) for kind in _KINDS}
            parts.append(f"{called} share {_listed(totals)}: {consequence}")
    if not parts:
        return ""
    folds = f", added up over {len(shared)} folds" if len(shared) > 1 else ""
    return (
        f"Parts of the data share content that their groups do not show{folds}; {'; '.join(parts)}. Take it "
        "out of one part, or give it one group."
    )


def _listed(totals: Mapping[str, int]) -> str:
    """Return the counts that are not 0 in words: ``8 rows, 44 images and 1 set of references``."""
    *first, last = [f"{count:,} {_KINDS[kind][count != 1]}" for kind, count in totals.items() if count]
    return f"{', '.join(first)} and {last}" if first else last


def _contents(samples: Sequence[CaptionSample], images: Mapping[str | Path, str]) -> _Contents:
    names = [_image_name(sample, images) for sample in samples]
    references = [frozenset(map(caption_key, sample.references)) for sample in samples]
    rows = [
        (caption_key(sample.candidate), own, name)
        for sample, own, name in zip(samples, references, names, strict=True)
    ]
    return _Contents(rows, [own for own in references if own], [name for name in names if name is not None])


def _image_name(sample: CaptionSample, images: Mapping[str | Path, str]) -> str | None:
    if sample.image is None:
        return None
    if isinstance(sample.image, str | Path):
        return images[sample.image]
    from suisei.data.images import content_key

    return content_key(sample.image)


def _image_places(samples: Iterable[CaptionSample]) -> dict[Path | str, str]:
    """Return the real path of every image file, by the name that samples give it."""
    return real_paths(sample.image for sample in samples if isinstance(sample.image, str | Path))


def check_apart(training: Iterable[Pictured], **others: Iterable[Pictured]) -> None:
    """Refuse image files that are in training and in another part, and say which ones are copies.

    Args:
        training: the training images.
        others: those of the other parts, by the name of each.

    Raises:
        DataError: some are.
    """
    learned = [one.image for one in training]
    seen = {image.resolve() for image in learned}
    for part, images in others.items():
        own = [one.image for one in images]
        both = [image for image in own if image.resolve() in seen]
        if both:
            raise DataError(
                f"data.{part} shares {counted(len(both), 'image')} with data.train, such as {both[0]}; a "
                "model is measured on images that it has not learned"
            )
        if copies := copies_among(own, learned):
            name, original = next(iter(copies.items()))
            _LOG.warning(
                "data.%s has images of data.train under other names (%d, such as %s, which is %s there): a "
                "model is measured on images that it has not learned; leave them out of one of the two",
                *(part, len(copies), name, original),
            )


def warn_unless_apart(training: Iterable[Pictured], validation: Iterable[Pictured]) -> None:
    """Say which image files are in training and in validation, whose figures then say too much."""
    try:
        check_apart(training, validation=validation)
    except DataError as error:
        _LOG.warning("%s", error)

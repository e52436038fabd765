"""Good captions, which probes change: those that people rated well, or one reference of each image."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from suisei.cli import counted
from suisei.data.sample import CaptionSample, detect_language, language_of
from suisei.data.splits import group_of, portable_names
from suisei.errors import DataError
from suisei.probes.degrade import WELL_RATED, seeded_key
from suisei.ranges import Word, check

SOURCES = ("rated", "references")
HELD_OUT = ("random", "first")
"""Which reference of an image stands for a person's caption: a seeded draw, or the first that it has."""


def good_samples(
    samples: Sequence[CaptionSample],
    source: str,
    *,
    good: float = WELL_RATED,
    limit: int = 1000,
    seed: int = 0,
    which: str = "random",
) -> list[CaptionSample]:
    """Return samples whose candidate is good, up to ``limit`` per language in a seeded order.

    Args:
        samples: what there is.
        source: "rated" takes candidates that people rated at least ``good``; "references" takes one
            reference of each image as candidate and scores it against its others.
        good: mean rating on [0, 1].
        limit: samples per language.
        seed: decides which reference is held out and which samples are kept.
        which: one of HELD_OUT, the reference that is held out.

    Raises:
        ConfigError: an unknown source, or ``which`` is unknown.
        DataError: there is no such sample.
    """
    check("originals", source, Word(SOURCES))
    if source == "rated":
        found = [s for s in samples if s.rating is not None and s.rating.mean >= good]
        why = f"none of {counted(len(samples), 'sample')} is rated {good:g} or better (of 1)"
    else:
        found = held_out(samples, seed, which)
        why = f"none of {counted(len(samples), 'sample')} has two references"
    if not found:
        raise DataError(f"no good caption to degrade: {why}")
    return some_of_each(found, limit, seed)


def some_of_each(samples: Sequence[CaptionSample], limit: int, seed: int = 0) -> list[CaptionSample]:
    """Return up to ``limit`` samples per language, in an order that the seed decides and rows do not."""
    kept: Counter[str] = Counter()
    chosen = []
    name = portable_names(map(group_of, samples))

    def key(sample: CaptionSample) -> int:
        return seeded_key(seed, name[group_of(sample)], sample.candidate, *sample.references)

    for sample in sorted(samples, key=key):
        language = language_of(sample)
        kept[language] += 1
        if kept[language] <= limit:
            chosen.append(sample)
    return chosen


def held_out(samples: Sequence[CaptionSample], seed: int = 0, which: str = "random") -> list[CaptionSample]:
    """Return one sample per image and language: a reference against the image's others in that language.

    Its language is what its characters show: that of the candidate may be another.

    Args:
        samples: whose references are taken; an image's may stand in several samples.
        seed: decides which reference it is.
        which: one of HELD_OUT; "first" asks no seed.

    Raises:
        ConfigError: ``which`` is unknown.
    """
    check("held out", which, Word(HELD_OUT))
    references: dict[tuple[str, str], dict[str, None]] = {}
    first: dict[tuple[str, str], CaptionSample] = {}
    for sample in samples:
        for text in sample.references:
            key = (group_of(sample), detect_language(text))
            references.setdefault(key, {})[text] = None
            first.setdefault(key, sample)
    found = []
    for key, captions in references.items():
        ordered = list(captions)
        if which == "random":
            ordered.sort(key=lambda text: seeded_key(seed, "held out", text))
        if len(ordered) > 1:
            found.append(
                replace(
                    first[key], candidate=ordered[0], references=tuple(ordered[1:]), rating=None,
                    group=key[0], language=key[1], system=None,
                )
            )  # fmt: skip
    return found

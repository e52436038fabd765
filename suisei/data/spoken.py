"""In which language references are, beside that of their candidate.

Cosines between sentences that mean the same are lower across languages than within one, and words do not
overlap. A model that tells the two apart (``head.bridge``) reads samples through here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from suisei.data.sample import CaptionSample, detect_language, language_of
from suisei.data.splits import group_of


def with_own_references(samples: Sequence[CaptionSample]) -> tuple[list[CaptionSample], list[bool]]:
    """Return samples without references in another language, and which have none in their own.

    The latter keep all that they have; one without any reference is not among them, nor one whose candidate
    has no letter to tell its language by. The language of a candidate is the sample's, that of a reference
    what its characters show.
    """
    found = [_own_alone(sample) for sample in samples]
    return [sample for sample, _ in found], [across for _, across in found]


def count_across(samples: Iterable[CaptionSample]) -> int:
    """Return how many samples have references, none of them in their own language."""
    return sum(_own_alone(sample)[1] for sample in samples)


def across_note(count: int) -> str:
    """Say what samples are that :func:`count_across` counted."""
    have = "has" if count == 1 else "have"
    return (
        f"{count:,} {have} no reference in the candidate's language: metrics that compare words find next to "
        "nothing in common there"
    )


def _own_alone(sample: CaptionSample) -> tuple[CaptionSample, bool]:
    own = references_in(sample, language_of(sample))
    unknown = sample.language is None and not any(map(str.isalpha, sample.candidate))
    if unknown or len(own) == len(sample.references):
        return sample, False
    return (replace(sample, references=own), False) if own else (sample, True)


def references_in(sample: CaptionSample, language: str) -> tuple[str, ...]:
    """Return the references of a sample that are in a language, "ja" or "en"."""
    return tuple(text for text in sample.references if detect_language(text) == language)


def beside_references_in(samples: Sequence[CaptionSample], language: str) -> dict[int, CaptionSample]:
    """Return, by position, samples compared with all references of their image that are in a language.

    Whichever sample of the image they were given with; samples of images without any are left out.
    """
    groups = [group_of(sample) for sample in samples]
    written: dict[str, dict[str, None]] = {}
    for group, sample in zip(groups, samples, strict=True):
        written.setdefault(group, {}).update(dict.fromkeys(references_in(sample, language)))
    return {
        position: replace(sample, references=tuple(written[group]))
        for position, (group, sample) in enumerate(zip(groups, samples, strict=True))
        if written[group]
    }

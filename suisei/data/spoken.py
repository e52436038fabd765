"""In which language captions are: references beside their candidate, and captions of other languages.

Cosines between sentences that mean the same are lower across languages than within one, and words do not
overlap. A model that tells the two apart (``head.bridge``) reads samples through here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from suisei.data.sample import CaptionSample, detect_language, language_of
from suisei.data.splits import group_of

_KANA = re.compile("[\u3040-\u30ff\uff66-\uff9f]")
_IDEOGRAPH = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_LATIN = re.compile("[A-Za-z\u00aa-\u024f\u1e00-\u1eff\uff21-\uff5a]")
_CHINESE = 8
"""So many ideographs without any kana are a sentence in Chinese: no caption of Shichimi or JSTS is."""


def with_own_references(samples: Sequence[CaptionSample]) -> tuple[list[CaptionSample], list[bool]]:
    """Return samples without references in another language, and which have none in their own.

    The latter keep all that they have; one without any reference is not among them, nor one whose candidate
    has no letter to tell its language by. The language of a candidate is the sample's, that of a reference
    :func:`language_beside`.
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


def in_another_script(text: str, language: str | None = None) -> bool:
    """Say whether a caption is neither in Japanese nor in a language of Latin letters, by its letters.

    Chinese is told by its lack of kana, but where the language is said to be Japanese; German, say, cannot be
    told from English.
    """
    if text.isascii() or _KANA.search(text):
        return False
    ideographs, latin = len(_IDEOGRAPH.findall(text)), len(_LATIN.findall(text))
    others = sum(map(str.isalpha, text)) - ideographs - latin
    return others > ideographs + latin or (language != "ja" and ideographs >= max(_CHINESE, latin))


def count_other_scripts(samples: Iterable[CaptionSample]) -> int:
    """Return of how many samples the candidate or a reference is :func:`in_another_script`."""
    return sum(
        any(in_another_script(text, sample.language) for text in (sample.candidate, *sample.references))
        for sample in samples
    )


def other_scripts_note(count: int) -> str:
    """Say what samples are that :func:`count_other_scripts` counted."""
    have = "has" if count == 1 else "have"
    return (
        f"{count:,} {have} a caption that is neither Japanese nor English, by its letters: nothing was "
        "measured on other languages, and words are counted there as in one of the two"
    )


def _own_alone(sample: CaptionSample) -> tuple[CaptionSample, bool]:
    own = references_in(sample, language_of(sample))
    unknown = sample.language is None and not any(map(str.isalpha, sample.candidate))
    if unknown or len(own) == len(sample.references):
        return sample, False
    return (replace(sample, references=own), False) if own else (sample, True)


def references_in(sample: CaptionSample, language: str) -> tuple[str, ...]:
    """Return the references of a sample that are in a language, "ja" or "en"."""
    return tuple(text for text in sample.references if language_beside(sample, text) == language)


def language_beside(sample: CaptionSample, reference: str) -> str:
    """Return the language of a reference: what its characters show, "ja" or "en".

    Of a sample whose language is stated, a reference that is the candidate itself (STOP, in Japanese) is in
    that language, and so is one without a letter.
    """
    shown = detect_language(reference)
    if sample.language is None or shown == sample.language:
        return shown
    same = reference.casefold() == sample.candidate.casefold()
    return sample.language if same or not any(map(str.isalpha, reference)) else shown


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

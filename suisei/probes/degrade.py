"""Changing captions on purpose, so that one can see whether a metric notices what it should, and no more.

Most changes make a caption worse (``expects`` is "lower"); the others say the same in other words ("same").
Every change is a rule, seeded by the seed, its own name and the caption: the same caption is always changed
alike, whatever else is changed with it. None of them looks at an image, so a degraded caption could by
chance be as true as the original (two dogs that change places); the shares of
:mod:`suisei.probes.outcomes` are to be read with that in mind.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from suisei.data.sample import LANGUAGES, CaptionSample, detect_language, language_of
from suisei.data.splits import group_of
from suisei.errors import ConfigError
from suisei.probes import falsify, rephrase
from suisei.probes.falsify import Rule, Task
from suisei.probes.negation import negate
from suisei.probes.segments import segment, swappable
from suisei.probes.spans import texts

OTHER_IMAGE = "other-image"
WELL_RATED = 0.75
"""Mean rating, on [0, 1], from which a rated candidate is good enough to be degraded."""
BOTH = ("ja", "en")
"""The languages whose grammar the rules know: another one has none of the changes until they do."""
_MARKS = {"ja": "。", "en": "."}
_LETTERS = {"ja": "あ", "en": "a"}
_TRIES = 20
POOL_SIZE = 50
"""Captions of other images that one is drawn from."""


@dataclass(frozen=True, slots=True)
class Degradation:
    """One way to change a caption.

    Attributes:
        name: in tables and options.
        summary: what is done, in a few words.
        rule: what is done; None where the caption has no room for it. The rule of "other-image" needs
            other captions, see :func:`degrade`.
        expects: "lower" where the caption becomes worse, "same" where it says the same.
        languages: those in which there is such a change.
    """

    name: str
    summary: str
    rule: Rule
    expects: str = "lower"
    languages: tuple[str, ...] = BOTH


def _swap(task: Task) -> str | None:
    pairs = swappable(task.caption)
    if not pairs:
        return None
    words = texts(task.caption)
    first, second = task.rng.choice(pairs)
    words[first], words[second] = words[second], words[first]
    return task.caption.join(words)


def _negate(task: Task) -> str | None:
    return negate(task.caption)


def _shuffle(task: Task) -> str | None:
    words = texts(task.caption)
    if len(set(words)) < 3:  # two words, exchanged, are often as good
        return None
    shuffled = list(words)
    for _ in range(_TRIES):
        task.rng.shuffle(shuffled)
        if shuffled != words:
            return task.caption.join(shuffled)
    return None


def _repeat(task: Task) -> str | None:
    words = texts(task.caption)
    if len(words) < 2:
        return None
    length = min(len(words), task.rng.choice((2, 3, 4)))
    start = task.rng.randrange(len(words) - length + 1)
    phrase = words[start : start + length]
    said = words[: start + length] + phrase * task.rng.choice((1, 2)) + words[start + length :]
    return task.caption.join(said)


def _half(task: Task) -> str | None:
    words = texts(task.caption)
    return task.caption.join(words[: len(words) // 2]) if len(words) > 1 else None


def _mark(task: Task) -> str | None:
    return _MARKS[task.caption.language]


def _letter(task: Task) -> str | None:
    return _LETTERS[task.caption.language]


def _needs_others(task: Task) -> str | None:
    return None


DEGRADATIONS: dict[str, Degradation] = {
    name: Degradation(name, summary, rule)
    for name, summary, rule in (
        ("swap", "two nouns (or content words) change places", _swap),
        ("object", "another thing of its kind: a cat for a dog", falsify.wrong_object),
        ("attribute", "another colour, size, age or material", falsify.wrong_attribute),
        ("number", "another number", falsify.wrong_number),
        ("relation", "another place or direction: under for on", falsify.wrong_relation),
        ("negate", "a negation is added, or the one there is removed", _negate),
        ("omit", "a phrase of place or means, or an attribute, left out", falsify.omit),
        ("add", "a thing that no caption of the image mentions is added", falsify.add_thing),
        ("shuffle", "all words in random order", _shuffle),
        ("repeat", "a phrase of two to four words said two or three times", _repeat),
        ("copy", "a copy of a reference with one word changed for a wrong one", falsify.near_copy),
        (OTHER_IMAGE, "a good caption of another image", _needs_others),
        ("generic", "fluent and true of every picture: a photo of something, 何かの写真", falsify.generic),
        ("break-off", "the last quarter of the words left out", falsify.break_off),
        ("half", "the second half of the words left out", _half),
        ("mark", "nothing but a full stop", _mark),
        ("letter", "nothing but one letter: あ, a", _letter),
    )
}
INVARIANCES: dict[str, Degradation] = {
    name: Degradation(name, summary, rule, "same", languages)
    for name, summary, rule, languages in (
        (
            "politeness",
            "plain for polite Japanese, or back: います for いる",
            rephrase.other_politeness,
            ("ja",),
        ),
        (
            "script",
            "another script or spelling: いぬ for 犬, grey for gray",
            rephrase.other_spelling,
            BOTH,
        ),
        ("synonym", "another word for the same: sofa for couch", rephrase.other_words, BOTH),
        ("order", "another word order of the same meaning", rephrase.other_order, BOTH),
        ("digits", "a digit for a number word, or back", rephrase.other_digits, BOTH),
        ("full-stop", "a full stop at the end, or none where there is one", rephrase.other_ending, BOTH),
        (
            "spaces",
            "words cut apart by spaces, as some captioners write Japanese",
            rephrase.cut_apart,
            ("ja",),
        ),
        ("quotes", "quotation marks around the caption, as language models write", rephrase.quoted, BOTH),
    )
}
CHANGES = {**DEGRADATIONS, **INVARIANCES}
"""All ways to change a caption: those that make it worse, then those that do not."""


def degrade(
    caption: str,
    name: str,
    *,
    language: str | None = None,
    seed: int = 0,
    others: Sequence[str] = (),
    references: Sequence[str] = (),
) -> str | None:
    """Return a changed version of a caption: worse, or for an invariance as good.

    Args:
        caption: the text.
        name: a key of CHANGES.
        language: "ja" or "en"; detected where it is None.
        seed: another seed gives other choices; 0 is a seed like any other.
        others: captions of other images in the same language, for "other-image".
        references: other captions of its image: what they mention is not put there as wrong, and "copy"
            copies one.

    Returns:
        The changed caption, or None where this one has no room for it; never the caption itself.

    Raises:
        ConfigError: no such change; the valid ones are listed.
    """
    check_names([name])
    rng = random.Random(seeded_key(seed, name, caption))
    if name == OTHER_IMAGE:
        fitting = [other for other in others if other.strip() != caption.strip()]
        return rng.choice(fitting) if fitting else None
    change, spoken = CHANGES[name], language or detect_language(caption)
    if spoken not in change.languages:
        return None
    changed = change.rule(Task(segment(caption, spoken), rng, tuple(references)))
    return changed if changed and changed.strip() and changed.strip() != caption.strip() else None


def degrade_samples(
    samples: Sequence[CaptionSample], name: str, *, seed: int = 0
) -> list[CaptionSample | None]:
    """Return each sample with its candidate changed and its rating taken away; None where that cannot be.

    The language of a changed sample is stated, as that of the original.

    The captions for "other-image" are the candidates of ``samples`` in the same language and of another
    group (image).

    Args:
        samples: N good samples.
        name: a key of CHANGES.
        seed: of all choices.
    """
    pools = _pools(samples) if name == OTHER_IMAGE else {}
    result: list[CaptionSample | None] = []
    for sample in samples:
        language = language_of(sample)
        others: list[str] = []
        if name == OTHER_IMAGE:
            others = _elsewhere(sample, pools[language], seed)
        changed = degrade(
            sample.candidate, name, language=language, seed=seed, others=others, references=sample.references
        )
        # "。" and what is left of "TV の前" show no Japanese any more
        made = None if changed is None else replace(sample, candidate=changed, rating=None, language=language)
        result.append(made)
    return result


def check_names(names: Sequence[str]) -> None:
    """Raise ConfigError unless every name is a key of CHANGES."""
    for name in names:
        if name not in CHANGES:
            raise ConfigError(f"no degradation {name!r}; there are: {', '.join(CHANGES)}")


def _pools(samples: Sequence[CaptionSample]) -> dict[str, list[tuple[str, str]]]:
    """Return (group, candidate) of every sample by language, in an order that rows do not decide."""
    pools: dict[str, list[tuple[str, str]]] = {}
    for sample in samples:
        pools.setdefault(language_of(sample), []).append((group_of(sample), sample.candidate))
    return {language: sorted(set(pool)) for language, pool in pools.items()}


def _elsewhere(sample: CaptionSample, pool: Sequence[tuple[str, str]], seed: int) -> list[str]:
    """Return up to POOL_SIZE captions of other groups, which are no caption of this sample's image."""
    rng = random.Random(seeded_key(seed, "pool", sample.candidate))
    own, known = group_of(sample), {sample.candidate, *sample.references}
    drawn = rng.sample(range(len(pool)), min(POOL_SIZE, len(pool)))
    return [pool[n][1] for n in drawn if pool[n][0] != own and pool[n][1] not in known]


def by_language(samples: Sequence[CaptionSample]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each language that occurs, Japanese first, with the mask of its samples."""
    languages = np.array([language_of(sample) for sample in samples])
    for language in LANGUAGES:
        if (languages == language).any():
            yield language, languages == language


def seeded_key(seed: int, *texts: str) -> int:
    """Return a number that the seed and the texts decide alone: to order or to choose by."""
    digest = hashlib.blake2b(digest_size=8)
    for text in (str(int(seed)), *texts):
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return int.from_bytes(digest.digest(), "big")

"""Making captions worse on purpose, so that one can see whether a metric notices.

Every degradation is a rule, seeded by the seed, its own name and the caption: the same caption is always
degraded alike, whatever else is degraded with it. None of them looks at an image, so a degraded caption
could by chance be as true as the original (two dogs that change places); the shares of
:mod:`suisei.probes.probe_tables` are to be read with that in mind.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from suisei.data.sample import CaptionSample, detect_language, language_of
from suisei.data.splits import group_of
from suisei.errors import ConfigError
from suisei.probes.negation import negate
from suisei.probes.segments import Segmented, segment, swappable

Rule = Callable[[Segmented, random.Random], str | None]
OTHER_IMAGE = "other-image"
WELL_RATED = 0.75
"""Mean rating, on [0, 1], from which a rated candidate is good enough to be degraded."""
_MARKS = {"ja": "。", "en": "."}
_LETTERS = {"ja": "あ", "en": "a"}
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Degradation:
    """One way to make a caption worse.

    Attributes:
        name: in tables and options.
        summary: what is done, in a few words.
        rule: takes the caption's words and random numbers; None where the caption has no room for it.
            The rule of "other-image" needs other captions, see :func:`degrade`.
    """

    name: str
    summary: str
    rule: Rule


def _swap(caption: Segmented, rng: random.Random) -> str | None:
    pairs = swappable(caption)
    if not pairs:
        return None
    words = [word.text for word in caption.words]
    first, second = rng.choice(pairs)
    words[first], words[second] = words[second], words[first]
    return caption.join(words)


def _negate(caption: Segmented, rng: random.Random) -> str | None:
    return negate(caption)


def _shuffle(caption: Segmented, rng: random.Random) -> str | None:
    words = [word.text for word in caption.words]
    if len(set(words)) < 3:  # two words, exchanged, are often as good
        return None
    shuffled = list(words)
    for _ in range(_TRIES):
        rng.shuffle(shuffled)
        if shuffled != words:
            return caption.join(shuffled)
    return None


def _repeat(caption: Segmented, rng: random.Random) -> str | None:
    words = [word.text for word in caption.words]
    if len(words) < 2:
        return None
    length = min(len(words), rng.choice((2, 3, 4)))
    start = rng.randrange(len(words) - length + 1)
    phrase = words[start : start + length]
    return caption.join(words[: start + length] + phrase * rng.choice((1, 2)) + words[start + length :])


def _half(caption: Segmented, rng: random.Random) -> str | None:
    words = [word.text for word in caption.words]
    return caption.join(words[: len(words) // 2]) if len(words) > 1 else None


def _mark(caption: Segmented, rng: random.Random) -> str | None:
    return _MARKS[caption.language]


def _letter(caption: Segmented, rng: random.Random) -> str | None:
    return _LETTERS[caption.language]


def _needs_others(caption: Segmented, rng: random.Random) -> str | None:
    return None


DEGRADATIONS: dict[str, Degradation] = {
    name: Degradation(name, summary, rule)
    for name, summary, rule in (
        ("swap", "two nouns (or content words) change places", _swap),
        ("negate", "a negation is added, or the one there is removed", _negate),
        ("shuffle", "all words in random order", _shuffle),
        ("repeat", "a phrase of two to four words said two or three times", _repeat),
        (OTHER_IMAGE, "a good caption of another image", _needs_others),
        ("half", "the second half of the words left out", _half),
        ("mark", "nothing but a full stop", _mark),
        ("letter", "nothing but one letter: あ, a", _letter),
    )
}


def degrade(
    caption: str, name: str, *, language: str | None = None, seed: int = 0, others: Sequence[str] = ()
) -> str | None:
    """Return a worse version of a caption.

    Args:
        caption: the text.
        name: a key of DEGRADATIONS.
        language: "ja" or "en"; detected where it is None.
        seed: another seed gives other choices; 0 is a seed like any other.
        others: captions of other images in the same language, for "other-image".

    Returns:
        The degraded caption, or None where this one has no room for it; never the caption itself.

    Raises:
        ConfigError: no such degradation; the valid ones are listed.
    """
    check_names([name])
    rng = random.Random(seeded_key(seed, name, caption))
    if name == OTHER_IMAGE:
        fitting = [other for other in others if other.strip() != caption.strip()]
        return rng.choice(fitting) if fitting else None
    cut = segment(caption, language or detect_language(caption))
    worse = DEGRADATIONS[name].rule(cut, rng)
    return worse if worse and worse.strip() and worse.strip() != caption.strip() else None


def degrade_samples(
    samples: Sequence[CaptionSample], name: str, *, seed: int = 0, pool_size: int = 50
) -> list[CaptionSample | None]:
    """Return each sample with its candidate degraded and its rating taken away; None where that cannot be.

    The captions for "other-image" are the candidates of ``samples`` in the same language and of another
    group (image).

    Args:
        samples: N good samples.
        name: a key of DEGRADATIONS.
        seed: of all choices.
        pool_size: other captions that one is drawn from.
    """
    pools = _pools(samples) if name == OTHER_IMAGE else {}
    result: list[CaptionSample | None] = []
    for sample in samples:
        language = language_of(sample)
        others: list[str] = []
        if name == OTHER_IMAGE:
            others = _elsewhere(sample, pools[language], seed, pool_size)
        worse = degrade(sample.candidate, name, language=language, seed=seed, others=others)
        result.append(None if worse is None else replace(sample, candidate=worse, rating=None))
    return result


def check_names(names: Sequence[str]) -> None:
    """Raise ConfigError unless every name is a key of DEGRADATIONS."""
    for name in names:
        if name not in DEGRADATIONS:
            raise ConfigError(f"no degradation {name!r}; there are: {', '.join(DEGRADATIONS)}")


def _pools(samples: Sequence[CaptionSample]) -> dict[str, list[tuple[str, str]]]:
    """Return (group, candidate) of every sample by language, in an order that rows do not decide."""
    pools: dict[str, list[tuple[str, str]]] = {}
    for position, sample in enumerate(samples):
        pools.setdefault(language_of(sample), []).append((group_of(sample, position), sample.candidate))
    return {language: sorted(set(pool)) for language, pool in pools.items()}


def _elsewhere(sample: CaptionSample, pool: Sequence[tuple[str, str]], seed: int, size: int) -> list[str]:
    """Return up to ``size`` captions of other groups, which are no caption of this sample's image."""
    rng = random.Random(seeded_key(seed, "pool", sample.candidate))
    own, known = group_of(sample), {sample.candidate, *sample.references}
    drawn = rng.sample(range(len(pool)), min(size, len(pool)))
    return [pool[n][1] for n in drawn if pool[n][0] != own and pool[n][1] not in known]


def seeded_key(seed: int, *texts: str) -> int:
    """Return a number that the seed and the texts decide alone: to order or to choose by."""
    digest = hashlib.blake2b(digest_size=8)
    for text in (str(int(seed)), *texts):
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return int.from_bytes(digest.digest(), "big")

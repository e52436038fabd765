"""Training samples that nobody rated, because everybody would rate them alike.

Ratings are of captions that systems or people wrote in earnest. A model that saw nothing else may well
like a caption that says one phrase twice, or nothing. Here good captions and what
:mod:`suisei.probes.degrade` makes of them are given ratings by rule.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from suisei.data.sample import CaptionSample, Rating, language_of
from suisei.data.splits import group_of, references_by_image
from suisei.errors import ConfigError
from suisei.probes.degrade import OTHER_IMAGE, WELL_RATED, degrade

REFERENCE_RATING = 0.9
"""What a reference of the same image is rated as a candidate."""
KEPT = {
    "swap": 0.75,
    "negate": 0.4,
    "shuffle": 0.5,
    "repeat": 0.5,
    OTHER_IMAGE: 0.05,
    "half": 0.7,
    "mark": 0.0,
    "letter": 0.0,
}
"""Share of its rating that a good caption keeps when it is degraded."""
OFTEN = ("swap", "negate", "shuffle", "half")
"""Ways that are hard to notice, and are taken three times as often."""
EMPTY = (OTHER_IMAGE, "mark", "letter")
"""Ways after which nothing of the caption is left: to rank it lower teaches nothing."""


@dataclass(frozen=True)
class Synthetic:
    """Samples that were made, and what of.

    Attributes:
        samples: the samples.
        originals: number of the sample that each degraded one is to be compared with: first the training
            samples count, then the samples made; -1 for none.
    """

    samples: list[CaptionSample]
    originals: list[int]


def synthetic_samples(samples: Sequence[CaptionSample], share: float, seed: int = 0) -> Synthetic:
    """Return rated samples made of references, and of degraded references and good candidates.

    Good candidates, and references as candidates beside other references of their image, are degraded, each
    in one of the ways of ``KEPT``. The references themselves are among what is made, a third or more of it.

    Args:
        samples: rated training samples.
        share: how many, as a share of ``samples``.
        seed: of all choices.

    Raises:
        ConfigError: a share below 0.
    """
    if share < 0:
        raise ConfigError(f"data.synthetic must be at least 0, got {share}")
    rng = random.Random(seed)
    images = references_by_image(samples)
    captions: dict[str, list[str]] = {}
    for sample in samples:
        captions.setdefault(language_of(sample), []).extend(sample.references)
    made: list[CaptionSample] = []
    originals: list[int] = []
    wanted = round(share * len(samples))
    for _ in range(wanted):
        if len(made) >= wanted:
            break
        original = rng.randrange(len(samples))
        sample = samples[original]
        said = images[group_of(sample), language_of(sample)]
        good = _good(sample, said, rng)
        if good is None:
            continue
        if good.candidate != sample.candidate:
            original = len(samples) + len(made)
            made.append(good)
            originals.append(-1)
        name = rng.choices(list(KEPT), [3 if way in OFTEN else 1 for way in KEPT])[0]
        every = captions[language_of(sample)]
        others = [c for c in rng.sample(every, min(3, len(every))) if c not in said]
        worse = degrade(
            good.candidate, name, language=good.language, seed=rng.randrange(2**31), others=others
        )
        if worse is not None and good.rating is not None:
            made.append(replace(good, candidate=worse, rating=Rating((good.rating.mean * KEPT[name],))))
            originals.append(-1 if name in EMPTY else original)
    return Synthetic(made, originals)


def _good(sample: CaptionSample, pool: Sequence[str], rng: random.Random) -> CaptionSample | None:
    """Return the sample if it is good, or else with a reference of its image as the candidate."""
    group = group_of(sample)
    if sample.rating is not None and sample.rating.mean >= WELL_RATED and rng.random() < 0.5:
        return replace(sample, group=group, system=None, id=None)
    if len(pool) < 2:
        return None
    candidate = rng.choice(list(pool))
    kept = [reference for reference in sample.references if reference != candidate]
    if not kept:
        return None
    rating = Rating((REFERENCE_RATING,))
    return replace(
        sample,
        candidate=candidate,
        references=tuple(kept),
        rating=rating,
        group=group,
        system=None,
        id=None,
    )

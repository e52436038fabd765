"""Replacing and shuffling: sets of captions from worst to best, which a metric should put in that order.

The protocols of González-Chávez, Ruiz, Moctezuma and Ramirez-delReal, "Are metrics measuring what they
should?" (2022), section 4. One human caption of each image is taken apart; its image's others are the
references. Replacing puts random words in its place of a quarter and of half of its words; Random is a human
caption of another image. Shuffling brings a quarter, half and all of the words out of order. All captions of
all sets are sorted by score, and the set labels along the sorted list are correlated with those of the right
order: 1 is perfect.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from suisei.cli import counted
from suisei.data.sample import LANGUAGE_NAMES, CaptionSample
from suisei.data.splits import group_of
from suisei.errors import DataError
from suisei.metaeval.kendall import GroupSum
from suisei.metaeval.resampling import Interval, percentile_interval, weight_parts
from suisei.metaeval.tables import Cell
from suisei.probes.degrade import OTHER_IMAGE, by_language, degrade_samples, seeded_key
from suisei.probes.outcomes import Scored
from suisei.probes.segments import segment
from suisei.probes.spans import texts

STEPS = 1000
"""Scores that are told apart over the range of most of a metric's scores (1st to 99th percentile).

Finer differences are a tie. BLEU needs that: in the COCO evaluation's programs a caption without any fourgram
of the references has a trace of a score (1e-4 and less) in place of 0. The published figures are those of 0:
on COCO captions, BLEU-3 and BLEU-4 come to .33 and .13 by both protocols, as printed, and with the traces to
.57 and .56 by replacing, .44 and .44 by shuffling.
"""
LEAST_OCCURRENCES = 4
"""How often a word must occur in the references to be put in another's place."""
_BINS = 40
_TRIES = 20

PUBLISHED = {
    "bleu-1": (0.640800, 0.027080),
    "bleu-2": (0.555879, 0.380119),
    "bleu-3": (0.330240, 0.338320),
    "bleu-4": (0.128960, 0.134680),
    "sacrebleu": (0.560640, 0.474120),
    "meteor": (0.575520, 0.216000),
    "spice": (0.661920, 0.230680),
    "cider": (0.708320, 0.123240),
    "rouge-l": (0.570840, 0.171400),
    "bertscore": (0.556920, 0.709639),
    "clip-s": (0.774080, 0.225760),
    "ref-clip-s": (0.805640, 0.280159),
}
"""{metric: rho of replacing and of shuffling} on 5,000 images of COCO (val2017), as published (table 2)."""


def published_rho(metric: str, protocol: str) -> float | None:
    """Return the published figure of a metric, named as users write it, or None."""
    known = PUBLISHED.get(metric.partition(":")[0])
    return None if known is None else known[("replacing", "shuffling").index(protocol)]


@dataclass(frozen=True, slots=True)
class Ladder:
    """Sets of captions of the same images.

    Attributes:
        protocol: "replacing" or "shuffling".
        names: of the K sets, the worst first.
        sets: K sets of N samples, image by image.
        unchanged: how many of the N captions were too short for a step and stayed as they were, per set.
    """

    protocol: str
    names: tuple[str, ...]
    sets: tuple[tuple[CaptionSample, ...], ...]
    unchanged: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LadderOutcome:
    """In which order one metric puts the sets of a ladder.

    Attributes:
        protocol: "replacing" or "shuffling".
        metric: its label.
        language: "ja" or "en".
        names: of the K sets, the worst first.
        scores: float64 [K, N].
        rho: the correlation of the set labels with those of the right order, with its interval.
        steps: share of images whose caption scores better than that of the next worse set, K - 1 cells.
        example: a caption of each set, of one image, with its score.
        unchanged: of the ladder.
    """

    protocol: str
    metric: str
    language: str
    names: tuple[str, ...]
    scores: np.ndarray
    rho: Cell
    steps: tuple[Cell, ...]
    example: tuple[tuple[str, str, float], ...]
    unchanged: tuple[int, ...] = ()

    def orders(self, bins: int = _BINS) -> np.ndarray:
        """Return how many captions of each set stand in each part of the sorted list, float64 [K, bins].

        The histograms of the paper's figures 6 and 8, from the lowest score to the highest; captions that
        are tied are spread over the places that they share.
        """
        starts, stops = _places(self.scores)
        edges = np.linspace(0, self.scores.size, bins + 1)
        inside = np.minimum(stops[..., None], edges[1:]) - np.maximum(starts[..., None], edges[:-1])
        widths = np.maximum(stops - starts, 1)[..., None]
        shares: np.ndarray = (np.maximum(inside, 0) / widths).sum(axis=1)
        return shares

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values: the histograms and the example."""
        captions = [dict(zip(("set", "caption", "score"), each, strict=True)) for each in self.example]
        orders = {
            name: [round(v, 6) for v in row]
            for name, row in zip(self.names, self.orders().tolist(), strict=True)
        }
        return {"orders": orders, "example": captions}


def _places(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the tied block of each score [K, N] begins and ends in the sorted list."""
    _, block, counts = np.unique(_levels(scores), return_inverse=True, return_counts=True)
    stops = np.cumsum(counts)
    block = block.reshape(scores.shape)
    return (stops - counts)[block], stops[block]


def _levels(scores: np.ndarray) -> np.ndarray:
    """Return the scores in steps, so that what is tied is equal."""
    low, high = np.quantile(scores, (0.01, 0.99))
    span = float(high - low) or float(np.ptp(scores)) or 1.0
    levels: np.ndarray = np.round(scores * (STEPS / span))
    return levels


def label_rho(scores: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the correlation of set labels along the sorted list with those of the right order.

    rho = 1 - 6 sum d^2 / (n (K^2 - 1)), with n = K N captions and d the difference of the labels, 1 to K, at
    a place of the two lists: Pearson's correlation of the labels, which the published figures are, and not of
    the captions' own places. Tied scores stand in the order that a fair draw would give on average, so that a
    metric gains nothing from the order in which captions are given.

    Args:
        scores: float64 [K, N], the worst set first.
        weights: how often each of the N images counts, [B, N]; once where it is None.

    Returns:
        float64 [B], or [1].
    """
    sets, count = scores.shape
    weights = np.ones((1, count)) if weights is None else np.asarray(weights, dtype=np.float64)
    block = np.unique(_levels(scores), return_inverse=True)[1].reshape(-1)
    labels = np.repeat(np.arange(sets) - (sets - 1) / 2, count)
    every = np.tile(weights, (1, sets))
    add = GroupSum(block)
    size, label = add(every), add(every * labels)
    total = weights.sum(axis=1, keepdims=True)
    stops = np.cumsum(size, axis=1)
    right = _label_integral(stops / total, sets) - _label_integral((stops - size) / total, sets)
    mean = np.divide(label, size, out=np.zeros_like(label), where=size > 0)
    rho: np.ndarray = (right * mean).sum(axis=1) / (sets * (sets**2 - 1) / 12)
    return rho


def _label_integral(place: np.ndarray, sets: int) -> np.ndarray:
    """Return the sum of the right labels up to a place, both in units of a set's size."""
    values = np.cumsum([0.0, *(k - (sets - 1) / 2 for k in range(sets))])
    integral: np.ndarray = np.interp(place, np.arange(sets + 1), values)
    return integral


def ladder_outcomes(
    metrics: Sequence[Scored], ladder: Ladder, language: str, *, n_resamples: int = 1000, seed: int = 0
) -> list[LadderOutcome | str]:
    """Return in which order metrics put the captions of a ladder, or why one cannot.

    Images without a score of every set are left out; it takes two with them.
    """
    found: list[LadderOutcome | str] = []
    flat = [sample for each in ladder.sets for sample in each]
    for metric in metrics:
        scores = metric.score(flat).reshape(len(ladder.sets), -1)
        there = ~np.isnan(scores).any(axis=0)
        if there.sum() < 2:
            where = f"{metric.label}, {ladder.protocol}, {LANGUAGE_NAMES[language]}"
            found.append(
                f"{where}: {counted(int(there.sum()), 'image')} with a score of every set, and it takes two"
            )
            continue
        scores = scores[:, there]
        groups = [group_of(sample) for sample, kept in zip(ladder.sets[0], there, strict=True) if kept]
        rho, *steps = _cells(scores, groups, n_resamples, seed)
        shown = int(np.argsort(scores[-1], kind="stable")[scores.shape[1] // 2])
        place = int(np.flatnonzero(there)[shown])
        example = tuple(
            (name, own[place].candidate, float(column[shown]))
            for name, own, column in zip(ladder.names, ladder.sets, scores, strict=True)
        )
        names = (ladder.protocol, metric.label, language, ladder.names)
        found.append(LadderOutcome(*names, scores, rho, tuple(steps), example, ladder.unchanged))
    return found


def _cells(scores: np.ndarray, groups: Sequence[str], n_resamples: int, seed: int) -> list[Cell]:
    """Return rho and the shares of neighbouring sets in the right order, with intervals over images."""
    names, group = np.unique(np.array(groups, dtype=object), return_inverse=True)
    gaps = np.diff(_levels(scores), axis=0)
    right = (gaps > 0) + (gaps == 0) / 2
    values = [float(label_rho(scores)[0]), *right.mean(axis=1).tolist()]
    if not n_resamples or len(names) < 2:
        return [Cell(value) for value in values]
    drawn = []
    for part in weight_parts(len(names), n_resamples, seed):
        weights = part[:, group].astype(np.float64)
        shares = weights @ right.T / weights.sum(axis=1, keepdims=True)
        drawn.append(np.column_stack([label_rho(scores, weights), shares]))
    intervals: list[Interval] = [percentile_interval(column) for column in np.concatenate(drawn).T]
    return [Cell(value, found.low, found.high) for value, found in zip(values, intervals, strict=True)]


def replacing(humans: Sequence[CaptionSample], words: Sequence[str], seed: int = 0) -> Ladder:
    """Return Random, Replace 50 %, Replace 25 % and Human.

    Args:
        humans: N samples of one language whose candidate is a human caption, another than the references.
        words: what is put in a word's place, from :func:`frequent_words`.
        seed: of all choices.

    Raises:
        DataError: there are no words to put in, or no caption of another image.
    """
    if len(words) < 2:
        raise DataError(f"replacing: {len(words)} words occur {LEAST_OCCURRENCES} times in the references")
    others = degrade_samples(humans, OTHER_IMAGE, seed=seed)
    kept = [place for place, sample in enumerate(others) if sample is not None]
    if len(kept) < 2:
        raise DataError("replacing: it takes captions of at least two images")

    def put(share: float) -> Callable[[list[str], random.Random], list[str]]:
        return lambda own, rng: _replaced(own, share, words, rng)

    columns = [
        [sample for sample in others if sample is not None],
        *(
            _changed([humans[n] for n in kept], f"replace {share:g}", put(share), seed)
            for share in (0.5, 0.25)
        ),
        [humans[n] for n in kept],
    ]
    return _ladder("replacing", ("Random", "Replace 50 %", "Replace 25 %", "Human"), columns)


def shuffling(humans: Sequence[CaptionSample], seed: int = 0) -> Ladder:
    """Return Shuffle all, Shuffle 50 %, Shuffle 25 % and the original captions.

    Raises:
        DataError: fewer than two captions.
    """
    if len(humans) < 2:
        raise DataError("shuffling: it takes captions of at least two images")

    def move(share: float) -> Callable[[list[str], random.Random], list[str]]:
        return lambda own, rng: _shuffled(own, share, rng)

    columns = [_changed(humans, f"shuffle {share:g}", move(share), seed) for share in (1, 0.5, 0.25)]
    names = ("Shuffle all", "Shuffle 50 %", "Shuffle 25 %", "Human")
    return _ladder("shuffling", names, [*columns, list(humans)])


def _ladder(protocol: str, names: tuple[str, ...], columns: Sequence[Sequence[CaptionSample]]) -> Ladder:
    best = columns[-1]
    unchanged = tuple(
        sum(a.candidate == b.candidate for a, b in zip(column, best, strict=True)) for column in columns[:-1]
    )
    return Ladder(protocol, names, tuple(tuple(column) for column in columns), unchanged)


def ladders_of(
    humans: Sequence[CaptionSample], seed: int = 0, protocols: Sequence[str] = ("replacing", "shuffling")
) -> Mapping[tuple[str, str], Ladder | str]:
    """Return {(protocol, language): a ladder, or why there is none} for the languages of the samples."""
    found: dict[tuple[str, str], Ladder | str] = {}
    for language, keep in by_language(humans):
        own = [sample for sample, there in zip(humans, keep, strict=True) if there]
        for protocol in protocols:
            try:
                made = shuffling(own, seed) if protocol == "shuffling" else None
                found[protocol, language] = made or replacing(own, frequent_words(own), seed)
            except DataError as error:
                found[protocol, language] = str(error)
    return found


def frequent_words(samples: Sequence[CaptionSample]) -> list[str]:
    """Return the words, in lower case, that occur at least LEAST_OCCURRENCES times in the references, sorted.

    Args:
        samples: of one language; an image's references count once.
    """
    counts: Counter[str] = Counter()
    for language, keep in by_language(samples):
        own = {
            (group_of(sample), text)
            for sample, there in zip(samples, keep, strict=True)
            if there
            for text in sample.references
        }
        for _, text in own:
            counts.update(word.strip().lower() for word in texts(segment(text, language)) if _is_word(word))
    return sorted(word for word, count in counts.items() if count >= LEAST_OCCURRENCES)


def _is_word(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _changed(
    samples: Sequence[CaptionSample],
    name: str,
    change: Callable[[list[str], random.Random], list[str]],
    seed: int,
) -> list[CaptionSample]:
    """Return the samples with their candidates' words changed; a caption too short for it stays."""
    found = []
    for language, _ in by_language(samples[:1]):
        for sample in samples:
            caption = segment(sample.candidate, language)
            rng = random.Random(seeded_key(seed, name, sample.candidate))
            text = caption.join(change(texts(caption), rng))
            if text.strip():
                sample = replace(sample, candidate=text, rating=None, language=language)
            found.append(sample)
    return found


def _chosen(places: Sequence[int], share: float, least: int, rng: random.Random) -> list[int]:
    """Return a share of the places, rounded half up, at least so many, in their order."""
    count = min(len(places), max(least, int(share * len(places) + 0.5)))
    return sorted(rng.sample(list(places), count))


def _replaced(words: list[str], share: float, others: Sequence[str], rng: random.Random) -> list[str]:
    places = [place for place, word in enumerate(words) if _is_word(word)]
    for place in _chosen(places, share, 1, rng):
        drawn = rng.choice(others)
        while drawn == words[place].strip().lower():
            drawn = rng.choice(others)
        words[place] = drawn
    return words


def _shuffled(words: list[str], share: float, rng: random.Random) -> list[str]:
    movable = [place for place, word in enumerate(words) if _is_word(word)]
    changed = list(words)
    for _ in range(_TRIES):  # two words that are the same can change places without a trace
        places = _chosen(movable, share, 2, rng)
        moved = [words[place] for place in places]
        rng.shuffle(moved)
        for place, word in zip(places, moved, strict=True):
            changed[place] = word
        if changed != words:
            break
    return changed

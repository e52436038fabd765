"""What happens to a metric's scores when captions are changed: values, shares with intervals, examples.

Functions here return dataclasses; :mod:`suisei.probes.probe_tables` makes tables of them. Intervals are 95 %
bootstrap intervals over groups (images).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.data.splits import group_of
from suisei.metaeval.resampling import Interval, group_weights, percentile_interval
from suisei.metaeval.tables import Cell
from suisei.probes.degrade import CHANGES, OTHER_IMAGE, by_language, degrade_samples
from suisei.scoring.corpus import Summands

TIE = 1e-6
"""Scores that are nearer to each other than this are a tie: rounding may differ with a caption's words."""
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""Of drops and of scores, which tables show."""
NO_CAPTION = "no caption to which it applies"
NO_SCORE = "no caption to which it applies has a score"
"""Why nothing is known of a change."""
_BINS = 40
_IMAGES = 5
"""A drop of captions of fewer is no share of another image's."""


Refused = dict[tuple[str, str], str]
"""{(image, caption): why a metric gave it no score}."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A metric that is ready to score.

    Attributes:
        label: as the user wrote it.
        score: gives scores for samples, float64 [N], higher is better, NaN where it needs what is missing.
            Those of a distance have their sign turned.
        signature: of the metric.
        summands: gives what adds up to its corpus score, for samples and their scores; None: it is the mean.
        learned: whether it has learned something, such as idf weights, from a corpus.
        distance: whether the metric is a distance, which is lower for the better.
        refused: what ``score`` has refused so far, such as captions of a broken image; their scores are NaN.
    """

    label: str
    score: Callable[[Sequence[CaptionSample]], np.ndarray]
    signature: str = ""
    summands: Callable[[Sequence[CaptionSample], np.ndarray], Summands] | None = None
    learned: bool = False
    distance: bool = False
    refused: Refused = field(default_factory=dict, compare=False)


def sign_notes(metrics: Sequence[Scored]) -> list[str]:
    """Say which metrics are distances, whose scores are negative in all tables but that of curves."""
    names = [metric.label for metric in metrics if metric.distance]
    if not names:
        return []
    return [
        f"{', '.join(names)}: lower is better, so scores are shown with their sign turned; of "
        "degradation curves, those of untouched captions are as they are"
    ]


@dataclass(frozen=True, slots=True)
class Example:
    """One caption, what became of it, and what a metric says of both."""

    original: str
    changed: str
    before: float
    after: float
    references: tuple[str, ...] = ()
    group: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        names = ("original", "changed", "before", "after", "group")
        return {**{name: getattr(self, name) for name in names}, "references": list(self.references)}


@dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """What one metric says of one change to captions of one language.

    Attributes:
        metric: its label.
        language: "ja" or "en".
        change: key of :data:`suisei.probes.degrade.CHANGES`.
        before: scores of the originals that have a changed version, float64 [N].
        after: scores of the changed versions, float64 [N].
        groups: images, [N].
        lower: share of the N that score lower; a tie is not lower.
        higher: share of the N that score higher.
        drop: mean of before minus after, in the metric's units.
        relative: the drop as a share of the mean drop of the same captions to another image's caption, or why
            there is no share; None where that drop is unknown.
        examples: {"typical": the median drop, "missed": the one furthest from what is expected}.
        places: which of all originals they are, int64 [N].
    """

    metric: str
    language: str
    change: str
    before: np.ndarray
    after: np.ndarray
    groups: np.ndarray
    lower: Cell
    higher: Cell
    drop: Cell
    relative: Cell | None = None
    examples: Mapping[str, Example] = field(default_factory=dict)
    places: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def distribution(self) -> dict[str, Any]:
        """Return quantiles and a histogram of the drops, as JSON values."""
        drops = self.before - self.after
        low, high = float(drops.min()), float(drops.max())
        counts, edges = np.histogram(drops, bins=_BINS, range=(low, max(high, low + _BINS * TIE)))
        quantiles = {f"{q:g}": float(np.quantile(drops, q)) for q in QUANTILES}
        return {"quantiles": quantiles, "histogram": {"edges": edges.tolist(), "counts": counts.tolist()}}


def change_outcomes(
    metrics: Sequence[Scored],
    originals: Sequence[CaptionSample],
    changes: Sequence[str],
    *,
    n_resamples: int = 1000,
    seed: int = 0,
) -> list[ChangeOutcome]:
    """Return what every metric says of every change, by language.

    Args:
        metrics: what is tested.
        originals: N good samples, from :func:`suisei.probes.originals.good_samples`.
        changes: keys of :data:`suisei.probes.degrade.CHANGES`.
        n_resamples: bootstrap resamples; 0 for no intervals.
        seed: of the changes and of the bootstrap.

    A caption that leaves no room for a change does not count in its outcome. Metrics come first in the
    order, then languages, then changes; a language has no outcome of a change that it does not have.
    """
    made = {name: degrade_samples(originals, name, seed=seed) for name in changes}
    flat = [sample for name in changes for sample in made[name] if sample is not None]
    groups = np.array([group_of(sample) for sample in originals], dtype=object)
    found = []
    for metric in metrics:
        scores = metric.score([*originals, *flat])
        before, after = scores[: len(originals)], _unflatten(made, scores[len(originals) :])
        for language, keep in by_language(originals):
            scope = _Scope(metric.label, language, groups, n_resamples, seed)
            there = [name for name in changes if language in CHANGES[name].languages]
            found += scope.related(
                [scope.outcome(name, originals, made[name], before, after[name], keep) for name in there]
            )
    return found


def _unflatten(made: dict[str, list[CaptionSample | None]], scores: np.ndarray) -> dict[str, np.ndarray]:
    """Return scores [N] per change, NaN where there is no changed caption."""
    columns, start = {}, 0
    for name, samples in made.items():
        there = np.array([sample is not None for sample in samples], dtype=bool)
        columns[name] = np.full(len(samples), np.nan)
        columns[name][there] = scores[start : start + int(there.sum())]
        start += int(there.sum())
    return columns


@dataclass(frozen=True, slots=True)
class _Scope:
    """A metric and a language whose outcomes are made."""

    metric: str
    language: str
    groups: np.ndarray
    n_resamples: int
    seed: int

    def outcome(
        self,
        change: str,
        originals: Sequence[CaptionSample],
        changed: Sequence[CaptionSample | None],
        before: np.ndarray,
        after: np.ndarray,
        keep: np.ndarray,
    ) -> ChangeOutcome:
        there = keep & np.array([sample is not None for sample in changed])
        places = np.flatnonzero(there & ~np.isnan(before) & ~np.isnan(after))
        reason = NO_SCORE if there.any() else NO_CAPTION
        pairs = [(originals[place], changed[place]) for place in places.tolist()]
        old, new, groups = before[places], after[places], self.groups[places]
        drops = old - new
        cells = (drops > TIE, drops < -TIE, drops)
        lower, higher, drop = (self._mean(values.astype(np.float64), groups, reason) for values in cells)
        examples = _examples(change, pairs, old, new)
        return ChangeOutcome(
            self.metric, self.language, change, old, new, groups, lower, higher, drop,
            examples=examples, places=places,
        )  # fmt: skip

    def _mean(self, values: np.ndarray, groups: np.ndarray, reason: str) -> Cell:
        if not len(values):
            return Cell(None, reason=reason)
        return mean_cell(values, groups, self.n_resamples, self.seed)

    def related(self, outcomes: Sequence[ChangeOutcome]) -> list[ChangeOutcome]:
        """Return the outcomes with their drops as shares of that to another image's caption."""
        other = next((o for o in outcomes if o.change == OTHER_IMAGE), None)
        if other is None or other.drop.value is None:
            return list(outcomes)
        return [
            outcome if outcome.drop.value is None else replace(outcome, relative=self._share(outcome, other))
            for outcome in outcomes
        ]

    def _share(self, outcome: ChangeOutcome, other: ChangeOutcome) -> Cell:
        """Return a drop as a share of what another image's caption costs the same captions, not all of them.

        Those that leave room for a change may score higher than others, and lose more.
        """
        _, own, others = np.intersect1d(outcome.places, other.places, return_indices=True)
        drops, groups = (other.before - other.after)[others], other.groups[others]
        if len(np.unique(groups)) < _IMAGES:
            return Cell(None, reason=f"no share: of fewer than {_IMAGES} images")
        whole = self._mean(drops, groups, NO_SCORE)
        if chance := _by_chance(whole, drops, groups):
            return Cell(None, reason=chance)
        return Cell(float((outcome.before - outcome.after)[own].mean()) / float(drops.mean()))


def _by_chance(whole: Cell, drops: np.ndarray, groups: np.ndarray) -> str:
    """Return why a mean drop is none to take shares of: its interval, or two standard errors, reach 0."""
    if whole.low is None:
        _, group = np.unique(groups, return_inverse=True)
        error = np.sqrt((np.bincount(group, weights=drops - drops.mean()) ** 2).sum()) / len(drops)
        least = float(drops.mean() - 2 * error)
    else:
        least = whole.low
    if least > TIE:
        return ""
    return f"no share: the drop to another image's caption, {whole.text()}, may be chance"


def _examples(
    change: str,
    pairs: Sequence[tuple[CaptionSample, CaptionSample | None]],
    before: np.ndarray,
    after: np.ndarray,
) -> dict[str, Example]:
    """Return the example of the median drop, and that which is furthest from what is expected."""
    if not len(before):
        return {}
    order = np.argsort(before - after, kind="stable")
    missed = order[0] if CHANGES[change].expects == "lower" else order[-1]
    found = {}
    for name, place in (("typical", order[len(order) // 2]), ("missed", missed)):
        original, changed = pairs[int(place)]
        if changed is not None:
            found[name] = Example(
                original.candidate, changed.candidate, float(before[place]), float(after[place]),
                changed.references, group_of(original),
            )  # fmt: skip
    return found


def mean_cell(values: np.ndarray, groups: np.ndarray, n_resamples: int, seed: int) -> Cell:
    """Return the mean of values [N] with its bootstrap interval over groups [N]."""
    mean, interval = float(values.mean()), Interval(None, None)
    names, group = np.unique(groups, return_inverse=True)
    if n_resamples and len(names) > 1:
        weights = group_weights(len(names), n_resamples, seed)
        sums = np.bincount(group, weights=values, minlength=len(names))
        counts = np.bincount(group, minlength=len(names))
        interval = percentile_interval(weights @ sums / (weights @ counts))
    return Cell(mean, interval.low, interval.high)

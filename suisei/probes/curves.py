"""Degradation curves: how a metric's corpus score falls while more and more captions are made bad.

The protocol of RECAP (section 4): 0, 20, 50, 75 and 90 % of the captions are swapped (a caption of another
image takes their place) or shuffled (their words in random order), and the score is shown as a share of that
of the untouched captions. A metric that falls in proportion stands on the line 1 - share. How much a curve
differs from it is the area between the two, from 0 to 90 %; the area of a metric that notices nothing is
0.405. The mean of scores of single captions falls along a straight line whatever the metric, and says by its
slope how far the changed captions fall; corpus scores that come from counts, such as BLEU's, may bend.

A distance grows instead. Its curve is the untouched captions' distance as a share of the changed ones',
which falls from 1 as others do, and nears 0 only where distances have no bound. RECAP does not say how it
normalises its scores. Resamples that give no share, as nothing of what is measured is in them, are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from suisei.cli import counted
from suisei.data.sample import LANGUAGE_NAMES, CaptionSample
from suisei.data.splits import group_of, portable_names
from suisei.errors import DataError
from suisei.metaeval.resampling import percentile_interval, weight_parts
from suisei.metaeval.tables import Cell
from suisei.probes.degrade import OTHER_IMAGE, degrade_samples, seeded_key
from suisei.probes.outcomes import Scored
from suisei.scoring.corpus import Summands

SHARES = (0.0, 0.2, 0.5, 0.75, 0.9)
"""Shares of captions that are changed."""
KINDS = {"swapped": OTHER_IMAGE, "shuffled": "shuffle"}
"""{how captions are changed: key of :data:`suisei.probes.degrade.CHANGES`}."""
UNNOTICED = SHARES[-1] ** 2 / 2
"""The area between the ideal line and a metric that notices nothing."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One metric's degradation curve.

    Attributes:
        metric: its label.
        language: "ja" or "en".
        kind: key of KINDS.
        values: the corpus score as a share of that of the untouched captions, a cell per share of SHARES.
        area: between the curve and the ideal line, over [0, 0.9]; 0 is ideal.
        original: corpus score of the untouched captions, in the metric's units; a distance as it is.
        n: captions.
        unchanged: captions that the change leaves no room for, which stay as they are.
    """

    metric: str
    language: str
    kind: str
    values: tuple[Cell, ...]
    area: Cell
    original: float
    n: int
    unchanged: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        points = [
            {"share": share, "ideal": 1 - share, **cell.as_dict()}
            for share, cell in zip(SHARES, self.values, strict=True)
        ]
        return {
            "metric": self.metric, "language": self.language, "kind": self.kind, "points": points,
            "area": self.area.as_dict(), "original": self.original, "n": self.n,
        }  # fmt: skip


def curves(
    metrics: Sequence[Scored],
    originals: Sequence[CaptionSample],
    language: str,
    *,
    n_resamples: int = 1000,
    seed: int = 0,
) -> list[Curve | str]:
    """Return the curves of each metric and kind, or why there is none.

    Args:
        metrics: what is tested.
        originals: N good samples of one language, each of an image of its own or not.
        language: theirs.
        n_resamples: bootstrap resamples over images; 0 for no intervals.
        seed: of the changes, of which captions are changed first, and of the bootstrap.

    A caption that a change leaves no room for stays as it is.
    """
    made = {kind: degrade_samples(originals, name, seed=seed) for kind, name in KINDS.items()}
    changed = {
        kind: [new or old for new, old in zip(own, originals, strict=True)] for kind, own in made.items()
    }
    found: list[Curve | str] = []
    for metric in metrics:
        before = _rows(metric, originals)
        for kind, samples in changed.items():
            try:
                drawn = _Mixture.of(before, _rows(metric, samples), originals, seed, metric.distance)
                curve = drawn.curve(metric.label, language, kind, n_resamples)
                found.append(replace(curve, unchanged=sum(new is None for new in made[kind])))
            except DataError as error:
                found.append(f"{metric.label}, {kind}, {LANGUAGE_NAMES[language]}: {error}")
    return found


def _rows(metric: Scored, samples: Sequence[CaptionSample]) -> Summands:
    """Return what adds up to corpus scores; of a distance, to the distance as it is."""
    scores = metric.score(samples)
    if metric.summands is not None:
        return metric.summands(samples, scores)
    rows = np.column_stack([-scores if metric.distance else scores, np.ones(len(scores))])
    return Summands(rows, lambda totals: totals[:, 0] / totals[:, 1])


@dataclass(frozen=True, slots=True)
class _Mixture:
    """What captions add to the corpus score, untouched and changed.

    Attributes:
        before: float64 [N, K], untouched.
        after: float64 [N, K], changed.
        rank: in which order captions are changed, a share of [0, 1) each, [N].
        group: whose image, int [N].
        score: sums of rows, [B, K], to corpus scores [B].
        seed: of the bootstrap.
        distance: whether scores are distances.
    """

    before: np.ndarray
    after: np.ndarray
    rank: np.ndarray
    group: np.ndarray
    score: Any
    seed: int
    distance: bool = False

    @classmethod
    def of(
        cls,
        before: Summands,
        after: Summands,
        originals: Sequence[CaptionSample],
        seed: int,
        distance: bool = False,
    ) -> _Mixture:
        there = ~np.isnan(before.rows).any(axis=1) & ~np.isnan(after.rows).any(axis=1)
        if there.sum() < 2:
            raise DataError(f"{counted(int(there.sum()), 'caption')} with a score, and it takes two")
        kept = [sample for sample, own in zip(originals, there, strict=True) if own]
        name = portable_names(map(group_of, kept))
        keys = [seeded_key(seed, "curve", name[group_of(sample)], sample.candidate) for sample in kept]
        rank = np.empty(len(keys))
        rank[np.argsort(keys, kind="stable")] = np.arange(len(keys)) / len(keys)
        group = np.unique(np.array([group_of(s) for s in kept], dtype=object), return_inverse=True)[1]
        return cls(before.rows[there], after.rows[there], rank, group, before.score, seed, distance)

    def curve(self, metric: str, language: str, kind: str, n_resamples: int) -> Curve:
        count = len(self.rank)
        ones = np.ones((1, count))
        original = float(self.score(ones @ self.before)[0])
        if not original > 0:
            raise DataError(f"the untouched captions score {original:g}: no share of that can be given")
        values = self._shares(ones)
        if not np.isfinite(values).all():
            raise DataError("so many changed captions have distance 0: no share of that can be given")
        cells = [*map(float, values[0]), float(_area(values)[0])]
        groups = int(self.group.max()) + 1
        if not n_resamples or groups < 2:
            made = [Cell(value) for value in cells]
        else:
            parts = weight_parts(groups, n_resamples, self.seed)
            drawn = np.concatenate([self._shares(part[:, self.group].astype(np.float64)) for part in parts])
            drawn[~np.isfinite(drawn).all(axis=1)] = np.nan
            intervals = [percentile_interval(column) for column in np.column_stack([drawn, _area(drawn)]).T]
            made = [Cell(value, each.low, each.high) for value, each in zip(cells, intervals, strict=True)]
            made[0] = Cell(cells[0])  # 1, whatever is drawn
        return Curve(metric, language, kind, tuple(made[:-1]), made[-1], original, count)

    def _shares(self, weights: np.ndarray) -> np.ndarray:
        """Return the corpus scores for weights [B, N] as shares of the untouched ones, [B, shares]."""
        columns = []
        for share in SHARES:
            mixed = np.where((self.rank < share)[:, None], self.after, self.before)
            columns.append(self.score(weights @ mixed))
        scores = np.column_stack(columns)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares: np.ndarray = scores[:, :1] / scores if self.distance else scores / scores[:, :1]
        return shares


def _area(values: np.ndarray) -> np.ndarray:
    """Return the area between curves [B, shares] and the ideal line, exactly for straight segments."""
    gaps = values - (1 - np.array(SHARES))
    left, right, width = gaps[:, :-1], gaps[:, 1:], np.diff(SHARES)
    size = np.abs(left) + np.abs(right)
    crossing = left * right < 0
    squares = np.divide(left**2 + right**2, size, out=np.zeros_like(size), where=size != 0)
    area: np.ndarray = (np.where(crossing, squares, size) / 2 * width).sum(axis=1)
    return area

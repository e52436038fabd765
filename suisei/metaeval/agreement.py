"""Agreement of a metric with people: which rows are correlated, and how they are averaged.

Two choices decide every published figure, so both are in the signature of every result:

- raters: "rows" gives each rating its own row beside the sample's one score (the protocol of the
  Flickr8k tables); "mean" averages a sample's ratings first.
- averaging: "pooled" correlates all rows at once (segment level); "item" correlates inside each group
  (image) and averages; "system" correlates the means over each system's captions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from suisei.cli import counted
from suisei.data.sample import CaptionSample, language_of
from suisei.data.splits import group_of
from suisei.metaeval.correlation import CorrelationError, check_kind, correlate
from suisei.ranges import Word, check
from suisei.version import __version__

AVERAGING = ("pooled", "item", "system")
RATERS = ("rows", "mean")
MISSING = ("raise", "drop")
DIGITS = 12
"""Decimals of a mean: what follows is rounding, and would tell equal means apart."""
SYSTEM_DIGITS = DIGITS - 2
"""Decimals of a system's mean: fewer, for it is a mean of ratings' means that are rounded already. Those of
scores are in units of :func:`usual_size`."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The points that are correlated, after raters were expanded and missing scores dropped.

    Attributes:
        x: metric scores, float64 [M].
        y: human ratings, float64 [M].
        item: which sample a row comes from, int [M].
        group: index into ``group_names``, int [M].
        system: index into ``system_names``, int [M].
        group_names: the groups that occur, each at least once.
        system_names: the systems that occur, each at least once; samples without one share "" (left out
            beforehand by :meth:`AgreementData.correlated`).
        dropped: number of samples left out because their score is missing.
        raters: how ratings became rows.
    """

    x: np.ndarray
    y: np.ndarray
    item: np.ndarray
    group: np.ndarray
    system: np.ndarray
    group_names: tuple[str, ...]
    system_names: tuple[str, ...]
    dropped: int = 0
    raters: str = "rows"

    def shares(self) -> np.ndarray:
        """Return 1 over the number of a sample's rows, float64 [M]: with these every sample counts alike."""
        _, place, counts = np.unique(self.item, return_inverse=True, return_counts=True)
        return 1.0 / counts[place]

    def of_groups(self, keep: np.ndarray) -> Rows:
        """Return the rows of the groups where ``keep`` (bool [groups]) is true."""
        if keep.all():
            return self
        there = keep[self.group]
        systems, system = np.unique(self.system[there], return_inverse=True)
        return replace(
            self,
            **{name: getattr(self, name)[there] for name in ("x", "y", "item")},
            group=(np.cumsum(keep) - 1)[self.group[there]],
            system=system,
            group_names=tuple(compress(self.group_names, keep)),
            system_names=tuple(self.system_names[place] for place in systems),
        )


@dataclass(frozen=True, slots=True)
class AgreementData:
    """A metric's scores beside human ratings.

    Attributes:
        scores: float64 [N]; NaN where a sample lacks what the metric needs.
        ratings: one tuple of ratings per sample, of any length of at least one.
        groups: what is resampled as a whole, usually the image; one name per sample.
        languages: "ja" or "en" per sample.
        systems: the captioning system per sample; None where unknown.

    Raises:
        CorrelationError: the columns differ in length, a sample has no rating, or a score is infinite.
    """

    scores: np.ndarray
    ratings: tuple[tuple[float, ...], ...]
    groups: tuple[str, ...]
    languages: tuple[str, ...] = ()
    systems: tuple[str | None, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", np.asarray(self.scores, dtype=np.float64))
        count = len(self.scores)
        for name in ("ratings", "groups", "languages", "systems"):
            column = tuple(getattr(self, name))
            if name in ("languages", "systems") and not column:
                column = (None,) * count
            object.__setattr__(self, name, column)
            if len(column) != count:
                raise CorrelationError(
                    f"{name} has {len(column)} entries, scores has {count}; they must match"
                )
        unrated = [i for i, values in enumerate(self.ratings) if not len(values)]
        if unrated:
            raise CorrelationError(
                f"{counted(len(unrated), 'sample')} without a rating, the first at position {unrated[0]}"
            )
        if np.isinf(self.scores).any():
            raise CorrelationError(f"score {np.flatnonzero(np.isinf(self.scores))[0]} is infinite")

    @classmethod
    def from_samples(cls, scores: np.ndarray, samples: Sequence[CaptionSample]) -> AgreementData:
        """Put scores [N] beside the ratings (scaled to [0, 1]), groups and systems of N samples.

        Raises:
            CorrelationError: different lengths, or a sample without rating.
        """
        if len(scores) != len(samples):
            raise CorrelationError(f"{len(scores)} scores for {len(samples)} samples; they must match")
        return cls(
            scores,
            tuple(() if s.rating is None else tuple(s.rating.scaled.tolist()) for s in samples),
            tuple(group_of(sample) for sample in samples),
            tuple(language_of(s) for s in samples),
            tuple(s.system for s in samples),
        )

    def subset(self, keep: np.ndarray) -> AgreementData:
        """Return the samples where ``keep`` (bool [N]) is true."""
        positions = np.flatnonzero(keep)
        columns = {
            name: tuple(getattr(self, name)[i] for i in positions)
            for name in ("ratings", "groups", "languages", "systems")
        }
        return replace(self, scores=self.scores[positions], **columns)

    def correlated(self, averaging: str) -> AgreementData:
        """Return the samples that figures of an averaging are over.

        With "system" those without a system are left out, because together they are no system. Where none has
        one all are kept: that there are no systems is what the correlation says then.
        """
        named = np.array([bool(name) for name in self.systems], dtype=bool)
        return self.subset(named) if averaging == "system" and named.any() and not named.all() else self

    def rows(self, raters: str = "rows", missing: str = "raise") -> Rows:
        """Return the points to correlate.

        Args:
            raters: "rows" or "mean", see the module's description.
            missing: "raise" refuses NaN scores, "drop" leaves those samples out and counts them.

        Raises:
            CorrelationError: a score is NaN and ``missing`` is "raise", or all scores are.
            ConfigError: an unknown choice.
        """
        check("raters", raters, Word(RATERS))
        check("missing", missing, Word(MISSING))
        absent = np.isnan(self.scores)
        if absent.any() and missing == "raise":
            raise CorrelationError(
                f"{absent.sum()} of {len(absent)} scores are missing (NaN), the first at position "
                f"{np.flatnonzero(absent)[0]}; drop them with missing='drop', which counts them"
            )
        if absent.all():
            raise CorrelationError(f"no scores to correlate ({len(absent)} missing)")
        if raters == "rows":
            pairs = [(i, value) for i in np.flatnonzero(~absent) for value in self.ratings[i]]
        else:
            pairs = [(i, mean_rating(self.ratings[i])) for i in np.flatnonzero(~absent)]
        item = np.array([i for i, _ in pairs], dtype=np.int64)
        y = np.array([value for _, value in pairs], dtype=np.float64)
        return self._make_rows(self.scores[item], y, item, int(absent.sum()), raters)

    def _make_rows(self, x: np.ndarray, y: np.ndarray, item: np.ndarray, dropped: int, raters: str) -> Rows:
        group_names, group = np.unique(np.array(self.groups, dtype=object)[item], return_inverse=True)
        labels = np.array([name or "" for name in self.systems], dtype=object)[item]
        system_names, system = np.unique(labels, return_inverse=True)
        return Rows(x, y, item, group, system, tuple(group_names), tuple(system_names), dropped, raters)


@dataclass(frozen=True, slots=True)
class Agreement:
    """A correlation with all that it depends on.

    Attributes:
        value: the coefficient, in [-1, 1].
        correlation: its name.
        averaging: "pooled", "item" or "system".
        raters: "rows", "mean", or "leave-one-out" for the human row.
        n: number of correlated rows.
        samples: number of samples behind them.
        groups: number of groups behind them.
        dropped: samples left out because their score is missing.
        undefined: with averaging "item", the groups whose own correlation is not defined; they are
            left out of the mean.
        systems: number of systems behind the rows: with averaging "system", that of the points correlated.
    """

    value: float
    correlation: str
    averaging: str
    raters: str
    n: int
    samples: int
    groups: int
    dropped: int = 0
    undefined: tuple[str, ...] = ()
    systems: int = 1

    @property
    def signature(self) -> str:
        """One line that states what the number is, such as ``tau-c|avg:pooled|raters:rows|n:16992``."""
        fields = [self.correlation, f"avg:{self.averaging}", f"raters:{self.raters}", f"n:{self.n}"]
        if self.averaging == "system":
            fields.append(f"systems:{self.systems}")
        if self.dropped:
            fields.append(f"dropped:{self.dropped}")
        if self.undefined:
            fields.append(f"undefined-groups:{len(self.undefined)}")
        return "|".join([*fields, f"suisei:{__version__}"])


def agree(rows: Rows, correlation: str = "tau-c", averaging: str = "pooled") -> Agreement:
    """Correlate rows (from :meth:`AgreementData.rows`).

    Raises:
        CorrelationError: the correlation is not defined: too few points, a constant side, fewer than
            two systems, or no group in which it is defined.
        ConfigError: an unknown choice.
    """
    check_kind(correlation)
    check("averaging", averaging, Word(AVERAGING))
    undefined: tuple[str, ...] = ()
    if averaging == "pooled":
        value = correlate(correlation, rows.x, rows.y)
    elif averaging == "item":
        values = group_values(rows, correlation)
        absent = np.isnan(values)
        undefined = tuple(rows.group_names[i] for i in np.flatnonzero(absent))
        if absent.all():
            raise CorrelationError(f"{correlation} is undefined in each of {counted(len(values), 'group')}")
        value = float(values[~absent].mean())
    else:
        value = correlate(correlation, *system_means(rows))
    return Agreement(
        value,
        correlation,
        averaging,
        rows.raters,
        len(rows.x),
        len(np.unique(rows.item)),
        len(rows.group_names),
        rows.dropped,
        undefined,
        len(rows.system_names),
    )


def systemless_notes(samples: Sequence[CaptionSample], averaging: str) -> list[str]:
    """Say how many samples means per system leave out, see :meth:`AgreementData.correlated`."""
    without = sum(not sample.system for sample in samples)
    if averaging != "system" or without in (0, len(samples)):
        return []
    return [f"left out of the means per system: {without:,} of {len(samples):,} samples, without a system"]


def group_values(rows: Rows, correlation: str) -> np.ndarray:
    """Return the correlation inside each group, float64 [groups], NaN where it is not defined."""
    order = np.argsort(rows.group, kind="stable")
    ends = np.flatnonzero(np.diff(rows.group[order])) + 1
    values = []
    for part in np.split(order, ends):
        try:
            values.append(correlate(correlation, rows.x[part], rows.y[part]))
        except CorrelationError:
            values.append(np.nan)
    return np.array(values)


def system_means(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean score, in units of :func:`usual_size`, and the mean rating of each system, [systems].

    They are means over captions, of which one with many ratings counts as much as any.

    Raises:
        CorrelationError: there are fewer than two systems.
    """
    if len(rows.system_names) < 2:
        raise CorrelationError(
            f"system-level correlation needs at least two systems, got {len(rows.system_names)}"
        )
    shares = rows.shares()
    counts = np.bincount(rows.system, weights=shares)
    x, y = (np.bincount(rows.system, weights=side * shares) / counts for side in (unit_scores(rows), rows.y))
    return x.round(SYSTEM_DIGITS), y.round(SYSTEM_DIGITS)


def unit_scores(rows: Rows) -> np.ndarray:
    """Return scores in units of :func:`usual_size`, float64 [M]: small and large ones are rounded alike."""
    sizes = np.bincount(rows.system, weights=np.abs(rows.x)) / np.bincount(rows.system)
    return rows.x / usual_size(sizes)


def usual_size(sizes: np.ndarray) -> float:
    """Return the size of the median system's scores; of the largest where that is 0, and 1 without any.

    Not of the largest at once: beside an outlier all others would be rounded to the same.
    """
    largest = float(sizes.max()) or 1.0
    return (float(np.median(sizes / largest)) or 1.0) * largest


def mean_rating(ratings: Sequence[float] | np.ndarray) -> float:
    """Return the mean without its rounding, which would break ties between equal means apart."""
    return round(float(np.mean(ratings)), DIGITS)

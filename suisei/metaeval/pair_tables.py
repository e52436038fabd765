"""Pairs of captions: how often each metric prefers the one that people prefer, per kind of pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from suisei.cli import counted
from suisei.data.benchmarks.consensus50s import draws_of
from suisei.data.judged import PairCaption
from suisei.data.sample import CaptionSample
from suisei.data.splits import group_of
from suisei.errors import DataError
from suisei.metaeval.correlation_tables import versions
from suisei.metaeval.pairwise import pair_credits, signature
from suisei.metaeval.resampling import weight_parts, with_interval
from suisei.metaeval.settings import EvaluationSettings
from suisei.metaeval.tables import Cell, Row, Section, Table
from suisei.scoring.columns import ScoreColumn

MEAN, ALL = "mean", "all"
"""Columns: the mean over kinds, and all judgements at once."""


@dataclass(frozen=True, slots=True)
class PairSet:
    """The P pairs among N samples.

    Attributes:
        first: position of each pair's first caption, int [P].
        second: that of the second, int [P].
        groups: number of each pair's group (image), int [P].
        preferences: {kind: above 0 where people prefer the first, below 0 the second, 0 neither, NaN where
            the pair is not of that kind; float64 [P]}.
    """

    first: np.ndarray
    second: np.ndarray
    groups: np.ndarray
    preferences: Mapping[str, np.ndarray]

    @classmethod
    def from_samples(cls, samples: Sequence[CaptionSample]) -> PairSet:
        """Find the pairs among the samples.

        Raises:
            DataError: a sample is in no pair, or a pair has not two captions.
        """
        members: dict[str, list[int]] = {}
        for position, sample in enumerate(samples):
            if not isinstance(sample, PairCaption):
                raise DataError(f"sample {position} ({sample.id}) is not a caption of a pair")
            members.setdefault(sample.pair, []).append(position)
        odd = next((name for name, positions in members.items() if len(positions) != 2), None)
        if odd is not None:
            raise DataError(f"pair {odd} has {counted(len(members[odd]), 'caption')}; expected 2")
        places = np.array(list(members.values()), dtype=np.int64).reshape(-1, 2)
        numbers: dict[Any, int] = {}
        firsts = [samples[position] for position in places[:, 0]]
        groups = [numbers.setdefault(group_of(sample), len(numbers)) for sample in firsts]
        return cls(places[:, 0], places[:, 1], np.array(groups, dtype=np.int64), _preferences(firsts))


def _preferences(firsts: Sequence[Any]) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for number, sample in enumerate(firsts):
        for kind, share in sample.preferred:
            found.setdefault(kind, np.full(len(firsts), np.nan))[number] = share - 0.5
    return found


def pair_table(
    columns: Sequence[ScoreColumn],
    samples: Sequence[CaptionSample],
    settings: EvaluationSettings | None = None,
    *,
    title: str = "Agreement with human preferences",
) -> Table:
    """Return each metric's accuracy per kind of pair, their mean, and over all pairs.

    A pair that a metric scores alike counts one half; one of which people prefer neither caption is left
    out, and not among the pairs that a row counts. A pair with a caption without score is left out of its
    metric's row, and counted.

    Args:
        columns: the metrics' scores of the samples.
        samples: N captions of pairs.
        settings: bootstrap resamples over groups (images), seed and confidence.
        title: of the table.

    Raises:
        DataError: the samples are not pairs.
    """
    settings = settings or EvaluationSettings()
    pairs = PairSet.from_samples(samples)
    kinds = list(pairs.preferences)
    rows = [_row(column, pairs, settings) for column in columns]
    several = {kind: kind for kind in kinds} if len(kinds) > 1 else {}
    heads = {**several, MEAN: "mean of kinds" if several else "accuracy"}
    if several:
        heads[ALL] = "all pairs"
    meta = {
        "settings": settings.resampling(),
        "versions": versions(),
        "samples": len(samples),
        "pairs": len(pairs.first),
        "kinds": {kind: int((~np.isnan(values)).sum()) for kind, values in pairs.preferences.items()},
        "groups": len(np.unique(pairs.groups)),
    }
    heads |= {"ties": "ties", "n": "pairs"}
    notes = (*_notes(rows, pairs, settings), *_draw_notes(samples))
    return Table(title, heads, (Section("overall", tuple(rows)),), notes, meta)


def _notes(rows: Sequence[Row], pairs: PairSet, settings: EvaluationSettings) -> list[str]:
    """Return what stands under a table of pairs: what is counted, left out and resampled."""
    notes = ["share of pairs in which a metric prefers the caption that people prefer; a tie counts half"]
    undecided = sum(int((preference == 0).sum()) for preference in pairs.preferences.values())
    if undecided:
        notes.append(f"{counted(undecided, 'judgement')} without a preference left out")
    left_out = [row for row in rows if row.info.get("pairs_skipped")]
    notes += [
        f"{row.label}: {counted(row.info['pairs_skipped'], 'pair')} without score left out"
        for row in left_out
    ]
    notes += settings.interval_notes("images")
    return notes


def _draw_notes(samples: Sequence[CaptionSample]) -> list[str]:
    """Say how often a pair is counted whose references were drawn several times."""
    draws = draws_of(sample.pair for sample in samples if isinstance(sample, PairCaption))
    return [f"a pair is counted once in each of {draws} draws of its references"] if draws > 1 else []


def _row(column: ScoreColumn, pairs: PairSet, settings: EvaluationSettings) -> Row:
    if column.scores is None:
        return Row(column.label, error=column.error)
    scores = column.oriented
    first, second = scores[pairs.first], scores[pairs.second]
    there = ~(np.isnan(first) | np.isnan(second))
    info = {"pairs_skipped": int((~there).sum())}
    if not there.any():
        cell = Cell(None, reason="no pair has a score for both captions")
        return Row(column.label, {MEAN: cell}, column.signature, info=info)
    credit = {}
    for kind, preference in pairs.preferences.items():
        wanted = np.where(there, np.nan_to_num(preference), 0.0)
        credit[kind] = pair_credits(np.where(there, first, 0.0), np.where(there, second, 0.0), wanted)
    cells = _cells(credit, pairs.groups, settings)
    credited = np.any([~np.isnan(values) for values in credit.values()], axis=0)
    tied = (first == second) & credited
    cells |= {"ties": Cell(int(tied.sum())), "n": Cell(int(credited.sum()))}
    return Row(column.label, cells, column.signature, info=info)


def _cells(
    credit: Mapping[str, np.ndarray], groups: np.ndarray, settings: EvaluationSettings
) -> dict[str, Cell]:
    """Return accuracy per kind, their mean and that of all judgements, with intervals."""
    stacked = np.stack(list(credit.values()))
    judged = ~np.isnan(stacked)
    right = np.where(judged, stacked, 0.0)
    sums, counts = _by_group(right, groups), _by_group(judged.astype(np.float64), groups)
    values = _figures(np.ones((1, len(sums))), sums, counts)[0]
    resampled = _resampled(sums, counts, settings)
    absent = [kind for kind, there in zip(credit, judged.any(axis=1), strict=True) if not there]
    cells = {}
    for position, name in enumerate([*credit, MEAN, ALL]):
        if len(credit) == 1 and name != MEAN:
            continue  # all three are the same
        n = int(judged[position].sum()) if position < len(credit) else int(judged.sum())
        if np.isnan(values[position]):
            cells[name] = Cell(None, reason=f"{name}: {_why_none(name, absent, len(credit))}")
            continue
        cell = Cell(float(values[position]), signature=f"{signature()}|n:{n}")
        cells[name] = (
            cell
            if resampled is None
            else with_interval(cell, resampled[:, position], settings.confidence, f"{name}: ")
        )
    return cells


def _why_none(name: str, absent: Sequence[str], kinds: int) -> str:
    """Return why there is no accuracy; the mean lacks one where any kind does."""
    of = f" of {', '.join(absent)}" if name == MEAN and len(absent) < kinds else ""
    return f"no pair with score and preference{of}"


def resampled_difference(
    a: np.ndarray, b: np.ndarray, samples: Sequence[CaptionSample], settings: EvaluationSettings
) -> np.ndarray | None:
    """Return how much more accurate a metric is than another on resamples of groups, mean of kinds.

    Args:
        a: scores of N captions of pairs, higher is better.
        b: those of the other metric; pairs without score of both are left out.
        samples: the captions.
        settings: resamples and seed.

    Returns:
        float64 [resamples]; None where there is nothing to resample.
    """
    pairs = PairSet.from_samples(samples)
    there = ~np.isnan(a + b)[pairs.first] & ~np.isnan(a + b)[pairs.second]
    credit = []
    for preference in pairs.preferences.values():
        wanted = np.where(there, np.nan_to_num(preference), 0.0)
        sides = [
            (np.nan_to_num(scores[pairs.first]), np.nan_to_num(scores[pairs.second])) for scores in (a, b)
        ]
        credit.append(pair_credits(*sides[0], wanted) - pair_credits(*sides[1], wanted))
    stacked = np.stack(credit)
    judged = ~np.isnan(stacked)
    sums = _by_group(np.where(judged, stacked, 0.0), pairs.groups)
    resampled = _resampled(sums, _by_group(judged.astype(np.float64), pairs.groups), settings)
    return None if resampled is None else resampled[:, len(credit)]


def _by_group(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return sums per group, [groups, kinds], of values [kinds, P]."""
    return np.stack([np.bincount(groups, weights=row) for row in values], axis=1)


def _figures(weights: np.ndarray, sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the accuracies under weights of groups, [B, kinds + 2]: kinds, their mean, all."""
    right, total = weights @ sums, weights @ counts
    kinds = np.divide(right, total, out=np.full(right.shape, np.nan), where=total > 0)
    together = np.divide(
        right.sum(axis=1), total.sum(axis=1), out=np.full(len(right), np.nan), where=total.sum(axis=1) > 0
    )
    return np.column_stack([kinds, kinds.mean(axis=1), together])


def _resampled(sums: np.ndarray, counts: np.ndarray, settings: EvaluationSettings) -> np.ndarray | None:
    if not settings.n_resamples or len(sums) < 2:
        return None
    parts = weight_parts(len(sums), settings.n_resamples, settings.seed)
    return np.concatenate([_figures(weights, sums, counts) for weights in parts])

"""What is fitted to ratings: which of them say how much something counts, and the table of what came out."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from suisei.data.paths import real_path

if TYPE_CHECKING:
    import numpy as np

    from suisei.data.sample import CaptionSample
    from suisei.metaeval.tables import Table


def fitted_table(
    title: str,
    heading: str,
    scores: Mapping[str, np.ndarray],
    samples: Sequence[CaptionSample],
    note: str,
) -> Table:
    """Return a table of scores' agreement with the ratings of samples.

    Args:
        title: of the table.
        heading: of the column of labels.
        scores: {label: scores [N]}.
        samples: rated, N of them; a sample's ratings are averaged.
        note: what is said below.
    """
    import numpy as np

    from suisei.metaeval.agreement import mean_rating
    from suisei.metaeval.correlation import CorrelationError, kendall_tau_b, pearson
    from suisei.metaeval.tables import Cell, Row, Section
    from suisei.metaeval.tables import Table as NewTable

    ratings = np.array([mean_rating(s.rating.scaled) for s in samples if s.rating is not None])
    rows = []
    for label, own in scores.items():
        cells = {"mean": Cell(float(own.mean())), "n": Cell(len(own))}
        for kind, correlation in (("pearson", pearson), ("tau-b", kendall_tau_b)):
            try:
                cells[kind] = Cell(correlation(own, ratings))
            except CorrelationError as error:
                cells[kind] = Cell(None, reason=str(error))
        rows.append(Row(label, cells))
    columns = {"pearson": "Pearson", "tau-b": "Kendall tau-b", "mean": "mean score", "n": "n"}
    return NewTable(title, columns, (Section("all", tuple(rows)),), notes=(note,), row_heading=heading)


def not_learned(samples: Iterable[CaptionSample], learned: Iterable[CaptionSample]) -> list[CaptionSample]:
    """Return the samples whose candidate was not learned from with the same image or the same references.

    Args:
        samples: any samples.
        learned: those that a model learned from; one of both may name images where the other does not.
    """
    known = {key for sample in learned for key in _keys(sample)}
    return [sample for sample in samples if known.isdisjoint(_keys(sample))]


def _keys(sample: CaptionSample) -> list[Hashable]:
    image = sample.image
    keys: list[Hashable] = []
    if image is not None:
        place = real_path(image) if isinstance(image, str | Path) else image
        keys.append((sample.candidate, str(place)))  # however the path of one image is written
    if sample.references or image is None:
        keys.append((sample.candidate, frozenset(sample.references)))
    return keys

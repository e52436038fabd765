"""Any metric of suisei as capevalkit's ``metric(samples) -> {id: score}``.

``capevalkit.evaluate_metric(benchmark="flickr8k-expert", metric=caption_metric("suisei"))``
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from suisei.adapters.rows import fitted, make_row, metric_of, score_rows
from suisei.cli import counted
from suisei.data.sample import CaptionSample
from suisei.errors import DataError
from suisei.metrics.base import Metric


def caption_metric(
    metric: Metric | str = "suisei", *, images: bool = True, batch_size: int = 64
) -> Callable[[Iterable[Any]], dict[str, float]]:
    """Return a metric for ``capevalkit.evaluate_metric``.

    Args:
        metric: a name, or a metric. CIDEr and the like are fitted on the references of what is scored. The
            sign of distances is turned, for capevalkit takes higher scores for better.
        images: whether the images are looked at; without them their files need not exist.
        batch_size: captions at once; changes no score.

    Raises:
        ConfigError: an unknown name, or something that is no metric.
        UnavailableError: the metric cannot run on this machine.
    """
    made = metric_of(metric)

    def score(samples: Iterable[Any]) -> dict[str, float]:
        """Return {id: score} of capevalkit's samples.

        Raises:
            DataError: a sample without a caption or without what the metric needs, an image that cannot be
                read, or two samples of one id; the id is named.
        """
        given = list(samples)
        names = _names(given)
        rows = [_row(sample, images) for sample in given]
        there = [_stand_in(sample) if row is None else row for sample, row in zip(given, rows, strict=True)]
        ready = fitted(made, there)
        missing = {n: why for n, why in ready.missing(there).items() if rows[n] is not None}
        if missing:
            first, why = next(iter(missing.items()))
            raise DataError(
                f"{ready.name} has no score for {len(missing)} of {counted(len(rows), 'sample')}; "
                f"{names[first]}: {why}"
            )
        scores = score_rows(ready, rows, batch_size, names=names)
        if not made.higher_is_better:
            scores = _turned(scores, np.array([row is None for row in rows], dtype=bool))
        return {sample.id: float(value) for sample, value in zip(given, scores, strict=True)}

    return score


def _names(samples: Sequence[Any]) -> list[str]:
    """Return how messages name the samples; two of one id would have one score."""
    twice = [name for name, count in Counter(sample.id for sample in samples).items() if count > 1]
    if twice:
        raise DataError(
            f"{counted(len(twice), 'id')} {'stands' if len(twice) == 1 else 'stand'} for several samples, "
            f"such as {twice[0]!r}, and scores go by id; give each sample its own"
        )
    return [f"sample {sample.id}" for sample in samples]


def _turned(scores: np.ndarray, blank: np.ndarray) -> np.ndarray:
    """Return distances [N] with their sign turned; captions without a word are as bad as the worst."""
    turned = -scores
    turned[blank] = np.nanmin(turned, initial=0.0)
    return turned


def _stand_in(sample: Any) -> CaptionSample:
    """Return a sample for one whose caption is blank: its references count in a corpus as any others."""
    row = _made(sample, ".")
    assert row is not None
    return row


def _row(sample: Any, images: bool) -> CaptionSample | None:
    if sample.prediction is None:
        raise DataError(f"sample {sample.id} has no prediction; load the samples with predictions")
    return _made(sample, sample.prediction, Path(sample.image) if images and sample.image else None)


def _made(sample: Any, caption: str, image: Path | None = None) -> CaptionSample | None:
    try:
        return make_row(caption, sample.references, image)
    except DataError as error:
        raise DataError(f"sample {sample.id}: {error}") from None

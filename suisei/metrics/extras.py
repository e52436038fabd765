"""Extra inputs of the regressor: the scores of other metrics, by registry name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.metrics.base import Metric
from suisei.metrics.registry import get_metric
from suisei.metrics.ridge import Ridge


class ExtraInputs:
    """Metrics whose scores the regressor reads beside the encoders' features.

    Any registered metric, and "ridge", which is trained on the ratings. Corpus statistics and the
    ridge are fitted on the training samples and saved with the model, so that a score never depends
    on what else is being scored.

    Args:
        names: names of the metrics, in the order of the regressor's inputs.
        states: what :meth:`state` returned, for a trained model.
    """

    def __init__(self, names: Sequence[str], states: dict[str, dict[str, Any]] | None = None) -> None:
        self.metrics: dict[str, Metric] = {
            name: Ridge() if name == Ridge.name else get_metric(name) for name in names
        }
        for name, state in (states or {}).items():
            self.metrics[name].load_state(state)

    def needing(self, what: str) -> list[int]:
        """Return the columns of the metrics that need "references" or "image"."""
        return [column for column, metric in enumerate(self.metrics.values()) if what in metric.needs]

    def fit(self, training: Sequence[CaptionSample], support: Sequence[CaptionSample] = ()) -> None:
        """Fit corpus statistics such as idf, and the ridge, on the training samples.

        Args:
            training: rated samples.
            support: rated samples from elsewhere, which the ridge learns from too.
        """
        for metric in self.metrics.values():
            if isinstance(metric, Ridge):
                metric.support = support
            metric.fit(training)

    def compute(self, samples: Sequence[CaptionSample], *, progress: bool = False) -> np.ndarray:
        """Return raw scores, float32 [N, E]; NaN where a sample lacks what a metric needs."""
        columns = [metric.score(samples, progress=progress) for metric in self.metrics.values()]
        if not columns:
            return np.zeros((len(samples), 0), dtype=np.float32)
        return np.stack(columns, axis=1).astype(np.float32)

    def fit_compute(
        self,
        samples: Sequence[CaptionSample],
        training: Sequence[int],
        support: Sequence[CaptionSample] = (),
    ) -> np.ndarray:
        """Fit on the training samples and return the inputs of all samples, float32 [N, E].

        What is trained on ratings scores the training samples out of fold: the regressor must see it
        err as much as it will on new samples.

        Args:
            samples: training samples and others.
            training: positions of the training samples.
            support: rated samples from elsewhere.
        """
        rated = [samples[position] for position in training]
        self.fit(rated, support)
        inputs = self.compute(samples)
        for column, metric in enumerate(self.metrics.values()):
            if isinstance(metric, Ridge):
                inputs[list(training), column] = metric.out_of_fold(rated)
        return inputs

    def state(self) -> dict[str, dict[str, Any]]:
        """Return the corpus statistics of every metric, as values that JSON can hold."""
        return {name: metric.state() for name, metric in self.metrics.items()}

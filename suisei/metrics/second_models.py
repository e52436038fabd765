"""The second models of a learned metric, read when a caption of their languages is first scored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from suisei.data.sample import CaptionSample
from suisei.encoders.locks import Lock
from suisei.explain.interfaces import METRICS, InputColumn
from suisei.metrics.extras import ExtraInputs
from suisei.models.lower_layers import LowerStates
from suisei.models.regressor import Regressor
from suisei.models.second import Second


class AskedMetric(Protocol):
    """A learned metric, as far as it is asked here."""

    regressor: Regressor
    extras: ExtraInputs

    @property
    def takes_over(self) -> bool:
        """Whether it can read what a first model has computed of samples without images."""

    def score(self, samples: Any, *, batch_size: int = 64) -> np.ndarray:
        """Return the scores, float64 [N]."""

    def input_columns(self) -> Sequence[InputColumn]:
        """Return what the numbers are that it reads."""

    def score_replaced(
        self, samples: Sequence[CaptionSample], replaced: np.ndarray, *, batch_size: int = 64
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores with some of these numbers replaced, and the numbers as they were."""

    def score_known(
        self, samples: Sequence[CaptionSample], extras: np.ndarray, known: LowerStates, *, batch_size: int
    ) -> np.ndarray:
        """Return the scores of samples whose extra inputs [N, E] and captions' states are known."""


class SecondModels:
    """The second models of a metric; threads may share them.

    Args:
        seconds: the models.
        read: reads one of them.

    Attributes:
        opened: those that were read, by folder.
    """

    def __init__(self, seconds: Sequence[Second], read: Callable[[Second], AskedMetric]) -> None:
        self._seconds = tuple(seconds)
        self._read = read
        self._opening = Lock()
        self.opened: dict[Path, AskedMetric] = {}

    def __getstate__(self) -> dict[str, Any]:
        for second in self._seconds:
            self.open(second)  # whose folder may not be where it is unpickled
        # nothing is left to read, and what read them holds a model that may not be pickled as it is
        return {name: value for name, value in self.__dict__.items() if name != "_read"}

    @property
    def languages(self) -> list[str]:
        """The languages of the captions that any of them is asked of."""
        return sorted(language for own in self._seconds for language in own.weighing.languages)

    def open(self, second: Second) -> AskedMetric:
        """Return a second model, which is read when it is first asked."""
        with self._opening:
            if second.folder not in self.opened:
                self.opened[second.folder] = self._read(second)
            return self.opened[second.folder]

    def asked(
        self, samples: Sequence[CaptionSample], across: Sequence[bool] | None, *, sharing: bool
    ) -> Iterator[Asked]:
        """Yield those that are asked of any sample, each of other samples.

        Args:
            samples: what the first model scores.
            across: which of them have no reference in their own language, where the first has a line of its
                own for these, which no second has; None where it does not tell languages apart.
            sharing: whether what the first computes can be shared with one that reads with its encoder.
        """
        for second in self._seconds:
            positions = second.weighing.asked(samples)
            if across is not None:
                positions = [position for position in positions if not across[position]]
            if positions:
                yield Asked(second, self.open(second), samples, positions, sharing=sharing)


class Asked:
    """A second model that is asked of some samples.

    Args:
        second: the model.
        metric: that model, read.
        samples: what the first model scores, N of them.
        positions: of the samples that it is asked of.
        sharing: whether it may take over what the first computes.

    Attributes:
        lower: takes what the first's lower layers say of the captions; None where nothing is taken over.
    """

    def __init__(
        self,
        second: Second,
        metric: AskedMetric,
        samples: Sequence[CaptionSample],
        positions: Sequence[int],
        *,
        sharing: bool,
    ) -> None:
        self._weighing, self._shared = second.weighing, second.shared
        self._metric = metric
        self._positions = list(positions)
        self._samples = [replace(samples[position], image=None) for position in positions]
        self.lower: LowerStates | None = None
        if sharing and second.shared and metric.takes_over:
            captions = {text for own in self._samples for text in (own.candidate, *own.references)}
            self.lower = LowerStates(len(metric.regressor.text.backbone.layers), captions)

    @property
    def share(self) -> float:
        """The share of its logit, 0 to 1."""
        return self._weighing.share

    def said(self, batch_size: int) -> np.ndarray:
        """Return its own scores of the samples that it is asked of, float64; nothing is taken over."""
        return self._metric.score(self._samples, batch_size=batch_size)

    def weigh(
        self,
        scores: np.ndarray,
        extras: np.ndarray,
        names: Sequence[str],
        batch_size: int,
        *,
        replaced: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """Ask it, and weigh the first's scores against what it says.

        Args:
            scores: the first's, float64 [N], changed in place.
            extras: raw extra inputs of the first, [N, E].
            names: of these, E of them.
            batch_size: samples at once.
            replaced: {metric: what stands in the place of its number, [N], NaN to leave it}, for one that
                reads the first's own numbers too.
        """
        if replaced is not None and self._shared:
            said = self._metric.score_replaced(self._samples, self._own(replaced), batch_size=batch_size)[0]
        elif self.lower is None:
            said = self.said(batch_size)
        else:
            own = extras[self._positions][:, [names.index(name) for name in self._metric.extras.metrics]]
            said = self._metric.score_known(self._samples, own, self.lower, batch_size=batch_size)
        scores[self._positions] = self._weighing.combined(scores[self._positions], said)

    def _own(self, replaced: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return what stands in the place of this model's numbers, [samples, all of them]."""
        columns = self._metric.input_columns()
        own = np.full((len(self._positions), len(columns)), np.nan)
        for place, column in enumerate(columns):
            if column.kind == METRICS and column.name in replaced:
                own[:, place] = replaced[column.name][self._positions]
        return own

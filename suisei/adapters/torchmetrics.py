"""Any metric of suisei as a torchmetrics metric, for training loops and Lightning modules.

>>> from suisei.adapters.torchmetrics import CaptionScore
>>> score = CaptionScore("bleu-1")
>>> score.update(["a dog runs"], [["a dog runs fast", "the dog"]])
>>> score.compute()
tensor(1.0000, dtype=torch.float64)
"""

from __future__ import annotations

import math
from itertools import count
from typing import Any

import numpy as np
import torch
import torchmetrics
from torch import Tensor
from torchmetrics.utilities import dim_zero_cat

from suisei.adapters.rows import reference_lists, row_metric
from suisei.data.given_samples import as_samples
from suisei.metrics.base import Metric
from suisei.scoring.corpus import summands

_number = count(1)


class CaptionScore(torchmetrics.Metric):
    """The corpus score of captions, or the score of each.

    Samples are scored when they arrive. Their scores, or the sums of the counts that BLEU and the like make a
    corpus score of, are states that are gathered over processes, so that the result is that of one process,
    whatever each of them has seen.

    Args:
        metric: a name such as "suisei", "suisei:DIR" or "bleu-4", or a metric, fitted where it must be.
        per_sample: whether ``compute`` returns all scores, rank after rank, instead of the corpus score; in
            torchmetrics' ``Running`` its batches stand in no particular order.
        batch_size: handed to the metric; changes no score.
        settings: of torchmetrics, such as ``sync_on_compute``.

    Raises:
        ConfigError: an unknown metric, one that is not fitted, or one whose corpus score does not add up.
    """

    full_state_update = False
    is_differentiable = False

    rows: list[Tensor]
    totals: list[Tensor]
    width: Tensor
    number: Tensor

    def __init__(
        self,
        metric: Metric | str = "suisei",
        *,
        per_sample: bool = False,
        batch_size: int = 64,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.set_dtype(torch.float64)
        self.scorer = row_metric(metric, "torchmetrics")
        self.per_sample = per_sample
        self.batch_size = batch_size
        if not per_sample:
            summands(self.scorer, [], np.empty(0))  # refuses what does not add up
        self.add_state("rows", [], dist_reduce_fx="cat")
        # A list, and flat, because a process that has seen nothing does not know how many counts there are.
        self.add_state("totals", [], dist_reduce_fx="cat")
        self.add_state("width", torch.tensor(0), dist_reduce_fx="max")
        # A MetricCollection takes metrics whose states are equal after a first batch for one metric.
        self.add_state("number", torch.tensor(next(_number)), dist_reduce_fx="max")

    @property
    def higher_is_better(self) -> bool:
        """Whether a higher score is better."""
        return self.scorer.higher_is_better

    @property
    def signature(self) -> str:
        """One line that says what decides the score, to be logged beside it."""
        return self.scorer.signature

    @property
    def plot_lower_bound(self) -> float | None:
        """Where the axis of a plot begins: 0 for the learned metric."""
        return 0.0 if self.scorer.name == "suisei" else None

    @property
    def plot_upper_bound(self) -> float | None:
        """Where the axis of a plot ends: 1 for the learned metric."""
        return 1.0 if self.scorer.name == "suisei" else None

    def update(self, preds: Any, target: Any = None, images: Any = None) -> None:
        """Score captions.

        Args:
            preds: a caption or N captions, or N CaptionSamples.
            target: N lists of references, or N references (of one caption: its own), or None.
            images: N images (of one caption: its image), None where missing, or None.

        Raises:
            DataError: invalid input; the row is named.
        """
        if isinstance(preds, str):
            preds, target, images = [preds], _alone(target), _alone(images)
        samples = as_samples(preds, reference_lists(target), images)
        scores = self.scorer.score(samples, batch_size=self.batch_size)
        if self.per_sample:
            self.rows.append(torch.as_tensor(scores, dtype=torch.float64, device=self.device))
            return
        counts = summands(self.scorer, samples, scores).rows
        counts = counts[~np.isnan(scores)]
        if len(counts):
            self.width = torch.full_like(self.width, counts.shape[1])
            added = torch.as_tensor(counts.sum(axis=0), dtype=torch.float64, device=self.device)
            self.totals = [self._total() + added] if self.totals else [added]

    def compute(self) -> Tensor:
        """Return the corpus score, float64 []; or all scores, float64 [N], NaN where there is none.

        Of one sample alone torchmetrics gives [] in place of [1]. NaN where nothing was scored.
        """
        if self.per_sample:
            return _joined(self.rows, self.device)
        if not self.width:
            return torch.tensor(math.nan, dtype=torch.float64, device=self.device)
        score = summands(self.scorer, [], np.empty(0)).score(self._total()[None].cpu().numpy())
        return torch.as_tensor(score[0], dtype=torch.float64, device=self.device)

    def reset(self) -> None:
        """Forget what was scored."""
        # torchmetrics empties lists in place, and its wrapper Running has kept them for its window
        self.rows, self.totals = [], []
        super().reset()

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot a value or several, see torchmetrics; returns figure and axes."""
        return self._plot(val, ax)

    def _total(self) -> Tensor:
        """Return the sums of the counts of all samples, float64 [K]."""
        totals = _joined(self.totals, self.device).reshape(-1, int(self.width))
        return totals.sum(dim=0).to(self.device)  # compute_on_cpu has moved them


def _alone(value: Any) -> Any:
    return None if value is None else [value]


def _joined(state: Any, device: Any) -> Tensor:
    """Return what a state of lists holds, before and after processes were gathered."""
    if isinstance(state, list) and not state:
        return torch.empty(0, dtype=torch.float64, device=device)
    joined: Tensor = dim_zero_cat(state)
    return joined

"""suisei as a scorer of llm-jp-eval-mm: the mean rating of a model's captions.

Importing this file and calling :func:`register` makes the metric ``suisei`` known to ``eval_mm``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import islice
from typing import Any

import numpy as np

from suisei.adapters.rows import corpus_mean, made_once, make_row, row_metric, score_rows
from suisei.errors import DataError, UnavailableError
from suisei.metrics.base import Metric

try:
    from eval_mm.metrics.scorer import AggregateOutput, Scorer
except ImportError as error:
    raise UnavailableError(
        f"llm-jp-eval-mm cannot be imported ({error}); install it from its repository, llm-jp/llm-jp-eval-mm"
    ) from None

WINDOW = 256
"""Documents whose images are in memory at one time."""


class SuiSeiScorer(Scorer):
    """Scores captions against a task's answers and the images of its documents.

    Attributes:
        metric: the name of the metric; a subclass may set another, such as "suisei:DIR".
        image: the documents' field of images.
    """

    metric = "suisei"
    image = "image"

    def score(self, refs: Sequence[Any], preds: Sequence[str]) -> list[float]:
        """Return a score per document; NaN where it lacks what the metric needs.

        An empty caption has the score of :func:`suisei.adapters.rows.empty_score`.

        Args:
            refs: per document a reference or a list of references.
            preds: per document the caption.

        Raises:
            DataError: the lists differ in length, or a document cannot be scored; its number is named.
        """
        if len(refs) != len(preds):
            raise DataError(f"there are {len(refs)} references and {len(preds)} predictions; they must match")
        rows, scores = self._rows(refs, preds), []
        while window := list(islice(rows, WINDOW)):
            scores.append(score_rows(_metric(self.metric), window))
        return [float(score) for score in np.concatenate([*scores, np.empty(0)])]

    def aggregate(self, scores: Sequence[float]) -> Any:
        """Return the mean of the scores that there are."""
        mean = corpus_mean(self.metric, scores)
        return AggregateOutput(mean, {_metric(self.metric).name: mean})

    def _rows(self, refs: Sequence[Any], preds: Sequence[str]) -> Iterator[Any]:
        docs = self.config.docs if self.config is not None and self.config.docs is not None else []
        images = (self._image(doc) for doc in docs)
        for number, (own, caption) in enumerate(zip(refs, preds, strict=True)):
            try:
                yield make_row(caption, own, next(images, None))
            except DataError as error:
                raise DataError(f"document {number}: {error}") from None

    def _image(self, doc: Any) -> Any:
        return doc.get(self.image) if isinstance(doc, Mapping) else None


@made_once
def _metric(spec: str) -> Metric:
    return row_metric(spec, "llm-jp-eval-mm")


def register(name: str = "suisei", scorer: type[Scorer] = SuiSeiScorer) -> None:
    """Make a scorer known to eval_mm under a name.

    Args:
        name: what ``--metrics`` takes.
        scorer: the scorer, or a subclass with another metric.
    """
    registry = import_module("eval_mm.metrics.scorer_registry")
    if hasattr(registry, "register_scorer"):
        registry.register_scorer(name)(scorer)
    else:  # releases before the decorator
        registry.ScorerRegistry._scorers[name] = scorer

"""suisei as a scorer of llm-jp-eval-mm: the mean rating of a model's captions.

Importing this file and calling :func:`register` makes the metric ``suisei`` known to ``eval_mm``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from itertools import islice, repeat
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
            DataError: references, predictions and the configuration's documents differ in number, or a
                document cannot be scored; its number, from 0, is named.
        """
        rows, scores = self._rows(refs, preds, self._docs(refs, preds)), []
        for start in range(0, len(preds), WINDOW):
            window = list(islice(rows, WINDOW))
            names = [f"document {start + number}" for number in range(len(window))]
            scores.append(score_rows(_metric(self.metric), window, names=names))
        return [float(score) for score in np.concatenate([*scores, np.empty(0)])]

    def aggregate(self, scores: Sequence[float]) -> Any:
        """Return the mean of the scores that there are."""
        mean = corpus_mean(self.metric, scores)
        return AggregateOutput(mean, {_metric(self.metric).name: mean})

    def _docs(self, refs: Sequence[Any], preds: Sequence[str]) -> Any:
        """Return the documents of the predictions, None where none are configured."""
        if len(refs) != len(preds):
            raise DataError(f"there are {len(refs)} references and {len(preds)} predictions; they must match")
        docs = None if self.config is None else self.config.docs
        if docs is not None and len(docs) != len(preds):
            raise DataError(
                f"there are {len(docs)} documents and {len(preds)} predictions; give the configuration the "
                "documents that were captioned, in their order, or docs=None to score without images"
            )
        return docs

    def _rows(self, refs: Sequence[Any], preds: Sequence[str], docs: Any) -> Iterator[Any]:
        images = repeat(None, len(preds)) if docs is None else map(self._image, docs)
        for number, (own, caption, image) in enumerate(zip(refs, preds, images, strict=True)):
            try:
                yield make_row(caption, own, image)
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

"""suisei as a module of Hugging Face evaluate, loaded from this file and without a network.

``evaluate.load(suisei.adapters.EVALUATE)`` is the model in the package; a second argument names any other
metric, such as ``"bleu-4"``, or ``"suisei:DIR"`` for a model of your own.
"""

from typing import Any

import datasets
import evaluate
import numpy as np

from suisei.adapters.rows import fitted, metric_of, reference_lists
from suisei.data.given_columns import listed
from suisei.data.sample import make_samples

_DESCRIPTION = "Rates captions the way people do, Japanese and English, beside references, an image, or both."
_INPUTS = """
Args:
    predictions: captions.
    references: for each a list of captions, or one caption; None for none.
    images: for each a path or an image, None where missing; for ``compute`` alone.
    batch_size: captions at once; changes no score.

Returns:
    A dict of the corpus score under the metric's name, ``scores`` (None where a caption lacks what the metric
    needs) and ``signature``.
"""


class Suisei(evaluate.Metric):
    """Any metric of suisei; the configuration's name is the metric's."""

    def _info(self) -> evaluate.MetricInfo:
        text = datasets.Value("string")
        # one format, so that what a first row looks like decides nothing
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation="",
            inputs_description=_INPUTS,
            features=datasets.Features({"predictions": text, "references": datasets.Sequence(text)}),
        )

    def _download_and_prepare(self, dl_manager: Any) -> None:
        self.scorer = metric_of("suisei" if self.config_name == "default" else self.config_name)

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Add captions and their references, as ``compute`` takes them, which adds its own by this.

        Raises:
            DataError: a column that is no list, columns that differ in length, or an entry that is no caption
                or no list of them; its position is named. Nothing is added then.
        """
        # evaluate looks at the first row alone, and stores what is no text further down as its repr
        samples = make_samples(listed("predictions", predictions), reference_lists(references))
        captions = [sample.candidate for sample in samples]
        own = [list(sample.references) for sample in samples]
        evaluate.Metric.add_batch(self, predictions=captions, references=own, **kwargs)

    def add(self, *, prediction: Any = None, reference: Any = None, **kwargs: Any) -> None:
        """Add one caption and its references: a list, one caption, or None.

        Raises:
            DataError: it is no caption, or they are none.
        """
        self.add_batch(predictions=[prediction], references=[reference], **kwargs)

    def _compute(
        self, predictions: Any, references: Any, images: Any = None, batch_size: int = 64
    ) -> dict[str, Any]:
        samples = make_samples(predictions, references, images)
        scorer = fitted(self.scorer, samples)
        scores = scorer.score(samples, batch_size=batch_size)
        return {
            scorer.name: scorer.corpus_score(samples, scores),
            "scores": [None if np.isnan(score) else float(score) for score in scores],
            "signature": scorer.signature,
        }

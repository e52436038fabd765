"""The pair of functions by which an lmms-eval task names a metric.

In the task's ``utils.py``::

    from suisei.adapters.lmms_eval import suisei_aggregation, suisei_process_results

and in its YAML ``process_results: !function utils.suisei_process_results``, ``process_results_use_image:
true``, and a metric ``suisei`` with ``aggregation: !function utils.suisei_aggregation``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from suisei.adapters.rows import corpus_mean, made_once, make_row, row_metric, score_rows
from suisei.data.file_rows import warn
from suisei.errors import ConfigError, DataError
from suisei.metrics.base import Metric, averages

REFERENCES = (
    "references", "answer", "captions", "caption", "annotations_captions", "caption_str", "sentences",
    "sentence", "enCap", "chCap",
)  # fmt: skip
"""Where caption tasks of lmms-eval keep their references; the first that a document has is taken."""

Process = Callable[..., dict[str, float]]
Aggregate = Callable[[Sequence[float]], float]


def make_pair(
    metric: Metric | str = "suisei", *, references: str | None = None, image: str | None = "image"
) -> tuple[Process, Aggregate]:
    """Return ``process_results`` and ``aggregation`` of a metric.

    Args:
        metric: a name, or a metric, fitted where it must be. One given by name is made at the first result.
        references: the documents' field of references; None for the first of REFERENCES that is there. A
            warning says once that documents have none of them, and are scored by their images alone.
        image: the documents' field of images; None for a metric that shall see none.
    """
    warned = False

    @made_once
    def scorer() -> Metric:
        made = row_metric(metric, "lmms-eval")
        if not averages(made):
            raise ConfigError(
                f"{made.name}: its corpus score is no mean of scores; score the logged samples with "
                "'suisei score', or take lmms-eval's own"
            )
        return made

    def process_results(doc: Mapping[str, Any], results: Sequence[str], **_: Any) -> dict[str, float]:
        """Return {metric: score} of one document; NaN where it lacks what the metric needs.

        No caption has the score of :func:`suisei.adapters.rows.empty_score`.

        Raises:
            DataError: a field is absent or of the wrong type, or a document lacks those that scores need.
            ConfigError: an unknown metric, one to be fitted first, or whose corpus score is no mean.
        """
        nonlocal warned
        known = references is not None or any(name in doc for name in REFERENCES)
        _check_fields(scorer(), doc, image, known)
        if "references" in scorer().reads and not (known or warned):
            warned = True
            warn(f"{scorer().name}: captions are scored by their images alone; {_where(doc, image)}")
        prediction = results[0] if results else ""
        row = make_row(prediction, _references(doc, references), None if image is None else doc.get(image))
        return {scorer().name: float(score_rows(scorer(), [row])[0])}

    def aggregation(results: Sequence[float]) -> float:
        """Return the mean of the scores that there are; NaN for no results.

        Raises:
            DataError: none of the results has a score.
        """
        return corpus_mean(scorer().name, results) if len(results) else math.nan

    return process_results, aggregation


def _check_fields(metric: Metric, doc: Mapping[str, Any], image: str | None, known: bool) -> None:
    """Refuse documents none of which could have a score, before a model captions them all.

    Raises:
        DataError: a document is without the fields that the metric needs, or without any that it reads.
    """
    lacks = {*(() if known else ("references",)), *(() if image in doc else ("image",))}
    reads = metric.reads & {"references", "image"}
    if metric.needs & lacks or (reads and reads <= lacks):
        what = " and no ".join(sorted(reads & lacks))
        raise DataError(f"{metric.name}: no {what} to score by; {_where(doc, image)}")


def _where(doc: Mapping[str, Any], image: str | None) -> str:
    """Return where a document was searched, and how to name other fields."""
    beside = "" if image is None else f", an image in {image} (with process_results_use_image: true)"
    return (
        f"the document's fields are {_names(doc)}; references are looked for in {_names(REFERENCES)}{beside}"
        "; make_pair(references=FIELD, image=FIELD) names others"
    )


def _names(fields: Iterable[Any]) -> str:
    return ", ".join(map(str, fields))


def _references(doc: Mapping[str, Any], field: str | None) -> Any:
    if field is None:
        return next((doc[name] for name in REFERENCES if doc.get(name)), None)
    if field not in doc:
        raise DataError(f"the document has no field {field!r}; its fields are {_names(doc)}")
    return doc[field]


suisei_process_results, suisei_aggregation = make_pair()

"""What tuning by a reward raised and what it cost: captions of the start and of the tuned model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from suisei.captioning.caption_sources import CaptionedImage
from suisei.captioning.reward_terms import parse_reward
from suisei.captioning.rewards import LOWEST
from suisei.cli import counted
from suisei.data.sample import CaptionSample, is_blank, is_wordless
from suisei.encoders.sharing import shared_encoders
from suisei.errors import ConfigError
from suisei.metaeval.settings import Resampling
from suisei.metaeval.system_tables import as_dict, example_markdown, pair_table, system_table
from suisei.metaeval.systems import MetricOutcome, compare_systems, most_different
from suisei.metaeval.tables import Table
from suisei.metrics.registry import canonical
from suisei.metrics.repetition import corpus_distinct
from suisei.metrics.tokenizers import get_tokenizer
from suisei.scoring.columns import ScoreColumn, column_notes, score_column
from suisei.scoring.fitting import documents
from suisei.scoring.plan import plan_metrics, short_labels

START, TUNED = "start", "tuned"
METRICS = (
    "cider", "bleu-1", "bleu-4", "rouge-l", "suisei", "length",
    "repetition-1", "repetition-2", "repetition-3", "repetition-4", "incomplete-ending", "hallucinated-nouns",
)  # fmt: skip
"""What the two models are compared by, beside the metrics of the reward."""
_EXAMPLES = 5
"""Images that are shown per metric."""
EMPTY_CAPTION = "."
"""Stands for an empty caption, which has the worst score of every metric whatever that says of it."""


@dataclass(frozen=True)
class Comparison:
    """What two systems' captions of the same images score.

    Attributes:
        samples: {system: its captions with references and image}.
        outcomes: one per metric, with intervals and tests.
        notes: what must be known of the figures.
        texts: {system: figures of its captions as texts}, see :func:`text_figures`.
        settings: of the resamples.
    """

    samples: Mapping[str, Sequence[CaptionSample]]
    outcomes: Sequence[MetricOutcome]
    notes: Sequence[str]
    texts: Mapping[str, Mapping[str, float]]
    settings: Resampling = field(default_factory=Resampling)

    def tables(self) -> dict[str, Table]:
        """Return the table of the systems and that of their differences."""
        count = len(next(iter(self.samples.values())))
        title = f"Start and tuned model on {counted(count, 'image')}"
        return {
            "systems": system_table(self.outcomes, list(self.samples), title, self.notes),
            "pairs": pair_table(self.outcomes, self.settings),
        }

    def as_dict(self) -> dict[str, Any]:
        """Return what ``report.json`` holds."""
        return {
            "metrics": [as_dict(outcome) for outcome in self.outcomes],
            "texts": {system: dict(figures) for system, figures in self.texts.items()},
            "notes": list(self.notes),
            "tables": {name: table.as_dict() for name, table in self.tables().items()},
        }

    def to_markdown(self, examples_of: Sequence[str]) -> str:
        """Return the tables, and the images on which the systems differ most by some metrics.

        Args:
            examples_of: labels of the metrics.
        """
        pair = tuple(self.samples)[:2]
        shown = {
            outcome.label: most_different(outcome, self.samples, (pair[0], pair[1]), _EXAMPLES)
            for outcome in self.outcomes
            if outcome.label in examples_of
        }
        parts = [table.to_markdown() for table in self.tables().values() if table.sections]
        names = list(next(iter(self.texts.values())))
        lines = [f"| captions | {' | '.join(names)} |", f"|---{'|---' * len(names)}|"]
        for system, figures in self.texts.items():
            lines.append(f"| {system} | {' | '.join(f'{figures[name]:.4g}' for name in names)} |")
        return "\n\n".join([*parts, "\n".join(lines), example_markdown(shown)])


def compared_by(reward: str, others: Sequence[str]) -> list[str]:
    """Return the metrics of a comparison by registered name, each once: those of a reward, then others.

    Raises:
        ConfigError: an unknown metric.
    """
    rewarded = [term.spec for term in parse_reward(reward)]
    specs = dict.fromkeys([*rewarded, *map(canonical, others)])
    try:
        plans = plan_metrics(list(specs))
    except ConfigError as error:
        raise ConfigError(f"report_metrics: {error}") from None
    return [plan.spec for plan in plans]


def compare_captions(
    texts: Mapping[str, Sequence[str]],
    pairs: Sequence[CaptionedImage],
    metrics: Sequence[str],
    *,
    language: str | None = None,
    options: Sequence[str] = (),
    settings: Resampling | None = None,
) -> Comparison:
    """Score systems' captions and compare them by a paired bootstrap over images.

    Args:
        texts: {system: N captions}.
        pairs: the N images with their references.
        metrics: what they are scored by; one that cannot run here has its reason in the table.
        language: of the captions.
        options: of the metrics, ``NAME.KEY=VALUE``; those of metrics that are not named are passed over.
        settings: of the resamples.

    Raises:
        ConfigError: an unknown metric or option.
    """
    settings = settings or Resampling()
    names = {canonical(spec).partition(":")[0] for spec in metrics}
    given = [option for option in options if canonical(option.partition("=")[0].rpartition(".")[0]) in names]
    plans = plan_metrics(list(dict.fromkeys(metrics)), options=given)
    samples = {system: _samples(system, own, pairs, language) for system, own in texts.items()}
    together = [sample for own in samples.values() for sample in own]
    with shared_encoders(within=True):
        shared = documents(samples.values())
        columns = [
            replace(score_column(plan, together, shared=shared), label=label)
            for label, plan in zip(short_labels(plans), plans, strict=True)
        ]
    silent = np.array([is_wordless(text) for own in texts.values() for text in own])
    columns = [_with_silence(column, silent) for column in columns]
    outcomes = compare_systems(columns, list(samples), settings)
    empty = {system: sum(map(is_wordless, own)) for system, own in texts.items()}
    notes = [
        *column_notes(columns),
        *(
            f"{system}: {counted(count, 'caption')} without a word, with the worst score"
            for system, count in empty.items()
            if count
        ),
        *(f"{column.label}: {column.signature}" for column in columns if column.signature),
    ]
    figures = {system: text_figures(own, language) for system, own in texts.items()}
    return Comparison(samples, outcomes, notes, figures, settings)


def _samples(
    system: str, texts: Sequence[str], pairs: Sequence[CaptionedImage], language: str | None
) -> list[CaptionSample]:
    return [
        CaptionSample(
            EMPTY_CAPTION if is_blank(text) else text,
            pair.captions,
            pair.image,
            language=language,
            system=system,
            id=pair.id,
        )
        for text, pair in zip(texts, pairs, strict=True)
    ]


def _with_silence(column: ScoreColumn, silent: np.ndarray) -> ScoreColumn:
    """Return a metric's scores with those of captions without a word as a reward has them."""
    if column.scores is None or not silent.any():
        return column
    if column.higher_is_better:
        worst = float(np.nanmin(column.scores, initial=LOWEST))
    else:
        worst = float(np.nanmax(column.scores)) if column.largest is None else column.largest
    parts = None if column.summands is None else column.summands.with_score(worst, silent)
    return replace(column, scores=np.where(silent, worst, column.scores), summands=parts)


def text_figures(texts: Sequence[str], language: str | None = None) -> dict[str, float]:
    """Return what captions are as texts: tokens, and how alike they are.

    Returns:
        ``tokens``, the mean of a caption; ``vocabulary``, how many different ones; ``distinct-1`` and
        ``distinct-2``, the share of different n-grams in all captions together; ``different captions``, the
        share of captions that differ.
    """
    tokens = get_tokenizer("auto").many([(text, language) for text in texts])
    return {
        "tokens": sum(map(len, tokens)) / max(1, len(tokens)),
        "vocabulary": float(len({token for own in tokens for token in own})),
        "distinct-1": corpus_distinct(tokens, 1),
        "distinct-2": corpus_distinct(tokens, 2),
        "different captions": len(set(texts)) / max(1, len(texts)),
    }

"""Steps that several commands take: read samples, score them with a metric, say what went wrong."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from suisei.cli import say
from suisei.commands.allowances import allowed
from suisei.commands.command_parser import Add
from suisei.commands.option_values import filled
from suisei.commands.options import named_columns, note_text, rating_scale

if TYPE_CHECKING:
    from rich.console import Console

    from suisei.data.formats import Row
    from suisei.data.sample import CaptionSample
    from suisei.report.examples import Explain
    from suisei.scoring.columns import ScoreColumn
    from suisei.scoring.kept_scores import KeptScores
    from suisei.scoring.plan import MetricPlan


def read_samples(
    options: argparse.Namespace, skipped: list[Row] | None = None
) -> tuple[list[CaptionSample], list[str]]:
    """Return the samples of ``--data``, and a note where bad rows were skipped.

    What was guessed of a file is said on standard error.

    Args:
        options: the command's.
        skipped: a list that receives the bad rows.
    """
    from rich.console import Console

    from suisei.data.file_rows import skipped_note
    from suisei.data.load import load_data

    skipped = [] if skipped is None else skipped
    messages = Console(stderr=True)
    samples = load_data(
        options.data,
        root=options.root,
        images=options.images,
        rating_scale=rating_scale(options),
        columns=named_columns(options),
        references=options.references,
        note=lambda text: say(messages, note_text(text)),
        on_error=options.on_error,
        skipped=skipped,
        allowed=allowed(options),
    )
    return samples, [skipped_note([row.error for row in skipped])] if skipped else []


def add_keep_option(add: Add) -> None:
    """Add where scores are kept while they are computed."""
    add(
        "--keep", metavar="DIR", type=filled,
        help="keep scores here as they come: the same command, killed and started again, goes on from them",
    )  # fmt: skip


def keeper(options: argparse.Namespace) -> KeptScores | None:
    """Return what keeps scores, where ``--keep`` asks for it."""
    from suisei.scoring.kept_scores import KeptScores

    return KeptScores(options.keep) if options.keep else None


@contextmanager
def told_when_interrupted(
    options: argparse.Namespace, done: Sequence[object] | None = None, total: int = 0
) -> Iterator[None]:
    """Let Ctrl-C say how many metrics are done, and how to go on.

    Args:
        options: of the command, with ``--keep``.
        done: grows by one with every metric; None where metrics take turns.
        total: how many metrics there are.
    """
    try:
        yield
    except KeyboardInterrupt:
        kept = f"scores are in {options.keep}, and the same command goes on from them"
        lost = "scores are lost; with --keep DIR they would have been kept"
        if done is None:
            raise KeyboardInterrupt(kept if options.keep else f"the {lost}") from None
        raise KeyboardInterrupt(
            f"{len(done)} of {total} metrics are done; {kept if options.keep else f'their {lost}'}"
        ) from None


def explainer(plan: MetricPlan, samples: Sequence[CaptionSample] = ()) -> Explain:
    """Return what says in sentences why a metric gives samples their scores.

    A sample that cannot be explained has the reason in place of sentences: a page does not fail for it.

    Args:
        plan: the metric, which is made when it is first asked.
        samples: what it is fitted on where it must be.
    """

    def explain(wanted: Sequence[CaptionSample]) -> list[list[str]]:
        from suisei.explain.wording import sentences
        from suisei.metrics.registry import get_metric
        from suisei.scoring.columns import FAILURES, failure_text
        from suisei.scoring.fitting import fit_unrated

        try:
            metric = get_metric(plan.spec, **plan.options)
            if metric.needs_fit:
                fit_unrated(metric, samples)
            return [sentences(metric.explain(sample)) for sample in wanted]
        except FAILURES as error:
            return [[f"not explained: {failure_text(error)}"] for _ in wanted]

    return explain


def scored_column(
    plan: MetricPlan, samples: Sequence[CaptionSample], messages: Console, **settings: Any
) -> ScoreColumn:
    """Score samples with a metric, and say what failed.

    Args:
        plan: the metric.
        samples: the samples.
        messages: where to say it.
        settings: of :func:`suisei.scoring.columns.score_column`.
    """
    from suisei.scoring.columns import SHOWN_PROBLEMS, score_column

    column = score_column(plan, samples, progress=True, **settings)
    if column.error:
        say(messages, f"{plan.spec} failed: {column.error}", "red")
    for problem in column.problems[:SHOWN_PROBLEMS]:
        say(messages, f"{plan.spec} has no score: {problem}", "red")
    return column

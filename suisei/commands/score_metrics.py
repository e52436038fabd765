"""The metrics of ``suisei score``: made, fitted on the input, and given to one process or several."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from suisei.cli import say, threads_each
from suisei.commands.score_rows import read_rows, standard_input
from suisei.commands.score_shards import rows_to_fit
from suisei.data.file_rows import none_usable
from suisei.errors import ConfigError, DataError

if TYPE_CHECKING:
    from rich.console import Console

    from suisei.data.formats import Row
    from suisei.data.sample import CaptionSample
    from suisei.metrics.base import Metric
    from suisei.scoring.plan import MetricPlan
    from suisei.scoring.stream import Scorer


def make_metrics(
    plans: Sequence[MetricPlan], options: argparse.Namespace, console: Console
) -> tuple[dict[str, Metric], dict[str, MetricPlan], dict[str, str]]:
    """Make and fit the metrics; one that cannot be had ends the run before anything is scored.

    Returns:
        {label: metric}, {label: plan} and {label: signature}.
    """
    from suisei.scoring.columns import make_metric
    from suisei.scoring.fitting import fitted_signature
    from suisei.scoring.plan import short_labels

    labelled = dict(zip(short_labels(plans), plans, strict=True))
    metrics = {label: make_metric(plan) for label, plan in labelled.items()}
    unfitted = [label for label, metric in metrics.items() if metric.needs_fit]
    documents = _fit({label: metrics[label] for label in unfitted}, options, console) if unfitted else 0
    fitted = fitted_signature(documents) if unfitted else ""
    signatures = {
        label: metric.signature + (fitted if label in unfitted else "") for label, metric in metrics.items()
    }
    return metrics, labelled, signatures


def _fit(metrics: dict[str, Metric], options: argparse.Namespace, console: Console) -> int:
    """Fit metrics on the whole input's references, in a pass of its own; returns how many samples."""
    names = ", ".join(metrics)
    start = 0
    if options.once and not (options.input == "-" and standard_input().seekable()):
        what = "standard input" if options.input == "-" else options.input
        raise ConfigError(
            f"{names} must see all references before the first score, and {what} can be read "
            "only once; save it to a file and pass that"
        )
    if options.input == "-":
        start = sys.stdin.buffer.tell()
    from suisei.scoring.fitting import fit_metrics

    bad = _BadRows()

    def read() -> Iterator[CaptionSample]:
        if getattr(options, "tasks", None):
            return bad.left_out(rows_to_fit(options))
        if options.input == "-":
            sys.stdin.buffer.seek(start)
        return bad.left_out(read_rows(options))

    say(console, f"fitting {names} on the references of the whole input")
    try:
        documents = fit_metrics(metrics.values(), read)
    except DataError as error:
        raise bad.said_of(error) from None
    if options.input == "-":
        sys.stdin.buffer.seek(start)
    return documents


class _BadRows:
    """Leaves bad rows out of a pass, and says so where too few are left to learn from."""

    def __init__(self) -> None:
        self.rows = self.bad = 0
        self.first: DataError | None = None

    def left_out(self, rows: Iterable[Row]) -> Iterator[CaptionSample]:
        """Yield the samples of good rows, and count anew."""
        self.rows, self.bad, self.first = 0, 0, None
        try:
            for row in rows:
                self.rows += 1
                if row.sample is not None:
                    yield row.sample
                else:
                    self.bad, self.first = self.bad + 1, self.first or row.error
        except DataError:  # the file as a whole is unusable, and says why
            self.bad = 0
            raise

    def said_of(self, error: DataError) -> DataError:
        """Return an error of the pass with what was wrong with rows, which may be its cause."""
        if not self.bad:
            return error
        if self.bad == self.rows:
            return none_usable(self.bad, self.first)
        return DataError(
            f"{error}; {self.bad:,} of the {self.rows:,} rows are bad, the first problem: {self.first}"
        )


def basis_of(
    metrics: dict[str, Metric], plans: dict[str, MetricPlan], signatures: dict[str, str]
) -> dict[str, Any]:
    """Return what decides scores beside the signatures, for a later ``--resume`` to compare."""
    machine = ("device", "precision", "compile", "cache", "python")  # the signature has what matters of these
    chosen = {
        label: {key: value for key, value in plan.options.items() if key not in machine}
        for label, plan in plans.items()
    }
    learned = learned_of(metrics, signatures)
    return {"options of the metrics": chosen, "references in the input, which decide weights": learned}


def learned_of(metrics: dict[str, Metric], signatures: dict[str, str]) -> dict[str, str]:
    """Return {label: digest of what a metric was fitted to}, of those that were fitted on the input."""
    from suisei.scoring.digest import value_digest
    from suisei.scoring.fitting import is_fitted

    return {
        label: value_digest(metrics[label].state()) for label, text in signatures.items() if is_fitted(text)
    }


def make_scorer(
    metrics: dict[str, Metric],
    plans: dict[str, MetricPlan],
    devices: list[str | None],
    options: argparse.Namespace,
) -> Scorer:
    """Return what scores windows of rows: in this process, or in one per device."""
    from suisei.scoring.stream import Scorer

    name = "standard input" if options.input == "-" else options.input
    if len(devices) == 1:
        return Scorer(metrics, name, options.batch_size)
    from suisei.scoring.parallel import ParallelScorer, WorkerSettings

    states = {label: state for label, metric in metrics.items() if (state := metric.state())}
    worker = WorkerSettings(plans, states, name, options.batch_size, threads_each(len(devices)))
    return ParallelScorer(metrics, worker, devices)

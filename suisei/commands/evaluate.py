"""``suisei evaluate``: how well metrics agree with human ratings, and how sure that is."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.cli import table_console
from suisei.commands.options import (
    CommandParser,
    add_data_options,
    add_metric_options,
    filled,
    metric_plans,
    positive,
    resamples,
    seed,
)
from suisei.data.outputs import check_media, check_outputs, given, raise_first, write_texts
from suisei.errors import ConfigError, DataError

if TYPE_CHECKING:
    from rich.console import Console

    from suisei.data.sample import CaptionSample
    from suisei.metaeval.protocols import Measured, Protocol
    from suisei.metaeval.settings import EvaluationSettings
    from suisei.metaeval.tables import Table
    from suisei.scoring.columns import ScoreColumn
    from suisei.scoring.fitting import Corpus
    from suisei.scoring.plan import MetricPlan

_FILES = ("json", "markdown", "latex", "save_scores")

_EPILOG = """examples:
  suisei evaluate --model runs/scenes/model --data runs/scenes/test.jsonl --json out.json
  suisei evaluate --metrics bleu-4,cider,clip-s --data flickr8k-expert --root DIR --compare
  suisei evaluate --metrics clip-s,ref-clip-s --data ratings.csv --images DIR --cache features
  suisei evaluate --metrics cider --scores mine.jsonl --data ratings.csv --rating-scale 1 5
  suisei evaluate --metrics em-score,ref-em-score --data vatex-eval --root DIR --images VIDEOS

Benchmarks with ratings: scenes (the bundled sample), shichimi, pfn-pic-gen, flickr8k-expert, flickr8k-cf,
composite, polaris, nebula, capeval1k, jsts; thumb and longcap-arena (several scales) and vatex-eval (videos;
tau-b and Spearman's rho with 0, 1 and 9 references) add tables of their own. With pairs, of which accuracy
is measured: pascal-50s, abstract-50s, iiw-400, foil (1 and 4 references), nocaps-foil, sugarcrepe, valse and
activitynet-foil (paragraphs on videos). With hallucinations to find (average precision): hat, nocaps-foil.
data/README.md of the project says where each comes from.

Exit status: 0, or 1 if a metric failed (its row says why, the others are complete) or, without
--on-error skip, has no score for a sample whose image or video cannot be read, or 2 for a wrong
option or unusable data."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    _check(options)
    from rich.console import Console

    from suisei.encoders.sharing import shared_encoders
    from suisei.metaeval.protocols import Evaluation, protocol_of
    from suisei.scoring.columns import column_notes, refused_samples
    from suisei.scoring.fitting import protocol_corpus
    from suisei.scoring.scorefile import join_columns

    protocol, settings = protocol_of(options.data), _settings(options)
    protocol.check(options.data, settings, compare=options.compare)
    plans = metric_plans(options)
    messages = Console(stderr=True)
    samples, positions, loaded, notes = _load(options)
    check_media(given(vars(options), *_FILES, "plot"), samples)
    with shared_encoders():
        corpus = protocol_corpus(options.data, options.root, plans)
        columns = _score(plans, samples, corpus, options, messages)
        further, problems = _further_columns(protocol, plans, columns, samples, corpus, options, messages)
    external, join_notes = join_columns(options.scores, samples, loaded, positions, columns)
    columns += external
    notes += problems + join_notes + column_notes(columns)
    unwritten = _save_scores(options.save_scores, samples, columns) if options.save_scores else []
    measured = protocol.measure(
        Evaluation(options.data, samples, columns, external, further),
        settings,
        partial(_progress, messages),
        compare=options.compare,
    )
    table = measured.table
    meta = {**_meta(options, samples), **refused_samples(columns, samples), **table.meta}
    measured = replace(measured, table=replace(table, notes=(*table.notes, *notes), meta=meta))
    unwritten += _write(options, measured, protocol.plotted(settings))
    _show([measured.table, *measured.others.values()])
    raise_first(unwritten)
    return 1 if any(_has_failed(column, options) for column in columns) else 0


def _settings(options: argparse.Namespace) -> EvaluationSettings:
    from suisei.metaeval.settings import EvaluationSettings

    return EvaluationSettings(
        raters=options.raters,
        averaging=options.averaging,
        n_resamples=options.bootstrap,
        seed=options.seed,
        correlation=options.correlation,
        unit=options.swap_unit,
        published=options.published,
    )


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="suisei evaluate",
        description="Measure how well metrics agree with human ratings.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument_group("metrics").add_argument
    add_metric_options(add)
    add(
        "--scores", metavar="FILE", type=filled, action="append", default=[],
        help="JSONL or CSV of scores, a row per sample, joined by id, or FLEUR's own .txt, joined by image "
        "and caption; each column becomes a row (higher must be better)",
    )  # fmt: skip
    add("--batch-size", type=positive, default=64, metavar="N", help="samples at once (default 64)")
    add = parser.add_argument_group("data").add_argument
    add(
        "--data",
        metavar="NAME_OR_FILE",
        type=filled,
        required=True,
        help="a benchmark's name (below), or a file of ratings",
    )
    add_data_options(add)
    add = parser.add_argument_group("figures").add_argument
    add(
        "--raters", choices=("rows", "mean"), default="rows",
        help="each rating its own row (default), or a sample's ratings averaged first",
    )  # fmt: skip
    add(
        "--averaging", choices=("pooled", "item", "system"), default="pooled",
        help="all rows at once (default), per image then averaged, or means per system",
    )  # fmt: skip
    add(
        "--correlation", choices=("pearson", "spearman", "tau-b", "tau-c"), default="tau-c",
        help="for --compare and --plot (default tau-c); the table has all four",
    )  # fmt: skip
    add(
        "--bootstrap",
        type=resamples,
        default=1000,
        metavar="N",
        help="resamples; 0: no intervals (default 1000)",
    )
    add("--compare", action="store_true", help="test every pair of metrics, and rank them in clusters")
    add(
        "--published", action=argparse.BooleanOptionalAction, default=True,
        help="show what papers report for a known benchmark beside the same figures here (default: yes)",
    )  # fmt: skip
    add("--swap-unit", choices=("item", "group"), default="item", help="what the test swaps (default item)")
    add("--seed", type=seed, default=0, help="of all resampling (default 0)")
    add = parser.add_argument_group("output").add_argument
    add("--json", metavar="FILE", type=filled, help="everything, at full precision")
    add("--markdown", metavar="FILE", type=filled, help="the tables as Markdown")
    add("--latex", metavar="FILE", type=filled, help="the tables as LaTeX (booktabs)")
    add("--plot", metavar="FILE", type=filled, help="PNG of the metrics with their intervals")
    add(
        "--save-idf", metavar="DIR", type=filled,
        help="the idf weights that metrics learn from captions, a file each",
    )  # fmt: skip
    add(
        "--save-scores", metavar="FILE", type=filled,
        help="JSONL or CSV of every metric's score of every sample",
    )  # fmt: skip
    return parser


def _check(options: argparse.Namespace) -> None:
    """Refuse what would fail only after hours of scoring."""
    if not (options.model or options.metrics or options.scores):
        raise ConfigError("nothing to evaluate; give --model DIR, --metrics NAMES or --scores FILE")
    if options.compare and not options.bootstrap:
        raise ConfigError("--compare needs resamples; leave out --bootstrap 0")
    named = vars(options)
    check_outputs(
        given(named, *_FILES),
        given(named, "data", "scores"),
        pictures=given(named, "plot"),
        folders=given(named, "save_idf"),
        sealed=given(named, "model", "root"),
    )
    if options.save_scores and Path(options.save_scores).suffix not in (".jsonl", ".csv"):
        raise ConfigError(f"--save-scores {options.save_scores}: must end in .jsonl or .csv")


def _load(options: argparse.Namespace) -> tuple[list[CaptionSample], list[int], int, list[str]]:
    """Return the rated samples, their positions among those loaded, that number, and notes."""
    from suisei.data.load import load_data

    skipped: list[Any] = []
    scale = tuple(options.rating_scale) if options.rating_scale else None
    samples = load_data(
        options.data, root=options.root, images=options.images, rating_scale=scale,
        on_error=options.on_error, skipped=skipped,
    )  # fmt: skip
    positions = [position for position, sample in enumerate(samples) if sample.rating is not None]
    if not positions:
        raise DataError(f"{options.data}: none of its {len(samples)} samples is rated")
    notes = []
    if skipped:
        notes.append(f"{len(skipped)} bad rows skipped, the first: {skipped[0].error}")
    if len(positions) < len(samples):
        notes.append(f"{len(samples) - len(positions)} samples skipped: no rating")
    return [samples[position] for position in positions], positions, len(samples), notes


def _score(
    plans: list[MetricPlan],
    samples: list[CaptionSample],
    corpus: Corpus | None,
    options: argparse.Namespace,
    messages: Console,
) -> list[ScoreColumn]:
    columns = []
    for number, plan in enumerate(plans, start=1):
        _say(messages, f"scoring {len(samples):,} samples with {plan.spec} ({number} of {len(plans)})")
        folder = Path(options.save_idf) if options.save_idf else None
        columns.append(_score_one(plan, samples, corpus, folder, options, messages))
    return columns


def _score_one(
    plan: MetricPlan,
    samples: Sequence[CaptionSample],
    corpus: Corpus | None,
    idf_folder: Path | None,
    options: argparse.Namespace,
    messages: Console,
) -> ScoreColumn:
    from suisei.scoring.columns import SHOWN_PROBLEMS, score_column

    column = score_column(
        plan,
        samples,
        batch_size=options.batch_size,
        progress=messages.is_terminal,
        corpus=corpus,
        idf_folder=idf_folder,
    )
    if column.error:
        _say(messages, f"{plan.spec} failed: {column.error}", "red")
    for problem in column.problems[:SHOWN_PROBLEMS]:
        _say(messages, f"{plan.spec} has no score: {problem}", "red")
    return column


def _say(messages: Console, text: str, style: str | None = None) -> None:
    messages.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def _further_columns(
    protocol: Protocol,
    plans: list[MetricPlan],
    columns: list[ScoreColumn],
    samples: list[CaptionSample],
    corpus: Corpus | None,
    options: argparse.Namespace,
    messages: Console,
) -> tuple[Mapping[int | None, Sequence[ScoreColumn]], list[str]]:
    def score(plan: MetricPlan, fewer: Sequence[CaptionSample], count: int) -> ScoreColumn:
        _say(messages, f"scoring {len(fewer):,} samples with {plan.spec}, references: {count}")
        return _score_one(plan, fewer, corpus, None, options, messages)

    return protocol.further_columns(plans, columns, samples, score)


def _has_failed(column: ScoreColumn, options: argparse.Namespace) -> bool:
    return bool(column.error or (column.refused and options.on_error == "raise"))


def _save_scores(path: str, samples: list[CaptionSample], columns: list[ScoreColumn]) -> list[DataError]:
    from suisei.scoring.scorefile import write_scores

    try:
        write_scores(path, samples, {c.label: c.scores for c in columns if c.scores is not None})
    except DataError as error:  # what follows from the scores is not to be lost as well
        return [error]
    return []


@contextmanager
def _progress(console: Console, what: str) -> Iterator[Callable[[int, int], None]]:
    from rich.progress import Progress

    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _meta(options: argparse.Namespace, samples: list[CaptionSample]) -> dict[str, Any]:
    names = ("data", "root", "images", "rating_scale", "on_error", "tokenizer", "metric_option", "batch_size")
    return {"command": {name: getattr(options, name) for name in names}, "rated_samples": len(samples)}


def _write(options: argparse.Namespace, measured: Measured, plotted: str) -> list[DataError]:
    """Write the files that were asked for; returns what went wrong."""
    import json

    from suisei.metaeval.plots import plot_table

    table, others, comparison = measured.table, measured.others, measured.comparison
    tables = [table, *others.values()]
    content = {**table.as_dict(), **{name: other.as_dict() for name, other in others.items()}}
    if comparison:
        content["comparison"]["ranks"] = comparison.ranks
    texts = [
        (options.json, json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False) + "\n"),
        (options.markdown, "\n".join(each.to_markdown() for each in tables)),
        (options.latex, "\n".join(each.to_latex() for each in tables)),
    ]
    problems = write_texts(texts)
    if options.plot:
        try:
            plot_table(options.plot, table, plotted)
        except DataError as error:
            problems.append(error)
    return problems


def _show(tables: list[Table]) -> None:
    console = table_console()
    for table in tables:
        if table.overall.rows:
            console.print(table.to_rich())

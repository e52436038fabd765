"""``suisei evaluate``: how well metrics agree with human ratings, and how sure that is."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.cli import counted, say
from suisei.commands.allowances import add_web_option
from suisei.commands.command_parser import Add, CommandParser
from suisei.commands.metric_options import add_metric_options, metric_plans, take_default_model
from suisei.commands.option_values import filled
from suisei.commands.options import (
    add_correlation_option,
    add_data_options,
    add_log_options,
    add_resampling_options,
    named_columns,
    resampling_counts,
)
from suisei.commands.reports import (
    Files,
    Report,
    Shown,
    add_report_options,
    check_report,
    report_files,
    save_scores,
)
from suisei.commands.steps import (
    add_keep_option,
    keeper,
    read_samples,
    scored_column,
    told_when_interrupted,
)
from suisei.data.caption_notes import caption_notes
from suisei.data.outputs import check_media, given
from suisei.errors import ConfigError, DataError
from suisei.metrics.training_data import seen_notes

if TYPE_CHECKING:
    from rich.console import Console

    from suisei.data.formats import Row
    from suisei.data.sample import CaptionSample
    from suisei.metaeval.protocol import Measured, Protocol
    from suisei.metaeval.settings import EvaluationSettings
    from suisei.metaeval.tables import Table
    from suisei.report.parts import Rated
    from suisei.scoring.columns import ScoreColumn
    from suisei.scoring.fitting import Corpus
    from suisei.scoring.plan import MetricPlan
    from suisei.scoring.scorefile import Among

_COMMON = (
    "--model", "--metrics", "--data", "--root", "--images", "--rating-scale", "--column", "--compare",
    "--json", "--plot",
)  # fmt: skip
_EPILOG = """examples:
  suisei evaluate --model runs/scenes/model --data runs/scenes/test.jsonl --json out.json
  suisei evaluate --metrics bleu-4,cider,clip-s --data flickr8k-expert --root DIR --compare
  suisei evaluate --metrics clip-s,ref-clip-s --data ratings.csv --images DIR --cache features
  suisei evaluate --metrics cider --scores mine.jsonl --data ratings.csv --rating-scale 1 5
  suisei evaluate --data ratings.csv --column candidate=my_caption --column rating=mos --references refs.json
  suisei evaluate --metrics em-score,ref-em-score --data vatex-eval --root DIR --images VIDEOS

Without --model, --metrics and --scores the model in the package is evaluated.

Benchmarks with ratings: scenes (the bundled sample), shichimi, pfn-pic-gen, flickr8k-expert, flickr8k-cf,
flickr8k-expert-all, composite, polaris, nebula, capeval1k, jsts; thumb and longcap-arena (several scales) and
vatex-eval (videos; tau-b and Spearman's rho with 0, 1 and 9 references) add tables of their own. With pairs,
of which accuracy is measured: pascal-50s, abstract-50s, iiw-400, foil (1 and 4 references), nocaps-foil,
sugarcrepe, valse and activitynet-foil (paragraphs on videos). With hallucinations to find (average
precision): hat, nocaps-foil.
data/README.md of the project says where each comes from.

Exit status: 0, or 1 if a metric failed (its row says why, the others are complete) or, without
--on-error skip, has no score for a sample whose image or video cannot be read, or 2 for a wrong
option or unusable data, or 130 for Ctrl-C."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    _check(options)
    from rich.console import Console

    from suisei.encoders.sharing import shared_encoders
    from suisei.metaeval.protocol import Evaluation
    from suisei.metaeval.protocols import protocol_of
    from suisei.metaeval.settings import Resampling
    from suisei.progress import counting_bar
    from suisei.report.parts import Rated
    from suisei.scoring.columns import (
        column_notes,
        distances,
        oriented_scores,
        refused_samples,
        sign_notes,
    )
    from suisei.scoring.fitting import protocol_corpus
    from suisei.scoring.scorefile import join_columns

    protocol, settings = protocol_of(options.data), _settings(options)
    protocol.check(options.data, settings, compare=options.compare)
    plans = metric_plans(options)
    labels = _labels(plans)
    messages = Console(stderr=True)
    samples, among, notes = _load(options, plans)
    check_media(report_files(options), samples)
    external, join_notes = join_columns(options.scores, samples, among, labels)
    if options.compare:
        settings = _for_tests(settings, options, comb(len(plans) + len(external), 2), messages)
    with shared_encoders():
        corpus = protocol_corpus(options.data, options.root, plans)
        columns = _score(plans, samples, corpus, options, messages)
        further, unscored = _further_columns(protocol, plans, columns, samples, corpus, options, messages)
    columns += external
    notes += unscored + join_notes + column_notes(columns)
    notes += sign_notes(columns) + _distance_notes(options, columns)
    saved = {column.label: column.scores for column in columns if column.scores is not None}
    problems = save_scores(options.save_scores, samples, saved)
    measured = protocol.measure(
        Evaluation(options.data, samples, columns, external, further, options.compare),
        settings,
        counting_bar,
    )
    table = measured.table
    plotted = protocol.plotted(settings)
    meta = {**_meta(options, samples), **refused_samples(columns, samples), **table.meta, "plotted": plotted}
    measured = replace(measured, table=replace(table, notes=(*table.notes, *notes), meta=meta))
    rated = Rated(samples, oriented_scores(columns), distances(columns))
    calibration = _calibration(options, settings, rated)
    report = _report(options, measured, calibration, plotted)
    tables = {"results": measured.table, **measured.others, **calibration}
    resampling = Resampling(settings.n_resamples, settings.seed)
    shown = Shown(measured.table.title, report.content, rated, plans=plans, resampling=resampling)
    report = replace(report, page=shown.writer(options, argv, "evaluate", tables))
    report.conclude(Files.of(options), problems)
    every = [*columns, *(column for own in further.values() for column in own)]
    return 1 if any(_has_failed(column, options) for column in every) else 0


def _settings(options: argparse.Namespace) -> EvaluationSettings:
    from suisei.metaeval.protocols import usual_settings

    usual, (resamples, _) = usual_settings(options.data), resampling_counts(options, 0)
    return replace(
        usual,
        raters=options.raters or usual.raters,
        averaging=options.averaging,
        n_resamples=resamples,
        seed=options.seed,
        correlation=options.correlation or usual.correlation,
        unit=options.swap_unit,
        published=options.published,
    )


def _for_tests(
    settings: EvaluationSettings, options: argparse.Namespace, pairs: int, messages: Console
) -> EvaluationSettings:
    """Return settings with permutations enough for the pairs, or say that those given are too few."""
    from suisei.metaeval.settings import ALPHA
    from suisei.metaeval.significance import too_few_permutations

    settings = replace(settings, n_permutations=resampling_counts(options, pairs)[1])
    for note in too_few_permutations(pairs, settings.permutations, ALPHA):
        say(messages, note)
    return settings


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="suisei evaluate",
        description="Measure how well metrics agree with human ratings.",
        epilog=_EPILOG,
        common=_COMMON,
    )
    add = parser.add_argument_group("metrics").add_argument
    add_metric_options(add)
    add(
        "--scores", metavar="FILE[:COLUMN,...]", type=filled, action="append", default=[],
        help="JSONL or CSV of scores, a row per sample, joined by id, or FLEUR's own .txt, joined by image "
        "and caption; each column becomes a row (higher must be better), or those that are named",
    )  # fmt: skip
    add = parser.add_argument_group("data").add_argument
    add(
        "--data", metavar="NAME_OR_FILE", type=filled, required=True,
        help="a benchmark's name (below), or a file of ratings",
    )  # fmt: skip
    add_data_options(add)
    add_web_option(add)
    _add_figure_options(parser.add_argument_group("figures").add_argument)
    add = parser.add_argument_group("output").add_argument
    add_report_options(
        add,
        plot="the metrics with their intervals",
        scores="every metric's score of every sample",
        scopes=True,
    )
    add(
        "--save-idf", metavar="DIR", type=filled,
        help="the idf weights that metrics learn from captions, a file each",
    )  # fmt: skip
    add_keep_option(add)
    add_log_options(add)
    return parser


def _add_figure_options(add: Add) -> None:
    add(
        "--raters", choices=("rows", "mean"),
        help="each rating its own row, or a sample's ratings averaged first (default: as the benchmark's "
        "papers do, else rows)",
    )  # fmt: skip
    add(
        "--averaging", choices=("pooled", "item", "system"), default="pooled",
        help="all rows at once (default), per image then averaged, or means per system",
    )  # fmt: skip
    add_correlation_option(add, None, "--compare, --plot and --html")
    add("--compare", action="store_true", help="test every pair of metrics, and rank them in clusters")
    add(
        "--published", action=argparse.BooleanOptionalAction, default=True,
        help="show what papers report for a known benchmark beside the same figures here (default: yes)",
    )  # fmt: skip
    add(
        "--swap-unit", choices=("group", "item"), default="group",
        help="what --compare's test swaps: an image with all its captions (default), or each caption by "
        "itself, whose p-values are too small where images have several",
    )  # fmt: skip
    add_resampling_options(
        add, none="no intervals and no tests", what="resamples, and permutations of --compare", tests=True
    )


def _check(options: argparse.Namespace) -> None:
    """Refuse what would fail only after hours of scoring."""
    from suisei.scoring.score_columns import split_source

    if not options.scores:
        take_default_model(options)
    if options.compare and options.bootstrap == 0:
        raise ConfigError("--compare needs resamples; leave out --bootstrap 0")
    files = [str(split_source(source)[0]) for source in options.scores]
    inputs = given({**vars(options), "scores": files}, "data", "scores", "references")
    check_report(options, inputs, folders=["save_idf"], sealed=["model", "root"])


def _labels(plans: Sequence[MetricPlan]) -> list[str]:
    """Return what no column of scores may be called: the metrics' names, and that of the raters' row."""
    from suisei.metaeval.labels import HUMAN

    labels = [plan.label for plan in plans]
    if HUMAN in labels:
        raise ConfigError(f"a metric cannot be called {HUMAN!r}, as the row of the raters is")
    return [*labels, HUMAN]


def _load(
    options: argparse.Namespace, plans: Sequence[MetricPlan]
) -> tuple[list[CaptionSample], Among, list[str]]:
    """Return the samples that are measured, which rows of the data they are, and notes."""
    from suisei.data.benchmarks import BENCHMARKS
    from suisei.data.raters import raters_joined
    from suisei.metaeval.protocols import measured_places
    from suisei.metaeval.settings import FEW

    skipped: list[Row] = []
    samples, notes = read_samples(options, skipped)
    positions = measured_places(options.data, samples)
    if not positions:
        raise DataError(
            f"{options.data}: none of its {counted(len(samples), 'sample')} is rated; if a column holds "
            "ratings, name it: --column rating=NAME"
        )
    if len(positions) < len(samples):
        notes.append(f"{counted(len(samples) - len(positions), 'sample')} skipped: no rating")
    joined = raters_joined(options.data, [samples[position] for position in positions])
    rated, measured = joined.samples, len(positions)
    positions = [positions[row] for row in joined.rows]
    notes += [joined.note] if joined.note else []
    notes += [f"of the samples {note}" for note in caption_notes(rated)]
    if len(rated) < FEW:
        what = "rated samples" if all(sample.rating is not None for sample in rated) else "samples"
        notes.append(f"{what}: {len(rated)}; figures of fewer than {FEW} say little")
    seen = seen_notes({plan.label: plan.spec for plan in plans}, options.data)
    among = [(measured, joined.rows)] if joined.note else []
    among.append((len(samples), positions))
    if skipped and options.data not in BENCHMARKS:  # whose rows are numbered in files of their own
        bad = {row.number for row in skipped}
        rows = [row for row in range(len(samples) + len(bad)) if row + 1 not in bad]
        among.append((len(samples) + len(bad), [rows[position] for position in positions]))
    return rated, among, [*notes, *seen.values()]


def _score(
    plans: list[MetricPlan],
    samples: list[CaptionSample],
    corpus: Corpus | None,
    options: argparse.Namespace,
    messages: Console,
) -> list[ScoreColumn]:
    folder = Path(options.save_idf) if options.save_idf else None
    settings: dict[str, Any] = {"batch_size": options.batch_size, "corpus": corpus, "idf_folder": folder}
    columns: list[ScoreColumn] = []
    with told_when_interrupted(options, columns, len(plans)):
        for number, plan in enumerate(plans, start=1):
            say(
                messages,
                f"scoring {counted(len(samples), 'sample')} with {plan.spec} ({number} of {len(plans)})",
            )
            columns.append(scored_column(plan, samples, messages, keep=keeper(options), **settings))
    return columns


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
        say(messages, f"scoring {counted(len(fewer), 'sample')} with {plan.spec}, references: {count}")
        settings: dict[str, Any] = {"batch_size": options.batch_size, "corpus": corpus}
        return scored_column(plan, fewer, messages, keep=keeper(options), **settings)

    return protocol.further_columns(plans, columns, samples, score)


def _distance_notes(options: argparse.Namespace, columns: Sequence[ScoreColumn]) -> list[str]:
    """Say of distances that they are saved as such: ``--scores`` would take the worst for the best."""
    from suisei.scoring.columns import distances

    names = distances(columns)
    if not (names and options.save_scores):
        return []
    return [
        f"{', '.join(names)}: saved as the distance that it is, lower for the better; turn its sign before "
        "--scores reads it"
    ]


def _has_failed(column: ScoreColumn, options: argparse.Namespace) -> bool:
    return bool(column.error or (column.refused and options.on_error == "raise"))


def _meta(options: argparse.Namespace, samples: list[CaptionSample]) -> dict[str, Any]:
    names = ["data", "root", "images", "rating_scale", "on_error", "tokenizer", "metric_option", "batch_size"]
    names += ["references", "save_scores"]  # with them and the columns a report finds each sample's scores
    command = {name: getattr(options, name) for name in names} | {"columns": named_columns(options)}
    return {"command": command, "rated_samples": sum(sample.rating is not None for sample in samples)}


def _calibration(options: argparse.Namespace, settings: EvaluationSettings, rated: Rated) -> dict[str, Table]:
    """Return how far scores are from ratings, for the JSON and the page; nothing where none can say."""
    from suisei.metaeval.calibration import calibrate_metrics, calibration_table, is_graded

    wanted = options.json or options.html or options.figures
    if not wanted or not is_graded(rated.samples):
        return {}
    found = calibrate_metrics(
        rated.scores,
        rated.samples,
        distances=rated.distances,
        n_resamples=settings.n_resamples,
        seed=settings.seed,
    )
    on_scale = any(not isinstance(value, str) for value in found.values())
    return {"calibration": calibration_table(found)} if on_scale else {}


def _report(
    options: argparse.Namespace, measured: Measured, calibration: Mapping[str, Table], plotted: str
) -> Report:
    from suisei.metaeval.plots import plot_table

    table, others, comparison = measured.table, measured.others, measured.comparison
    further = {**others, **calibration}
    content = {**table.as_dict(), **{name: other.as_dict() for name, other in further.items()}}
    if comparison:
        content["comparison"]["ranks"] = comparison.ranks
    plot = partial(plot_table, options.plot, table, plotted) if options.plot else None
    return Report(content, [table, *others.values()], plot=plot)

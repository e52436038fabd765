"""``suisei compare``: captioning systems side by side, by any set of metrics, and how sure that is."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.cli import say
from suisei.commands.allowances import allowed
from suisei.commands.command_parser import CommandParser
from suisei.commands.metric_options import add_metric_options, metric_plans
from suisei.commands.option_values import filled, whole
from suisei.commands.options import (
    add_log_options,
    add_resampling_options,
    add_row_options,
    check_images,
    named_columns,
    resampling_counts,
)
from suisei.commands.reports import Files, Report, Shown, add_report_options, check_report, save_scores
from suisei.commands.steps import add_keep_option, keeper, scored_column, told_when_interrupted
from suisei.data.caption_notes import caption_notes
from suisei.data.outputs import given
from suisei.data.sample import plain_name
from suisei.errors import ConfigError, DataError

if TYPE_CHECKING:
    from rich.console import Console

    from suisei.data.system_outputs import Systems
    from suisei.metaeval.settings import Resampling
    from suisei.metaeval.systems import Example, MetricOutcome
    from suisei.metaeval.tables import Table
    from suisei.scoring.columns import ScoreColumn
    from suisei.scoring.plan import MetricPlan

DEFAULT_METRICS = "suisei,cider,bleu-4"

_COMMON = (
    "--references", "--column", "--images", "--model", "--metrics", "--bootstrap", "--json", "--markdown",
    "--latex", "--plot",
)  # fmt: skip
_EPILOG = """examples:
  suisei compare a.jsonl b.jsonl c.jsonl --markdown systems.md --plot systems.png
  suisei compare ours=run7/results.json baseline=run1/results.json \\
      --references captions_val2014.json --images val2014 --metrics suisei,cider,bleu-4
  suisei compare all.jsonl --metrics cider,spice            (its rows name their 'system')
  suisei compare a.txt b.txt --references ref1.txt --references ref2.txt

A system's file is JSONL, CSV, TSV or Parquet as for 'suisei score', a COCO result file, JSON of
{"image id": "caption"}, or text with a caption a line; .json, .jsonl, .csv, .tsv and .txt may end in .gz.
Systems are joined by the image's id (or 'group', or image file), else line by line, and compared on the
images that all of them have. CIDEr and other metrics that learn from a corpus are fitted once, on the
references of these images.

Exit status: 0, or 1 if a metric failed (the others are complete), or 2 for a wrong option or unusable
data, or 130 for Ctrl-C."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    _check_references(options.systems, sys.argv[1:] if argv is None else argv)
    _check(options)
    from rich.console import Console

    from suisei.data.system_outputs import load_systems
    from suisei.encoders.sharing import shared_encoders

    plans = metric_plans(options)
    messages = Console(stderr=True)
    systems = load_systems(
        options.systems,
        references=options.references,
        images=options.images,
        columns=named_columns(options),
        on_error=options.on_error,
        allowed=allowed(options),
    )
    plans = _with_references(plans, systems) if options.by_default else plans
    pair = _pair_shown(options, systems.names)
    for note in systems.notes:
        say(messages, note)
    human, unmatched = _human_scores(options.human, systems.names)
    settings = _resampling(options, len(systems.names))
    for note in [*unmatched, *_too_few(settings, len(systems.names))]:
        say(messages, note)
    with shared_encoders():
        columns = _score(plans, systems, options, messages)
    outcomes = _compare(columns, systems, settings)
    saved = {f"{each.label}/{name}": scores for each in outcomes for name, scores in each.scores.items()}
    problems = save_scores(options.save_scores, systems.samples[systems.names[0]], saved)
    notes = [*_notes(systems, columns, outcomes), *unmatched]
    examples = _examples(outcomes, systems, pair, options)
    found = _Findings(systems, outcomes, settings, notes, examples, human)
    report = found.report(options.plot)
    page = found.shown().writer(options, argv, "compare", found.named_tables())
    replace(report, page=page).conclude(Files.of(options), problems)
    return 1 if any(outcome.error for outcome in outcomes) else 0


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="suisei compare",
        description="Compare captioning systems: scores, intervals, tests, and where they differ.",
        epilog=_EPILOG,
        common=_COMMON,
    )
    parser.add_argument(
        "systems", nargs="+", metavar="[NAME=]FILE",
        help="captions of a system (its name: the file's), or one file whose rows name their systems",
    )  # fmt: skip
    add = parser.add_argument_group("data").add_argument
    add_row_options(add, images="where the images are (default: beside the file)", several=False)
    add_metric_options(parser.add_argument_group("metrics", f"default: {DEFAULT_METRICS}").add_argument)
    add(
        "--human", metavar="FILE", type=filled,
        help='JSON of {"system": score that people gave it}: metrics are correlated with it over systems',
    )  # fmt: skip
    add = parser.add_argument_group("figures").add_argument
    add_resampling_options(
        add, none="no intervals and no tests", what="resamples and permutations", tests=True
    )
    add(
        "--examples", type=whole(0, 1000), default=5, metavar="N",
        help="images, or captions where an image has several, per metric on which two systems differ most "
        "(default 5)",
    )  # fmt: skip
    add(
        "--examples-of", metavar="A,B", type=filled,
        help="the two systems of the examples (default: the first two)",
    )  # fmt: skip
    add_report_options(
        parser.add_argument_group("output").add_argument,
        tables="the tables and examples",
        plot="the systems with their intervals, a panel per metric",
        scores="a row per image, a column per metric and system",
    )
    add_keep_option(parser.add_argument)
    add_log_options(parser.add_argument)
    return parser


def _check_references(systems: Sequence[str], typed: Sequence[str]) -> None:
    """Refuse a file behind that of --references, and systems before: it may be meant for either."""
    for place, word in enumerate(typed):
        option, given, _ = word.partition("=")
        behind = typed[place + (1 if given else 2) :][:1]
        if option == "--references" and set(behind) & set(systems) and set(typed[:place]) & set(systems):
            raise ConfigError(
                f"{behind[0]} stands behind the file of --references: if it is references too, give "
                f"--references {behind[0]}; if it is a system, name it before --references"
            )


def _check(options: argparse.Namespace) -> None:
    """Refuse what would fail only after hours of scoring."""
    options.by_default = not (options.model or options.metrics)
    if options.by_default:
        options.metrics = [DEFAULT_METRICS]
    check_images(options)
    from suisei.data.system_files import named_files

    inputs = [*given(vars(options), "references", "human"), *named_files(options.systems)]
    check_report(options, inputs, sealed=["model"])


def _with_references(plans: Sequence[MetricPlan], systems: Systems) -> list[MetricPlan]:
    """Return the default metrics; where there are no references, those that do without."""
    from suisei.metrics.registry import get_entry

    there = any(sample.references for each in systems.samples.values() for sample in each)
    return [plan for plan in plans if there or "references" not in get_entry(plan.spec).needs]


def _pair_shown(options: argparse.Namespace, names: Sequence[str]) -> tuple[str, str]:
    """Return the two systems of the examples."""
    if options.examples_of is None:
        return names[0], names[1]
    chosen = [plain_name(name) for name in options.examples_of.split(",")]
    unknown = [name for name in chosen if name not in names]
    if len(set(chosen)) != 2 or len(chosen) != 2 or unknown:
        raise ConfigError(f"--examples-of {options.examples_of}: give two of {', '.join(names)} as A,B")
    return chosen[0], chosen[1]


def _human_scores(path: str | None, names: Sequence[str]) -> tuple[dict[str, float], list[str]]:
    """Return people's scores of the systems, none without a file, and which are of one side alone."""
    if path is None:
        return {}, []
    from suisei.data.json_files import read_object
    from suisei.metaeval.system_agreement import checked_human_scores

    try:
        found = read_object(Path(path), unique=True)
    except DataError as error:
        raise DataError(f'--human takes JSON of {{"system": score}}: {error}') from None
    human = checked_human_scores(found, names, f"--human {path}")
    sides = {
        "people's scores of no system here": [name for name in found if plain_name(name) not in human],
        "systems without people's score": [name for name in names if name not in human],
    }
    return human, [f"--human: {what}: {', '.join(alone):.200}" for what, alone in sides.items() if alone]


def _resampling(options: argparse.Namespace, systems: int) -> Resampling:
    from suisei.metaeval.settings import Resampling

    resamples, permutations = resampling_counts(options, comb(systems, 2))
    return Resampling(resamples, options.seed, n_permutations=permutations)


def _too_few(settings: Resampling, systems: int) -> list[str]:
    """Return what the table will say of too few permutations, while the number can still be changed."""
    from suisei.metaeval.settings import ALPHA
    from suisei.metaeval.significance import too_few_permutations

    few = too_few_permutations(comb(systems, 2), settings.permutations, ALPHA)
    return few if settings.n_resamples else []


def _score(
    plans: Sequence[MetricPlan], systems: Systems, options: argparse.Namespace, messages: Console
) -> list[ScoreColumn]:
    """Score all systems with each metric, which is fitted once, on every image's references."""
    from suisei.scoring.fitting import documents
    from suisei.scoring.plan import short_labels

    samples = [sample for each in systems.samples.values() for sample in each]
    settings = {"batch_size": options.batch_size, "shared": documents(systems.samples.values())}
    columns: list[ScoreColumn] = []
    with told_when_interrupted(options, columns, len(plans)):
        for number, (label, plan) in enumerate(zip(short_labels(plans), plans, strict=True), start=1):
            what = f"{len(systems.names)} systems on {systems.size} with {plan.spec}"
            say(messages, f"scoring {what} ({number} of {len(plans)})")
            column = scored_column(plan, samples, messages, keep=keeper(options), **settings)
            columns.append(replace(column, label=label))
    return columns


def _compare(columns: Sequence[ScoreColumn], systems: Systems, settings: Resampling) -> list[MetricOutcome]:
    from suisei.metaeval.systems import compare_systems
    from suisei.progress import progress_bar

    with progress_bar("comparing", len(columns)) as advance:
        return compare_systems(columns, systems.names, settings, advance, systems.images)


def _notes(systems: Systems, columns: Sequence[ScoreColumn], outcomes: Sequence[MetricOutcome]) -> list[str]:
    from suisei.scoring.columns import column_notes

    notes = [*systems.notes, *_caption_notes(systems), *column_notes(columns)]
    total = len(systems.keys)
    what = "images" if len(set(systems.images)) == total else "captions"
    notes += [
        f"{outcome.label}: compared on the {outcome.n:,} of {total:,} {what} that all systems have a score of"
        for outcome in outcomes
        if 0 < outcome.n < total
    ]
    return [*notes, *(f"{column.label}: {column.signature}" for column in columns if column.signature)]


def _caption_notes(systems: Systems) -> list[str]:
    notes = {name: caption_notes(systems.samples[name]) for name in systems.names}
    return [f"{name}: of its captions {note}" for name, own in notes.items() for note in own]


def _examples(
    outcomes: Sequence[MetricOutcome], systems: Systems, pair: tuple[str, str], options: argparse.Namespace
) -> dict[str, list[Example]]:
    from suisei.metaeval.systems import most_different

    return {
        outcome.label: most_different(outcome, systems.samples, pair, options.examples)
        for outcome in outcomes
    }


@dataclass(frozen=True, slots=True)
class _Findings:
    """What is shown and written at the end."""

    systems: Systems
    outcomes: Sequence[MetricOutcome]
    settings: Resampling
    notes: Sequence[str]
    examples: Mapping[str, list[Example]]
    human: Mapping[str, float]

    @property
    def title(self) -> str:
        return f"Captioning systems on {self.systems.size}"

    def named_tables(self) -> dict[str, Table]:
        """Return the table of systems, and those of pairs and of people's scores where there are any."""
        from suisei.metaeval.system_tables import pair_table, system_table

        agreement = self.agreement()
        tables = {
            "systems": system_table(self.outcomes, self.systems.names, self.title, self.notes),
            "pairs": pair_table(self.outcomes, self.settings),
        }
        shown = {name: table for name, table in tables.items() if table.sections}
        return shown | ({"human": agreement} if agreement else {})

    def agreement(self) -> Table | None:
        """Return how metrics agree with people's scores of the systems, where there are some."""
        from suisei.metaeval.system_agreement import agreement_table, system_agreements

        return agreement_table(system_agreements(self.outcomes, self.human, self.settings.seed))

    def shown(self) -> Shown:
        """Return what a page shows beside the tables: the images on which two systems differ."""
        from suisei.report.examples import difference_cards

        pictures = {str(s.id): s.image for s in self.systems.samples[self.systems.names[0]]}
        cards = [difference_cards(label, found, pictures) for label, found in self.examples.items() if found]
        return Shown(self.title, self.content(), cards=cards)

    def report(self, plot: str | None) -> Report:
        """Return the report; its figure where there is something to show."""
        from suisei.metaeval.system_tables import example_lines, example_markdown

        drawn = any(outcome.systems for outcome in self.outcomes)
        return Report(
            self.content(),
            list(self.named_tables().values()),
            ending=example_markdown(self.examples),
            lines=list(example_lines(self.examples)),
            plot=partial(self.plot, plot) if plot and drawn else None,
        )

    def plot(self, path: str) -> None:
        """Write the figure, a panel per metric."""
        from suisei.metaeval.plots import plot_dots
        from suisei.metaeval.system_tables import score_table

        table = score_table(self.outcomes, self.title)
        plot_dots(path, table, "score", line=None, figures=True)

    def content(self) -> dict[str, Any]:
        """Return what the JSON file holds."""
        from suisei.metaeval.settings import ALPHA, CONFIDENCE
        from suisei.metaeval.system_tables import as_dict
        from suisei.version import __version__

        settings, agreement = self.settings, self.agreement()
        return {
            "suisei": __version__,
            "systems": self.systems.names,
            "images": len(set(self.systems.images)),
            "captions": len(self.systems.keys),
            "resampling": {
                "resamples": settings.n_resamples,
                "permutations": settings.permutations,
                "seed": settings.seed,
                "confidence": CONFIDENCE,
                "alpha": ALPHA,
            },
            "metrics": [as_dict(outcome, self.examples[outcome.label]) for outcome in self.outcomes],
            "notes": list(self.notes),
            **({"human": agreement.as_dict()} if agreement else {}),
            "tables": {name: table.as_dict() for name, table in self.named_tables().items()},
        }

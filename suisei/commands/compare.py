"""``suisei compare``: captioning systems side by side, by any set of metrics, and how sure that is."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.cli import table_console
from suisei.commands.options import (
    CommandParser,
    add_metric_options,
    filled,
    metric_plans,
    positive,
    resamples,
    seed,
    whole,
)
from suisei.data.outputs import check_outputs, given, raise_first, write_texts
from suisei.errors import ConfigError, DataError

if TYPE_CHECKING:
    from rich.console import Console

    from suisei.data.system_outputs import Systems
    from suisei.metaeval.systems import Example, MetricOutcome, Resampling
    from suisei.metaeval.tables import Table
    from suisei.scoring.columns import ScoreColumn
    from suisei.scoring.plan import MetricPlan

DEFAULT_METRICS = "suisei,cider,bleu-4"

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
data."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    _check(options)
    from rich.console import Console

    from suisei.data.system_outputs import load_systems
    from suisei.encoders.sharing import shared_encoders
    from suisei.metaeval.systems import Resampling

    plans = metric_plans(options)
    messages = Console(stderr=True)
    systems = load_systems(
        options.systems, references=options.references, images=options.images, on_error=options.on_error
    )
    pair = _pair_shown(options, systems.names)
    for note in systems.notes:
        _say(messages, note)
    with shared_encoders():
        columns = _score(plans, systems, options, messages)
    settings = Resampling(options.bootstrap, options.seed)
    outcomes = _compare(columns, systems, settings, messages)
    problems = _save_scores(options.save_scores, systems, outcomes) if options.save_scores else []
    report = _Report(
        systems,
        outcomes,
        settings,
        _notes(systems, columns, outcomes),
        _examples(outcomes, systems, pair, options),
    )
    problems += report.write(options)
    report.show()
    raise_first(problems)
    return 1 if any(outcome.error for outcome in outcomes) else 0


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="suisei compare",
        description="Compare captioning systems: scores, intervals, tests, and where they differ.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "systems", nargs="+", metavar="[NAME=]FILE",
        help="captions of a system (its name: the file's), or one file whose rows name their systems",
    )  # fmt: skip
    add = parser.add_argument_group("data").add_argument
    add(
        "--references", metavar="FILE", action="append", default=[],
        help="COCO annotations, JSON or JSONL of references by image id, or text, once per reference "
        "(default: the rows' own)",
    )  # fmt: skip
    add("--images", metavar="DIR", type=filled, help="where the images are")
    add("--on-error", choices=("raise", "skip"), default="raise", help="what a bad row does (default raise)")
    add = parser.add_argument_group("metrics", f"default: {DEFAULT_METRICS}").add_argument
    add_metric_options(add)
    add("--batch-size", type=positive, default=64, metavar="N", help="samples at once (default 64)")
    add = parser.add_argument_group("figures").add_argument
    add(
        "--bootstrap", type=resamples, default=1000, metavar="N",
        help="resamples and permutations; 0: no intervals and no tests (default 1000)",
    )  # fmt: skip
    add("--seed", type=seed, default=0, help="of all resampling (default 0)")
    add(
        "--examples", type=whole(0, 1000), default=5, metavar="N",
        help="images per metric on which two systems differ most (default 5)",
    )  # fmt: skip
    add(
        "--examples-of",
        metavar="A,B",
        type=filled,
        help="the two systems of the examples (default: the first two)",
    )
    add = parser.add_argument_group("output").add_argument
    add(
        "--json", metavar="FILE", type=filled, help="everything, in the metrics' own units, at full precision"
    )
    add("--markdown", metavar="FILE", type=filled, help="the tables and examples as Markdown")
    add("--latex", metavar="FILE", type=filled, help="the tables as LaTeX (booktabs)")
    add(
        "--plot",
        metavar="FILE",
        type=filled,
        help="PNG of the systems with their intervals, a panel per metric",
    )
    add(
        "--save-scores",
        metavar="FILE",
        type=filled,
        help="JSONL or CSV: a row per image, a column per metric and system",
    )
    return parser


def _check(options: argparse.Namespace) -> None:
    """Refuse what would fail only after hours of scoring."""
    if not (options.model or options.metrics):
        options.metrics = [DEFAULT_METRICS]
    if options.images and not Path(options.images).is_dir():
        raise ConfigError(f"--images {options.images}: no such folder")
    from suisei.data.system_outputs import named_files

    named = vars(options)
    check_outputs(
        given(named, "json", "markdown", "latex", "save_scores"),
        [*given(named, "references"), *named_files(options.systems)],
        pictures=given(named, "plot"),
        sealed=given(named, "model"),
    )
    if options.save_scores and Path(options.save_scores).suffix not in (".jsonl", ".csv"):
        raise ConfigError(f"--save-scores {options.save_scores}: must end in .jsonl or .csv")


def _pair_shown(options: argparse.Namespace, names: Sequence[str]) -> tuple[str, str]:
    """Return the two systems of the examples."""
    if options.examples_of is None:
        return names[0], names[1]
    chosen = [name.strip() for name in options.examples_of.split(",")]
    unknown = [name for name in chosen if name not in names]
    if len(set(chosen)) != 2 or len(chosen) != 2 or unknown:
        raise ConfigError(f"--examples-of {options.examples_of}: give two of {', '.join(names)} as A,B")
    return chosen[0], chosen[1]


def _score(
    plans: Sequence[MetricPlan], systems: Systems, options: argparse.Namespace, messages: Console
) -> list[ScoreColumn]:
    """Score all systems with each metric, which is fitted once, on every image's references."""
    from suisei.scoring.columns import SHOWN_PROBLEMS, score_column
    from suisei.scoring.plan import short_labels

    samples = [sample for each in systems.samples.values() for sample in each]
    columns = []
    for number, (label, plan) in enumerate(zip(short_labels(plans), plans, strict=True), start=1):
        what = f"{len(systems.names)} systems on {len(systems.images):,} images with {plan.spec}"
        _say(messages, f"scoring {what} ({number} of {len(plans)})")
        column = score_column(
            plan,
            samples,
            batch_size=options.batch_size,
            progress=messages.is_terminal,
            shared=systems.samples[systems.names[0]],
        )
        if column.error:
            _say(messages, f"{plan.spec} failed: {column.error}", "red")
        for problem in column.problems[:SHOWN_PROBLEMS]:
            _say(messages, f"{plan.spec} has no score: {problem}", "red")
        columns.append(replace(column, label=label))
    return columns


def _compare(
    columns: Sequence[ScoreColumn], systems: Systems, settings: Resampling, messages: Console
) -> list[MetricOutcome]:
    from suisei.metaeval.systems import compare_systems
    from suisei.progress import progress_bar

    with progress_bar("comparing", len(columns), shown=messages.is_terminal) as advance:
        return compare_systems(columns, systems.names, settings, advance)


def _notes(systems: Systems, columns: Sequence[ScoreColumn], outcomes: Sequence[MetricOutcome]) -> list[str]:
    from suisei.scoring.columns import column_notes

    notes = [*systems.notes, *column_notes(columns)]
    total = len(systems.images)
    notes += [
        f"{outcome.label}: compared on the {outcome.n:,} of {total:,} images that all systems have a score of"
        for outcome in outcomes
        if 0 < outcome.n < total
    ]
    return [*notes, *(f"{column.label}: {column.signature}" for column in columns if column.signature)]


def _examples(
    outcomes: Sequence[MetricOutcome], systems: Systems, pair: tuple[str, str], options: argparse.Namespace
) -> dict[str, list[Example]]:
    from suisei.metaeval.systems import most_different

    return {
        outcome.label: most_different(outcome, systems.samples, pair, options.examples)
        for outcome in outcomes
    }


def _save_scores(path: str, systems: Systems, outcomes: Sequence[MetricOutcome]) -> list[DataError]:
    from suisei.scoring.scorefile import write_scores

    named = {
        f"{outcome.label}/{name}": scores for outcome in outcomes for name, scores in outcome.scores.items()
    }
    try:
        write_scores(path, systems.samples[systems.names[0]], named)
    except DataError as error:  # what follows from the scores is not to be lost as well
        return [error]
    return []


def _say(messages: Console, text: str, style: str | None = None) -> None:
    messages.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class _Report:
    """What is shown and written at the end."""

    systems: Systems
    outcomes: Sequence[MetricOutcome]
    settings: Resampling
    notes: Sequence[str]
    examples: Mapping[str, list[Example]]

    @property
    def title(self) -> str:
        return f"Captioning systems on {len(self.systems.images):,} images"

    def tables(self) -> list[Table]:
        """Return the table of systems, and that of pairs where there are any."""
        from suisei.metaeval.system_tables import pair_table, system_table

        tables = [
            system_table(self.outcomes, self.systems.names, self.title, self.notes),
            pair_table(self.outcomes, self.settings),
        ]
        return [table for table in tables if table.sections]

    def show(self) -> None:
        """Print the tables and the examples."""
        from suisei.metaeval.system_tables import example_lines

        console = table_console()
        for table in self.tables():
            console.print(table.to_rich())
        for line in example_lines(self.examples):
            _say(console, line)

    def write(self, options: argparse.Namespace) -> list[DataError]:
        """Write the files that the options ask for; returns what went wrong."""
        from suisei.metaeval.system_tables import example_markdown

        tables = self.tables()
        markdown = [*(table.to_markdown() for table in tables), example_markdown(self.examples)]
        texts = [
            (options.json, json.dumps(self.content(), ensure_ascii=False, indent=2, allow_nan=False) + "\n"),
            (options.markdown, "\n".join(text for text in markdown if text)),
            (options.latex, "\n".join(table.to_latex() for table in tables)),
        ]
        problems = write_texts(texts)
        if options.plot and any(outcome.systems for outcome in self.outcomes):
            try:
                self.plot(options.plot)
            except DataError as error:
                problems.append(error)
        return problems

    def plot(self, path: str) -> None:
        """Write the figure, a panel per metric."""
        from suisei.metaeval.plots import plot_dots
        from suisei.metaeval.system_tables import score_table

        sure = f" with {self.settings.confidence:.0%} interval" if self.settings.n_resamples else ""
        table, heading = score_table(self.outcomes, self.title), f"corpus score{sure}"
        plot_dots(path, table, "score", line=None, heading=heading, figures=True)

    def content(self) -> dict[str, Any]:
        """Return what the JSON file holds."""
        from suisei.metaeval.system_tables import as_dict
        from suisei.version import __version__

        settings = self.settings
        return {
            "suisei": __version__,
            "systems": self.systems.names,
            "images": len(self.systems.images),
            "resampling": {
                "resamples": settings.n_resamples,
                "seed": settings.seed,
                "confidence": settings.confidence,
                "alpha": settings.alpha,
            },
            "metrics": [as_dict(outcome, self.examples[outcome.label]) for outcome in self.outcomes],
            "notes": list(self.notes),
        }

"""``suisei examine``: metrics on every benchmark and probe whose data is there, on one page."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from suisei.cli import counted, say
from suisei.commands.command_parser import CommandParser
from suisei.commands.metric_options import add_metric_options, metric_plans
from suisei.commands.option_values import filled, positive, whole
from suisei.commands.options import add_log_options, add_resampling_options
from suisei.commands.reports import Files, Report, Shown
from suisei.data.outputs import check_outputs, given
from suisei.errors import ConfigError, DataError

if TYPE_CHECKING:
    from rich.console import Console

    from suisei.data.sample import CaptionSample
    from suisei.examination.kept_columns import Candidate
    from suisei.examination.measures import Means, Measure
    from suisei.examination.places import Place
    from suisei.examination.probing import Probed
    from suisei.report.parts import Result

_EPILOG = """examples:
  suisei examine --metrics suisei,cider,bleu-4 --root DATA --output examination
  suisei examine --metrics cider --root DATA --benchmarks flickr8k-expert,pascal-50s

DATA holds a folder per data set, named as the benchmark (flickr8k, composite, pascal-50s, ...) or a clone of
the set's own repository, up to three folders deep; data/README.md of the project says where each comes from.
What is not there is left out, and the page says why. A second start with the same --output goes on where
the first was stopped, and computes anew only what has changed: a metric, a model's weights, a data set, an
option.

It writes report.html, examination.md and examination.json into the output folder, beside what is
kept for the next start.

Exit status: 0, or 1 if a metric failed somewhere (the others are complete), or 2 for a wrong option or no
usable data."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    names = _checked_names(options)
    from rich.console import Console

    from suisei.encoders.sharing import shared_encoders
    from suisei.examination.kept import Kept
    from suisei.examination.kept_columns import candidate_of
    from suisei.examination.measures import Means
    from suisei.metaeval.settings import EvaluationSettings

    plans, console = metric_plans(options), Console(stderr=True)
    settings = EvaluationSettings(n_resamples=options.bootstrap, seed=options.seed)
    kept = Kept(Path(options.output) / "kept")
    means = Means(
        kept,
        settings,
        options.batch_size,
        lambda text: say(console, text),
        lambda text: say(console, text, "red"),
    )
    with shared_encoders():
        candidates = [candidate_of(plan) for plan in plans]
        for candidate in candidates:
            if candidate.problem:
                means.warn(f"{candidate.label} failed: {candidate.problem}")
        measures, skipped = _measures(names, candidates, means, options, console)
    if not measures:
        raise DataError(f"{options.root}: no benchmark is there; {next(iter(skipped.values()), '')}")
    say(console, f"used of an earlier start: {counted(kept.reused, 'finished part')}")
    return _conclude(options, argv, candidates, measures, skipped)


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="suisei examine",
        description="Examine metrics on every benchmark and probe whose data is there.",
        epilog=_EPILOG,
    )
    add_metric_options(parser.add_argument_group("metrics").add_argument)
    add = parser.add_argument_group("data").add_argument
    add("--root", metavar="DIR", type=filled, required=True, help="the folder of all data sets")
    add("--benchmarks", metavar="A,B", type=filled, help="only these (default: all that are there)")
    add(
        "--probe-captions", type=whole(0, 100_000), default=500, metavar="N",
        help="captions per language that are degraded; 0: no probes (default 500)",
    )  # fmt: skip
    add = parser.add_argument_group("figures").add_argument
    add_resampling_options(add, none="no intervals, and nothing in bold")
    add(
        "--examples",
        type=whole(0, 200),
        default=4,
        metavar="N",
        help="best and worst predictions (default 4)",
    )
    add("--drawn", type=positive, default=3, metavar="N", help="metrics drawn beside ratings (default 3)")
    add = parser.add_argument_group("output").add_argument
    add(
        "--output", metavar="DIR", type=filled, default="examination",
        help="folder of the page and of what is kept (default examination)",
    )  # fmt: skip
    add("--figures", metavar="DIR", type=filled, help="the figures too, each as SVG, PDF and PNG")
    add_log_options(add)
    return parser


def _checked_names(options: argparse.Namespace) -> list[str]:
    """Return the benchmarks that are looked for, after refusing what would fail only after hours."""
    from suisei.data.benchmarks import BENCHMARKS

    if not (options.model or options.metrics):
        options.metrics = ["suisei"]
    if not Path(options.root).is_dir():
        raise ConfigError(f"--root {options.root}: no such folder")
    own = [name for name, benchmark in BENCHMARKS.items() if benchmark.ratings_of is None]
    named = [name.strip() for name in options.benchmarks.split(",")] if options.benchmarks else own
    unknown = [name for name in named if name not in BENCHMARKS]
    if unknown:
        raise ConfigError(
            f"--benchmarks {unknown[0]!r}: no such benchmark; there are {', '.join(BENCHMARKS)}"
        )
    check_outputs([], folders=given(vars(options), "output", "figures"))
    return list(dict.fromkeys(named))


def _measures(
    names: Sequence[str],
    candidates: Sequence[Candidate],
    means: Means,
    options: argparse.Namespace,
    console: Console,
) -> tuple[list[Measure], dict[str, str]]:
    """Return what came of each benchmark and probe, and why others were not examined."""
    from suisei.examination.measures import measure_benchmark
    from suisei.examination.places import find_benchmark
    from suisei.examination.probing import measure_probes

    measures: list[Measure] = []
    skipped: dict[str, str] = {}
    probed: dict[str, Probed] = {}
    for name in names:
        place = find_benchmark(name, Path(options.root))
        try:
            if place.samples is None:
                raise DataError(place.note)
            measures.append(measure_benchmark(place, candidates, means))
        except DataError as error:
            skipped[name] = str(error)
            say(console, f"{name} is not examined: {error}", "dim")
            continue
        for found in _probed(place, options):
            probed.setdefault(found.language, found)
    for found in probed.values():
        measures += measure_probes(found, candidates, means)
    return measures, skipped


def _probed(place: Place, options: argparse.Namespace) -> Iterator[Probed]:
    """Yield the captions of a benchmark that are probed, by language: good ones that people rated."""
    from suisei.data.benchmarks import BENCHMARKS
    from suisei.data.sample import LANGUAGE_NAMES, language_of
    from suisei.examination.probing import Probed
    from suisei.probes.originals import good_samples

    if not options.probe_captions or BENCHMARKS[place.name].protocol != "ratings" or place.root is None:
        return
    samples = [sample for sample in place.samples or () if sample.references]
    for language, title in LANGUAGE_NAMES.items():
        own = [sample for sample in samples if language_of(sample) == language]
        settings = {"limit": options.probe_captions, "seed": options.seed}
        try:
            good = good_samples(own, "rated", **settings)
        except DataError:
            continue
        humans: list[CaptionSample] = []
        with suppress(DataError):  # with one reference each there is none to hold out
            humans = good_samples(own, "references", **settings)
        humans = [sample for sample in humans if language_of(sample) == language]  # references may be of both
        yield Probed(language, title, good, humans, place.name)


def _conclude(
    options: argparse.Namespace,
    argv: Sequence[str] | None,
    candidates: Sequence[Candidate],
    measures: Sequence[Measure],
    skipped: dict[str, str],
) -> int:
    """Write the page and the JSON, and show the overview."""
    from suisei.examination.overview import overview_table, skipped_table
    from suisei.report.parts import Result

    failed = {candidate.label: candidate.problem for candidate in candidates if candidate.problem}
    labels = [candidate.label for candidate in candidates]
    overview = overview_table(labels, measures, skipped, failed, options.bootstrap)
    results = [_result(measure, options) for measure in measures if measure.tables or measure.notes]
    if skipped:
        results.append(Result("Not examined", {"skipped": skipped_table(skipped)}))
    tables = {"overview": overview.as_dict()}
    tables |= {
        f"{measure.name}/{name}": table.as_dict()
        for measure in measures
        for name, table in measure.tables.items()
    }
    notes = {measure.name: list(measure.notes) for measure in measures if measure.notes}
    content = {"command": _settings(options), "tables": tables, "notes": notes, "skipped": skipped}
    folder = Path(options.output)
    shown = Shown("Examination", content, results=results, overview=overview)
    page = shown.writer(
        argparse.Namespace(html=str(folder / "report.html"), figures=options.figures), argv, "examine", {}
    )
    lines = [f"page: {folder / 'report.html'}"]
    Report(content, [overview], lines=lines, page=page).conclude(
        Files(folder / "examination.json", folder / "examination.md", None)
    )
    return 1 if failed or any(measure.failed for measure in measures) else 0


def _settings(options: argparse.Namespace) -> dict[str, object]:
    return {name: value for name, value in vars(options).items() if value not in (None, [], False)}


def _result(measure: Measure, options: argparse.Namespace) -> Result:
    """Return what the page shows of a benchmark or a probe."""
    from suisei.metaeval.settings import Resampling
    from suisei.report.parts import Rated, Result
    from suisei.scoring.columns import distances, oriented_scores

    scores = oriented_scores(measure.columns)
    signatures = [f"{column.label}: {column.signature}" for column in measure.columns if column.signature]
    return Result(
        measure.name,
        measure.tables,
        Rated(measure.samples, scores, distances(measure.columns)) if scores else None,
        facts=[("Signatures", "\n".join(signatures))],
        notes=measure.notes,
        examples=options.examples,
        drawn=options.drawn,
        resampling=Resampling(options.bootstrap, options.seed),
    )

"""``suisei ablate``: train a model without one part at a time, over seeds, and say what each part is worth.

Options that it does not know are settings of ``suisei train``, for all runs alike.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.ablation.variants import BUILT_IN, FULL, Variant, choose_variants, parse_variant
from suisei.cli import say, terminated_like_interrupted
from suisei.commands.command_parser import CommandParser
from suisei.commands.option_values import filled, processes
from suisei.commands.options import add_correlation_option, add_log_options, add_resampling_options
from suisei.commands.reports import Files, Report
from suisei.data.outputs import check_outputs, given
from suisei.errors import ConfigError, DataError
from suisei.progress import progress_bar

if TYPE_CHECKING:
    from rich.console import Console

    from suisei.ablation.runs import Run
    from suisei.metaeval.tables import Table

_EPILOG = f"""variants: {FULL}, {", ".join(BUILT_IN)}

examples:
  suisei ablate --config configs/scenes.yaml --seeds 12,13,14 --jobs 3
  suisei ablate --config configs/shichimi.yaml --data.root DIR --variants no-idf,no-extra \\
      --variant wide:model.head.hidden=[512],trainer.max_epochs=4

Any setting of suisei train can follow, for all runs. Runs that are done are kept, an interrupted one goes
on: start the same command again. Exit status: 0, or 1 if a run failed (the tables are of the others), or
2 for a wrong option, or 130 for Ctrl-C or SIGTERM."""

_PLOT = "differences.png"
_MAX_SEED = 2**32 - 1
_RESERVED = ("--seed_everything", "--ckpt_path")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done.

    Attributes:
        folder: of the ablation.
        variants: the full model first.
        skipped: {variant: why it cannot apply}.
        runs: all runs, by seed and then by variant.
    """

    folder: Path
    variants: list[Variant]
    skipped: dict[str, str]
    runs: list[Run]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options, settings = _parser().parse_known_args(sys.argv[1:] if argv is None else list(argv))
    with terminated_like_interrupted():
        return _ablate(options, settings)


def _ablate(options: argparse.Namespace, settings: Sequence[str]) -> int:
    from rich.console import Console

    from suisei.ablation.runs import locked, prepare_runs

    console = Console(stderr=True)
    check_outputs([], folders=given(vars(options), "output"))
    plan = make_plan(options, settings)
    _check_reports(plan, options)
    _announce(plan, console)
    if options.dry_run:
        return 0
    with locked(plan.folder) as lock:
        waiting = prepare_runs(plan.runs, redo=options.redo)
        try:
            failures = _train(waiting, len(plan.runs), options.jobs, lock, console)
            tables = _tables(plan, failures, options)
            _report(plan, tables, options.correlation).conclude(_files(plan))
        except KeyboardInterrupt:
            done = sum(run.finished for run in plan.runs)
            raise KeyboardInterrupt(
                f"{done} of {len(plan.runs)} runs in {plan.folder} are done; the same command goes on"
            ) from None
    return 1 if failures else 0


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="suisei ablate",
        description="Train a model without one part at a time, over several seeds, and report what each "
        "part is worth.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--config", metavar="FILE", type=filled, required=True, help="of the full model, as for suisei train")
    add(
        "--seeds",
        type=_seeds,
        default=[12, 13, 14],
        metavar="A,B",
        help="of the trainings (default 12,13,14)",
    )
    add("--variants", metavar="A,B", type=filled, help="which of those below (default: all that apply)")
    add(
        "--variant", metavar="NAME:KEY=VALUE,...", type=filled, action="append", default=[],
        help="one of your own, by settings of suisei train; as often as wanted",
    )  # fmt: skip
    add("--output", metavar="DIR", type=filled, help="the ablation's folder (default runs/CONFIG-ablation)")
    add(
        "--jobs", type=processes, default=1, metavar="N",
        help="trainings at once; with more than one, each has one thread (default 1)",
    )  # fmt: skip
    add("--redo", action="store_true", help="train runs anew that were made with other settings")
    add("--dry-run", action="store_true", help="say what would be trained, and stop")
    add_correlation_option(add, "pearson", "p-values and the plot")
    add_resampling_options(add, none="none", seeded=None)
    add_log_options(add)
    return parser


def _seeds(text: str) -> list[int]:
    try:
        seeds = [int(part) for part in text.split(",")]
    except ValueError:
        seeds = []
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0 or max(seeds) > _MAX_SEED:
        raise argparse.ArgumentTypeError(
            f"must be different whole numbers from 0 to {_MAX_SEED}, such as 12,13,14, got {text[:40]!r}"
        )
    return seeds


def make_plan(options: argparse.Namespace, settings: Sequence[str]) -> Plan:
    """Return the runs that the options ask for, with their whole configurations.

    Args:
        options: of the command.
        settings: options of ``suisei train``.

    Raises:
        ConfigError: an unknown variant, one with the name of a report, a setting that the ablation decides
            itself, or a config that cannot be read or holds nothing.
    """
    from suisei.ablation.runs import Run
    from suisei.commands.train import quiet_libraries, with_config
    from suisei.pacs.dual_run import task_of
    from suisei.training.run_settings import read_config

    for argument in settings:
        if argument.partition("=")[0] in _RESERVED:
            raise ConfigError(
                f"{argument.partition('=')[0]} is not for an ablation; it has --seeds, and resumes by itself"
            )
    quiet_libraries()
    arguments = with_config(["--config", options.config, *settings])
    if not read_config(Path(arguments[1])):
        raise ConfigError(f"--config {arguments[1]}: holds no settings; see configs/scenes.yaml")
    if task_of(arguments) is not None:
        raise ConfigError(f"{options.config} trains an encoder alone; an ablation is of the metric itself")
    own = [parse_variant(text) for text in options.variant]
    names = [name.strip() for name in options.variants.split(",")] if options.variants else None
    variants, skipped = choose_variants(names, own, resolve(arguments))
    folder = Path(options.output or f"runs/{Path(options.config).stem}-ablation")
    reports = {path.name for path in _reports(folder)}
    if taken := [variant.name for variant in own if variant.name.lower() in reports]:
        raise ConfigError(f"--variant {taken[0]!r}: a report of the ablation has that name; give another")
    resolved = {variant.name: resolve([*arguments, *variant.arguments]) for variant in variants}
    runs = [
        Run(
            variant.name, seed, folder / variant.name / f"seed-{seed}",
            {**resolved[variant.name], "seed_everything": seed},
        )
        for seed in options.seeds
        for variant in variants
    ]  # fmt: skip
    return Plan(folder, variants, skipped, runs)


def resolve(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the whole configuration that a command line of ``suisei train`` stands for."""
    import yaml

    from suisei.commands.train import TrainingCLI, make_cli

    class Parsed(TrainingCLI):
        """Parses alone: nothing is made."""

        def before_instantiate_classes(self) -> None: ...

        def instantiate_classes(self) -> None: ...

    cli = make_cli(arguments, Parsed)
    text = cli.parser.dump(cli.config.clone(), skip_validation=True, skip_unset=False)
    settings: dict[str, Any] = yaml.safe_load(text)
    return settings


def _check_reports(plan: Plan, options: argparse.Namespace) -> None:
    if plan.folder.is_dir():
        *texts, plot = [("--output:", file) for file in _reports(plan.folder)]
        check_outputs(texts, given(vars(options), "config"), pictures=[plot])


def _reports(folder: Path) -> list[Path]:
    """Return the files of text and the picture that are written in the end."""
    return [folder / name for name in ("report.json", "report.md", "report.tex", _PLOT)]


def _files(plan: Plan) -> Files:
    json, markdown, latex, _ = _reports(plan.folder)
    return Files(json, markdown, latex)


def _announce(plan: Plan, console: Console) -> None:
    for variant in plan.variants:
        say(console, f"{variant.name}: {variant.summary}")
    for name, reason in plan.skipped.items():
        say(console, f"{name} is left out: {reason}", "dim")
    done = sum(run.finished for run in plan.runs)
    say(console, f"{len(plan.runs)} runs in {plan.folder}, {done} of them done")


def _train(runs: Sequence[Run], total: int, jobs: int, lock: int | None, console: Console) -> dict[str, str]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from suisei.ablation.runs import train_all
    from suisei.runlog.events import current

    silent = not console.is_terminal or current().quiet or current().replaces_messages
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=silent) as bar:
        task = bar.add_task("training", total=total, completed=total - len(runs))
        done = total - len(runs)

        def started(active: Sequence[Run]) -> None:
            bar.update(task, description="training " + "; ".join(run.name for run in active))

        def ended(run: Run, problem: str | None, minutes: float) -> None:
            nonlocal done
            done += 1
            bar.advance(task)
            outcome = f"failed: {problem}" if problem else f"{minutes:.1f} min"
            say(console, f"{run.name}: {outcome} ({done} of {total})", "red" if problem else None)

        return train_all(runs, jobs, lock, started=started, ended=ended)


def _tables(plan: Plan, failures: dict[str, str], options: argparse.Namespace) -> dict[str, Table]:
    from suisei.ablation.differences import (
        RunResult,
        ablation_tables,
        check_same_data,
        check_same_encoders,
        read_result,
    )

    results: dict[str, dict[int, RunResult]] = {variant.name: {} for variant in plan.variants}
    by_data: dict[str, dict[Path, RunResult]] = {}
    for run in plan.runs:
        if run.finished:
            result = results[run.variant][run.seed] = read_result(run.folder)
            by_data.setdefault(repr(run.settings.get("data")), {})[run.folder] = result
    for trained in by_data.values():
        check_same_data(trained)
    check_same_encoders({folder: result for each in by_data.values() for folder, result in each.items()})
    if not results[FULL]:
        raise DataError("; ".join(f"{name} failed: {why}" for name, why in failures.items()))
    notes = [f"{variant.name}: {variant.summary}" for variant in plan.variants if variant.changes]
    notes += [f"{name} is left out: {reason}" for name, reason in plan.skipped.items()]
    notes += [f"{name} failed: {reason}" for name, reason in failures.items()]
    with progress_bar("resampling", len(results) - 1) as advance:
        main_table, differences = ablation_tables(
            results,
            correlation=options.correlation,
            n_resamples=options.bootstrap,
            notes=notes,
            progress=advance,
        )
    return {"ablation": main_table, "differences": differences}


def _report(plan: Plan, tables: dict[str, Table], correlation: str) -> Report:
    from suisei.metaeval.plots import plot_dots
    from suisei.metaeval.tables import LABELS

    content: dict[str, Any] = {name: table.as_dict() for name, table in tables.items()}
    content["variants"] = {variant.name: variant.changes for variant in plan.variants}
    differences, plot = tables["differences"], None
    if any(correlation in row.cells for row in differences.overall.rows):
        heading = f"difference in {LABELS[correlation]}"
        plot = partial(plot_dots, plan.folder / _PLOT, differences, correlation, heading=heading)
    return Report(
        content,
        list(tables.values()),
        heading=f"# {plan.folder.name}\n\n",
        lines=[f"reports and runs: {plan.folder}"],
        plot=plot,
    )

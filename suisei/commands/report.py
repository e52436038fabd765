"""``suisei report``: one page out of trainings and results, to read and to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from suisei.cli import say
from suisei.commands.allowances import add_allowances, allowed
from suisei.commands.command_parser import CommandParser
from suisei.commands.option_values import filled, whole
from suisei.data.outputs import Named, check_outputs

if TYPE_CHECKING:
    from suisei.report.examples import Explain

_EPILOG = """examples:
  suisei report runs/scenes --output report.html
  suisei report flickr.json shichimi.json systems.json --output report.html --figures figures

RUN is the folder that 'suisei train' wrote; JSON is what evaluate, compare or the probes wrote with --json.
With --save-scores beside --json the page shows single predictions of an evaluation too.
The page is one file: no network, no other file. It is written by these commands too, with --html.

Exit status: 0, or 2 for a wrong option or an unusable file."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = CommandParser(
        prog="suisei report", description="Write one page out of trainings and results.", epilog=_EPILOG
    )
    add = parser.add_argument
    add("results", nargs="+", metavar="RUN_OR_JSON", help="folder of a training, or JSON of a command")
    add("--output", metavar="FILE", type=filled, required=True, help="the page (HTML)")
    add("--figures", metavar="DIR", type=filled, help="the figures too, each as SVG, PDF and PNG")
    add("--title", metavar="TEXT", type=filled, help="of the page (default: that of the only result)")
    add(
        "--examples", type=whole(0, 200), default=8, metavar="N",
        help="best and worst predictions with their pictures (default 8 of each)",
    )  # fmt: skip
    add_allowances(add)
    options = parser.parse_args(argv)
    inputs: list[Named] = [("RUN_OR_JSON", path) for path in options.results]
    sealed: list[Named] = [("RUN_OR_JSON", Path(path) / "model") for path in options.results]
    check_outputs(
        [("--output", options.output)], inputs, folders=[("--figures", options.figures)], sealed=sealed
    )
    from rich.console import Console

    from suisei.report.contents import part_of
    from suisei.report.html import write_page
    from suisei.report.stored import read_result

    results = [
        replace(read_result(path, allowed(options)), examples=options.examples) for path in options.results
    ]
    title = options.title or (results[0].title if len(results) == 1 else "Results")
    parts = [
        part_of(result, partial(_explainer, Path(path)))
        for path, result in zip(options.results, results, strict=True)
    ]
    write_page(options.output, options.figures, title, parts)
    say(Console(stderr=True), f"page: {options.output}")
    return 0


def _explainer(run: Path, label: str) -> Explain | None:
    """Return what explains the scores of a run's own model, if it is there."""
    from suisei.commands.steps import explainer
    from suisei.scoring.plan import MetricPlan

    there = label == "suisei" and (run / "model" / "config.json").is_file()
    return explainer(MetricPlan(f"suisei:{run / 'model'}")) if there else None

"""The files that commands write at the end: declared, checked, written and shown in one place.

A command says what its tables are and what its JSON holds; everything else about a report is said here.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from suisei.cli import say, table_console
from suisei.commands.command_parser import Add
from suisei.commands.option_values import filled
from suisei.data.figures import check_figure
from suisei.data.outputs import Named, check_outputs, given, raise_first, write_texts
from suisei.errors import ConfigError, DataError
from suisei.metaeval.settings import Resampling

if TYPE_CHECKING:
    from suisei.data.sample import CaptionSample
    from suisei.metaeval.tables import Table
    from suisei.report.examples import Explain
    from suisei.report.parts import Cards, Rated, Result
    from suisei.scoring.plan import MetricPlan

LATEX_SCOPES = ("overall", "language")
"""What is in LaTeX if nothing else is asked for: a hundred systems are no table of a paper."""
_TEXTS = ("json", "markdown", "latex", "html", "save_scores")


class Files(NamedTuple):
    """Where a report goes; None for what is not wanted.

    Attributes:
        json: everything.
        markdown: the tables.
        latex: the tables for a paper.
        scopes: what the sections of the LaTeX tables are over.
    """

    json: str | Path | None
    markdown: str | Path | None
    latex: str | Path | None
    scopes: Sequence[str] = LATEX_SCOPES

    @classmethod
    def of(cls, options: argparse.Namespace) -> Files:
        """Return those of the options of :func:`add_report_options`."""
        scopes = getattr(options, "sections", LATEX_SCOPES)
        return cls(options.json, options.markdown, options.latex, scopes)


@dataclass(frozen=True, slots=True)
class Report:
    """What a command has found out.

    Attributes:
        content: what the JSON file holds.
        tables: in the order in which they are shown and written.
        heading: of the Markdown file, before the tables.
        ending: of the Markdown file, after the tables.
        lines: what is shown after the tables.
        notes: what is shown last, less loudly.
        plot: writes the figures; DataError for what cannot be written, None for no figure.
        page: writes the page and its figures, likewise.
    """

    content: Mapping[str, Any]
    tables: Sequence[Table]
    heading: str = ""
    ending: str = ""
    lines: Sequence[str] = ()
    notes: Sequence[str] = ()
    plot: Callable[[], Any] | None = None
    page: Callable[[], Any] | None = None

    def conclude(self, files: Files, problems: Iterable[DataError] = ()) -> None:
        """Write the files, show the tables, and then say what could not be written.

        Args:
            files: where the report goes.
            problems: what could not be written before.

        Raises:
            DataError: all these problems and those of writing.
        """
        found = [*problems, *self._write(files)]
        self._show()
        raise_first(found)

    def _write(self, files: Files) -> list[DataError]:
        parts = [*(table.to_markdown() for table in self.tables), self.ending]
        texts = [
            (files.json, json_text(self.content)),
            (files.markdown, self.heading + "\n".join(part for part in parts if part)),
            (files.latex, "\n".join(table.to_latex(files.scopes) for table in self.tables)),
        ]
        problems = write_texts(texts)
        for write in (self.plot, self.page):
            try:
                if write is not None:
                    write()
            except DataError as error:
                problems.append(error)
        return problems

    def _show(self) -> None:
        from suisei.metaeval.terminal import FittedTable

        console = table_console()
        for table in self.tables:
            if any(section.rows for section in table.sections):
                console.print(FittedTable(table))
        for line in self.lines:
            say(console, line)
        for note in self.notes:
            say(console, f"· {note}", "dim")


def json_text(content: Mapping[str, Any]) -> str:
    """Return what a JSON file for people and programs holds; a number that is none is a defect."""
    return json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _scopes(text: str) -> tuple[str, ...]:
    """Read which sections are wanted."""
    from suisei.metaeval.tables import SCOPES

    named = tuple(name.strip() for name in text.split(","))
    unknown = [name for name in named if name not in SCOPES]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(SCOPES)}")
    return named


def add_report_options(
    add: Add,
    *,
    tables: str = "the tables",
    plot: str | None = None,
    scores: str | None = None,
    scopes: bool = False,
    page: bool = True,
) -> None:
    """Add where the report goes.

    Args:
        add: ``add_argument`` of a parser or group.
        tables: what the Markdown file holds.
        plot: what --plot draws; None for no such option.
        scores: what the rows of --save-scores are; None for no such option.
        scopes: whether tables have sections by language and system, of which --sections chooses.
        page: whether the command writes one; False for no such options.
    """
    add("--json", metavar="FILE", type=filled, help="everything, at full precision")
    add("--markdown", metavar="FILE", type=filled, help=f"{tables} as Markdown")
    add("--latex", metavar="FILE", type=filled, help="the tables as LaTeX (booktabs), one per section")
    if scopes:
        add(
            "--sections", metavar="A,B", type=_scopes, default=LATEX_SCOPES,
            help="of the LaTeX: any of overall, language, system (default overall,language)",
        )  # fmt: skip
    if page:
        what = "one page that needs nothing else: tables, figures, pictures"
        add("--html", metavar="FILE", type=filled, help=what)
        what = "the figures of that page, each as SVG, PDF and PNG"
        add("--figures", metavar="DIR", type=filled, help=what)
    if plot:
        add("--plot", metavar="FILE", type=filled, help=f"{plot}, as .png, .pdf or .svg")
    if scores:
        add("--save-scores", metavar="FILE", type=filled, help=f"JSONL or CSV of {scores}")


def report_files(options: argparse.Namespace) -> list[Named]:
    """Return the files that are to be written, by their options."""
    return given(vars(options), *_TEXTS, "plot")


def check_report(
    options: argparse.Namespace,
    inputs: Sequence[Named],
    *,
    folders: Sequence[str] = (),
    sealed: Sequence[str],
) -> None:
    """Refuse files of a report that could not be written, or would overwrite something.

    Args:
        options: of the command.
        inputs: what is read.
        folders: options that name folders to be written into.
        sealed: options that name folders that are read.

    Raises:
        ConfigError: the first of them.
    """
    named = vars(options)
    log = [] if named.get("log_json") == "-" else given(named, "log_json")
    check_outputs(
        [*given(named, *_TEXTS), *log],
        inputs,
        pictures=given(named, "plot"),
        folders=given(named, "figures", *folders),
        kept=given(named, "keep"),
        sealed=given(named, *sealed),
    )
    for option, path in given(named, "plot"):
        if path is not None:
            check_figure(option, path)
    scores = named.get("save_scores")
    if scores and Path(scores).suffix not in (".jsonl", ".csv"):
        raise ConfigError(f"--save-scores {scores}: must end in .jsonl or .csv")


@dataclass(frozen=True, slots=True)
class Shown:
    """What a page shows beside the tables of a report.

    Attributes:
        title: of the page.
        content: what the JSON holds, of which it takes signatures and settings.
        rated: samples and scores, where there are any.
        cards: what is shown with pictures beside predictions.
        notes: sentences above all.
        results: further parts of the page, after the tables.
        overview: a table above all parts.
        plans: the metrics, of which the one whose predictions are shown is explained.
        resampling: of the figures that the page computes itself.
    """

    title: str
    content: Mapping[str, Any]
    rated: Rated | None = None
    cards: Sequence[Cards] = ()
    notes: Sequence[str] = ()
    results: Sequence[Result] = ()
    overview: Table | None = None
    plans: Sequence[MetricPlan] = ()
    resampling: Resampling = field(default_factory=Resampling)

    def writer(
        self,
        options: argparse.Namespace,
        argv: Sequence[str] | None,
        command: str,
        tables: Mapping[str, Table],
    ) -> Callable[[], None] | None:
        """Return what writes the page and its figures; None where neither is asked for.

        Args:
            options: of the command, with those of :func:`add_report_options`.
            argv: the command line; that of the process if None.
            command: name of the command.
            tables: {name: table}.
        """
        if not (options.html or options.figures):
            return None
        line = shlex.join(["suisei", command, *(sys.argv[1:] if argv is None else argv)])
        return partial(self._write, options.html, options.figures, line, tables)

    def _write(self, html: str | None, figures: str | None, line: str, tables: Mapping[str, Table]) -> None:
        from suisei.report.contents import part_of
        from suisei.report.html import write_page
        from suisei.report.parts import Result
        from suisei.report.stored import environment, facts_of

        facts = [("Command", line), *facts_of(self.content), ("Environment", environment())]
        whole = Result(
            self.title, tables, self.rated, facts=facts, notes=self.notes, cards=self.cards,
            resampling=self.resampling,
        )  # fmt: skip
        if not tables:  # a page of many results ends with where they come from
            whole = replace(whole, title="The whole page")
        parts = [
            part_of(result, self._explainer)
            for result in ([*self.results, whole] if not tables else [whole, *self.results])
        ]
        write_page(html, figures, self.title, parts, self.overview)

    def _explainer(self, label: str) -> Explain | None:
        """Return what explains a metric of the command; one read from a file has nothing to be asked."""
        from suisei.commands.steps import explainer

        plan = next((plan for plan in self.plans if plan.label == label), None)
        return explainer(plan, self.rated.samples if self.rated else ()) if plan else None


def save_scores(
    path: str | None, samples: Sequence[CaptionSample], columns: Mapping[str, Any]
) -> list[DataError]:
    """Write the scores of samples, where that was asked for.

    Args:
        path: JSONL or CSV; None for nothing.
        samples: a row each.
        columns: {label: scores of the samples}.

    Returns:
        What went wrong: what follows from the scores is not to be lost as well.
    """
    if path is None:
        return []
    from suisei.scoring.scorefile import write_scores

    try:
        write_scores(path, samples, columns)
    except DataError as error:
        return [error]
    return []

"""Command-line options that several commands have, and the kinds of values that options take."""

from __future__ import annotations

import argparse
import difflib
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from suisei.cli import write_output
from suisei.commands.allowances import add_allowances
from suisei.errors import ConfigError
from suisei.runlog.events import begin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from suisei.scoring.plan import MetricPlan

MAX_RESAMPLES = 100_000
MAX_SEED = 2**63 - 1
MAX_PROCESSES = 256
PRECISIONS = ("auto", "fp32", "tf32", "bf16", "fp16", "int8")

COMMON = (
    "--model", "--metrics", "--input", "--data", "--images", "--references", "--output", "--json",
    "--markdown", "--plot",
)  # fmt: skip
"""The options that most people use, which a short help shows unless the command says which."""
MOST_SHOWN = 13
"""So many options are shown whichever they are."""

Add = Callable[..., Any]
"""``add_argument`` of a parser or of a group of its options."""

_DEVICE = re.compile(r"auto|(cpu|mps)|(cuda|xpu)(:\d{1,3})?")


class CommandParser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong with an option, like every other error.

    Description and epilog are shown as they are written. ``--help`` shows the options that most people use
    and the examples of the epilog, ``--help all`` everything.

    Args:
        args: of argparse's parser.
        common: the options that the short help shows.
        settings: of argparse's parser.
    """

    def __init__(self, *args: Any, common: Sequence[str] = COMMON, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **{**settings, "add_help": False})
        self._common = common
        self._typed: Sequence[str] = ()
        self.add_argument(
            "-h", "--help", action=_Help, nargs="?", metavar="all", default=argparse.SUPPRESS,
            help="show this message; --help all: every option",
        )  # fmt: skip

    def short_help(self) -> str:
        """Return the help on what most people use; the whole help where there is not much more."""
        options = [action for action in self._actions if action.option_strings]
        hidden = [
            action
            for action in options
            if not action.required and not {*self._common, "--help"} & {*action.option_strings}
        ]
        if len(options) - 1 <= MOST_SHOWN or not hidden:
            return self.format_help()
        rest = f"{self.prog} --help all shows all {len(options) - 1} options and says more of what it does.\n"
        with _without(hidden), _epilog(self, _examples(self.epilog)):
            return f"{self.format_help()}\n{rest}"

    def parse_known_args(  # type: ignore[override]
        self, args: Any = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; ``--option=--``, of which argparse makes an empty list, is refused."""
        self._typed = list(sys.argv[1:] if args is None else args)
        found, rest = super().parse_known_args(args, namespace)
        for action in self._actions:
            value = getattr(found, action.dest, None)
            empty = value == [] != action.default or (isinstance(value, list) and [] in value)
            extended = action.nargs == "+" and any(
                f"{name}=--" in self._typed for name in action.option_strings
            )
            if (action.nargs is None and empty) or extended:
                self.error(f"argument {'/'.join(action.option_strings) or action.metavar}: '--' is no value")
        if hasattr(found, "loudness"):
            begin(found.log_json, found.loudness, self.prog, list(map(str, self._typed)))
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Raise a ConfigError in place of printing all options."""
        raise ConfigError(f"{message}{self._near()} (see {self.prog} --help)")

    def _near(self) -> str:
        """Return what an option that there is not was probably meant to be."""
        known = list(_option_names(self))
        for argument in self._typed:
            name = argument.partition("=")[0]
            if len(name) > 2 and name[0] == "-" and not any(option.startswith(name) for option in known):
                near = difflib.get_close_matches(f"--{name.strip('-')}".lower().replace("_", "-"), known, 1)
                if near:
                    return f"; {name[:60]} is no option, did you mean {near[0]}?"
        return ""


class _Help(argparse.Action):
    """Shows the short help, or with ``all`` the whole."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: str | None = None
    ) -> NoReturn:
        if values not in (None, "all") and not str(values).startswith("-"):
            parser.error(f"argument --help: takes nothing or 'all', got {str(values)[:40]!r}")
        short = parser.short_help() if isinstance(parser, CommandParser) and values is None else None
        write_output(short or parser.format_help())
        parser.exit()


@contextmanager
def _without(actions: Iterable[argparse.Action]) -> Iterator[None]:
    """Leave options out of a help message."""
    texts = [(action, action.help) for action in actions]
    for action, _ in texts:
        action.help = argparse.SUPPRESS
    try:
        yield
    finally:
        for action, text in texts:
            action.help = text


@contextmanager
def _epilog(parser: argparse.ArgumentParser, text: str | None) -> Iterator[None]:
    """Give a parser another epilog for a while."""
    before, parser.epilog = parser.epilog, text
    try:
        yield
    finally:
        parser.epilog = before


def _examples(epilog: str | None) -> str | None:
    """Return the part of an epilog that shows examples."""
    parts = (epilog or "").split("\n\n")
    return next((part for part in parts if part.startswith("examples:")), parts[0]) or None


def _option_names(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the long options of a parser and of the commands inside it."""
    for action in parser._actions:
        yield from (option for option in action.option_strings if option.startswith("--"))
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _option_names(inner)


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return what reads a whole number within limits."""
    limits = f"at least {least:,}" if most is None else f"from {least:,} to {most:,}"

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a whole number {limits}, got {text[:40]!r}") from None
        if number < least or (most is not None and number > most):
            raise argparse.ArgumentTypeError(f"must be {limits}, got {text[:40]}")
        return number

    return read


def real(least: float, most: float) -> Callable[[str], float]:
    """Return what reads a number within limits; NaN is none."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(
                f"must be a number from {least:g} to {most:g}, got {text[:40]!r}"
            )
        return number

    return read


positive = whole(1)
"""Reads a number of at least 1."""

seed = whole(0, MAX_SEED)
"""Reads a seed."""

resamples = whole(0, MAX_RESAMPLES)
"""Reads how often to resample; more would take memory and hours and change no digit that is shown."""

processes = whole(1, MAX_PROCESSES)
"""Reads a number of processes."""


def filled(text: str) -> str:
    """Read a name, which an unset variable of a shell script would leave empty."""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty; give a name or leave the option out")
    return text


def device(text: str) -> str:
    """Read the name of a device; whether it is there is seen by what uses it."""
    if not _DEVICE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"must be auto, cpu, cuda, cuda:1, ..., got {text[:40]!r}")
    return text


class _NamedFolder(argparse.Action):
    """Collects ``[NAME=]DIR``: the folders under the option's own name, the names beside them."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Take one folder; one whose own name has a "=" is a folder."""
        from suisei.scoring.plan import named_spec

        name, folder = (None, values) if Path(values).is_dir() else named_spec(values)
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), folder])
        if name is not None:
            namespace.model_names = {**getattr(namespace, "model_names", {}), f"suisei:{folder}": name}


def add_metric_options(add: Add) -> None:
    """Add the options that choose metrics, and how many samples they see at once."""
    add(
        "--model", metavar="[NAME=]DIR", action=_NamedFolder, default=[],
        help="a SuiSei model, short for suisei:DIR; NAME is what reports call it",
    )  # fmt: skip
    add(
        "--metrics", metavar="A,B", action="append", default=[],
        help="names, see 'suisei metrics'; tuned=suisei:DIR is called tuned in reports",
    )  # fmt: skip
    add("--tokenizer", metavar="NAME", type=filled, help="for every metric that takes one")
    add(
        "--metric-option", metavar="NAME.KEY=VALUE", action="append", default=[],
        help="an option of one metric, such as bertscore.idf=true",
    )  # fmt: skip
    add(
        "--comet-python", metavar="PATH", type=filled,
        help="interpreter of the environment that has unbabel-comet",
    )  # fmt: skip
    add("--device", type=device, help="for every metric that takes one: auto, cpu, cuda, cuda:1, ...")
    add(
        "--precision", choices=PRECISIONS,
        help="of encoders: auto (default: bf16 where the machine multiplies it in hardware), fp32, tf32, "
        "bf16, fp16, int8 (text encoders on a CPU)",
    )  # fmt: skip
    add("--compile", action="store_true", help="compile the text encoder: slow at first, then faster")
    add(
        "--cache", metavar="DIR|off", type=filled,
        help="where features are kept for the next run (default: SUISEI_CACHE, else the user's cache folder, "
        "for large encoders alone; 'suisei cache' shows it)",
    )  # fmt: skip
    add("--batch-size", type=positive, default=64, metavar="N", help="samples at once (default 64)")


def add_data_options(add: Add) -> None:
    """Add how the data of ``--data`` are read."""
    add("--root", metavar="DIR", type=filled, help="where the benchmark's files are")
    add_row_options(add, images="where the images, or the videos, are", ratings="of a file of ratings")


def add_row_options(add: Add, *, images: str, ratings: str | None = None, several: bool = True) -> None:
    """Add how rows are read.

    Args:
        add: of a parser or group.
        images: what --images is.
        ratings: what --rating-scale is; None for no such option.
        several: whether --references takes several files at once, which a command with arguments that are
            no options cannot.
    """
    add_column_options(add, several=several)
    add("--images", metavar="DIR", type=filled, help=images)
    add_allowances(add)
    if ratings:
        add("--rating-scale", type=float, nargs=2, metavar=("LOW", "HIGH"), help=ratings)
    add("--on-error", choices=("raise", "skip"), default="raise", help="what a bad row does (default raise)")


def add_column_options(add: Add, *, several: bool = True) -> None:
    """Add where references stand, and what columns are called.

    Args:
        add: of a parser or group.
        several: whether --references takes several files at once.
    """
    add(
        "--references", metavar="FILE", type=filled, default=[],
        **({"nargs": "+", "action": "extend"} if several else {"action": "append"}),
        help="COCO annotations, JSON or JSONL of references by image id, or text, one file per reference "
        "(default: the rows' own)",
    )  # fmt: skip
    add(
        "--column", metavar="FIELD=NAME", type=_column, action="append", default=[],
        help="the column that fills a field, as candidate=my_name; FIELD= for none (usual names are known)",
    )  # fmt: skip


def add_resampling_options(
    add: Add, *, none: str = "no intervals", what: str = "resamples", seeded: str | None = "all resampling"
) -> None:
    """Add how often is resampled, and from which seed.

    Args:
        add: of a parser or group.
        none: what 0 stands for.
        what: what there are so many of.
        seeded: what the seed decides; None for no such option.
    """
    help_text = f"{what}; 0: {none} (default 1000)"
    add("--bootstrap", type=resamples, default=1000, metavar="N", help=help_text)
    if seeded:
        add("--seed", type=seed, default=0, help=f"of {seeded} (default 0)")


def add_correlation_option(add: Add, default: str, used: str) -> None:
    """Add which correlation is looked at where one must be chosen.

    Args:
        add: of a parser or group.
        default: which it is.
        used: what for.
    """
    help_text = f"for {used} (default {default}); the tables have all four"
    add("--correlation", choices=("pearson", "spearman", "tau-b", "tau-c"), default=default, help=help_text)


def add_log_options(add: Add) -> None:
    """Add how much is told while the command runs, and a log for machines."""
    add(
        "--quiet", dest="loudness", action="store_const", const="quiet", default="normal",
        help="no progress and no notes: results, warnings and errors alone",
    )  # fmt: skip
    add(
        "--verbose", dest="loudness", action="store_const", const="verbose", default=argparse.SUPPRESS,
        help="progress more often, with memory; why a metric failed, with its traceback",
    )  # fmt: skip
    add(
        "--log-json", metavar="FILE", type=filled,
        help="a JSON object per event, appended: time, stage, rows done, rows per second, memory; - is "
        "standard error, which then has nothing else",
    )  # fmt: skip


def take_default_model(options: argparse.Namespace) -> None:
    """Let the model in the package score where no metric was named."""
    if not (options.model or options.metrics):
        options.metrics = ["suisei"]


def _column(text: str) -> tuple[str, str]:
    """Read FIELD=NAME; what the fields are is known to what reads the file."""
    field, equals, name = text.partition("=")
    if not (equals and field.strip()):
        raise argparse.ArgumentTypeError(f"must be FIELD=NAME, such as candidate=my_name, got {text[:60]!r}")
    return field.strip(), name


def named_columns(options: argparse.Namespace) -> dict[str, list[str]]:
    """Return the columns that --column names, {field: columns}, checked.

    Raises:
        ConfigError: an unknown field, or two columns for one that takes one.
    """
    from suisei.data.fields import chosen_columns

    named: dict[str, list[str]] = {}
    for field, column in options.column:
        named.setdefault(field, []).extend([column] if column else [])
    chosen_columns(named)
    return named


def note_text(text: str) -> str:
    """Return a note of a reader with what to do where its guess is wrong."""
    return f"{text}; --column FIELD=NAME says otherwise" if ": columns " in text else text


def rating_scale(options: argparse.Namespace) -> tuple[float, float] | None:
    """Return the rating scale that was asked for."""
    return tuple(options.rating_scale) if options.rating_scale else None


def metric_plans(options: argparse.Namespace) -> list[MetricPlan]:
    """Return the metrics that the options of :func:`add_metric_options` ask for, checked.

    Raises:
        ConfigError: no name, an unknown or repeated metric, or an option that its metric does not take.
        UnavailableError: a device that is not there.
    """
    from suisei.scoring.plan import named_spec, plan_metrics

    specs = [f"suisei:{folder}" for folder in options.model]
    called = dict(getattr(options, "model_names", {}))
    for names in options.metrics:
        found = [named_spec(name.strip()) for name in names.split(",") if name.strip()]
        if not found:
            raise ConfigError(f"--metrics {names!r} names no metric; 'suisei metrics' lists them")
        specs += [spec for _, spec in found]
        called |= {spec: name for name, spec in found if name is not None}
    for spec in specs:
        name, colon, argument = spec.partition(":")
        if colon and not argument.strip():
            option = "--model" if name == "suisei" else "--metrics"
            raise ConfigError(f"{option}: {spec!r} has nothing after the colon; give the folder or file")
    extra = [f"comet.python={options.comet_python}"] if options.comet_python else []
    names = ("device", "precision", "compile", "cache")
    common = {key: getattr(options, key) for key in names if getattr(options, key)}
    plans = plan_metrics(specs, options.tokenizer, [*options.metric_option, *extra], common, called)
    check_device(next((plan.options["device"] for plan in plans if "device" in plan.options), None))
    return plans


def check_device(device: str | None) -> None:
    """Refuse a device that this machine does not have, before anything is loaded or scored.

    Raises:
        UnavailableError: it is not there.
    """
    if device not in (None, "auto", "cpu"):
        from suisei.encoders.precision import choose_device

        choose_device(str(device))

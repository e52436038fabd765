"""Command-line options that several commands have, and the kinds of values that options take."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from suisei.errors import ConfigError

if TYPE_CHECKING:
    from suisei.scoring.plan import MetricPlan

MAX_RESAMPLES = 100_000
MAX_SEED = 2**63 - 1
MAX_PROCESSES = 256
PRECISIONS = ("auto", "fp32", "tf32", "bf16", "fp16")

Add = Callable[..., Any]
"""``add_argument`` of a parser or of a group of its options."""

_DEVICE = re.compile(r"auto|(cpu|mps)|(cuda|xpu)(:\d{1,3})?")


class CommandParser(argparse.ArgumentParser):
    """A parser that says in one line what is wrong with an option, like every other error.

    Description and epilog are shown as they are written.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **settings)

    def parse_known_args(  # type: ignore[override]
        self, args: Any = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse; ``--option=--``, of which argparse makes an empty list, is refused."""
        found, rest = super().parse_known_args(args, namespace)
        for action in self._actions:
            value = getattr(found, action.dest, None)
            empty = value == [] != action.default or (isinstance(value, list) and [] in value)
            if action.nargs is None and empty:
                self.error(f"argument {'/'.join(action.option_strings) or action.metavar}: '--' is no value")
        return found, rest

    def error(self, message: str) -> NoReturn:
        """Raise a ConfigError in place of printing all options."""
        raise ConfigError(f"{message} (see {self.prog} --help)")


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
        "bf16, fp16",
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


def add_row_options(add: Add, *, images: str, ratings: str | None = None) -> None:
    """Add how rows are read.

    Args:
        add: of a parser or group.
        images: what --images is.
        ratings: what --rating-scale is; None for no such option.
    """
    add("--images", metavar="DIR", type=filled, help=images)
    if ratings:
        add("--rating-scale", type=float, nargs=2, metavar=("LOW", "HIGH"), help=ratings)
    add("--on-error", choices=("raise", "skip"), default="raise", help="what a bad row does (default raise)")


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


def take_default_model(options: argparse.Namespace) -> None:
    """Let the model in the package score where no metric was named."""
    if not (options.model or options.metrics):
        options.metrics = ["suisei"]


def rating_scale(options: argparse.Namespace) -> tuple[float, float] | None:
    """Return the rating scale that was asked for."""
    return tuple(options.rating_scale) if options.rating_scale else None


def metric_plans(options: argparse.Namespace) -> list[MetricPlan]:
    """Return the metrics that the options of :func:`add_metric_options` ask for, checked.

    Raises:
        ConfigError: no name, an unknown or repeated metric, or an option that its metric does not take.
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
    return plan_metrics(specs, options.tokenizer, [*options.metric_option, *extra], common, called)

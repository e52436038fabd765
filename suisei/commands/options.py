"""Command-line options that several commands have."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suisei.scoring.plan import MetricPlan


def positive(text: str) -> int:
    """Read a number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def count(text: str) -> int:
    """Read a number of at least 0."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must be 0 or more, got {number}")
    return number


def add_metric_options(add: Callable[..., Any]) -> None:
    """Add the options that choose metrics, by a parser's or group's ``add_argument``."""
    add("--model", metavar="DIR", action="append", default=[], help="a SuiSei model, short for suisei:DIR")
    add("--metrics", metavar="A,B", action="append", default=[], help="names, see 'suisei metrics'")
    add("--tokenizer", metavar="NAME", help="for every metric that takes one")
    add(
        "--metric-option", metavar="NAME.KEY=VALUE", action="append", default=[],
        help="an option of one metric, such as bertscore.idf=true",
    )  # fmt: skip
    add("--comet-python", metavar="PATH", help="interpreter of the environment that has unbabel-comet")
    add("--device", help="for every metric that takes one: auto, cpu, cuda, cuda:1, ...")
    add(
        "--precision",
        help="of encoders: auto (default: bf16 where the machine multiplies it in hardware), fp32, tf32, "
        "bf16, fp16",
    )
    add("--compile", action="store_true", help="compile the text encoder: slow at first, then faster")
    add(
        "--cache", metavar="DIR|off",
        help="where features are kept for the next run (default: SUISEI_CACHE, else the user's cache folder, "
        "for large encoders alone; 'suisei cache' shows it)",
    )  # fmt: skip


def add_data_options(add: Callable[..., Any]) -> None:
    """Add how the data of ``--data`` are read, by a parser's or group's ``add_argument``."""
    add("--root", metavar="DIR", help="where the benchmark's files are")
    add("--images", metavar="DIR", help="where the images, or the videos, are")
    add("--rating-scale", type=float, nargs=2, metavar=("LOW", "HIGH"), help="of a file of ratings")
    add("--on-error", choices=("raise", "skip"), default="raise", help="what a bad row does (default raise)")


def metric_plans(options: argparse.Namespace) -> list[MetricPlan]:
    """Return the metrics that the options of :func:`add_metric_options` ask for, checked.

    Raises:
        ConfigError: an unknown or repeated metric, or an option that its metric does not take.
    """
    from suisei.scoring.plan import plan_metrics

    specs = [f"suisei:{folder}" for folder in options.model]
    specs += [name.strip() for names in options.metrics for name in names.split(",") if name.strip()]
    extra = [f"comet.python={options.comet_python}"] if options.comet_python else []
    names = ("device", "precision", "compile", "cache")
    common = {key: getattr(options, key) for key in names if getattr(options, key)}
    return plan_metrics(specs, options.tokenizer, [*options.metric_option, *extra], common)

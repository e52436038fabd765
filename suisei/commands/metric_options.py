"""The options that choose metrics, and the metrics that they choose."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suisei.commands.command_parser import Add
from suisei.commands.option_values import device, filled, positive
from suisei.encoders.precision_words import PRECISIONS
from suisei.errors import ConfigError

if TYPE_CHECKING:
    from suisei.scoring.plan import MetricPlan


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
    add("--tokenizer", metavar="NAME", type=filled, help="for every metric that takes one (default: its own)")
    add(
        "--metric-option", metavar="NAME.KEY=VALUE", action="append", default=[],
        help="an option of one metric, such as bertscore.idf=true",
    )  # fmt: skip
    add(
        "--comet-python", metavar="PATH", type=filled,
        help="interpreter of the environment that has unbabel-comet",
    )  # fmt: skip
    add(
        "--device",
        type=device,
        help="for every metric that takes one: auto (default), cpu, cuda, cuda:1, ...",
    )
    add(
        "--precision", choices=PRECISIONS,
        help="of encoders: auto (default: bf16 where the machine multiplies it in hardware), fp32, tf32 "
        "(CUDA GPUs), bf16, fp16, int8 (text encoders on a CPU)",
    )  # fmt: skip
    add("--compile", action="store_true", help="compile the text encoder: slow at first, then faster")
    add(
        "--cache", metavar="DIR|off", type=filled,
        help="where features are kept for the next run (default: SUISEI_CACHE, else the user's cache folder, "
        "for large encoders alone; 'suisei cache' shows it)",
    )  # fmt: skip
    add("--batch-size", type=positive, default=64, metavar="N", help="samples at once (default 64)")


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


def take_default_model(options: argparse.Namespace) -> None:
    """Let the model in the package score where no metric was named."""
    if not (options.model or options.metrics):
        options.metrics = ["suisei"]


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

"""What ``suisei score`` refuses or settles before anything is scored."""

from __future__ import annotations

import argparse
import csv
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from suisei.commands.options import check_images, named_columns
from suisei.commands.score_options import PARALLEL_WINDOW, WINDOW
from suisei.errors import ConfigError, DataError, SuiseiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suisei.data.joins import References
    from suisei.data.outputs import Named


def check(options: argparse.Namespace) -> None:
    """Refuse what would fail only after hours of scoring.

    The options learn what was found: ``once``, whether the input can be read only once; ``streams``, whether
    the output is written as it comes, with no part file; and ``references_read``, the files of references.

    Raises:
        ConfigError: options that do not go together.
        DataError: a file that is not there.
    """
    check_images(options)
    not_both_kinds(options)
    _check_input(options)
    named_columns(options)
    options.references_read = _references(options)
    _check_output(options)


def not_both_kinds(options: argparse.Namespace) -> None:
    """Refuse processes of the CPU together with GPUs."""
    if options.processes and options.devices:
        raise ConfigError("--processes is for the CPU and --devices for GPUs; give one of them")


def _check_input(options: argparse.Namespace) -> None:
    from suisei.data.formats import format_of
    from suisei.data.paths import descriptor_of, is_stream

    if descriptor_of(options.input) == 0:
        options.input = "-"
    path = Path(options.input)
    options.once = options.input == "-" or is_stream(path)
    if options.input != "-" and not os.path.exists(path):  # noqa: PTH110 - a name that is too long, too
        raise DataError(f"{path}: no such file")
    if options.once:
        if options.format == "parquet" or (not options.format and path.suffix.lower() == ".parquet"):
            raise ConfigError("Parquet cannot be read from standard input or a pipe; give a file")
    elif path.is_dir():
        raise DataError(f"{path}: is a folder; give a file")
    elif not options.format:
        try:
            format_of(path)
        except ConfigError as error:
            raise ConfigError(f"{error}, or say which it is: --format NAME") from None


def _references(options: argparse.Namespace) -> References | None:
    """Return the files of references, which are read once however often the rows are."""
    from suisei.data.joins import References

    return References(options.references) if options.references else None


def _check_output(options: argparse.Namespace) -> None:
    from suisei.data.outputs import check_outputs, given
    from suisei.data.paths import descriptor_of, is_stream
    from suisei.scoring.failed_rows import failed_files
    from suisei.scoring.output import output_format, part_files

    if descriptor_of(options.output) == 1:
        options.output = "-"
    path = Path(options.output)
    options.streams = options.output == "-" or is_stream(path)
    target = "/dev/stdout" if options.output == "-" else options.output
    outputs: list[Named] = [("--output", target), *given(vars(options), "summary")]
    outputs += [("--log-json", options.log_json)] if options.log_json != "-" else []
    if options.streams:
        if options.resume:
            raise ConfigError("--resume needs an --output file")
    elif not path.is_dir():
        output_format(path)
        outputs += [("--output's part file", part) for part in part_files(path)]
        outputs += [("--output's failed rows", failed) for failed in failed_files(path)]
    models = [("--model", folder) for folder in options.model]
    check_outputs(outputs, given(vars(options), "input", "model", "references"), sealed=models)


def chosen_devices(options: argparse.Namespace) -> list[str | None]:
    """Return the device of every scoring process, None for the one that ``--device`` names.

    With GPUs to count, ``options.device`` becomes the first of them.

    Raises:
        ConfigError: GPUs are counted and one is named, or there are not so many.
    """
    if options.processes:
        return [None] * int(options.processes)
    if options.devices is None:
        return [None]
    if options.device:
        raise ConfigError("--device names one device and --devices counts GPUs; give one of them")
    import torch

    there = torch.cuda.device_count()
    wanted = max(there, 1) if options.devices == "all" else int(options.devices)
    if wanted > there:
        raise ConfigError(f"--devices {options.devices}: {there} GPUs here; --processes N is for the CPU")
    options.device = "cuda:0"
    return [f"cuda:{number}" for number in range(wanted)]


def chosen_window(options: argparse.Namespace, devices: int) -> int:
    """Return how many rows are scored together; a run that goes on takes the blocks of the one before."""
    from suisei.scoring.output import noted_window

    if options.window is not None:
        return int(options.window)
    noted = noted_window(Path(options.output)) if options.resume else None
    return noted or (WINDOW if devices == 1 else PARALLEL_WINDOW)


def check_not_older(options: argparse.Namespace) -> None:
    """Refuse to call an output complete that was written before its input or its model."""
    from suisei.data.part_files import check_newer

    models = [Path(folder) / "config.json" for folder in options.model]
    check_newer(options.output, [options.input, *options.references, *models], "score anew")


def check_summary_is_there(options: argparse.Namespace) -> None:
    """Refuse a ``--summary`` that is absent where the output is complete: a run writes both.

    Raises:
        ConfigError: so it is.
    """
    if options.summary and not Path(options.summary).exists():
        raise ConfigError(
            f"--output {options.output} is complete, and nothing is scored that --summary {options.summary} "
            "could say anything of; score anew without --resume"
        )


def check_same_columns(output: str, labels: Sequence[str]) -> None:
    """Refuse to call an output complete that has scores by other metrics, as far as it can be read.

    Raises:
        ConfigError: its columns are others.
    """
    columns = _score_columns(Path(output))
    if columns is not None and columns != list(labels):
        raise ConfigError(
            f"--output {output} is complete, but has scores by {', '.join(columns)}, and this run by "
            f"{', '.join(labels)}; score anew without --resume, or give another output"
        )


def _score_columns(path: Path) -> list[str] | None:
    """Return the columns of scores of a finished output; None where it does not say."""
    from suisei.data.compressed import open_plain, plain_suffix
    from suisei.data.parquet import import_pyarrow

    kind = plain_suffix(path)
    try:
        if kind == ".parquet":
            names = list(import_pyarrow(path).parquet.read_schema(path).names)
        else:
            with open_plain(path) as stream:
                line = stream.readline().decode("utf-8")
            if kind == ".jsonl":
                names = list(dict(json.loads(line)))
            else:
                names = next(csv.reader([line], delimiter="\t" if kind == ".tsv" else ","))
    except (OSError, ValueError, TypeError, RecursionError, StopIteration, csv.Error, SuiseiError):
        return None
    return [name for name in names if name not in ("id", "error")]

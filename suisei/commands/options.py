"""Options that several commands have: how rows are read, what is resampled, how much is told."""

from __future__ import annotations

import argparse
from pathlib import Path

from suisei.commands.allowances import add_allowances
from suisei.commands.command_parser import Add
from suisei.commands.option_values import filled, resamples, seed
from suisei.errors import ConfigError


def add_data_options(add: Add) -> None:
    """Add how the data of ``--data`` are read."""
    add_root_option(add)
    add_row_options(
        add,
        images="where the images, or the videos, are (default: beside the file, or as a data set has them)",
        ratings="of a file of ratings, for rows that state none (default 0 1)",
    )


def add_root_option(add: Add) -> None:
    """Add where the files of a benchmark or another named data set are."""
    add("--root", metavar="DIR", type=filled, help="where the files of a named data set are")


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
        help="COCO annotations, or JSON, JSONL or a table of references by image id, or text, one file per "
        "reference (default: the rows' own)",
    )  # fmt: skip
    add(
        "--column", metavar="FIELD=NAME", type=_column, action="append", default=[],
        help="the column that fills a field, as candidate=my_name; FIELD= for none (usual names are known)",
    )  # fmt: skip


def check_images(options: argparse.Namespace) -> None:
    """Refuse a folder of images that is not there."""
    if options.images and not Path(options.images).is_dir():
        raise ConfigError(f"--images {options.images}: no such folder")


def add_resampling_options(
    add: Add,
    *,
    none: str = "no intervals",
    what: str = "resamples",
    seeded: str | None = "all resampling",
    tests: bool = False,
) -> None:
    """Add how often is resampled, and from which seed.

    Args:
        add: of a parser or group.
        none: what 0 stands for.
        what: what there are so many of.
        seeded: what the seed decides; None for no such option.
        tests: whether pairs are tested, whose number decides that of permutations where none is given
            (:func:`resampling_counts`).
    """
    usual = "default 1000, of permutations more for more than 25 pairs" if tests else "default 1000"
    add(
        "--bootstrap", type=resamples, default=None if tests else 1000, metavar="N",
        help=f"{what}; 0: {none} ({usual})",
    )  # fmt: skip
    if seeded:
        add("--seed", type=seed, default=0, help=f"of {seeded} (default 0)")


def resampling_counts(options: argparse.Namespace, pairs: int) -> tuple[int, int | None]:
    """Return the number of resamples, and of permutations where none is given: enough for so many tests."""
    from suisei.metaeval.settings import USUAL
    from suisei.metaeval.significance import usual_permutations

    if options.bootstrap is not None:
        return options.bootstrap, None
    return USUAL, usual_permutations(pairs)


def add_correlation_option(add: Add, default: str | None, used: str) -> None:
    """Add which correlation is looked at where one must be chosen.

    Args:
        add: of a parser or group.
        default: which it is; None for that of the benchmark's papers.
        used: what for.
    """
    usual = f"default {default}" if default else "default: as the benchmark's papers do, else tau-c"
    help_text = f"for {used} ({usual}); the tables have all four"
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
    from suisei.data.column_names import chosen_columns

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

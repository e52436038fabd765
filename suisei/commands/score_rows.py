"""The rows that ``suisei score`` reads: from a file, a pipe or standard input."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from suisei.commands.allowances import allowed
from suisei.commands.options import named_columns, rating_scale
from suisei.errors import DataError

if TYPE_CHECKING:
    from suisei.data.formats import Row


def read_rows(options: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of the input, good and bad; those of standard input from where it stands."""
    from suisei.data.formats import iter_rows

    source = standard_input() if options.input == "-" else Path(options.input)
    rows = iter_rows(
        source,
        format=options.format,
        images=options.images,
        rating_scale=rating_scale(options),
        columns={"rating": "rating", **named_columns(options)},  # none is guessed that is not used
        references=options.references_read,
        note=options.note,
        allowed=allowed(options),
    )
    return options.seen.watch(rows)


def standard_input() -> TextIO:
    """Return standard input.

    Raises:
        DataError: it is closed.
    """
    if sys.stdin is None:
        raise DataError("standard input is closed; give a file, or something that writes rows")
    return sys.stdin


def quick_count(options: argparse.Namespace) -> int | None:
    """Count the input's rows for the progress bar; None where that is not cheap."""
    from suisei.data.compressed import is_gzip
    from suisei.data.formats import FORMATS
    from suisei.data.lines import count_lines

    path = Path(options.input)
    kind = options.format or FORMATS.get(path.suffix.lower())
    if options.input == "-" or not path.is_file() or is_gzip(path) or kind in ("parquet", "json"):
        return None
    table = kind in ("csv", "tsv")
    return max(0, count_lines(path, quoted=table) - table)

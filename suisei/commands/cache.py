"""``suisei cache``: where the features of captions and images are kept between runs, and removing them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from suisei.cli import counted, write_output
from suisei.commands.command_parser import CommandParser
from suisei.commands.option_values import filled
from suisei.errors import DataError

_EPILOG = """The cache holds what encoders said of captions and images, for other runs to use:
numbers under a hash of all that decides them, never captions or images themselves. It is used by all commands
that score, and by 'suisei train' for frozen encoders. SUISEI_CACHE names another folder, or is "off";
SUISEI_CACHE_GB is its largest size in GB (default 5), at which the oldest features make room.
Beside it, without a limit, are the images that the metric recap drew, with their captions."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = CommandParser(
        prog="suisei cache",
        description="Show, or remove, the features that are kept between runs.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--clear", action="store_true", help="remove them all")
    parser.add_argument(
        "--cache", metavar="DIR", type=filled, help="the folder (default: SUISEI_CACHE, or the user's)"
    )
    options = parser.parse_args(argv)
    from suisei.encoders.cache_place import disk_cache
    from suisei.encoders.drawings import drawings_folder, kept_drawings, remove_drawings

    if options.cache not in (None, "off") and not os.path.isdir(os.path.expanduser(options.cache)):  # noqa: PTH111, PTH112
        raise DataError(f"{options.cache}: no such folder")
    cache, drawings = disk_cache(options.cache), drawings_folder(options.cache)
    if cache is None:
        write_output("no feature cache is in use: SUISEI_CACHE is off, or there is no folder for it\n")
        return 0
    try:
        items, size = cache.size()
        kept = kept_drawings(drawings) if drawings is not None else []
        images = [path.stat().st_size for path in kept if path.suffix == ".png"]
        if options.clear:
            cache.clear()
            if drawings is not None:
                remove_drawings(drawings)
    except OSError as error:
        name = error.filename or cache.path
        raise DataError(f"{name}: cannot be removed: {error.strerror or error}") from None
    what = f"{items:,} captions and images, {size / 1e6:,.1f} MB of at most {cache.max_bytes / 1e6:,.0f} MB"
    removed = "removed " if options.clear else ""
    write_output(f"{cache.path}: {removed}{what}\n")
    if images:
        write_output(
            f"{drawings}: {removed}{counted(len(images), 'drawn image')}, {sum(images) / 1e6:,.1f} MB\n"
        )
    return 0

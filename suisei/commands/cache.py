"""``suisei cache``: where the features of captions and images are kept between runs, and removing them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

_EPILOG = """The cache holds what encoders said of captions and images, for other runs to use:
numbers under a hash of all that decides them, never captions or images themselves. It is used by 'suisei
score' and 'suisei evaluate', and by 'suisei train' for frozen encoders. SUISEI_CACHE names another folder,
or is "off"; SUISEI_CACHE_GB is its largest size in GB (default 5), at which the oldest features make room."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="suisei cache",
        description="Show, or remove, the features that are kept between runs.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--clear", action="store_true", help="remove them all")
    parser.add_argument("--cache", metavar="DIR", help="the folder (default: SUISEI_CACHE, or the user's)")
    options = parser.parse_args(argv)
    from suisei.encoders.feature_cache import disk_cache

    cache = disk_cache(options.cache)
    if cache is None:
        sys.stdout.write("no feature cache is in use: SUISEI_CACHE is off, or there is no folder for it\n")
        return 0
    items, size = cache.size()
    what = f"{items:,} captions and images, {size / 1e6:,.1f} MB of at most {cache.max_bytes / 1e6:,.0f} MB"
    if options.clear:
        cache.clear()
    sys.stdout.write(f"{cache.path}: {'removed ' if options.clear else ''}{what}\n")
    return 0

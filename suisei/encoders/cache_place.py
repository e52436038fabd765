"""Where features are kept on disk, and how many: by option, by environment, or in the user's folder."""

from __future__ import annotations

import math
import os
from pathlib import Path

from suisei.encoders.feature_file import DiskCache
from suisei.errors import ConfigError

VARIABLE = "SUISEI_CACHE"
SIZE_VARIABLE = "SUISEI_CACHE_GB"
DEFAULT_GB = 5.0
WORTHWHILE = 2_000_000
"""By default the features of smaller encoders, in weights, stay off the disk: they are quick to compute."""


def disk_cache(choice: str | Path | None = None) -> DiskCache | None:
    """Return the cache on disk that a user chose, or None for none.

    Args:
        choice: a folder; "off"; or None for what SUISEI_CACHE says (a folder or "off"), and without it
            ``suisei`` in the user's folder of caches, for encoders of WORTHWHILE weights and more.

    Raises:
        ConfigError: a chosen folder cannot be made, or SUISEI_CACHE_GB is no size.
    """
    chosen = choice if choice is not None else os.environ.get(VARIABLE) or None
    if chosen is not None and str(chosen) == "off":
        return None
    try:
        if chosen is not None:
            return DiskCache(Path(chosen).expanduser(), _max_bytes())
        return DiskCache(default_folder(), _max_bytes(), least_weights=WORTHWHILE)
    except OSError as error:
        if chosen is None:  # no home folder that can be written to: nobody asked for one
            return None
        raise ConfigError(f"the feature cache cannot be in {chosen}: {error.strerror or error}") from None


def default_folder() -> Path:
    """Return ``suisei`` in XDG_CACHE_HOME, or in ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "suisei"


def _max_bytes() -> int:
    given = os.environ.get(SIZE_VARIABLE) or str(DEFAULT_GB)
    try:
        size = float(given)
    except ValueError:
        size = math.nan
    if not 0 < size < math.inf:
        raise ConfigError(f"{SIZE_VARIABLE} is {given!r}; it must be a size in GB above 0")
    return int(size * 1e9)

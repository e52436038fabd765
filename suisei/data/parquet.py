"""Parquet's library: large, and for one file format, so an extra installs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from suisei.errors import UnavailableError


def import_pyarrow(path: Path | str) -> Any:
    """Return the module ``pyarrow`` with ``pyarrow.parquet`` in it.

    Args:
        path: of the file that it is wanted for.

    Raises:
        UnavailableError: it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UnavailableError(
            f"{path}: Parquet needs pyarrow: pip install 'suisei[parquet]', or save it as .jsonl or .csv"
        ) from None
    return pyarrow

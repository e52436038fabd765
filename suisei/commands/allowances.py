"""What the files that a command reads may name, beside images in their own folder."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from suisei.data.paths import Allowed


def add_allowances(add: Callable[..., Any]) -> None:
    """Add what files may name.

    Args:
        add: of a parser or group.
    """
    add(
        "--any-path", action="store_true",
        help="files may name images and videos outside of their own folder and that of --images",
    )  # fmt: skip


def allowed(options: argparse.Namespace) -> Allowed:
    """Return what files may name, as the options of :func:`add_allowances` say."""
    return Allowed(anywhere=options.any_path or None)

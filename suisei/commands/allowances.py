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


def add_web_option(add: Callable[..., Any]) -> None:
    """Add whether images are fetched from the web.

    Args:
        add: of a parser or group.
    """
    add(
        "--web-images", action="store_true",
        help="fetch images whose rows have an address (http, https) in place of a path; from public hosts "
        "alone, within limits of size and time",
    )  # fmt: skip


def allowed(options: argparse.Namespace) -> Allowed:
    """Return what files may name, as the options say."""
    return Allowed(anywhere=options.any_path or None, web=getattr(options, "web_images", False))

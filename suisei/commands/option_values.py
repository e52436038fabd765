"""Kinds of values that options take: numbers within limits, names that are not empty, devices."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable

MAX_RESAMPLES = 100_000
MAX_SEED = 2**63 - 1
MAX_PROCESSES = 256

_DEVICES = re.compile(r"all|0*[1-9]\d{0,5}", re.ASCII)
_DEVICE = re.compile(r"auto|(cpu|mps)|(cuda|xpu)(:\d{1,3})?")


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return what reads a whole number within limits."""
    limits = f"at least {least:,}" if most is None else f"from {least:,} to {most:,}"

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a whole number {limits}, got {text[:40]!r}") from None
        if number < least or (most is not None and number > most):
            raise argparse.ArgumentTypeError(f"must be {limits}, got {text[:40]}")
        return number

    return read


def real(least: float, most: float) -> Callable[[str], float]:
    """Return what reads a number within limits; NaN is none."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(
                f"must be a number from {least:g} to {most:g}, got {text[:40]!r}"
            )
        return number

    return read


positive = whole(1)
"""Reads a number of at least 1."""

seed = whole(0, MAX_SEED)
"""Reads a seed."""

resamples = whole(0, MAX_RESAMPLES)
"""Reads how often to resample; more would take memory and hours and change no digit that is shown."""

processes = whole(1, MAX_PROCESSES)
"""Reads a number of processes."""


def filled(text: str) -> str:
    """Read a name, which an unset variable of a shell script would leave empty."""
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty; give a name or leave the option out")
    return text


def caption_text(text: str) -> str:
    """Read a caption or a reference."""
    if not text.strip():
        raise argparse.ArgumentTypeError("has no text; a caption, and a reference, is a word or more")
    return text


def devices(text: str) -> str:
    """Read a number of GPUs, or "all"; whether they are there is seen by what uses them."""
    if not _DEVICES.fullmatch(text):
        raise argparse.ArgumentTypeError(f"expected a number of GPUs, or all, got {text[:40]!r}")
    return text


def device(text: str) -> str:
    """Read the name of a device; whether it is there is seen by what uses it."""
    if not _DEVICE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"must be auto, cpu, cuda, cuda:1, ..., got {text[:40]!r}")
    return text

"""Metrics that other installed packages bring: entry points of the group ``suisei.metrics``.

Only what is installed is looked at, by its metadata; a package is imported when its metric is asked for.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from suisei.errors import ConfigError, UnavailableError

GROUP = "suisei.metrics"


@cache
def offered() -> dict[str, tuple[EntryPoint, ...]]:
    """Return, by metric name, the entry points that offer it: one, unless packages are at odds."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        found[point.name] = (*found.get(point.name, ()), point)
    return found


def loaded(name: str) -> tuple[Any, str]:
    """Return what a package offers under a metric's name, and what to call that package in messages.

    Raises:
        ConfigError: several packages offer the name.
        UnavailableError: the package cannot be imported, or lacks what its entry point names.
    """
    points = offered()[name]
    packages = [_package(point) for point in points]
    if len(points) > 1:
        raise ConfigError(f"metric {name!r} is offered by {' and by '.join(packages)}; uninstall all but one")
    try:
        return points[0].load(), packages[0]
    except Exception as error:  # a package raises what it likes when it is imported
        raise UnavailableError(
            f"metric {name!r}: {points[0].value} of {packages[0]} cannot be imported "
            f"({type(error).__name__}: {error}); mend or uninstall that package"
        ) from error


def release(name: str) -> tuple[str, str] | None:
    """Return name and version of the package that offers a metric, None where the metadata do not say."""
    distribution = offered()[name][0].dist
    return (distribution.name, distribution.version) if distribution else None


def _package(point: EntryPoint) -> str:
    return f"package {point.dist.name} {point.dist.version}" if point.dist else "an unnamed package"

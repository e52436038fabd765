"""What the settings in a model folder may be: a closed list of names, each with a rule of its own.

Settings come with a folder that somebody else may have written. They decide what is built and how much memory
that takes, and some are handed to libraries, so nothing is handed on that is not listed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from suisei.errors import ModelError, SuiseiError, one_line
from suisei.ranges import Rule, check, shown

WIDEST = 65_536
"""Most units of a layer."""
MOST_LAYERS = 256
"""Most layers of an encoder."""
LARGEST_VOCABULARY = 4_000_000
"""Most tokens of a vocabulary, and positions of a caption."""
LARGEST_IMAGE = 2048
"""Longest side of what an image encoder looks at, in pixels."""
BUILD_ERRORS = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, IndexError, AssertionError),
    *(ArithmeticError, MemoryError, RecursionError, ImportError),
)
"""What libraries raise when they are to build something from settings that do not go together."""


def check_folder(
    values: Any, rules: Mapping[str, Rule], place: str, *, required: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return settings that keep their rules.

    Args:
        values: the settings as they were read.
        rules: {name: rule} of every setting there may be.
        place: where they stand, for the message.
        required: names that must be there.

    Raises:
        ModelError: no settings, an unknown or missing name, or a value that breaks its rule.
    """
    if not isinstance(values, Mapping):
        raise ModelError(f"{place} is {shown(values)}; it must be settings by name")
    for name, value in values.items():
        if name not in rules:
            raise ModelError(f"{place}: no setting {shown(name)} may be there; there are: {', '.join(rules)}")
        check(f"{place}.{name}", value, rules[name], error=ModelError)
    absent = [name for name in required if name not in values]
    if absent:
        raise ModelError(f"{place} lacks {', '.join(absent)}")
    return dict(values)


@contextmanager
def built_from(folder: Path) -> Iterator[None]:
    """Say of everything that goes wrong while a model is built which folder it was built from.

    Raises:
        ModelError: any expected error, and whatever libraries raise at parts that do not go together.
    """
    try:
        yield
    except SuiseiError as error:
        raise ModelError(str(error) if str(folder) in str(error) else f"{folder}: {error}") from None
    except BUILD_ERRORS as error:
        raise ModelError(f"{folder}: its parts do not go together: {one_line(error)}") from None

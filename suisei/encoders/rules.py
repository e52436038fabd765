"""What the settings in a model folder may be: a closed list of names, each with a type and a range.

Settings come with a folder that somebody else may have written. They decide what is built and how much memory
that takes, and some are handed to libraries, so nothing is handed on that is not listed here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from suisei.errors import ModelError

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
SHOWN = 60
"""Characters of a wrong value that a message shows."""


class FolderRule(NamedTuple):
    """What one setting may be.

    Attributes:
        says: the rule in words.
        allows: whether a value keeps it.
    """

    says: str
    allows: Callable[[Any], bool]


def whole(low: int, high: int) -> FolderRule:
    """A whole number from ``low`` to ``high``."""

    def allows(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high

    return FolderRule(f"a whole number from {low} to {high}", allows)


def number(low: float, high: float) -> FolderRule:
    """A number from ``low`` to ``high``; not NaN."""

    def allows(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high

    return FolderRule(f"a number from {low:g} to {high:g}", allows)


def one_of(*values: Any) -> FolderRule:
    """One of the values, of the same type."""

    def allows(value: Any) -> bool:
        return any(type(value) is type(known) and value == known for known in values)

    return FolderRule(f"one of {', '.join(map(repr, values))}", allows)


def text(longest: int = 200) -> FolderRule:
    """A text of at most so many characters."""
    return FolderRule(
        f"a text of up to {longest} characters",
        lambda value: isinstance(value, str) and len(value) <= longest,
    )


def or_none(rule: FolderRule) -> FolderRule:
    """The rule, or null."""
    return FolderRule(f"{rule.says}, or null", lambda value: value is None or rule.allows(value))


def either(first: FolderRule, second: FolderRule) -> FolderRule:
    """One of two rules."""
    return FolderRule(
        f"{first.says}, or {second.says}", lambda value: first.allows(value) or second.allows(value)
    )


def several(rule: FolderRule, least: int, most: int) -> FolderRule:
    """A list of so many values that each keep a rule."""

    def allows(value: Any) -> bool:
        return (
            isinstance(value, list | tuple) and least <= len(value) <= most and all(map(rule.allows, value))
        )

    return FolderRule(f"a list of {least} to {most} values, each {rule.says}", allows)


def entries(rules: Mapping[str, FolderRule]) -> FolderRule:
    """Named values, each by its own rule."""

    def allows(value: Any) -> bool:
        return isinstance(value, Mapping) and all(
            name in rules and rules[name].allows(own) for name, own in value.items()
        )

    return FolderRule(f"named values ({', '.join(f'{n}: {rule.says}' for n, rule in rules.items())})", allows)


YES_NO = FolderRule("true or false", lambda value: isinstance(value, bool))
FINITE = FolderRule(
    "a finite number", lambda value: number(-math.inf, math.inf).allows(value) and abs(value) < 1e30
)


def check_folder(
    values: Any, rules: Mapping[str, FolderRule], place: str, *, required: tuple[str, ...] = ()
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
        if not rules[name].allows(value):
            raise ModelError(f"{place}.{name} is {shown(value)}; it must be {rules[name].says}")
    absent = [name for name in required if name not in values]
    if absent:
        raise ModelError(f"{place} lacks {', '.join(absent)}")
    return dict(values)


def shown(value: Any) -> str:
    """Return a value as a message shows it: on one line, and not all of a long one."""
    told = repr(value)
    return told if len(told) <= SHOWN else f"{told[:SHOWN]}..."


def one_line(error: BaseException) -> str:
    """Return what an error says, on one line of bounded length."""
    return (" ".join(str(error).split()) or type(error).__name__)[:300]

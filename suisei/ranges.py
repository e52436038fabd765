"""What a setting may be: ranges and words, checked before any work starts, each by one line; how two differ.

A module that defines settings lists their rules beside them; :func:`check_settings` holds a whole object
against such a list. Settings in folders that others wrote have the same kinds of rules
(:func:`suisei.encoders.rules.check_folder`).
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from suisei.errors import ConfigError, SuiseiError

LONGEST_VALUE = 60
"""A value is shown up to so many characters."""


@dataclass(frozen=True, slots=True)
class Range:
    """A number between two bounds.

    Attributes:
        low: the least value.
        high: the largest value.
        whole: whether it must be an integer.
        above: whether ``low`` itself is not allowed.
        below: whether ``high`` itself is not allowed.
        null: whether None is allowed.
        also: further values that are allowed.
    """

    low: float
    high: float
    whole: bool = False
    above: bool = False
    below: bool = False
    null: bool = False
    also: tuple[Any, ...] = ()

    def holds(self, value: Any) -> bool:
        """Return whether a value follows the rule."""
        if value is None:
            return self.null
        if any(type(value) is type(other) and value == other for other in self.also):
            return True
        kind = numbers.Integral if self.whole else numbers.Real
        if isinstance(value, bool) or not isinstance(value, kind):
            return False
        # An integer may be beyond what a float holds.
        number: Any = value if isinstance(value, numbers.Integral) else float(value)
        if number in (math.inf, -math.inf):
            return False
        enough = number > self.low if self.above else number >= self.low
        return enough and (number < self.high if self.below else number <= self.high)

    def __str__(self) -> str:
        low = f"above {_plain(self.low)}" if self.above else f"from {_plain(self.low)}"
        high = f"below {_plain(self.high)}" if self.below else f"{_plain(self.high)}"
        joint = " and at most " if self.above and not self.below else " and " if self.above else " to "
        kind = "an integer" if self.whole else "a number"
        others = "".join(f", or {shown(other)}" for other in self.also) + ", or null" * self.null
        return f"{kind} {low}{joint}{high}{others}"


@dataclass(frozen=True, slots=True)
class Word:
    """One of some words.

    Attributes:
        words: the words.
        null: whether None is allowed.
    """

    words: Sequence[Any]
    null: bool = False

    def holds(self, value: Any) -> bool:
        """Return whether a value follows the rule."""
        return self.null if value is None else any(type(value) is type(w) and value == w for w in self.words)

    def __str__(self) -> str:
        told = dict.fromkeys(word if isinstance(word, str) and word else shown(word) for word in self.words)
        words = [*told, *(["null"] if self.null else [])]
        return f"one of {', '.join(words)}" if len(words) > 1 else words[0]


@dataclass(frozen=True, slots=True)
class Of:
    """A value of a type: a text that is not blank, a truth value, or settings by name.

    Attributes:
        kind: str, bool or Mapping.
        null: whether None is allowed.
    """

    kind: type
    null: bool = False

    def holds(self, value: Any) -> bool:
        """Return whether a value follows the rule."""
        if value is None:
            return self.null
        return isinstance(value, self.kind) and (not isinstance(value, str) or bool(value.strip()))

    def __str__(self) -> str:
        names = {str: "a text that is not blank", bool: "true or false", Mapping: "settings by name"}
        return names[self.kind] + ", or null" * self.null


@dataclass(frozen=True, slots=True)
class Several:
    """A list of values that follow one rule.

    Attributes:
        each: the rule.
        least: how many at least.
        most: how many at most.
        null: whether None is allowed.
    """

    each: Rule
    least: int
    most: int
    null: bool = False

    def holds(self, value: Any) -> bool:
        """Return whether a value follows the rule."""
        if value is None:
            return self.null
        if isinstance(value, str) or not isinstance(value, Sequence):
            return False
        return self.least <= len(value) <= self.most and all(map(self.each.holds, value))

    def __str__(self) -> str:
        count = str(self.least) if self.least == self.most else f"{self.least} to {self.most}"
        return f"a list of {count}, each {self.each}" + ", or null" * self.null


@dataclass(frozen=True, slots=True)
class Either:
    """What follows one of two rules.

    Attributes:
        first: the one.
        second: the other.
        null: whether None is allowed.
    """

    first: Rule
    second: Rule
    null: bool = False

    def holds(self, value: Any) -> bool:
        """Return whether a value follows the rule."""
        return self.null if value is None else self.first.holds(value) or self.second.holds(value)

    def __str__(self) -> str:
        return f"{self.first}, or {self.second}" + ", or null" * self.null


@dataclass(frozen=True, slots=True)
class Entries:
    """Named values, none of which must be there, each by its own rule.

    Attributes:
        rules: {name: rule} of all that may be there.
        null: whether None is allowed.
    """

    rules: Mapping[str, Rule]
    null: bool = False

    def holds(self, value: Any) -> bool:
        """Return whether a value follows the rule."""
        if value is None:
            return self.null
        return isinstance(value, Mapping) and all(
            name in self.rules and self.rules[name].holds(own) for name, own in value.items()
        )

    def __str__(self) -> str:
        named = ", ".join(f"{name}: {rule}" for name, rule in self.rules.items())
        return f"named values ({named})" + ", or null" * self.null


@dataclass(frozen=True, slots=True)
class Suits:
    """What suits a rule that only words and a function say.

    Attributes:
        words: the rule in words.
        test: whether a value that is not None keeps it.
        null: whether None is allowed.
    """

    words: str
    test: Callable[[Any], bool]
    null: bool = False

    def holds(self, value: Any) -> bool:
        """Return whether a value follows the rule."""
        return self.null if value is None else self.test(value)

    def __str__(self) -> str:
        return self.words + ", or null" * self.null


Rule = Range | Word | Of | Several | Either | Entries | Suits
AnyRule = TypeVar("AnyRule", Range, Word, Of, Several, Either, Entries, Suits)
SHARE = Range(0, 1)
DROPOUT = Range(0, 1, below=True)
LEARNING_RATE = Range(0, 1, above=True)
WEIGHT_DECAY = Range(0, 10)
SEED = Range(0, 2**32 - 1, whole=True)
SWITCH = Of(bool)
NAME = Of(str)


def at_least(low: int, high: int = 1_000_000, **options: Any) -> Range:
    """Return the rule of a count."""
    return Range(low, high, whole=True, **options)


def or_null(rule: AnyRule) -> AnyRule:
    """Return the rule that allows None too."""
    return replace(rule, null=True)


def check(
    name: str, value: Any, rule: Rule, advice: str = "", *, error: type[SuiseiError] = ConfigError
) -> None:
    """Refuse a value that breaks a rule.

    Args:
        name: the setting, as the command line and a config name it.
        value: its value.
        rule: what it may be.
        advice: what to do, beyond following the rule.
        error: what is raised.

    Raises:
        ConfigError: it breaks the rule; or another error, as asked for.
    """
    if not rule.holds(value):
        raise error(f"{name} is {shown(value)}; it must be {rule}{advice and '; ' + advice}")


def check_settings(prefix: str, settings: Any, rules: Mapping[str, Rule]) -> None:
    """Hold settings against their rules.

    Args:
        prefix: what their names begin with, such as "model.head".
        settings: an object with the settings as attributes, or a mapping.
        rules: {name: what it may be}.

    Raises:
        ConfigError: one breaks its rule.
    """
    values = settings if isinstance(settings, Mapping) else vars(settings)
    for name, rule in rules.items():
        check(f"{prefix}.{name}" if prefix else name, values[name], rule)


def flat(values: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested settings as {"model.head.hidden": value, ...}."""
    if not isinstance(values, Mapping) or not values:
        return {prefix.removesuffix("."): values}
    return {
        key: value for name, part in values.items() for key, value in flat(part, f"{prefix}{name}.").items()
    }


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    """Return {name: "name: old, now new"} of nested settings that differ."""
    before, after, absent = flat(old), flat(new), "not there"
    return {
        key: f"{key}: {before.get(key, absent)!r}, now {after.get(key, absent)!r}"
        for key in sorted({*before, *after})
        if before.get(key, absent) != after.get(key, absent)
    }


def shown(value: Any) -> str:
    """Return a value as a message shows it: on one line, and not all of a long one."""
    if value is None or isinstance(value, bool):
        return str(value).lower() if value is not None else "null"
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def _plain(bound: float) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"

"""Which metrics are to be computed, and with which options: checked before any work is done."""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from suisei.data.writers import SAMPLE_FIELDS
from suisei.errors import ConfigError
from suisei.metrics.registry import canonical, get_entry, resolve
from suisei.scoring.score_columns import describes_sample

_NAMED = re.compile(r"([^=:/\\,]*[^=:/\\,\s][^=:/\\,]*)=(.+)", re.DOTALL)
"""NAME=SPEC; what has a colon or a slash before its "=" is a spec or a path."""
_TAKEN = SAMPLE_FIELDS | {"key", "uid"}
"""What other columns of scores are called: a metric of such a name would take their place."""


@dataclass(frozen=True, slots=True)
class MetricPlan:
    """A metric to be made.

    Attributes:
        spec: ``NAME`` or ``NAME:ARGUMENT``.
        options: of the metric.
        name: what the user calls it, None for nothing.
    """

    spec: str
    options: dict[str, Any] = field(default_factory=dict)
    name: str | None = None

    @property
    def label(self) -> str:
        """What it is called in reports."""
        return self.name or self.spec


def plan_metrics(
    specs: Sequence[str],
    tokenizer: str | None = None,
    options: Sequence[str] = (),
    common: Mapping[str, Any] | None = None,
    names: Mapping[str, str] | None = None,
) -> list[MetricPlan]:
    """Check metric names and options before any work is done.

    Args:
        specs: ``NAME`` or ``NAME:ARGUMENT``, each once.
        tokenizer: given to every metric that takes one.
        options: ``NAME.KEY=VALUE``; the value is JSON where it parses as such, else text.
        common: options such as "device", given to every metric that takes them.
        names: {spec: what the user calls it}.

    Raises:
        ConfigError: an unknown or repeated metric, a name for two or of another column, an option that its
            metric does not take or whose metric is not asked for, or a tokenizer that no metric takes.
    """
    specs = [canonical(spec) for spec in specs]
    called = {canonical(spec): name for spec, name in (names or {}).items()}
    repeated = [spec for spec, count in Counter(specs).items() if count > 1]
    if repeated:
        raise ConfigError(f"metric {repeated[0]!r} is given twice")
    given = _parse_options(options)
    plans, tokenizer_taken = [], tokenizer is None
    for spec in specs:
        name = spec.partition(":")[0]
        get_entry(name)
        chosen = dict(given.get(name, {}))
        taken, open_ended = _parameters(name) if (chosen or tokenizer or common) else (set(), True)
        unknown = [key for key in chosen if key not in taken and not open_ended]
        if unknown:
            raise ConfigError(
                f"metric {name!r} has no option {unknown[0]!r}; it takes {', '.join(sorted(taken)) or 'none'}"
            )
        if tokenizer is not None and "tokenizer" in taken:
            chosen.setdefault("tokenizer", tokenizer)
            tokenizer_taken = True
        for key, value in (common or {}).items():
            if key in taken or open_ended:
                chosen.setdefault(key, value)
        plans.append(MetricPlan(spec, chosen, called.get(spec)))
    _check_labels([plan.label for plan in plans])
    unused = sorted(set(given) - {plan.spec.partition(":")[0] for plan in plans})
    if unused:
        raise ConfigError(f"an option is given for metric {unused[0]!r}, which is not asked for")
    if not tokenizer_taken:
        raise ConfigError(f"none of the metrics takes a tokenizer, got tokenizer {tokenizer!r}")
    return plans


def _check_labels(labels: Sequence[str]) -> None:
    """Refuse names of which two metrics, or a metric and another column, have the same."""
    twice = [label for label, count in Counter(labels).items() if count > 1]
    if twice:
        raise ConfigError(f"two metrics are called {twice[0]!r}; give each a name of its own")
    taken = [label for label in labels if label in _TAKEN or describes_sample(label)]
    if taken:
        raise ConfigError(f"a metric cannot be called {taken[0]!r}, as another column of scores is")


def short_labels(plans: Sequence[MetricPlan]) -> list[str]:
    """Return what the user calls each metric, else its name without argument where no other has the same."""
    names = [plan.name or plan.spec.partition(":")[0] for plan in plans]
    return [name if names.count(name) == 1 else plan.label for name, plan in zip(names, plans, strict=True)]


def named_spec(text: str) -> tuple[str | None, str]:
    """Return the name that a text gives to a metric or model, None for none, and the rest of it.

    >>> named_spec("tuned=suisei:runs/lr=1/model")
    ('tuned', 'suisei:runs/lr=1/model')
    >>> named_spec("suisei:runs/lr=1/model")
    (None, 'suisei:runs/lr=1/model')
    """
    found = _NAMED.fullmatch(text)
    return (found[1].strip(), found[2]) if found else (None, text)


def _parse_options(options: Sequence[str]) -> Mapping[str, dict[str, Any]]:
    parsed: dict[str, dict[str, Any]] = {}
    for option in options:
        target, equals, value = option.partition("=")
        name, dot, key = target.rpartition(".")
        name = canonical(name)
        if not (equals and dot and name and key):
            raise ConfigError(f"metric option {option!r} must be NAME.KEY=VALUE, such as bertscore.idf=true")
        try:
            parsed.setdefault(name, {})[key] = json.loads(value)
        except (ValueError, RecursionError):
            parsed.setdefault(name, {})[key] = value
    return parsed


def _parameters(name: str) -> tuple[set[str], bool]:
    """Return the options that a metric's factory names, and whether it takes any others."""
    try:
        parameters = inspect.signature(resolve(get_entry(name).target)).parameters.values()
    except ValueError:  # of some that are written in C
        return set(), True
    named = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return named, any(p.kind is p.VAR_KEYWORD for p in parameters)

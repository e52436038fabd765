"""The registry: how to make a metric from its name, those of other packages too, and which work here."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from suisei.errors import ConfigError, UnavailableError
from suisei.metrics.base import Metric
from suisei.metrics.entries import REGISTRY, Entry
from suisei.metrics.plugins import GROUP, loaded, offered, release

FAMILIES: dict[str, tuple[str, ...]] = {
    "bleu": ("bleu-4", "bleu-1", "bleu-2", "bleu-3", "sacrebleu"),
    "rouge": ("rouge-l",),
    "ciderd": ("cider",),
    "chrf++": ("chrf",),
    "clip": ("clip-s", "ref-clip-s"),
    "clipscore": ("clip-s", "ref-clip-s"),
    "refclipscore": ("ref-clip-s",),
    "pac": ("pac-s", "pac-s++", "ref-pac-s", "ref-pac-s++"),
    "pacscore": ("pac-s", "pac-s++", "ref-pac-s", "ref-pac-s++"),
    "refpacscore": ("ref-pac-s", "ref-pac-s++"),
    "emscore": ("em-score", "ref-em-score"),
    "bert": ("bertscore",),
    "distinct": ("distinct-2",),
    "repetition": ("repetition-4", "repetition-1", "repetition-2", "repetition-3"),
}
"""What people call a metric or a family of them, letters and digits alone, and the names here."""


def canonical(spec: str) -> str:
    """Return ``NAME`` or ``NAME:ARGUMENT`` with the registered name, whatever its case: CIDEr is cider."""
    name, colon, argument = spec.partition(":")
    known = name.strip().lower().replace("_", "-")
    if name in REGISTRY or (known not in REGISTRY and (name in offered() or known not in offered())):
        return spec
    return f"{known}{colon}{argument}"


def list_metrics() -> list[str]:
    """Return the registered names, in registry order, then those that other installed packages offer."""
    return [*REGISTRY, *(name for name in offered() if canonical(name) not in REGISTRY)]


def unavailable_reason(name: str, *, argument: bool = False) -> str | None:
    """Return why a registered metric cannot run on this machine, or None if it can.

    Args:
        name: its name.
        argument: whether it will be given its argument.
    """
    entry = get_entry(name)
    absent = [module for module in entry.modules if _is_absent(module)]
    if absent:
        how = f"pip install 'suisei[{entry.extra}]'" if entry.extra else f"pip install {' '.join(absent)}"
        return f"needs {', '.join(absent)}: {how}"
    check = entry.check if argument else entry.check or entry.default_check
    return resolve(check)() if check else None


def _is_absent(module: str) -> bool:
    try:
        return find_spec(module) is None
    except ModuleNotFoundError:  # what it would lie in
        return True


def get_metric(spec: str, **options: Any) -> Metric:
    """Make a metric from ``NAME`` or ``NAME:ARGUMENT`` (``bleu-4``, ``suisei:runs/scenes/model``).

    Args:
        spec: a registered name, with its argument where the metric takes one.
        options: keyword arguments of the metric, such as ``tokenizer="character"``.

    Raises:
        ConfigError: unknown name, argument or option; the valid ones are listed. Or what is made does not
            agree with its entry.
        UnavailableError: the metric cannot run on this machine; the reason and the cure are named.
    """
    if not isinstance(spec, str):
        raise ConfigError(f"a metric's name must be text such as 'bleu-4', got {spec!r:.60}")
    name, _, argument = canonical(spec).partition(":")
    entry = get_entry(name)
    if argument:
        if entry.argument is None:
            raise ConfigError(f"metric {name!r} takes no argument, got {spec!r}")
        options.setdefault(entry.argument, argument)
    reason = unavailable_reason(name, argument=options.get(str(entry.argument)) is not None)
    if reason:
        raise UnavailableError(f"metric {name!r} {reason}")
    factory = resolve(entry.target)
    given = {**(entry.defaults or {}), **options}
    _check_options(name, factory, given)
    metric = factory(**given)
    if not isinstance(metric, Metric):
        raise ConfigError(f"metric {name!r}: {entry.target} did not make a Metric")
    _check_agreement(name, entry, metric)
    if name not in REGISTRY:
        vars(metric)["package"] = release(name)  # of a frozen class, too
    return metric


def _check_options(name: str, factory: Any, given: Mapping[str, Any]) -> None:
    """Refuse options that a factory does not take; a TypeError within it is its author's, and no option's."""
    try:
        signature = inspect.signature(factory)
    except ValueError:  # of some that are written in C
        return
    try:
        signature.bind(**given)
    except TypeError as error:
        raise ConfigError(f"metric {name!r}: {error}") from error


def _check_agreement(name: str, entry: Entry, metric: Metric) -> None:
    """Refuse a class that needs other things than its entry says: commands go by one, scores by the other.

    What an instance sets itself may depend on its options, and is left to it.
    """
    if "needs" not in vars(metric) and metric.needs != set(entry.needs):
        here, there, kind = sorted(entry.needs), sorted(metric.needs), type(metric).__name__
        raise ConfigError(
            f"metric {name!r}: needs is {here} where it is registered, {there} in {kind}; make them the same"
        )


def get_entry(name: str) -> Entry:
    """Return a registered metric's entry, or that of another package's (:mod:`suisei.metrics.plugins`).

    Raises:
        ConfigError: no metric has that name; those that there are are listed. Or a package offers no entry.
        UnavailableError: the package that offers it cannot be imported.
    """
    name = canonical(name)
    if name in REGISTRY:  # no package takes the place of a metric of this one
        return REGISTRY[name]
    if name in offered():
        return _offered_entry(name)
    raise ConfigError(
        f"no metric {name!r}; {_meant(name)}registered: {', '.join(list_metrics())}; "
        f"your own: by an entry point {GROUP} (see CONTRIBUTING.md)"
    )


def _offered_entry(name: str) -> Entry:
    entry, package = loaded(name)
    if not isinstance(entry, Entry):
        raise ConfigError(
            f"metric {name!r}: {package} offers {type(entry).__name__}, "
            "expected an Entry of suisei.metrics.registry"
        )
    return entry


def _meant(name: str) -> str:
    """Return what an unknown name probably stands for, as part of a sentence; "" where nothing is near."""
    plain = "".join(letter for letter in name.lower() if letter.isalnum() or letter == "+")
    family = FAMILIES.get(plain)
    if family is not None and len(family) > 1:
        return f"of that family there are {', '.join(family)} (did you mean {family[0]!r}?); "
    names = list_metrics()
    close = family or difflib.get_close_matches(name.lower(), names, n=1)
    close = close or difflib.get_close_matches(plain, [each.replace("-", "") for each in names], n=1)
    near = next(
        (each for each in names if close and each.replace("-", "") == close[0].replace("-", "")), None
    )
    return f"did you mean {near!r}? " if near else ""


def resolve(target: str) -> Any:
    """Return what ``module:name`` in an entry stands for.

    Raises:
        UnavailableError: the module cannot be imported, or has no such name that can be called.
    """
    module, _, attribute = target.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except Exception as error:  # another package raises what it likes when it is imported
        raise UnavailableError(f"{target} cannot be imported: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise UnavailableError(f"{target} is no class or function, but {type(found).__name__}")
    return found

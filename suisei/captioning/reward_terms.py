"""What a captioner is rewarded by, as people write it: ``pac-s:DIR``, ``0.7*cider+0.3*pac-s:DIR``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from suisei.errors import ConfigError
from suisei.metrics.registry import canonical, get_entry, list_metrics

_WEIGHT = re.compile(r"\s*([^*:/\\]*?)\s*\*\s*")
MOST_TERMS = 20


@dataclass(frozen=True, slots=True)
class Term:
    """One metric of a reward.

    Attributes:
        weight: what its score is multiplied by.
        spec: ``NAME`` or ``NAME:ARGUMENT``.
    """

    weight: float
    spec: str

    @property
    def name(self) -> str:
        """The metric's registered name."""
        return self.spec.partition(":")[0]


def parse_reward(text: str) -> tuple[Term, ...]:
    """Read a weighted sum of metrics.

    A plus begins another term where a registered name follows it, with or without a weight; so
    ``pac-s++:DIR+cider`` has two terms, and a folder's name may hold a plus.

    >>> parse_reward("0.7*cider+0.3*pac-s++:runs/a+b")
    (Term(weight=0.7, spec='cider'), Term(weight=0.3, spec='pac-s++:runs/a+b'))

    Raises:
        ConfigError: an unknown metric, one that is named twice, or a weight that is no number above 0.
    """
    terms = [_term(part, text) for part in _split(text)]
    names = [term.spec for term in terms]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"reward {text!r} names {twice!r} twice; give it one weight")
    if len(terms) > MOST_TERMS:
        raise ConfigError(f"reward {text[:60]!r}... has {len(terms)} terms; {MOST_TERMS} are the most")
    return tuple(terms)


def _split(text: str) -> list[str]:
    """Cut a sum into terms: at a plus after which another term can begin, that is not part of a name."""
    names = "|".join(re.escape(name) for name in sorted(list_metrics(), key=len, reverse=True))
    begin = re.compile(rf"\s*(?:[0-9.eE+-]+\s*\*\s*)?(?:{names})\s*(?=$|[:+])", re.IGNORECASE)
    parts, start, place = [], 0, 0
    while place < len(text):
        found = begin.match(text, place) if place == start else None
        if found:
            place = found.end()  # a name's own pluses are passed over
            if place >= len(text):
                break
        if text[place] == "+" and begin.match(text, place + 1):
            parts.append(text[start:place])
            start = place = place + 1
        else:
            place += 1
    return [*parts, text[start:]]


def _term(part: str, text: str) -> Term:
    weight, spec = 1.0, part.strip()
    weighted = _WEIGHT.match(part)
    if weighted is not None:
        spec = part[weighted.end() :].strip()
        try:
            weight = float(weighted[1])
        except ValueError:
            weight = 0.0
        if not 0 < weight < float("inf"):
            raise ConfigError(
                f"reward {text!r}: the weight {weighted[1]!r} is no number above 0 (the sign of a "
                "distance is turned already); write a sum such as 0.7*cider+0.3*pac-s:DIR"
            )
    if not spec:
        raise ConfigError(f"reward {text!r} has an empty term; write a sum such as cider+0.5*pac-s:DIR")
    spec = canonical(spec)
    entry = get_entry(spec.partition(":")[0])
    if "video" in entry.needs:
        raise ConfigError(f"reward {text!r}: {spec} scores videos, and captions of images are rewarded")
    return Term(weight, spec)

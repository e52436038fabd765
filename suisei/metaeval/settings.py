"""What decides a figure of agreement beside scores and ratings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FEW = 50
"""Below so many samples, figures say little."""

CONFIDENCE = 0.95
"""Of intervals where nobody says how sure."""

USUAL = 1000
"""Bootstrap resamples where nobody says how many, and permutations of a few pairs."""

ALPHA = 0.05
"""Level of the clusters that a table ranks by."""


class _Permuted:
    """How many permutations a paired test has, where it may be said apart from the resamples."""

    __slots__ = ()
    n_resamples: int
    n_permutations: int | None

    @property
    def permutations(self) -> int:
        """How many permutations a paired test has."""
        return self.n_resamples if self.n_permutations is None else self.n_permutations


@dataclass(frozen=True, slots=True)
class Resampling(_Permuted):
    """How sure figures of systems are made; intervals are at CONFIDENCE, clusters at ALPHA.

    Attributes:
        n_resamples: bootstrap resamples; 0 for neither intervals nor tests.
        seed: of both.
        n_permutations: of the tests; None for as many as resamples.
    """

    n_resamples: int = USUAL
    seed: int = 0
    n_permutations: int | None = None


@dataclass(frozen=True, slots=True)
class EvaluationSettings(_Permuted):
    """How metrics are correlated with people, and how sure that is made.

    Attributes:
        raters: "rows" (each rating its own row) or "mean".
        averaging: "pooled", "item" or "system".
        missing: what NaN scores do: "drop" counts them, "raise" refuses them.
        n_resamples: bootstrap resamples over groups; 0 for neither intervals nor tests.
        seed: of both; all metrics share their resamples.
        confidence: of the intervals.
        correlation: the coefficient that metrics are compared by.
        unit: what a permutation swaps, "group" (an image with all its captions) or "item".
        published: whether published figures stand beside those of the same protocol.
        n_permutations: of paired tests; None for as many as resamples.
    """

    raters: str = "rows"
    averaging: str = "pooled"
    missing: str = "drop"
    n_resamples: int = 0
    seed: int = 0
    confidence: float = CONFIDENCE
    correlation: str = "tau-c"
    unit: str = "group"
    published: bool = True
    n_permutations: int | None = None

    def resampling(self) -> dict[str, Any]:
        """Return what decides the intervals, for the JSON of a table."""
        return {name: getattr(self, name) for name in ("n_resamples", "seed", "confidence")}

    def interval_notes(self, unit: str) -> tuple[str, ...]:
        """Return the line under a table that says how its intervals were made; none where it has none.

        Args:
            unit: what was resampled, such as "images".
        """
        if not self.n_resamples:
            return ()
        return (
            f"{self.confidence:.0%} intervals: bootstrap over {unit}, {self.n_resamples} resamples, "
            f"seed {self.seed}",
        )

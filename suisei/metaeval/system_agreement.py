"""Whether metrics put captioning systems in the order in which people put them.

Systems are few, so a high correlation says little by itself: beside it stands how often systems that were
given their scores by chance would agree as well, over all orders of the systems.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations

import numpy as np

from suisei.data.sample import checked_number, plain_name
from suisei.errors import DataError
from suisei.metaeval.agreement import SYSTEM_DIGITS, usual_size
from suisei.metaeval.correlation import CorrelationError, correlate
from suisei.metaeval.systems import MetricOutcome
from suisei.metaeval.tables import LABELS, Cell, Row, Section, Table
from suisei.scoring.columns import turned_notes

COEFFICIENTS = ("pearson", "spearman", "tau-b")
_MOST_ORDERS = 5040
"""Orders that are all looked at (seven systems); of more systems, so many are drawn."""
_FEW = 10


@dataclass(frozen=True, slots=True)
class SystemAgreement:
    """How one metric's corpus scores agree with people's scores of the systems.

    Attributes:
        metric: its label.
        systems: those that have both scores.
        metric_scores: corpus scores, higher is better, [S].
        human_scores: people's, [S].
        coefficients: {name: the coefficient, or why there is none}.
        p_value: share of the orders of systems with a Spearman correlation as high; None without one.
        distance: whether lower is better, so that the metric's scores have their sign turned.
    """

    metric: str
    systems: tuple[str, ...]
    metric_scores: tuple[float, ...]
    human_scores: tuple[float, ...]
    coefficients: Mapping[str, float | str]
    p_value: float | None
    distance: bool = False


def checked_human_scores(found: Mapping[str, object], names: Sequence[str], where: str) -> dict[str, float]:
    """Return people's scores of the systems that are compared.

    Args:
        found: {system: score}, as read.
        names: the systems.
        where: the file, for messages.

    Raises:
        DataError: a score that is no finite number, or scores of fewer than three of the systems.
    """
    scores = {}
    for name, value in found.items():
        number = checked_number(f"{where}: the score of {name!r:.60}", value)
        if not math.isfinite(number):
            raise DataError(f"{where}: the score of {name!r:.60} is {number:g}; leave the system out")
        if plain_name(name) in scores:
            raise DataError(f"{where}: {name!r:.60} has two scores, of names that look alike; keep one")
        scores[plain_name(name)] = number
    known = {name: scores[name] for name in names if name in scores}
    if len(known) < 3:
        there = ", ".join(scores) or "none"
        raise DataError(
            f"{where}: scores of {len(known)} of the systems {', '.join(names)}, and a correlation takes "
            f"three; its systems are: {there:.200}"
        )
    return known


def system_agreements(
    outcomes: Sequence[MetricOutcome], human: Mapping[str, float], seed: int = 0
) -> list[SystemAgreement]:
    """Return how each metric agrees with people on systems; one whose metric failed has no entry.

    Args:
        outcomes: from :func:`suisei.metaeval.systems.compare_systems`.
        human: {system: people's score}.
        seed: of the drawn orders, where there are too many to look at all.
    """
    found = []
    for outcome in outcomes:
        names = tuple(name for name in human if name in outcome.systems)
        if not names:
            continue
        sign = 1.0 if outcome.higher_is_better else -1.0
        scores = np.array([sign * outcome.systems[name].value for name in names])
        # Rounded, or equal means differ in their last digits, and are no ties.
        tied = (scores / usual_size(np.abs(scores))).round(SYSTEM_DIGITS)
        people = tuple(human[name] for name in names)
        values: dict[str, float | str] = {}
        for kind in COEFFICIENTS:
            try:
                values[kind] = correlate(kind, tied, people)
            except CorrelationError as error:
                values[kind] = str(error)
        rho = values["spearman"]
        p_value = None if isinstance(rho, str) else _chance(tied, people, rho, seed)
        said, distance = tuple(scores.tolist()), not outcome.higher_is_better
        found.append(SystemAgreement(outcome.label, names, said, people, values, p_value, distance))
    return found


def _chance(scores: np.ndarray, people: Sequence[float], observed: float, seed: int) -> float:
    """Return the share of orders of the systems that agree at least as well."""
    count = math.factorial(len(scores))
    if count <= _MOST_ORDERS:
        orders = np.array(list(islice(permutations(scores), count)))
    else:
        rng = np.random.default_rng(seed)
        orders = rng.permuted(np.tile(scores, (_MOST_ORDERS, 1)), axis=1)
    reached = np.array([correlate("spearman", order, people) for order in orders]) >= observed - 1e-12
    return float(reached.mean() if count <= _MOST_ORDERS else (1 + reached.sum()) / (1 + len(reached)))


def _orders(people: Sequence[float]) -> int:
    """Return how many orders of the systems people's scores tell apart: ties may stand either way round."""
    ties = Counter(people).values()
    return math.factorial(len(people)) // math.prod(map(math.factorial, ties))


def _undefined(agreement: SystemAgreement) -> str:
    """Return why a metric has no coefficient; "" where it has one."""
    if not all(isinstance(value, str) for value in agreement.coefficients.values()):
        return ""
    side = "people's" if len(set(agreement.human_scores)) == 1 else "its"
    return f"undefined: {side} scores of all {len(agreement.systems)} systems are equal"


def agreement_table(agreements: Sequence[SystemAgreement]) -> Table | None:
    """Return the table of metrics, with the number of systems said; None without any."""
    if not agreements:
        return None
    rows = []
    for each in agreements:
        cells = {
            kind: Cell(None, reason=value) if isinstance(value, str) else Cell(value)
            for kind, value in each.coefficients.items()
        }
        cells |= {"p": Cell(each.p_value, is_p_value=True), "n": Cell(len(each.systems))}
        pairs = zip(each.systems, each.metric_scores, each.human_scores, strict=True)
        points = [{"system": name, "metric": score, "human": person} for name, score, person in pairs]
        rows.append(Row(each.metric, cells, info={"points": points}))
    fewest = min(agreements, key=lambda each: len(each.systems))
    count = len(fewest.systems)
    drawn = max(len(each.systems) for each in agreements)
    orders = "all orders of the systems"
    if math.factorial(drawn) > _MOST_ORDERS:
        orders = f"{_MOST_ORDERS:,} orders of the systems, drawn at random, and the one found,"
    notes = [f"p (orders): share of {orders} whose Spearman correlation is as high or higher"]
    chance = _orders(fewest.human_scores)
    if count <= _FEW and chance > 1:
        notes.insert(0, f"{count} systems: one order in {chance:,} is right by chance alone")
    notes += [f"{each.metric}: {why}" for each in agreements if (why := _undefined(each))]
    notes += turned_notes([each.metric for each in agreements if each.distance])
    columns = {kind: LABELS[kind] for kind in COEFFICIENTS} | {"p": "p (orders)", "n": "systems"}
    sections = (Section("systems", tuple(rows)),)
    return Table("Agreement with people's scores of the systems", columns, sections, tuple(notes))

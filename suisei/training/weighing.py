"""How much a second opinion counts beside a score: an image's, another model's, or another language's.

The first two are decided by ratings that the scores were not learned from: a model is surer than it should be
of what it learned from. The third takes no rating.

Shape letters: N samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from suisei.models.cosine_start import Beside
from suisei.models.second import Weighing, logits

TRUST = 0.5
"""Share of the weight that an image earns on photographs like those it was taught: of others it says less.

On held-out photographs half the weight keeps nearly all of the gain, and on drawings it costs half as much.
"""
LEAST_SPREAD = 1e-9
"""Added to a standard deviation, which may be 0."""


@dataclass(frozen=True)
class Seen:
    """Rated samples with images, and what is said of them.

    Attributes:
        cosines: with the image, float64 [N].
        scores: without the image, in (0, 1), float64 [N].
        ratings: in [0, 1], float64 [N].
    """

    cosines: np.ndarray
    scores: np.ndarray
    ratings: np.ndarray


def fit_beside(beside: Beside, rated: Seen, unseen: Seen) -> None:
    """Set how scores by references and the cosine with the image are weighed, by two logistic regressions.

    Args:
        beside: changed in place.
        rated: ratings on the scale of the scores, which say where the weighed scores lie.
        unseen: ratings on any scale, which the scores were not learned from: they say how much the image
            counts against the references, for a model is surer than it should be of what it learned from.
    """
    centre = float(rated.cosines.mean())
    ratio = TRUST * _counts(logits(unseen.scores), unseen.cosines - centre, unseen.ratings)
    weighed = logits(rated.scores) + ratio * (rated.cosines - centre)
    offset, kept = _logistic([weighed], rated.ratings)
    if kept <= 0:  # ratings that fall where scores rise say nothing of the image
        ratio, offset, kept = 0.0, 0.0, 1.0
    beside.line.put(kept * ratio, centre, offset)
    with torch.no_grad():
        beside.kept.fill_(kept)


def fit_second(
    first: np.ndarray, second: np.ndarray, ratings: np.ndarray, languages: Sequence[str]
) -> Weighing:
    """Return what share a second model's logit has beside a first's.

    Args:
        first: scores of the first model, in (0, 1), float64 [N].
        second: scores of the second, on the same scale of ratings.
        ratings: of samples that neither learned from, on any scale from 0 to 1, float64 [N].
        languages: see :class:`suisei.models.second.Weighing`.
    """
    _, *slopes = _logistic([logits(first), logits(second)], ratings)
    own, other = (max(slope, 0.0) for slope in slopes)
    return Weighing(tuple(languages), other / (own + other) if other else 0.0)


def equal_spread(first: np.ndarray, second: np.ndarray, languages: Sequence[str]) -> Weighing:
    """Return the share by which both models' logits are spread as far, which takes no rating.

    Args:
        first: scores of the first model, in (0, 1), float64 [N].
        second: scores of the second, which differ.
        languages: see :class:`suisei.models.second.Weighing`.
    """
    own, other = logits(first).std(), logits(second).std()
    return Weighing(tuple(languages), float(own / (own + other)))


def fit_bridge(cosines: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
    """Return slope and offset of the logit that cosines across languages give.

    Args:
        cosines: of captions with references in the other language, float64 [N].
        scores: what the same captions have beside references in their own, in (0, 1), float64 [N].
    """
    offset, slope = _logistic([cosines], scores)
    return slope, offset


def _counts(own: np.ndarray, other: np.ndarray, ratings: np.ndarray) -> float:
    """Return how much one input [N] counts for each of another, by ratings [N]; never less than 0."""
    _, slope, beside = _logistic([own, other], ratings)
    return max(beside / slope, 0.0) if slope > 0 else 0.0


def _logistic(inputs: Sequence[np.ndarray], ratings: np.ndarray) -> list[float]:
    """Return offset and slopes of the logistic regression of ratings [N] on inputs [N]: one best fit."""
    from scipy.optimize import minimize
    from scipy.special import expit

    means = np.array([own.mean() for own in inputs])
    spreads = np.array([own.std() + LEAST_SPREAD for own in inputs])
    columns = np.stack([np.ones(len(ratings)), *((np.stack(inputs) - means[:, None]) / spreads[:, None])])

    def loss(guess: np.ndarray) -> tuple[float, np.ndarray]:
        said = guess @ columns
        value = float(np.mean(np.logaddexp(0, said) - ratings * said))
        return value, columns @ (expit(said) - ratings) / len(ratings)

    found = minimize(loss, np.zeros(len(columns)), jac=True, method="BFGS").x
    slopes = found[1:] / spreads
    return [float(found[0] - slopes @ means), *map(float, slopes)]

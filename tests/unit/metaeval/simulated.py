"""Ratings and metrics whose quality is known."""

import numpy as np

from suisei.data.sample import CaptionSample, Rating
from suisei.metaeval.agreement import AgreementData


def simulate(seed, groups=30, per_group=4, noise=(0.6,), raters=2, group_effect=0.0, group_noise=0.0):
    """Ratings of 1 to 5 of a hidden quality, and one score array per noise level.

    With ``group_noise`` each metric also errs by so much on all captions of an image alike.
    """
    rng = np.random.default_rng(seed)
    n = groups * per_group
    quality = rng.normal(size=n) + group_effect * np.repeat(rng.normal(size=groups), per_group)
    ratings = np.clip(np.round(3 + quality[:, None] + 0.5 * rng.normal(size=(n, raters))), 1, 5)
    names = tuple(f"g{i // per_group}" for i in range(n))
    systems = tuple(f"s{i % 4}" for i in range(n))
    errors = [sigma * rng.normal(size=n) for sigma in noise]
    if group_noise:
        errors = [own + group_noise * np.repeat(rng.normal(size=groups), per_group) for own in errors]
    return [AgreementData(quality + own, tuple(map(tuple, ratings)), names, (), systems) for own in errors]


def without_copies(tau_c, weights):
    """Tau-c of points repeated by weights [N], once no point makes a pair with its own copy."""
    total, copies = weights.sum() ** 2, (weights * (weights - 1)).sum()
    return np.clip(tau_c * total / (total - copies), -1, 1)


def rated(count=40, raters=2, languages=("en",), systems=(None,), seed=0):
    """Return captions that people rated by a hidden quality, two of each image, and that quality [count]."""
    rng = np.random.default_rng(seed)
    quality = rng.random(count)
    samples = []
    for i, value in enumerate(quality):
        ratings = np.clip(np.round(1 + 4 * value + 0.5 * rng.normal(size=raters)), 1, 5)
        caption = "犬" if languages[i % len(languages)] == "ja" else "dog"
        system = systems[i % len(systems)]
        samples.append(
            CaptionSample(caption, rating=Rating(tuple(ratings), 1, 5), system=system, group=f"{i // 2}")
        )
    return samples, quality

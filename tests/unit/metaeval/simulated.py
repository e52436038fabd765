"""Ratings and metrics whose quality is known."""

import numpy as np

from suisei.metaeval.agreement import AgreementData


def simulate(seed, groups=30, per_group=4, noise=(0.6,), raters=2, group_effect=0.0):
    """Ratings of 1 to 5 of a hidden quality, and one score array per noise level."""
    rng = np.random.default_rng(seed)
    n = groups * per_group
    quality = rng.normal(size=n) + group_effect * np.repeat(rng.normal(size=groups), per_group)
    ratings = np.clip(np.round(3 + quality[:, None] + 0.5 * rng.normal(size=(n, raters))), 1, 5)
    names = tuple(f"g{i // per_group}" for i in range(n))
    systems = tuple(f"s{i % 4}" for i in range(n))
    return [
        AgreementData(quality + sigma * rng.normal(size=n), tuple(map(tuple, ratings)), names, (), systems)
        for sigma in noise
    ]

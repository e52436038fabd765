"""Time of a group bootstrap of tau-c, against SciPy's kendalltau in a loop over the same resamples."""

import time

import numpy as np
import scipy.stats

from suisei.metaeval.agreement import AgreementData
from suisei.metaeval.resampling import bootstrap_values, group_weights
from tests.benchmarks.harness import Options, Row

SECTION = "bootstrap"
SAMPLES, GROUPS, RATERS = 5664, 977, 3  # the shape of Flickr8k-Expert: 16,992 rows
METRICS, RESAMPLES = 10, 1000
SCIPY_RESAMPLES = 5
"""SciPy is timed on so many of them, of one metric, in every repeat."""


def simulate(metrics: int, seed: int) -> list[AgreementData]:
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=SAMPLES)
    ratings = np.clip(np.round(1.6 + quality[:, None] + 0.5 * rng.normal(size=(SAMPLES, RATERS))), 1, 4)
    groups = tuple(map(str, np.arange(SAMPLES) % GROUPS))
    rows = tuple(map(tuple, ratings))
    return [AgreementData(quality + rng.normal(size=SAMPLES), rows, groups) for _ in range(metrics)]


def run(options: Options) -> list[Row]:
    """Measure both, in turn."""
    metrics, resamples = (METRICS, RESAMPLES) if options.size == "base" else (1, 10)
    datas = simulate(metrics, 0)
    rows = datas[0].rows()
    weights = group_weights(len(rows.group_names), resamples, 0)
    members = [np.flatnonzero(rows.group == group) for group in range(len(rows.group_names))]
    ours, theirs, worst = [], [], 0.0
    for _ in range(options.repeats):
        start = time.perf_counter()
        values = [bootstrap_values(data.rows(), "tau-c", "pooled", weights) for data in datas]
        ours.append(time.perf_counter() - start)
        start = time.perf_counter()
        for number in range(SCIPY_RESAMPLES):
            chosen = [np.tile(m, c) for m, c in zip(members, weights[number], strict=True) if c]
            picked = np.concatenate(chosen)
            value = scipy.stats.kendalltau(rows.x[picked], rows.y[picked], variant="c")[0]
            worst = max(worst, abs(value - values[0][number]))
        theirs.append((time.perf_counter() - start) / SCIPY_RESAMPLES * resamples * metrics)
    ratio = float(np.median(np.array(theirs) / np.array(ours)))
    what = f"tau-c, {metrics} metrics x {resamples} resamples x {len(rows.x):,} rows"
    note = f"scaled from {SCIPY_RESAMPLES} resamples; largest difference of a value {worst:.0e}"
    times = float(np.median(ours)), float(np.median(theirs))
    return [Row(SECTION, what, times[0], "s", "SciPy in a loop", times[1], ratio, note)]

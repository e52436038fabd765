"""Where a score that starts from the cosine starts: a line fitted to the training ratings.

Shape letters: N samples, E extra inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from suisei.models.batch import Batch
from suisei.models.cosine_start import Line, reference_cosine
from suisei.models.regressor import Outputs, Regressor
from suisei.models.table import SampleTable
from suisei.training.objective import Objective, pair_cosines

SAMPLES = 500
"""Rated samples of each data set that the line is fitted to: enough for two numbers."""
PER_BATCH = 64


def fit_start(
    model: Regressor,
    objective: Objective,
    table: SampleTable,
    training: Sequence[int],
    said: Callable[[list[int]], tuple[Batch, Outputs]],
) -> None:
    """Fit the lines of a model, and mean and scale of what its encoders say, with encoders as they are.

    Args:
        model: the model, which starts from the cosine.
        objective: has the line of pairs of captions.
        table: all samples of the run.
        training: positions of the training samples.
        said: gives the batch of some positions and what the model says of it.
    """
    rows = _some_of_each(table, training)
    pairs = np.random.default_rng(0).permutation(len(table.pairs))[: len(rows)] + len(table)
    parts = -(-len(rows) // PER_BATCH)
    found = []
    for own, beside in zip(np.array_split(rows, parts), np.array_split(pairs, parts), strict=True):
        batch, outputs = said([*own.tolist(), *beside.tolist()])
        cosines = [] if batch.pairs is None else [pair_cosines(outputs.vectors, batch.pairs)]
        found.append((outputs, torch.cat([*cosines, outputs.logits.new_zeros(0)])))
    weights = _equal_weights(table, rows)
    assert model.start is not None
    model.follow_extras(torch.cat([outputs.extras for outputs, _ in found]), 1.0)
    similar = torch.cat([outputs.similar for outputs, _ in found if outputs.similar is not None])
    fit_line(model.start.references, reference_cosine(similar), table.target[rows], weights)
    seen = [outputs.seen.float().mean(dim=1) for outputs, _ in found if outputs.seen is not None]
    if seen:
        fit_line(model.start.image, torch.cat(seen), table.target[rows], weights)
    if objective.support is not None:
        rated = table.pair_target[pairs - len(table)]
        fit_line(objective.support, torch.cat([own for _, own in found]), rated, np.ones(len(rated)))
    middle = float(np.clip(np.average(table.target[rows], weights=weights), 0.01, 0.99))
    with torch.no_grad():
        model.start.nothing.fill_(float(np.log(middle / (1 - middle))))


def _some_of_each(table: SampleTable, training: Sequence[int]) -> np.ndarray:
    """Return up to SAMPLES rated training samples of each data set, at random, always the same."""
    rows = np.asarray(training)
    rows = rows[~np.isnan(table.target[rows])]
    source = np.zeros(len(rows), int) if table.source is None else table.source[rows]
    rng = np.random.default_rng(0)
    chosen = [rng.permutation(rows[source == one])[:SAMPLES] for one in np.unique(source)]
    return np.concatenate(chosen)


def _equal_weights(table: SampleTable, rows: np.ndarray) -> np.ndarray:
    """Return weights of samples by which every data set counts as much, float64 [N]."""
    if table.source is None:
        return np.ones(len(rows))
    _, place, counts = np.unique(table.source[rows], return_inverse=True, return_counts=True)
    weights: np.ndarray = len(rows) / counts[place]
    return weights


def fit_line(line: Line, values: Tensor, ratings: np.ndarray, weights: np.ndarray) -> None:
    """Set a line to the least squares of its sigmoid against ratings; as it is where nothing can be fitted.

    Args:
        line: the line, changed in place.
        values: its input, [N]; NaN where there is none.
        ratings: in [0, 1], [N].
        weights: of each squared error, [N].
    """
    from scipy.optimize import least_squares
    from scipy.special import expit

    given = values.detach().double().cpu().numpy()
    known = ~np.isnan(given)
    given, rated, roots = given[known], ratings[known], np.sqrt(weights[known])
    if len(given) < 3 or given.std() < 1e-9:
        return
    centre = float(given.mean())

    def errors(guess: np.ndarray) -> np.ndarray:
        wrong: np.ndarray = roots * (expit(guess[0] * (given - centre) + guess[1]) - rated)
        return wrong

    slope, offset = least_squares(errors, [float(line.slope.detach()), 0.0]).x
    line.put(slope, centre, offset)

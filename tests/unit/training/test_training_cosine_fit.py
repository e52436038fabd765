"""The line that a score starts from is the one of least squares, on samples of every data set alike."""

import numpy as np
import pytest
import torch
from scipy.special import expit

from suisei.data.sample import CaptionSample
from suisei.models.cosine_start import Line
from suisei.models.table import SampleTable
from suisei.training import cosine_fit
from suisei.training.cosine_fit import _equal_weights, _some_of_each, fit_line


def test_a_line_is_found_again():
    values = np.random.default_rng(0).uniform(0.6, 1.0, 200)
    line = Line()
    given = torch.from_numpy(values)
    given[::7] = torch.nan
    fit_line(line, given, expit(30 * (values - 0.85)), np.ones(200))
    known = values[~np.isnan(given.numpy())]
    assert float(line.slope) == pytest.approx(30, rel=1e-3)
    assert float(line.centre) == pytest.approx(known.mean())
    assert float(line.offset) == pytest.approx(30 * (known.mean() - 0.85), abs=1e-3)


def test_nothing_is_fitted_to_values_that_do_not_differ_or_are_not_there():
    for values in (torch.full((9,), 0.5), torch.full((9,), torch.nan)):
        line = Line()
        fit_line(line, values, np.linspace(0, 1, 9), np.ones(9))
        assert (float(line.slope), float(line.offset), float(line.centre)) == (16.0, 0.0, 0.5)


def test_weights_decide_which_ratings_are_met():
    values, ratings = torch.tensor([0.2, 0.8] * 10), np.array([0.1, 0.9] * 5 + [0.9, 0.1] * 5)
    slopes = []
    for first in (9.0, 1 / 9):
        line = Line()
        fit_line(line, values, ratings, np.array([first] * 10 + [1.0] * 10))
        slopes.append(float(line.slope))
    assert slopes[0] > 1
    assert slopes[1] < -1


def test_every_data_set_gives_samples_and_counts_as_much(monkeypatch):
    monkeypatch.setattr(cosine_fit, "SAMPLES", 5)
    table = SampleTable([CaptionSample(f"c {n}", ("r",), rating=0.5) for n in range(20)])
    table.source = np.array([0] * 17 + [1] * 3)
    table.target[0] = np.nan
    rows = _some_of_each(table, range(20))
    assert sorted(table.source[rows].tolist()) == [0] * 5 + [1] * 3
    assert 0 not in rows
    assert rows.tolist() == _some_of_each(table, range(20)).tolist()
    weights = _equal_weights(table, rows)
    assert weights[:5].sum() == pytest.approx(weights[5:].sum())
    assert len(_some_of_each(table, [4, 5])) == 2

"""The line that a score starts from is the one of least squares, on samples of every data set alike."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.special import expit, logit

from suisei.data.sample import CaptionSample
from suisei.models.cosine_start import CosineStart, Line
from suisei.models.table import SampleTable
from suisei.training import cosine_fit
from suisei.training.cosine_fit import PER_BATCH, _equal_weights, _some_of_each, fit_line, fit_start
from suisei.training.objective import LossConfig, Objective


def test_a_line_is_found_again():
    values = np.random.default_rng(0).uniform(0.6, 1.0, 200)
    line = Line()
    given = torch.from_numpy(values)
    given[::7] = torch.nan
    fit_line(line, given, expit(30 * (values - 0.85)), np.ones(200))
    line.requires_grad_(False)  # its numbers are read
    known = values[~np.isnan(given.numpy())]
    assert float(line.slope) == pytest.approx(30, rel=1e-3)
    assert float(line.centre) == pytest.approx(known.mean())
    assert float(line.offset) == pytest.approx(30 * (known.mean() - 0.85), abs=1e-3)


def test_nothing_is_fitted_to_values_that_do_not_differ_or_are_not_there():
    for values in (torch.full((9,), 0.5), torch.full((9,), torch.nan)):
        line = Line()
        fit_line(line, values, np.linspace(0, 1, 9), np.ones(9))
        line.requires_grad_(False)
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


def test_every_line_is_that_of_its_own_cosines_and_the_constant_is_the_mean_of_the_data_sets():
    count, paired = 2 * PER_BATCH + 9, 40
    rng = np.random.default_rng(3)
    cosines, angles = rng.uniform(0.2, 0.9, count), rng.uniform(0.1, 1.5, paired)
    similarity = expit(8 * (np.cos(angles) - 0.6))
    table = SampleTable(
        [CaptionSample(f"c {n}", ("r",), rating=float(expit(10 * (x - 0.5)))) for n, x in enumerate(cosines)],
        pairs=[(f"a {n}", f"b {n}", float(value)) for n, value in enumerate(similarity)],
    )
    table.source = np.repeat([0, 1], [count - 20, 20])
    there = np.arange(count) % 5 > 0  # the others have no references
    extras = []

    def said(positions):
        rows = np.array([position for position in positions if position < count])
        own = angles[[position - count for position in positions if position >= count]]
        turned = np.stack([np.cos(own), np.sin(own)], axis=1)
        vectors = torch.from_numpy(np.concatenate([[[1.0, 0.0]], turned]))[:, None]  # one pooling
        similar = np.where(there[rows], cosines[rows], np.nan)[:, None].repeat(3, axis=1)
        outputs = SimpleNamespace(
            logits=torch.zeros(1, len(rows)),
            vectors=vectors,
            similar=torch.from_numpy(similar),
            seen=torch.from_numpy(cosines[rows] / 2 + 0.1)[:, None],
            extras=torch.from_numpy(rows)[:, None],
        )
        return SimpleNamespace(pairs=torch.tensor([[0, n + 1] for n in range(len(own))])), outputs

    model = SimpleNamespace(start=CosineStart(), follow_extras=lambda *given: extras.append(given))
    objective = Objective(LossConfig(support_weight=1.0))
    fit_start(model, objective, table, range(count), said)
    fitted = ((model.start.references, 10, 0.5), (model.start.image, 20, 0.35), (objective.support, 8, 0.6))
    for line, slope, middle in fitted:
        assert float(line.slope) == pytest.approx(slope, rel=1e-3)
        assert float(line(torch.tensor(middle))) == pytest.approx(0, abs=1e-3)
    means = [table.target[table.source == one].mean() for one in (0, 1)]
    assert float(model.start.nothing) == pytest.approx(logit(np.mean(means)), abs=1e-5)
    [(followed, share)] = extras
    assert (followed[:, 0].tolist(), share) == (_some_of_each(table, range(count)).tolist(), 1.0)


def test_pairs_are_drawn_from_all_of_a_sorted_file_and_ratings_of_one_keep_the_start_finite():
    count, paired = PER_BATCH + 6, 2000
    table = SampleTable(
        [CaptionSample(f"c {n}", ("r",), rating=1.0) for n in range(count)],
        pairs=[(f"a {n}", f"b {n}", n / paired) for n in range(paired)],
    )
    drawn = []

    def said(positions):
        drawn.extend(position - count for position in positions if position >= count)
        rows = sum(position < count for position in positions)
        outputs = SimpleNamespace(
            logits=torch.zeros(1, rows),
            similar=torch.full((rows, 3), torch.nan),
            seen=None,
            extras=torch.empty(rows, 1),
        )
        return SimpleNamespace(pairs=None), outputs

    model = SimpleNamespace(start=CosineStart(), follow_extras=lambda *_: None)
    for _ in range(2):
        fit_start(model, Objective(LossConfig()), table, range(count), said)
    assert drawn[:count] == drawn[count:]
    assert len(set(drawn)) == count
    assert np.mean(drawn) == pytest.approx(paired / 2, abs=paired / 8)
    assert float(model.start.nothing) == pytest.approx(logit(0.99))

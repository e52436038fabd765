"""Differences to the full model: what is resampled, compared and corrected."""

import numpy as np
import pytest
import scipy.stats

from suisei.ablation.differences import RunResult, ablation_tables
from suisei.data.sample import CaptionSample, Rating
from suisei.metaeval.resampling import group_weights


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(0)
    given = rng.integers(1, 6, (60, 3)).tolist()
    samples = tuple(
        CaptionSample("a dog", rating=Rating(tuple(own), 1, 5), group=f"g{n // 2}")
        for n, own in enumerate(given)
    )
    human = np.array([sample.rating.mean for sample in samples])

    def run(scores):
        return RunResult(samples, scores, "mean", 1.0)

    results = {
        "full": {seed: run(human + 0.2 * rng.normal(size=60)) for seed in (1, 2)},
        "no-image": {seed: run(human + 0.6 * rng.normal(size=60)) for seed in (1, 2)},
        "no-idf": {1: run(np.full(60, 0.5))},
        "no-extra": {},
    }
    return human, results, ablation_tables(results, n_resamples=200)


def test_figures_are_means_over_seeds_and_differences_those_of_the_means(tables):
    human, results, (main, second) = tables
    r = {
        name: np.mean([scipy.stats.pearsonr(each.scores, human)[0] for each in results[name].values()])
        for name in ("full", "no-image")
    }
    assert main.row("no-image").cells["pearson"].value == pytest.approx(r["no-image"])
    cell = second.row("no-image").cells["pearson"]
    assert cell.value == pytest.approx(r["no-image"] - r["full"])
    assert cell.low < cell.value < cell.high < 0


def test_variants_without_a_test_do_not_count_in_the_correction(tables):
    *_, (_, second) = tables
    cells = second.row("no-image").cells
    assert cells["holm"].value == cells["p"].value
    assert "are 0.5" in second.row("no-idf").cells["pearson"].reason
    assert any("; Holm over 1 variant" in note for note in second.notes)


def test_a_variant_without_some_scores_is_said_to_be_of_fewer_samples(tables):
    _, results, (whole, _) = tables
    assert not any("no score" in note for note in whole.notes)
    (run,) = results["no-idf"].values()
    scores = results["no-image"][1].scores.copy()
    scores[:3] = np.nan
    fewer = {1: RunResult(run.samples, scores, "mean", 1.0), 2: results["no-image"][2]}
    main, second = ablation_tables({"full": results["full"], "no-image": fewer}, n_resamples=0)
    assert second.notes[0] == "variant minus full"
    assert "no-image has no score of 3 of 60 samples; its figures are of the others" in main.notes
    assert second.row("no-image").cells["pearson"].value is None


def runs_of(figures):
    """Runs whose ratings are all the images say, and whose scores have one correlation with them each."""
    ratings = np.repeat([0.0, 1.0], 200)
    samples = tuple(
        CaptionSample("a dog", rating=Rating((rating,)), group=f"g{n}") for n, rating in enumerate(ratings)
    )
    noise = np.tile([-1.0, 1.0], 200)  # uncorrelated with the ratings
    scores = ((r * (2 * ratings - 1) + np.sqrt(1 - r**2) * noise) for r in figures)
    return {seed: RunResult(samples, each, "mean", 1.0) for seed, each in enumerate(scores)}


@pytest.mark.parametrize("seeds", [3, 5])
def test_an_interval_is_as_wide_as_means_of_so_many_trainings_vary(seeds):
    """Images say little of these figures: what varies is training."""
    rng = np.random.default_rng(seeds)
    given = [0.5 + 0.2 * rng.uniform(-1, 1, seeds) for _ in range(2)]
    _, second = ablation_tables({"full": runs_of(given[0]), "other": runs_of(given[1])}, n_resamples=2000)
    cell = second.row("other").cells["pearson"]
    images = 2 * (1 - 0.5**2) ** 2 / 400  # rough, and small beside what follows
    expected = np.sqrt(sum(np.var(each, ddof=1) / seeds for each in given) + images)
    assert (cell.high - cell.low) / 3.92 == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize(
    ("seeds", "note", "tested"),
    [(1, "a single seed says nothing", False), (4, "4 seeds say little", True), (5, None, True)],
)
def test_few_seeds_are_said_and_one_has_no_p_value(seeds, note, tested):
    figures = np.linspace(0.4, 0.6, 5)
    results = {"full": runs_of(figures), "other": runs_of(figures[:seeds] - 0.3)}
    _, second = ablation_tables(results, n_resamples=50)
    cells = second.row("other").cells
    assert cells["pearson"].high < 0
    assert ("p" in cells, "holm" in cells) == (tested, tested)
    said = [line for line in second.notes if "how much training varies" in line]
    assert len(said) == bool(note)
    assert all(line.startswith(note) for line in said)


@pytest.mark.parametrize(("n_resamples", "enough"), [(78, False), (79, True)])
def test_resamples_that_can_show_nothing_are_said(n_resamples, enough):
    """The smallest p is 2 / (resamples + 1), and two variants double it."""
    figures = np.linspace(0.4, 0.5, 5)
    results = {"full": runs_of(figures), **{name: runs_of(figures - 0.4) for name in ("a", "b")}}
    _, second = ablation_tables(results, n_resamples=n_resamples)
    assert (min(row.cells["holm"].value for row in second.overall.rows) <= 0.05) == enough
    note = (
        "78 resamples are too few for 2 variants: after Holm's correction none can reach 0.05; use at least "
        "79 (--bootstrap)"
    )
    assert (note in second.notes) != enough


@pytest.mark.parametrize("rated_otherwise", [1, 4])
def test_resamples_without_a_correlation_are_counted(rated_otherwise):
    """Without the images that are rated otherwise, all ratings are equal."""
    ratings = (np.arange(12) < rated_otherwise).astype(float)
    samples = tuple(
        CaptionSample("a dog", rating=Rating((rating,)), group=f"g{n:02}") for n, rating in enumerate(ratings)
    )
    rng = np.random.default_rng(0)
    full, other = (
        {seed: RunResult(samples, ratings + rng.normal(size=12), "mean", 1.0) for seed in range(2)}
        for _ in range(2)
    )
    _, second = ablation_tables({"full": full, "other": other}, n_resamples=100)
    lacking = int((group_weights(12, 100, 0)[:, :rated_otherwise].sum(axis=1) == 0).sum())
    note = f"other: {lacking} of 100 resamples left out of the interval: undefined on them"
    assert (note in second.all_notes()) == bool(lacking)
    assert second.row("other").cells["pearson"].low is not None
    assert "p" in second.row("other").cells
    assert (lacking > 20) == (rated_otherwise == 1)


def test_a_difference_whose_resamples_have_none_keeps_its_figure(monkeypatch):
    drawn = np.tile([0] * 399 + [400], (10, 1))
    monkeypatch.setattr("suisei.ablation.differences.group_weights", lambda *_: drawn)
    results = {"full": runs_of([0.5, 0.6]), "other": runs_of([0.2, 0.3])}
    cells = ablation_tables(results, n_resamples=10)[1].row("other").cells
    assert cells["pearson"].value == pytest.approx(-0.3)
    assert cells["pearson"].reason == "no interval: undefined on 10 of 10 resamples"
    assert "p" not in cells
